"""What every system that records come from must do: say its bounds, and read slices."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from playhead.errors import PlayheadError
from playhead.record import Record, Slice


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one partition holds now, half-open.

    `[earliest, stable_end)` can be read; `[stable_end, high_watermark)` belongs to transactions
    that are still open. Ask a live log in this order, and the order of the numbers holds.
    """

    earliest: int
    stable_end: int
    high_watermark: int

    def __post_init__(self) -> None:
        if not 0 <= self.earliest <= self.stable_end <= self.high_watermark:
            raise ValueError(
                f"Bounds: found {self.earliest}, {self.stable_end}, {self.high_watermark}; "
                "needed 0 <= earliest <= stable_end <= high_watermark"
            )


class OutOfBounds(PlayheadError):
    """A slice reaches outside what its partition holds; reading it would be silently short."""

    def __init__(self, slice_: Slice, bounds: Bounds | None) -> None:
        self.slice, self.bounds = slice_, bounds
        held = f"{bounds.earliest}-{bounds.stable_end}" if bounds else "no such partition"
        super().__init__(
            f"cannot read {slice_}: the partition holds {held}",
            hint="the log has moved since this was planned; plan again",
        )


class Source(Protocol):
    """Where records come from: a picklable description.

    It opens connections only inside its methods and keeps none open between them, so that a copy
    can be sent to another process at any time. Bounds may move from call to call; the records
    of one offset never change.
    """

    def bounds(self) -> Mapping[tuple[str, int], Bounds]:
        """The bounds of every partition, by topic and partition, empty partitions included."""
        ...

    def read(self, slice_: Slice, /) -> Iterator[Record]:
        """The records of the slice that exist, in the order of their offsets.

        Absent offsets (compacted away, transaction markers, aborted) are simply missing. A slice
        that reaches outside `[earliest, stable_end)` is refused with `OutOfBounds`, at the latest
        before the iterator ends: never is an answer silently short.
        """
        ...

"""A timeline: how many records a topic has over time, computed from the offsets at which times begin."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from playhead.grammar.duration import show_duration_ms
from playhead.grammar.instant import show_ms
from playhead.grammar.local_time import local_time
from playhead.grammar.zone import UTC
from playhead.record import Slice
from playhead.source import TopicPartition

_CLOCKS_DIFFER_MS = 60_000


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket of time, `[from_ms, to_ms)`, and the number of its offsets."""

    from_ms: int
    to_ms: int
    offsets: int
    missing: int = 0
    """How many of them a target lacks, if one was compared."""

    def row(self) -> dict[str, Any]:
        return {
            "from": show_ms(self.from_ms),
            "to": show_ms(self.to_ms),
            "records": self.offsets,
        }


@dataclass(frozen=True, slots=True)
class Disorder:
    """How many of the sampled records have a time before the bucket that counts them."""

    looked_at: int
    earlier: int
    first: tuple[TopicPartition, int, int] | None = None
    """The first of them: its partition, offset and time."""

    def text(self) -> str | None:
        """A sentence; None if nothing is out of order."""
        if self.first is None:
            return None
        (topic, partition), offset, time_ms = self.first
        return (
            f"clocks disagree: {self.earlier:,} of {self.looked_at:,} sampled records are "
            f"older than their bucket, first {topic}:{partition} offset {offset} from "
            f"{show_ms(time_ms)}"
        )


@dataclass(frozen=True, slots=True)
class Timeline:
    """Times, and for each partition the offset of the first record that is not before each time.

    Its counts are of offsets, and so only approximately of records: transaction markers and compacted
    records have offsets too, and a record out of order counts at its position in the log.
    """

    title: str
    edges_ms: tuple[int, ...]
    offsets: Mapping[TopicPartition, tuple[int, ...]]
    """One offset for each edge; never decreasing."""
    held: Mapping[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    """The half-open bounds of each partition."""
    disorder: "Disorder | None" = None
    """How well sampled record times agree with their positions; None without samples."""
    whole_ms: tuple[int, int] | None = None
    """If the span has no records: the times of the first and the last record of the topic."""

    def __post_init__(self) -> None:
        wrong = [place for place, at in self.offsets.items() if len(at) != len(self.edges_ms)]
        if len(self.edges_ms) < 2 or wrong:
            raise ValueError(f"Timeline: needed an offset for each of two edges or more: {wrong}")

    def buckets(self, missing: Iterable[Slice] = ()) -> list[Bucket]:
        """Return the buckets of all partitions together; `missing` are offsets that the target lacks."""
        counts = [0] * (len(self.edges_ms) - 1)
        for at in self.offsets.values():
            for index, (start, end) in enumerate(pairwise(at)):
                counts[index] += end - start
        absent = self._spread(missing)
        return [
            Bucket(*edges, counts[index], absent[index])
            for index, edges in enumerate(pairwise(self.edges_ms))
        ]

    def _spread(self, missing: Iterable[Slice]) -> list[int]:
        found = [0] * (len(self.edges_ms) - 1)
        for slice_ in missing:
            at = self.offsets.get((slice_.topic, slice_.partition), ())
            start = max(0, bisect_right(at, slice_.from_offset) - 1)
            for index in range(start, min(bisect_left(at, slice_.to_offset), len(found))):
                inside = min(at[index + 1], slice_.to_offset) - max(at[index], slice_.from_offset)
                found[index] += max(0, inside)
        return found

    def disorder_in(
        self, place: TopicPartition, offsets: Sequence[int], times_ms: Sequence[int]
    ) -> Disorder:
        """Count the records whose time is before the bucket that counts them."""
        at = self.offsets[place]
        step_ms = (self.edges_ms[-1] - self.edges_ms[0]) // (len(self.edges_ms) - 1)
        differ_ms = max(step_ms, _CLOCKS_DIFFER_MS)
        earlier = [
            (place, offset, time_ms)
            for offset, time_ms in zip(offsets, times_ms, strict=True)
            if (index := bisect_right(at, offset) - 1) >= 0
            and 0 <= time_ms < self.edges_ms[index] - differ_ms
        ]
        return Disorder(len(offsets), len(earlier), earlier[0] if earlier else None)

    @property
    def counted(self) -> int:
        return sum(at[-1] - at[0] for at in self.offsets.values())

    @property
    def before(self) -> int:
        """Offsets before the first edge."""
        return sum(self.offsets[place][0] - start for place, (start, _) in self.held.items())

    @property
    def after(self) -> int:
        """Offsets after the last edge."""
        return sum(end - self.offsets[place][-1] for place, (_, end) in self.held.items())

    def caption(self) -> str:
        """One line: the topic, the time, and the number of records."""
        first, last = self.edges_ms[0], self.edges_ms[-1]
        step = show_duration_ms((last - first) // (len(self.edges_ms) - 1))
        return (
            f"{self.title}: about {self.counted:,} records from {show_ms(first)} to {show_ms(last)}, "
            f"{len(self.edges_ms) - 1} buckets of {step}"
        )

    def whole(self) -> str | None:
        """Say where the records are, if the span has none."""
        if self.whole_ms is None:
            return None
        first, last = map(show_ms, self.whole_ms)
        return f"the records of {self.title} are from {first} to {last}"

    def as_document(self) -> dict[str, Any]:
        return {
            "topic": self.title,
            "from": show_ms(self.edges_ms[0]),
            "to": show_ms(self.edges_ms[-1]),
            "is_approximate": True,
            "records": self.counted,
            "before": self.before,
            "after": self.after,
            "partitions": len(self.offsets),
            "elsewhere": self.whole(),
            "clocks": self.disorder.text() if self.disorder else None,
            "buckets": [each.row() for each in self.buckets()],
        }


def edges_between(from_ms: int, to_ms: int, buckets: int) -> tuple[int, ...]:
    """Return evenly spaced edges in whole milliseconds; fewer if there are not enough milliseconds."""
    length = max(to_ms - from_ms, 1)
    count = max(1, min(buckets, length))
    return tuple(from_ms + length * index // count for index in range(count + 1))


def labels(edges_ms: Sequence[int], zone: str = UTC) -> list[str]:
    """Return short labels for the edges in this zone: times of day, or dates."""
    lasting_ms = edges_ms[-1] - edges_ms[0]
    texts = [_without_offset(local_time(show_ms(each), zone)) for each in edges_ms]
    if lasting_ms >= 3 * 86_400_000:
        return [text[:-14] for text in texts]
    if lasting_ms >= 20 * 3_600_000:
        return [f"{text[-19:-14]} {text[-13:-8]}" for text in texts]
    if lasting_ms >= 600_000:
        return [text[-13:-8] for text in texts]
    return [text[-13:-5] for text in texts] if lasting_ms >= 5_000 else [t[-13:-1] for t in texts]


def _without_offset(shown: str) -> str:
    """Return a local time as if it were of UTC, so that all are cut alike."""
    return shown if shown.endswith("Z") else f"{shown[:23]}Z"

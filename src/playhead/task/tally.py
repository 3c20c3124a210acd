"""Adds up what a comparison of source and target finds: counts, checksums that ignore the order, differences."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from playhead.extra_fields import ExtraFields
from playhead.record import Slice
from playhead.source import TopicPartition
from playhead.target import Difference, DifferenceKind, SliceComparison

SHOWN = 20
"""How many differences of a slice are listed."""
_DIGEST_BYTES = 8


def digest_of(content: Any) -> int:
    """Return a number for one row or record; the sum of all is a checksum that does not depend on their order."""
    text = repr(content).encode("utf-8", "backslashreplace")
    return int.from_bytes(hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest())


def sum_text(total: int) -> str:
    """Return a sum of digests as text."""
    return f"{total % (1 << 8 * _DIGEST_BYTES):0{2 * _DIGEST_BYTES}x}"


@dataclass(slots=True)
class Tally:
    """The counts of one slice or partition."""

    same: int = 0
    different: int = 0
    unknown: int = 0
    extra: int = 0
    found: int = 0
    expected_sum: int = 0
    found_sum: int = 0
    differences: list[Difference] = field(default_factory=list)
    doubts: list[Difference] = field(default_factory=list)
    """The unknown ones, shown after the differences."""

    def note(
        self, kind: DifferenceKind, place: TopicPartition, offset: int | None, text: str
    ) -> None:
        """Keep the first differences, to show them."""
        kept = self.doubts if kind == "unknown" else self.differences
        if len(kept) < SHOWN:
            kept.append(Difference(kind, *place, offset, text))

    def add_extra(self, place: TopicPartition, offset: int | None, text: str) -> None:
        """Count something that no record accounts for."""
        self.found += 1
        self.extra += 1
        self.found_sum += digest_of((None, self.found))
        self.note("extra", place, offset, text)

    def comparison(
        self, slice_: Slice, extra_fields: ExtraFields | None = None, refused: Sequence[int] = ()
    ) -> SliceComparison:
        return SliceComparison(
            slice_,
            self.same + self.different + self.unknown,
            self.found,
            sum_text(self.expected_sum),
            sum_text(self.found_sum),
            (*self.differences, *self.doubts)[:SHOWN],
            self.different + self.extra,
            self.same,
            self.unknown,
            extra_fields=extra_fields or ExtraFields(),
            refused=tuple(refused),
        )

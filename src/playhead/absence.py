"""Offsets that hold no record: where they are, and why."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

Blank = tuple[int, int]
"""A half-open run of offsets of one partition that gave no record."""

NOT_RECORDED = "not recorded"
"""The reason in ledgers of earlier versions, which did not look for one."""
MOST_BLANKS = 20
"""A ledger lists this many unexplained runs of a slice at most; all of them are counted."""


@dataclass(frozen=True, slots=True)
class Explained:
    """The reasons that were found for some absent offsets."""

    absences: Mapping[str, int] = field(default_factory=dict)
    """The number of absent offsets by reason."""
    unexplained: tuple[Blank, ...] = ()
    """The offsets for which no reason was found."""


class Explainer(Protocol):
    """Finds out why offsets of a source hold no record; belongs to one thread."""

    def explain(self, place: tuple[str, int], blanks: Sequence[Blank], /) -> Explained:
        """Find the reason of each offset in `blanks`, which are in ascending order and do not
        touch.

        Every offset is counted once, or is part of an unexplained run. Raises `Unavailable` when the source
        does not answer, and when the source does hold a record that its reader did not return: the records
        must then be read again.
        """
        ...


@dataclass(frozen=True, slots=True)
class OneReason:
    """An explainer for sources in which an offset can lack a record for one reason only."""

    reason: str

    def explain(self, _place: tuple[str, int], blanks: Sequence[Blank], /) -> Explained:
        """Count all offsets under the one reason."""
        return Explained({self.reason: total(blanks)})


def total(blanks: Iterable[Blank]) -> int:
    """Return how many offsets the blanks contain."""
    return sum(end - start for start, end in blanks)


def within(blanks: Sequence[Blank], start: int, end: int) -> Iterator[Blank]:
    """Return the parts of ascending blanks between two offsets."""
    index = bisect_left(blanks, start, key=lambda blank: blank[1] - 1)
    while index < len(blanks) and blanks[index][0] < end:
        first, last = blanks[index]
        yield max(first, start), min(last, end)
        index += 1


def absent_between(expected: int, offsets: Sequence[int]) -> list[Blank]:
    """Return the offsets that are missing between `expected` and the last of ascending `offsets`."""
    if not offsets:
        return []
    first, end = offsets[0], offsets[-1] + 1
    found = [(expected, first)] if first > expected else []
    is_dense = end - first == len(offsets) and [*range(first, end)] == offsets
    if first >= expected and is_dense:
        return found
    if first < expected or any(before >= after for before, after in pairwise(offsets)):
        raise ValueError(
            f"offsets: found a descending pair between {expected} and {end - 1}, "
            "needed ascending offsets"
        )
    return found + [
        (before + 1, after) for before, after in pairwise(offsets) if after - before > 1
    ]

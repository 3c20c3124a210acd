"""Offsets that hold no record: where they are, and the reasons that were found for them."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

Blank = tuple[int, int]
"""Offsets of one partition that gave no record, half-open."""

NOT_RECORDED = "not recorded"
"""The reason of offsets that an earlier version found absent: it did not look for one."""
MOST_BLANKS = 20
"""A ledger names the first unexplained blanks of a slice; all of them are counted."""


@dataclass(frozen=True, slots=True)
class Explained:
    """What a look at absent offsets has found."""

    absences: Mapping[str, int] = field(default_factory=dict)
    """By reason, how many of the offsets hold no record."""
    unexplained: tuple[Blank, ...] = ()
    """Those for which there is no reason."""


class Explainer(Protocol):
    """An open look at a source, for the reasons why offsets hold no record; belongs to one thread."""

    def explain(self, place: tuple[str, int], blanks: Sequence[Blank], /) -> Explained:
        """Look for the reason of each offset in the blanks, which rise and do not touch.

        Each offset is counted once, or lies in an unexplained range. Raises `Unavailable` when the
        source cannot be asked now, and when it turns out to hold a record there that its reader did
        not give: then the records are to be read again.
        """
        ...


@dataclass(frozen=True, slots=True)
class OneReason:
    """An explainer of a source in which there is only one reason for an offset to hold no record."""

    reason: str

    def explain(self, _place: tuple[str, int], blanks: Sequence[Blank], /) -> Explained:
        """All of them."""
        return Explained({self.reason: total(blanks)})


def total(blanks: Iterable[Blank]) -> int:
    """How many offsets the blanks hold."""
    return sum(end - start for start, end in blanks)


def within(blanks: Sequence[Blank], start: int, end: int) -> Iterator[Blank]:
    """Those parts of the blanks, which rise, that lie between two offsets."""
    index = bisect_left(blanks, start, key=lambda blank: blank[1] - 1)
    while index < len(blanks) and blanks[index][0] < end:
        first, last = blanks[index]
        yield max(first, start), min(last, end)
        index += 1


def absent_between(expected: int, offsets: Sequence[int]) -> list[Blank]:
    """The offsets that are skipped from the expected one to the last; they must rise."""
    if not offsets:
        return []
    first, end = offsets[0], offsets[-1] + 1
    found = [(expected, first)] if first > expected else []
    is_dense = end - first == len(offsets) and [*range(first, end)] == offsets
    if first >= expected and is_dense:
        return found
    if first < expected or any(before >= after for before, after in pairwise(offsets)):
        raise ValueError(f"offsets: found some that do not rise, from {expected} to {end - 1}")
    return found + [
        (before + 1, after) for before, after in pairwise(offsets) if after - before > 1
    ]

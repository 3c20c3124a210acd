"""Bitmaps of the offsets that exist in a partition, in words of 64 bits, and the runs that are
missing.

Millions of offsets fit exactly into a few thousand words. An offset that exists twice sets its bit
once, so that duplicates cannot hide a gap.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from playhead.record import Slice

BITS = 64
_FULL = (1 << BITS) - 1


@dataclass(frozen=True, slots=True, order=True)
class BitmapWords:
    """The words `[first, end)`, which all have the same bits: bit n of word w is offset 64 w + n."""

    first: int
    end: int
    bits: int

    def __post_init__(self) -> None:
        if not 0 <= self.first < self.end:
            raise ValueError(
                f"BitmapWords: found {self.first} to {self.end}, needed an ascending pair from 0"
            )
        # PostgreSQL returns signed words.
        object.__setattr__(self, "bits", self.bits & _FULL)

    def runs(self) -> Iterator[tuple[int, int]]:
        """The offsets whose bits are set, as half-open runs in order."""
        if self.bits == _FULL:
            yield self.first * BITS, self.end * BITS
        elif self.bits:
            inside = [*_runs_in(self.bits)]
            for word in range(self.first, self.end):
                for start, end in inside:
                    yield word * BITS + start, word * BITS + end

    def offsets(self) -> int:
        """The number of offsets whose bits are set."""
        return (self.end - self.first) * self.bits.bit_count()


def missing(spans: Iterable[Slice], words: Iterable[BitmapWords]) -> list[Slice]:
    """Return the offsets of one partition's spans that have no bit, in order."""
    there = [*_joined(run for each in sorted(words) for run in each.runs())]
    ends = [end for _, end in there]
    found: list[Slice] = []
    for span in spans:
        at = span.from_offset
        for start, end in islice(there, bisect_right(ends, at), None):
            if start >= span.to_offset:
                break
            if start > at:
                found.append(replace(span, from_offset=at, to_offset=start))
            at = end
        if at < span.to_offset:
            found.append(replace(span, from_offset=at))
    return found


def pieces(words: Iterable[BitmapWords]) -> int:
    """Return an upper limit of the number of runs without building them."""
    return sum(
        (each.end - each.first) * (each.bits & ~(each.bits << 1)).bit_count()
        if each.bits != _FULL
        else 1
        for each in words
    )


def _runs_in(bits: int) -> Iterator[tuple[int, int]]:
    at = 0
    while bits >> at:
        start = at + _zeros_at_the_end(bits >> at)
        ones = bits >> start
        at = start + _zeros_at_the_end(~ones)
        yield start, at


def _zeros_at_the_end(number: int) -> int:
    return (number & -number).bit_length() - 1


def _joined(runs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Join ascending runs that touch."""
    held: tuple[int, int] | None = None
    for start, end in runs:
        if held is not None and start <= held[1]:
            held = (held[0], max(held[1], end))
            continue
        if held is not None:
            yield held
        held = (start, end)
    if held is not None:
        yield held

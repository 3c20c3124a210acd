"""Which offsets of a partition are there, as words of 64 bits, and the runs that are not.

Whoever holds millions of offsets can say in a few thousand words which ones they are, exactly: what
is there twice sets its bit once, so that a count of rows hides nothing.
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
    """The words `[first, end)`, which are all the same: bit n of word w is for offset 64 w + n."""

    first: int
    end: int
    bits: int

    def __post_init__(self) -> None:
        if not 0 <= self.first < self.end:
            raise ValueError(f"Words: found {self.first} to {self.end}, needed 0 or more, and some")
        # A server has them with a sign.
        object.__setattr__(self, "bits", self.bits & _FULL)

    def runs(self) -> Iterator[tuple[int, int]]:
        """The offsets that are there, as half-open runs in order."""
        if self.bits == _FULL:
            yield self.first * BITS, self.end * BITS
        elif self.bits:
            inside = [*_runs_in(self.bits)]
            for word in range(self.first, self.end):
                for start, end in inside:
                    yield word * BITS + start, word * BITS + end

    def offsets(self) -> int:
        """How many there are."""
        return (self.end - self.first) * self.bits.bit_count()


def missing(spans: Iterable[Slice], words: Iterable[BitmapWords]) -> list[Slice]:
    """The offsets of one partition's spans that are not there, in order; nothing outside of them counts."""
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
    """How many runs there are at most, told without making them."""
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
    """Runs in order, those that follow on as one."""
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

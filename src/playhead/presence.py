"""Which offsets of a partition are there, as words of 64 bits, and the runs that are not.

Whoever holds millions of offsets can say in a few thousand words which ones they are, exactly: what
is there twice sets its bit once, so that a count of rows hides nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from playhead.ledger import remaining
from playhead.record import Slice

BITS = 64
_FULL = (1 << BITS) - 1


@dataclass(frozen=True, slots=True, order=True)
class Words:
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


def missing(span: Slice, words: Iterable[Words]) -> list[Slice]:
    """The offsets of the span that are not there, in order; what lies outside the span does not count."""
    there = _joined(run for each in sorted(words) for run in each.runs())
    slices = (Slice(span.topic, span.partition, start, end) for start, end in there)
    return remaining([span], [each for each in slices if each.overlaps(span)])


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

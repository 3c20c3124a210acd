"""The offset map of a slice: where its records are in the target, as runs without gaps on both sides."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

MOST_RUNS = 1_000


class OffsetRun(NamedTuple):
    """`length` records from `source_offset` on are those from `target_offset` on, one by one."""

    source_offset: int
    topic: str
    partition: int
    target_offset: int
    length: int


class End(NamedTuple):
    """What one target partition got: `length` records, with the offsets of the first and the last."""

    topic: str
    partition: int
    first: int
    last: int
    length: int


@dataclass(frozen=True, slots=True)
class OffsetMap:
    """The map in a ledger entry. Every run is right; if it is not `exact`, some are missing."""

    runs: tuple[OffsetRun, ...]
    ends: tuple[End, ...]
    exact: bool

    def as_details(self) -> dict[str, Any]:
        """Return the map for JSON, as numbers only; a fifth is the index of the topic, if it is not the first."""
        topics = list(dict.fromkeys(end.topic for end in self.ends))
        index = {topic: [number] if number else [] for number, topic in enumerate(topics)}
        return {
            "topics": topics,
            "offsets": [
                [run.source_offset, run.partition, run.target_offset, run.length, *index[run.topic]]
                for run in self.runs
            ],
            "ends": [
                [end.partition, end.first, end.last, end.length, *index[end.topic]]
                for end in self.ends
            ],
            "exact": self.exact,
        }

    @classmethod
    def from_details(cls, details: Any) -> "OffsetMap":
        """Read the details of `as_details`."""
        topics: list[str] = details["topics"]

        def topic(numbers: Sequence[int]) -> str:
            return topics[numbers[4] if len(numbers) > 4 else 0]

        return cls(
            tuple(OffsetRun(n[0], topic(n), n[1], n[2], n[3]) for n in details["offsets"]),
            tuple(End(topic(n), n[0], n[1], n[2], n[3]) for n in details["ends"]),
            bool(details["exact"]),
        )


@dataclass(slots=True)
class OffsetMapPart:
    """Records sent to one partition in order; the acknowledgement adds their offset."""

    offsets: Sequence[int]
    last: int | None = None
    """The target offset of the last record."""

    def acknowledge(self, target_offset: int) -> None:
        """Set the target offset of the last record."""
        self.last = target_offset


@dataclass(slots=True)
class MapMaker:
    """Builds a map from few acknowledgements: that of the last record of each piece.

    The first piece is one record. The records of a later piece are contiguous if its last record is as far
    after the last one of the piece before as the piece is long, because other producers can only add records
    in between.
    """

    _pieces: dict[tuple[str, int], list[OffsetMapPart]] = field(default_factory=dict)

    def piece(self, topic: str, partition: int, offsets: Sequence[int]) -> OffsetMapPart:
        """Return a new piece, whose offsets arrive later."""
        piece = OffsetMapPart(offsets)
        self._pieces.setdefault((topic, partition), []).append(piece)
        return piece

    def begins(self, topic: str, partition: int) -> bool:
        """Return whether nothing was sent to this partition yet."""
        return (topic, partition) not in self._pieces

    def finish(self) -> OffsetMap:
        """Return the map when every piece has its offsets."""
        runs: list[OffsetRun] = []
        ends = []
        exact = True
        for (topic, partition), pieces in sorted(self._pieces.items()):
            first, last = pieces[0].last, pieces[-1].last
            if first is None or last is None:
                raise ValueError(f"OffsetMap: {topic}:{partition} was not acknowledged")
            count = sum(len(piece.offsets) for piece in pieces)
            ends.append(End(topic, partition, first, last, count))
            found, whole = _runs(topic, partition, pieces)
            runs += found
            exact = exact and whole
        return OffsetMap(tuple(_thinned(runs)), tuple(ends), exact and len(runs) <= MOST_RUNS)


def _runs(
    topic: str, partition: int, pieces: Sequence[OffsetMapPart]
) -> tuple[list[OffsetRun], bool]:
    runs: list[OffsetRun] = []
    whole = True
    before = (pieces[0].last or 0) - 1
    for piece in pieces:
        last = piece.last
        if last is None:
            raise ValueError(f"OffsetMap: a piece of {topic}:{partition} was not acknowledged")
        if last - before == len(piece.offsets):
            for start, count in _neighbours(piece.offsets):
                target_offset = before + 1 + start
                _join(runs, OffsetRun(piece.offsets[start], topic, partition, target_offset, count))
        else:
            whole = False
            _join(runs, OffsetRun(piece.offsets[-1], topic, partition, last, 1))
        before = last
    return runs, whole


def spans(offsets: Sequence[int]) -> list[list[int]]:
    """Return ascending offsets as pairs: the first of a run without a gap, and its length."""
    return [[offsets[start], count] for start, count in _neighbours(offsets)] if offsets else []


def _neighbours(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Return the index and length of each run of offsets without a gap."""
    if offsets[-1] - offsets[0] == len(offsets) - 1:
        yield 0, len(offsets)
        return
    start = 0
    for index, (one, other) in enumerate(pairwise(offsets), start=1):
        if other != one + 1:
            yield start, index - start
            start = index
    yield start, len(offsets) - start


def _join(runs: list[OffsetRun], run: OffsetRun) -> None:
    if runs:
        before = runs[-1]
        follows = before.source_offset + before.length == run.source_offset
        if follows and before.target_offset + before.length == run.target_offset:
            runs[-1] = before._replace(length=before.length + run.length)
            return
    runs.append(run)


def _thinned(runs: Sequence[OffsetRun]) -> Sequence[OffsetRun]:
    """Reduce too many runs to every n-th and the last."""
    if len(runs) <= MOST_RUNS:
        return runs
    step = -(-len(runs) // (MOST_RUNS - 1))
    return [*runs[::step], runs[-1]]

"""The offsets of a captured partition, and the record set that each offset is read from."""

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import add, lt
from typing import TYPE_CHECKING, Final, NamedTuple, overload

from playhead.source import Bounds
from playhead.traffic.catalog import CatalogRow, column, row_at
from playhead.traffic.contradictions import Contents, TooManyOverlaps, contradict

if TYPE_CHECKING:
    from array import array

_USED: Final = ("base", "first", "last", "length")
_LEAST_OVERLAPS: Final = 1_000_000
_OVERLAPS_OF_A_SET: Final = 64


class PlacedSet(NamedTuple):
    """A record set at offsets `[from_offset, to_offset)`."""

    from_offset: int
    to_offset: int
    row: CatalogRow

    @property
    def is_dense(self) -> bool:
        """Return whether it has a record at every offset."""
        return self.to_offset - self.from_offset == self.row.records


class OffsetPart(NamedTuple):
    """A range of offsets, and the record sets that cover all of it, in order of capture; usually one."""

    from_offset: int
    to_offset: int
    held: tuple[PlacedSet, ...]


class _Apart(Sequence[OffsetPart]):
    """The parts of record sets that do not overlap. Each is made on its use: objects for all take a while."""

    def __init__(self, rows: "array[int]", starts: list[int], ends: list[int]) -> None:
        self._rows, self._starts, self._ends = rows, starts, ends

    @overload
    def __getitem__(self, index: int) -> OffsetPart: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[OffsetPart]: ...
    def __getitem__(self, index: int | slice) -> OffsetPart | Sequence[OffsetPart]:
        if isinstance(index, slice):
            return [self[each] for each in range(len(self))[index]]
        index = range(len(self))[index]
        start, end = self._starts[index], self._ends[index]
        return OffsetPart(start, end, (PlacedSet(start, end, row_at(self._rows, index)),))

    def __len__(self) -> int:
        return len(self._starts)


@dataclass(slots=True)
class CapturedPartition:
    """The record sets of one partition in the order of their offsets.

    The offsets are those that were captured. If a record set has no offsets, or two record sets have different
    records at one offset, all records are numbered in the order of capture instead.
    """

    pieces: Sequence[OffsetPart]
    size_bytes: int
    """The approximate size of its record sets in the files."""
    is_numbered: bool = False
    twice: int = 0
    """Number of offsets that were captured more than once."""
    reason: str | None = None
    """Why its records are numbered; None if they have their captured offsets."""
    _starts: list[int] = field(default_factory=list)
    _reached: dict[bool, list[int]] = field(default_factory=dict)
    """The latest time up to each part, of records and of pairs."""

    def __post_init__(self) -> None:
        self._starts = self._starts or [piece.from_offset for piece in self.pieces]

    @classmethod
    def apart(cls, rows: "array[int]") -> "CapturedPartition | None":
        """Return the partition of a catalog's rows if each begins behind the one before; else None."""
        base, first, last, length = (column(rows, name) for name in _USED)
        starts, ends = [*map(add, base, first)], [*map(add, base, last)]
        if min(base, default=-1) < 0 or not all(map(lt, ends, starts[1:])):
            return None
        pieces = _Apart(rows, starts, [each + 1 for each in ends])
        return cls(pieces, sum(length), _starts=starts)

    @classmethod
    def of(
        cls, rows: Sequence[CatalogRow], contents: Contents | None = None
    ) -> "CapturedPartition":
        """Return the partition of at least one row, in the order of capture; `contents` reads their records."""
        if any(row.base < 0 for row in rows):
            return _numbered(rows, "some of its records were captured without an offset")
        held = [PlacedSet(row.base + row.first, row.base + row.last + 1, row) for row in rows]
        held.sort(
            key=lambda each: each.from_offset
        )  # a stable sort: equal offsets stay in the order of capture
        try:
            if contents is not None and contradict(held, contents):
                return _numbered(rows, "different records were captured at the same offset")
            pieces = list(_pieces(held, _Overlaps(len(rows))))
        except TooManyOverlaps:
            return _numbered(rows, "too many of its record sets were captured at the same offsets")
        covered = sum(piece.to_offset - piece.from_offset for piece in pieces)
        total = sum(each.to_offset - each.from_offset for each in held)
        return cls(pieces, _size(pieces), twice=total - covered)

    @property
    def bounds(self) -> Bounds:
        end = self.pieces[-1].to_offset
        return Bounds(self.pieces[0].from_offset, end, end)

    def between(self, from_offset: int, to_offset: int) -> Iterator[OffsetPart]:
        """Yield the parts that overlap these offsets, in order."""
        at = max(0, bisect_right(self._starts, from_offset) - 1)
        for index in range(at, len(self.pieces)):
            piece = self.pieces[index]
            if piece.from_offset >= to_offset:
                return
            if piece.to_offset > from_offset:
                yield piece

    def from_instant(self, instant_ms: int, *, by_pair: bool) -> Iterator[OffsetPart]:
        """Yield the parts from the first one that may have a record at or after this instant."""
        if by_pair not in self._reached:
            times = [
                max(_latest(each.row, by_pair) for each in piece.held) for piece in self.pieces
            ]
            self._reached[by_pair] = [*itertools.accumulate(times, max)]
        first = bisect_left(self._reached[by_pair], instant_ms)
        return map(self.pieces.__getitem__, range(first, len(self.pieces)))


def _size(pieces: Iterable[OffsetPart]) -> int:
    return sum(piece.held[0].row.length for piece in pieces)


def _latest(row: CatalogRow, by_pair: bool) -> int:
    return row.pair_ms if by_pair and row.pair_ms >= 0 else row.most_ms


def _numbered(rows: Iterable[CatalogRow], reason: str) -> CapturedPartition:
    pieces: list[OffsetPart] = []
    seen: set[tuple[int, int, int]] = set()
    number = twice = 0
    for row in rows:
        known = (row.base + row.first, row.base + row.last, row.mark)
        if row.base >= 0 and row.mark and known in seen:
            twice += row.records
            continue
        seen.add(known)
        held = PlacedSet(number, number + row.records, row)
        pieces.append(OffsetPart(held.from_offset, held.to_offset, (held,)))
        number = held.to_offset
    size = _size(pieces)
    return CapturedPartition(pieces, size, is_numbered=True, twice=twice, reason=reason)


class _Overlaps:
    """Counts the record sets of all parts: if all of some thousands overlap, each part has all of them."""

    def __init__(self, sets: int) -> None:
        self._left = _LEAST_OVERLAPS + _OVERLAPS_OF_A_SET * sets

    def take(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise TooManyOverlaps


def _pieces(ordered: Sequence[PlacedSet], overlaps: _Overlaps) -> Iterator[OffsetPart]:
    """Yield disjoint parts: overlapping record sets are split where one begins or ends."""
    together: list[PlacedSet] = []
    reached = -1
    for each in ordered:
        if together and each.from_offset >= reached:
            if len(together) == 1:
                yield OffsetPart(together[0].from_offset, reached, (together[0],))
            else:
                yield from _cut(together, overlaps)
            together = []
        together.append(each)
        reached = max(reached, each.to_offset)
    yield from _cut(together, overlaps)


def _cut(together: Sequence[PlacedSet], overlaps: _Overlaps) -> Iterator[OffsetPart]:
    first = together[0]
    if len(together) == 1:
        yield OffsetPart(first.from_offset, first.to_offset, (first,))
        return
    reach = max(each.to_offset for each in together)
    all_of_it = [each for each in together if each.to_offset == reach and each.is_dense]
    if whole := [each for each in all_of_it if each.from_offset == first.from_offset]:
        yield OffsetPart(first.from_offset, reach, (min(whole, key=_captured),))
        return
    edges = sorted({edge for each in together for edge in (each.from_offset, each.to_offset)})
    waiting = [*reversed(together)]
    covering: list[PlacedSet] = []
    for start, end in itertools.pairwise(edges):
        covering = [each for each in covering if each.to_offset > start]
        while waiting and waiting[-1].from_offset <= start:
            covering.append(waiting.pop())
        overlaps.take(len(covering))
        covering.sort(key=_captured)
        dense = next((each for each in covering if each.is_dense), None)
        yield OffsetPart(start, end, (dense,) if dense else tuple(covering))


def _captured(held: PlacedSet) -> tuple[int, int, int]:
    return held.row.file, held.row.start, held.row.nth

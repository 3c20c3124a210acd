"""Reads slices of a capture; parses only the record sets that they need."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from playhead.errors import PlayheadError
from playhead.record import Slice, TimestampType
from playhead.records import Records
from playhead.source import OutOfBounds, TopicPartition
from playhead.traffic.catalog import Catalog, CatalogRow
from playhead.traffic.index import TrafficIndex
from playhead.traffic.json_numbers import UnknownShape
from playhead.traffic.partition_offsets import CapturedPartition, OffsetPart, PlacedSet
from playhead.traffic.record_columns import TrafficColumns
from playhead.traffic.snapshot import Snapshot, is_packed, opened, plain
from playhead.traffic.unchanged import Unchanged

_MOST_RECORDS: Final = 4_096
_MOST_BYTES: Final = 4 << 20
_REMEMBERED: Final = 4
_READ_AHEAD: Final = 256 << 10
"""Record sets of one partition are read in order; those in between belong to others, and are skipped."""

Parse = Callable[[bytes, CatalogRow, Catalog], TrafficColumns]


class CaptureDamaged(PlayheadError):
    """The file differs from the catalog: the bytes at a position have changed."""

    def __init__(self, file: str, *, start: int, reason: str) -> None:
        self.file, self.start, self.reason = file, start, reason
        super().__init__(
            f"{file}: the content at byte {start} has changed: {reason}",
            hint="run the command again when no process writes to the file",
        )


class Files:
    """Reads bytes of a capture's files by position; opens files on first use."""

    def __init__(self, unchanged: Unchanged, stack: ExitStack) -> None:
        self._unchanged, self._stack = unchanged, stack
        self._packed: dict[int, BinaryIO] = {}
        self._plain: dict[int, int] = {}
        self._document = ((-1, 0, 0), b"")
        self._block = (-1, 0, b"")
        """A file, and the bytes of it that were read last from a position."""

    def read(self, row: CatalogRow) -> bytes:
        """Return a row's bytes; of rows in one document that follow each other, the same object."""
        if row.nth < 0:
            return self._bytes(row)
        place = row.file, row.start, row.length
        known, document = self._document
        if known != place:
            document = self._bytes(row)
            self._document = place, document
        return document

    def _bytes(self, row: CatalogRow) -> bytes:
        if row.file not in self._plain and row.file not in self._packed:
            self._open(row.file)
        if row.file in self._plain:
            return self._from_block(row)
        # A compressed file can only be read forward; to go back, it is opened again.
        file = self._packed[row.file]
        file.seek(row.start)
        data = file.read(row.length)
        self._unchanged.expect(row.file, file.fileno())
        return data

    def _from_block(self, row: CatalogRow) -> bytes:
        """Return a row's bytes; close behind the previous row, the bytes of the next ones are read with them."""
        fd, (file, start, held) = self._plain[row.file], self._block
        if row.length > _READ_AHEAD:
            return self._read(row.file, fd, row.length, row.start)
        at = row.start - start if file == row.file else -1
        if not 0 <= at <= len(held) - row.length:
            is_next = 0 <= at <= len(held) + _READ_AHEAD
            held = self._read(row.file, fd, row.length + is_next * _READ_AHEAD, row.start)
            self._block, at = (row.file, row.start, held), 0
        return held[at : at + row.length]

    def _read(self, file: int, fd: int, count: int, start: int) -> bytes:
        data = os.pread(fd, count, start)
        self._unchanged.expect(file, fd)
        return data

    def _open(self, index: int) -> None:
        path = self._unchanged.snapshot.files[index]
        if is_packed(path):
            self._packed[index] = self._stack.enter_context(opened(path))
        else:
            file = self._stack.enter_context(plain(path))
            self._plain[index] = file.fileno()


@dataclass(slots=True)
class TrafficReader:
    """An open capture; belongs to one thread."""

    snapshot: Snapshot
    index: TrafficIndex
    files: Files
    parse: Parse
    by_pair_time: bool
    given_ms: int | None = None
    """The time of records without a time of their own."""
    _last: dict[CatalogRow, TrafficColumns] = field(default_factory=dict)

    def read(self, slice_: Slice, /) -> Iterator[Records]:
        place = (slice_.topic, slice_.partition)
        lane = self.index.lanes.get(place)
        if lane is None:
            raise OutOfBounds(slice_, self.index.bounds().get(place))
        bounds = lane.bounds
        if slice_.from_offset < bounds.earliest or slice_.to_offset > bounds.stable_end:
            raise OutOfBounds(slice_, bounds)
        return self._read(lane, slice_)

    def of_piece(
        self, place: TopicPartition, lane: CapturedPartition, piece: OffsetPart
    ) -> Records:
        """Return all records of a part."""
        return self._piece(place, lane, piece, (piece.from_offset, piece.to_offset))

    def _read(self, lane: CapturedPartition, slice_: Slice) -> Iterator[Records]:
        place, ends = (slice_.topic, slice_.partition), (slice_.from_offset, slice_.to_offset)
        gathered, size = Records(*place), 0
        for piece in lane.between(*ends):
            gathered.extend(self._piece(place, lane, piece, ends))
            size += piece.held[0].row.length
            if len(gathered) >= _MOST_RECORDS or size >= _MOST_BYTES:
                yield gathered
                gathered, size = Records(*place), 0
        if len(gathered):
            yield gathered

    def _piece(
        self,
        place: TopicPartition,
        lane: CapturedPartition,
        piece: OffsetPart,
        ends: tuple[int, int],
    ) -> Records:
        start, end = max(piece.from_offset, ends[0]), min(piece.to_offset, ends[1])
        found = [_within(self._lot(place, lane, each), start, end) for each in piece.held]
        return found[0] if len(found) == 1 else _united(found)

    def _lot(self, place: TopicPartition, lane: CapturedPartition, held: PlacedSet) -> Records:
        row = held.row
        columns = self._columns(row)
        offsets = columns.offsets
        if lane.is_numbered:
            offsets = [*range(held.from_offset, held.to_offset)]
        elif row.base:
            offsets = [row.base + each for each in offsets]
        times, kind = columns.timestamps_ms, columns.timestamp_type
        if self.by_pair_time and row.pair_ms >= 0:
            times, kind = [row.pair_ms] * row.records, TimestampType.CREATE_TIME.value
        if self.given_ms is not None:
            times, kind = [self.given_ms] * row.records, TimestampType.CREATE_TIME.value
        kinds = [kind] * row.records
        return Records(*place, offsets, times, kinds, columns.keys, columns.values, columns.headers)

    def _columns(self, row: CatalogRow) -> TrafficColumns:
        known = self._last.get(row)
        if known is None:
            known = self._parsed(row)
            while len(self._last) >= _REMEMBERED:
                self._last.pop(next(iter(self._last)))
            self._last[row] = known
        return known

    def _parsed(self, row: CatalogRow) -> TrafficColumns:
        return _parsed(self.snapshot, self.files, self.parse, row, self.index.catalog)


@contextmanager
def contents(
    unchanged: Unchanged, parse: Parse, catalog: Catalog
) -> Iterator[Callable[[CatalogRow], TrafficColumns]]:
    """Yield a function that reads the records of a record set."""
    with ExitStack() as stack:
        files = Files(unchanged, stack)
        yield lambda row: _parsed(unchanged.snapshot, files, parse, row, catalog)


def _parsed(
    snapshot: Snapshot, files: Files, parse: Parse, row: CatalogRow, catalog: Catalog
) -> TrafficColumns:
    try:
        columns = parse(files.read(row), row, catalog)
    except (UnknownShape, ValueError, LookupError, TypeError, OSError, EOFError) as exc:
        file = snapshot.shown(row.file)
        raise CaptureDamaged(file, start=row.start, reason=str(exc)) from exc
    if len(columns.offsets) != row.records:
        file = snapshot.shown(row.file)
        reason = f"found {len(columns.offsets)} records, expected {row.records}"
        raise CaptureDamaged(file, start=row.start, reason=reason)
    return columns


def _within(records: Records, start: int, end: int) -> Records:
    if records.offsets[0] >= start and records.offsets[-1] < end:
        return records
    kept = [i for i, offset in enumerate(records.offsets) if start <= offset < end]
    return records.pick(kept)


def _united(several: Sequence[Records]) -> Records:
    """Return the records of all sets; for each offset the record of the first set that has it."""
    whole = several[0].pick(())
    for each in several:
        whole.extend(each)
    first: dict[int, int] = {}
    for index, offset in enumerate(whole.offsets):
        first.setdefault(offset, index)
    return whole.pick([first[offset] for offset in sorted(first)])

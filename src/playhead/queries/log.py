"""Reads the rows of a log from any source, in the order in which the server wrote them."""

import heapq
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

from playhead.queries.column import Column
from playhead.querylog.counts import RowOutcome
from playhead.querylog.located import place_in
from playhead.querylog.rows import NotARow
from playhead.querylog.shapes import read_row
from playhead.querylog.statement import Statement
from playhead.querylog.statements import StatementReader
from playhead.record import Slice
from playhead.records import Records
from playhead.source import Source, TopicPartition, rejecting


class Row(NamedTuple):
    """A row of the log, as read from its source."""

    at: int
    """Its place in the server's files, which orders the rows of all partitions; its offset if it has no place."""
    partition: TopicPartition
    offset: int
    value: bytes
    is_placed: bool
    unread: str | None = None
    """Why it cannot be read; None if it can."""


@dataclass(slots=True)
class Log:
    """The rows of the planned offsets; `statements` reads them once.

    A row's place is its number among the rows of all partitions, which their header puts in order.
    """

    source: Source
    slices: Sequence[Slice]
    reader: StatementReader = field(default_factory=StatementReader)
    parts: list[TopicPartition] = field(default_factory=list)
    part_of: Column = field(default_factory=lambda: Column("H"))
    offset_of: Column = field(default_factory=Column)
    misplaced: int = 0
    """Rows after others that the server wrote later: two shippers, or another writer to the topic."""
    time_us: int = 0
    """The time of the latest row."""
    _last_at: int = -1
    _unplaced: set[TopicPartition] = field(default_factory=set)
    """The partitions with rows that have no place."""

    @property
    def has_order(self) -> bool:
        """Return whether the order between the rows of all partitions is known."""
        return len(self.parts) < 2 or not self._unplaced

    def __len__(self) -> int:
        """Return how many rows were read, including forgotten ones."""
        return len(self.part_of)

    def statements(self) -> Iterator[Statement]:
        with ExitStack() as stack:
            runs = [self._rows(stack, slice_) for slice_ in sorted(self.slices)]
            for row in heapq.merge(*runs):
                yield from self.take(row)
        yield from self.reader.end()

    def _rows(self, stack: ExitStack, slice_: Slice) -> Iterator[Row]:
        self._part((slice_.topic, slice_.partition))
        for records in stack.enter_context(rejecting(self.source)).read(slice_):
            yield from rows_of(records)

    def _part(self, place: TopicPartition) -> int:
        if place not in self.parts:
            self.parts.append(place)
        return self.parts.index(place)

    def take(self, row: Row) -> list[Statement]:
        """Read the next row; return the statements whose end it shows."""
        place = len(self.part_of)
        self.part_of.append(self._part(row.partition))
        self.offset_of.append(row.offset)
        if not row.is_placed:
            self._unplaced.add(row.partition)
        try:
            if row.unread is not None:
                raise NotARow(row.unread)
            read = read_row(row.value, place=place)
        except NotARow as exc:
            self.reader.not_a_row(str(exc))
            return []
        self.time_us = max(self.time_us, read.time_us)
        counted = self.reader.counts.rows
        repeated = counted[RowOutcome.DUPLICATE]
        found = self.reader.read(read)
        if counted[RowOutcome.DUPLICATE] == repeated:
            if row.at < self._last_at:
                self.misplaced += 1
            else:
                self._last_at = row.at
        return found

    def forget(self, before: int) -> None:
        """Forget the rows before this place."""
        self.part_of.forget(before)
        self.offset_of.forget(before)


def rows_of(records: Records) -> Iterator[Row]:
    """Return the rows of records of one partition."""
    partition = (records.topic, records.partition)
    for offset, value, headers in zip(
        records.offsets, records.values, records.headers, strict=True
    ):
        if (unread := records.undecoded.get(offset)) is not None:
            # At the first place, so that no other row waits for it.
            yield Row(0, partition, offset, b"", True, unread)
            continue
        at = place_in(headers or ())
        yield Row(offset if at is None else at, partition, offset, value or b"", at is not None)

"""Reads the planned rows of a log from any source, in the order in which the server wrote them."""

import heapq
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from playhead.querylog.counts import RowOutcome
from playhead.querylog.located import place_in
from playhead.querylog.rows import NotARow
from playhead.querylog.shapes import read_row
from playhead.querylog.statement import Statement
from playhead.querylog.statements import StatementReader
from playhead.record import Slice
from playhead.source import Source, TopicPartition


@dataclass(slots=True)
class Log:
    """The rows of the planned offsets; `statements` reads them once.

    A row's place is its number among the rows of all partitions, which their header puts in order.
    """

    source: Source
    slices: Sequence[Slice]
    reader: StatementReader = field(default_factory=StatementReader)
    parts: list[TopicPartition] = field(default_factory=list)
    part_of: "array[int]" = field(default_factory=lambda: array("H"))
    offset_of: "array[int]" = field(default_factory=lambda: array("q"))
    misplaced: int = 0
    """Rows behind others that the server wrote later: two shippers, or a topic that something else wrote."""
    _unplaced: set[int] = field(default_factory=set)
    """The partitions with rows that do not say their place."""

    @property
    def has_order(self) -> bool:
        """Whether the order between the rows of all partitions is known."""
        return len(self.parts) < 2 or not self._unplaced

    def __len__(self) -> int:
        """How many rows were read."""
        return len(self.part_of)

    def statements(self) -> Iterator[Statement]:
        with ExitStack() as stack:
            runs = [self._rows(stack, slice_) for slice_ in sorted(self.slices)]
            last = -1
            for at, part, offset, value in heapq.merge(*runs):
                place = len(self.part_of)
                self.part_of.append(part)
                self.offset_of.append(offset)
                try:
                    row = read_row(value, place=place)
                except NotARow as exc:
                    self.reader.not_a_row(str(exc))
                    continue
                repeated = self.reader.counts.rows[RowOutcome.DUPLICATE]
                yield from self.reader.read(row)
                if self.reader.counts.rows[RowOutcome.DUPLICATE] == repeated:
                    self.misplaced += at < last
                    last = max(last, at)
            yield from self.reader.end()

    def _rows(self, stack: ExitStack, slice_: Slice) -> Iterator[tuple[int, int, int, bytes]]:
        """Yield place, partition, offset and value of each row; without a header, the offset is the place."""
        place = (slice_.topic, slice_.partition)
        if place not in self.parts:
            self.parts.append(place)
        part = self.parts.index(place)

        def rows() -> Iterator[tuple[int, int, int, bytes]]:
            reader = stack.enter_context(self.source.open())
            for records in reader.read(slice_):
                columns = (records.offsets, records.values, records.headers)
                for offset, value, headers in zip(*columns, strict=True):
                    found = place_in(headers or ())
                    if found is None:
                        self._unplaced.add(part)
                    yield offset if found is None else found, part, offset, value or b""

        return rows()

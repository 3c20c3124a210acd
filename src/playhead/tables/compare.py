"""Compares records with their rows, for a database that is asked for one row after another."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from playhead.extra_fields import ExtraFields
from playhead.ledger import Entry
from playhead.record import Record, Slice
from playhead.source import TopicPartition
from playhead.tables.json_fields import Row
from playhead.tables.row_table import RowTable
from playhead.target import SliceComparison
from playhead.task.dead_letter_check import named_refused
from playhead.task.tally import Tally, digest_of
from playhead.terms import Terms


class RowLedger(Protocol):
    """The ledger of one replay, in the database of its rows."""

    def terms(self) -> Terms | None: ...

    def entries(self) -> Sequence[Entry]: ...

    def is_alone(self, slice_: Slice) -> bool:
        """Return whether only this replay has committed offsets of a slice."""
        ...

    def others_cover(self, claimed: Row) -> bool:
        """Return whether another replay has committed the offset that a row claims."""
        ...


@dataclass(frozen=True, slots=True)
class ExpectedRow:
    """What one partition's records of one key should have left."""

    place: TopicPartition
    last: int
    """The offset of the record that stays."""
    records: int
    slice: int
    refused: int | None
    """A slice with a record of this key in which records were refused."""
    row: Row


class ComparedRows(Protocol):
    """What comparisons ask of a table; the database decides which values are equal.

    A temporary table beside it has the rows that a whole replay should have left: one for each key and
    partition, as the rule would have left it in an empty table.
    """

    refusals: ClassVar[tuple[type[Exception], ...]]
    """The errors about values that no row can have."""

    @property
    def table(self) -> RowTable:
        """The columns, and the rules."""
        ...

    def held(self, key: Row, row: Row) -> Sequence[Sequence[Any]]:
        """Return the rows of a key: whether each equals `row`, and its values of the same columns."""
        ...

    def claims(self, key: Row) -> Sequence[Sequence[Any]]:
        """Return, for each row of a key, the values that identify its record."""
        ...

    def count_claims(self, span: Slice) -> int:
        """Return how many rows claim offsets of a span, without those of keys that have an expected row."""
        ...

    def begin(self, number: int) -> None:
        """Create the temporary table; the number is its own."""
        ...

    def put(self, expected: ExpectedRow) -> None:
        """Apply the rule of the table to one more record."""
        ...

    def firsts(self) -> Mapping[int, int]:
        """Return how many expected rows each slice has."""
        ...

    def by_key(self) -> Iterator[tuple[Row, list[ExpectedRow]]]:
        """Return the expected rows of each key, those of different partitions in order."""
        ...

    def drop(self) -> None:
        """Remove the temporary table."""
        ...


@dataclass(slots=True)
class Comparison:
    """Compares the records of one slice with their rows, where rows are only appended."""

    ledger: RowLedger
    rows: ComparedRows
    entry: Entry
    tally: Tally = field(default_factory=Tally)
    missing: list[tuple[int, Row]] = field(default_factory=list)

    def findings(
        self,
        rows: Iterable[tuple[Record, Row]],
        extra_fields: ExtraFields,
        unreadable: Sequence[int] = (),
    ) -> SliceComparison:
        """Return the comparison of the slice; the unreadable records are refused already."""
        listed, excused = excuses(self.entry)
        refused = [*unreadable]
        for record, row in rows:
            try:
                if record.offset not in listed:
                    self._judge(record, row)
            except self.rows.refusals:
                refused.append(record.offset)
        self._count_extra()
        place, are_excused = self.entry.slice.place, len(self.missing) <= excused
        for offset, row in self.missing:
            if are_excused:
                self.tally.unknown += 1
                text = (
                    "no such row; some records of the slice were refused, or not kept by the table"
                )
                self.tally.note("unknown", place, offset, text)
            else:
                self.tally.different += 1
                self.tally.expected_sum += digest_of((offset, row))
                self.tally.note("missing", place, offset, "the table has no such row")
        return self.tally.comparison(self.entry.slice, extra_fields, tuple(refused))

    def _judge(self, record: Record, row: Row) -> None:
        tally, place = self.tally, self.entry.slice.place
        if not self.rows.table.place:
            tally.unknown += 1
            text = "the table has no _partition and _offset"
            tally.note("unknown", place, record.offset, text)
            return
        stored = self.rows.held({name: row[name] for name in self.rows.table.place}, row)
        if not stored:
            self.missing.append((record.offset, row))
            return
        is_equal, *values = next((each for each in stored if each[0]), stored[0])
        kept = row if is_equal else dict(zip(row, values, strict=True))
        tally.found += 1
        tally.expected_sum += digest_of((record.offset, row))
        tally.found_sum += digest_of((record.offset, kept))
        if is_equal:
            tally.same += 1
        else:
            tally.different += 1
            tally.note("changed", place, record.offset, "the row has other values")

    def _count_extra(self) -> None:
        """Count rows that no record accounts for, unless other replays also wrote to this slice."""
        slice_ = self.entry.slice
        if self.rows.table.place and self.ledger.is_alone(slice_):
            for _ in range(self.rows.count_claims(slice_) - self.tally.found):
                self.tally.add_extra(slice_.place, None, "no record stands for a row")


def excuses(entry: Entry) -> tuple[set[int], int]:
    """Return the records that have no row because they were refused, and how many others may have none."""
    refused = entry.details.get("refused", ())
    if isinstance(refused, int):  # An earlier version only counted them.
        return set(), refused
    listed = named_refused(entry)
    unlisted = max(0, entry.skipped + entry.dead - len(listed))
    return listed, unlisted + int(entry.details.get("dropped", 0))

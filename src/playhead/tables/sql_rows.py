"""The rows of a table as comparisons ask for them, and the rows that a replay should have left."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from playhead.record import Slice
from playhead.source import TopicPartition
from playhead.tables.columns import OFFSET, PARTITION, TOPIC
from playhead.tables.json_fields import Row
from playhead.tables.row_table import RowTable
from playhead.tables.sql import RowSession, all_of, named, numbered

_OF_TEXTS = ("CHAR", "CLOB", "TEXT")
"""One of these words in a declared type makes a column store numbers as texts."""
_OWN = ("topic", "partition", "last", "records", "slice", "refused")


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


class SqlRows:
    """What comparisons ask of a table; the database decides which values are equal.

    A temporary table beside it has the rows that a whole replay should have left: one for each key and
    partition, as the rule would have left it in an empty table. Its columns have no types.
    """

    def __init__(self, session: RowSession, table: RowTable) -> None:
        self._session, self._run, self.table = session, session.run, table
        self.refusals = session.refusals
        self._name = self._unless = ""
        self._keys = [f"k{n}" for n in range(len(table.key))]
        self._columns = {name: f"v{n}" for n, name in enumerate(table.columns)}
        # Stands for a column that no record names, because NULL is a value.
        self._unnamed = uuid4().bytes
        self._place = f"{', '.join(self._keys)}, topic, partition"

    def held(self, key: Row, row: Row) -> Sequence[Sequence[Any]]:
        """Return the rows of a key: whether each equals `row`, and its values of the same columns.

        Texts are compared by their bytes, whatever the collation of their column.
        """
        exactly = f"{self._session.by_bytes} {self._session.is_same}"
        all_equal = all_of(f"{named(name)} {exactly} ${n}" for n, name in enumerate(row, 1))
        return self.table.select(self._session, [all_equal, *map(named, row)], key, [*row.values()])

    def claims(self, key: Row) -> Sequence[Sequence[Any]]:
        """Return, for each row of a key, the values that identify its record."""
        return self.table.select(self._session, map(named, self.table.place), key)

    def count_claims(self, span: Slice) -> int:
        """Return how many rows claim offsets of a span, without those of keys that have an expected row."""
        identity = {PARTITION: span.partition, TOPIC: span.topic}
        where = {name: identity[name] for name in self.table.place[:-1]}
        conditions = "".join(f" AND {named(name)} = ${n}" for n, name in enumerate(where, 3))
        [(count,)] = self._run(
            f"SELECT count(*) FROM {named(self.table.name)} t "  # noqa: S608 - quoted names
            f"WHERE {self._offset()} >= $1 AND {self._offset()} < $2{conditions}{self._unless}",
            (span.from_offset, span.to_offset, *where.values()),
        )
        return int(count)

    def _offset(self) -> str:
        """The number that the offset of a row is: a column of texts compares numbers as texts too."""
        declared = self.table.columns[OFFSET].upper()
        is_text = "INT" not in declared and any(each in declared for each in _OF_TEXTS)
        return f"CAST({OFFSET} AS INTEGER)" if is_text else OFFSET

    def begin(self, number: int) -> None:
        """Create the temporary table; the number is its own."""
        self._name, unnamed = f"playhead_final_{number}", self._unnamed.hex()
        values = ", ".join(f"{name} DEFAULT x'{unnamed}'" for name in self._columns.values())
        columns = f"{', '.join((*self._keys, *_OWN))}, {values}, PRIMARY KEY ({self._place})"
        self._run(f"CREATE TEMPORARY TABLE {self._name} ({columns}) {self._session.stored_by_key}")
        same = " AND ".join(
            f"e.{own} = +t.{named(name)}"
            for own, name in zip(self._keys, self.table.key, strict=True)
        )
        self._unless = f" AND NOT EXISTS (SELECT 1 FROM {self._name} e WHERE {same})"  # noqa: S608

    def put(self, expected: ExpectedRow) -> None:
        """Apply the rule of the table to one more record."""
        key = {name: expected.row[name] for name in self.table.key}
        # As the table has it, because only the database knows which values are one key there.
        stored = self.table.select(self._session, map(named, key), key)
        values = {self._columns[name]: value for name, value in expected.row.items()}
        own = (*expected.place, expected.last, expected.records, expected.slice, expected.refused)
        given = dict(zip(self._keys, stored[0] if stored else key.values(), strict=True))
        given |= dict(zip(_OWN, own, strict=True)) | values
        changes = ["records = records + 1", "refused = coalesce(excluded.refused, refused)"]
        if self.table.rules.on_conflict == "update":
            changes += [f"{name} = excluded.{name}" for name in ("last", "slice", *values)]
        self._run(
            f"INSERT INTO {self._name} ({', '.join(given)}) "  # noqa: S608 - names of our own
            f"VALUES ({numbered(len(given))}) "
            f"ON CONFLICT ({self._place}) DO UPDATE SET {', '.join(changes)}",
            [*given.values()],
        )

    def firsts(self) -> dict[int, int]:
        """Return how many expected rows each slice has."""
        counts = self._run(f"SELECT slice, count(*) FROM {self._name} GROUP BY slice")  # noqa: S608
        return {slice_: count for slice_, count in counts}  # noqa: C416 - rows of two values

    def by_key(self) -> Iterator[tuple[Row, list[ExpectedRow]]]:
        """Return the expected rows of each key, those of different partitions in order."""
        columns = ", ".join((*self._keys, *_OWN, *self._columns.values()))
        statement = f"SELECT {columns} FROM {self._name} ORDER BY {self._place}"  # noqa: S608
        count = len(self._keys)
        for key, of_key in itertools.groupby(
            self._session.stream(statement), lambda row: row[:count]
        ):
            expected = [self._expected(*row[count:]) for row in of_key]
            yield dict(zip(self.table.key, key, strict=True)), expected

    def _expected(self, topic: str, partition: int, *rest: Any) -> ExpectedRow:
        last, records, slice_, refused, *values = rest
        named_values = zip(self._columns, values, strict=True)
        row = {name: value for name, value in named_values if value != self._unnamed}
        return ExpectedRow((topic, partition), last, records, slice_, refused, row)

    def drop(self) -> None:
        """Remove the temporary table."""
        self._run(f"DROP TABLE {self._name}")

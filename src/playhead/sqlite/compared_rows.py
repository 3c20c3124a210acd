"""The rows of a SQLite table as comparisons ask for them, and the rows that a replay should have left."""

import itertools
import sqlite3
from collections.abc import Iterator
from typing import Any, ClassVar
from uuid import uuid4

from playhead.record import Slice
from playhead.sqlite.session import all_of, named
from playhead.sqlite.table import REFUSED, Table
from playhead.tables.columns import OFFSET, PARTITION, TOPIC
from playhead.tables.compare import ExpectedRow
from playhead.tables.json_fields import Row

_OF_TEXTS = ("CHAR", "CLOB", "TEXT")
"""One of these words in a declared type makes SQLite store a column's numbers as texts."""
_OWN = ("topic", "partition", "last", "records", "slice", "refused")


class SqliteRows:
    """The rows of a table, whose values SQLite may store in another type: it decides which are equal.

    Texts are compared by their bytes, whatever the collation of their column.
    """

    refusals: ClassVar[tuple[type[Exception], ...]] = REFUSED

    def __init__(self, connection: sqlite3.Connection, table: Table) -> None:
        self._run, self.table = connection.execute, table
        self._connection = connection
        self._name = self._unless = ""
        self._keys = [f"k{n}" for n in range(len(table.key))]
        self._columns = {name: f"v{n}" for n, name in enumerate(table.columns)}
        # Stands for a column that no record names, because NULL is a value.
        self._unnamed = uuid4().bytes
        self._place = f"{', '.join(self._keys)}, topic, partition"

    def held(self, key: Row, row: Row) -> list[Any]:
        all_equal = all_of(f"{named(name)} COLLATE BINARY IS ?" for name in row)
        columns = [all_equal, *map(named, row)]
        return self.table.select(self._connection, columns, key, *row.values())

    def claims(self, key: Row) -> list[Any]:
        return self.table.select(self._connection, [*map(named, self.table.place)], key)

    def count_claims(self, span: Slice) -> int:
        identity = {PARTITION: span.partition, TOPIC: span.topic}
        where = {name: identity[name] for name in self.table.place[:-1]}
        conditions = "".join(f" AND {named(name)} = ?" for name in where)
        [(count,)] = self._run(
            f"SELECT count(*) FROM {named(self.table.name)} t "  # noqa: S608 - quoted names
            f"WHERE {self._offset()} >= ? AND {self._offset()} < ?{conditions}{self._unless}",
            (span.from_offset, span.to_offset, *where.values()),
        )
        return int(count)

    def _offset(self) -> str:
        """The number that the offset of a row is: a column of texts compares numbers as texts too."""
        declared = self.table.columns[OFFSET].upper()
        is_text = "INT" not in declared and any(each in declared for each in _OF_TEXTS)
        return f"CAST({OFFSET} AS INTEGER)" if is_text else OFFSET

    def begin(self, number: int) -> None:
        self._name, unnamed = f"playhead_final_{number}", self._unnamed.hex()
        values = ", ".join(f"{name} DEFAULT x'{unnamed}'" for name in self._columns.values())
        columns = f"{', '.join((*self._keys, *_OWN))}, {values}, PRIMARY KEY ({self._place})"
        self._run(f"CREATE TEMPORARY TABLE {self._name} ({columns}) WITHOUT ROWID")
        same = " AND ".join(
            f"e.{own} = +t.{named(name)}"
            for own, name in zip(self._keys, self.table.key, strict=True)
        )
        self._unless = f" AND NOT EXISTS (SELECT 1 FROM {self._name} e WHERE {same})"  # noqa: S608

    def put(self, expected: ExpectedRow) -> None:
        key = {name: expected.row[name] for name in self.table.key}
        # As the table has it, because only SQLite knows which values are one key there.
        stored = self.table.select(self._connection, [*map(named, key)], key)
        values = {self._columns[name]: value for name, value in expected.row.items()}
        own = (*expected.place, expected.last, expected.records, expected.slice, expected.refused)
        given = dict(zip(self._keys, stored[0] if stored else key.values(), strict=True))
        given |= dict(zip(_OWN, own, strict=True)) | values
        changes = ["records = records + 1", "refused = coalesce(excluded.refused, refused)"]
        if self.table.rules.on_conflict == "update":
            changes += [f"{name} = excluded.{name}" for name in ("last", "slice", *values)]
        self._run(
            f"INSERT INTO {self._name} ({', '.join(given)}) "  # noqa: S608 - names of our own
            f"VALUES ({', '.join('?' * len(given))}) "
            f"ON CONFLICT ({self._place}) DO UPDATE SET {', '.join(changes)}",
            [*given.values()],
        )

    def firsts(self) -> dict[int, int]:
        return dict(self._run(f"SELECT slice, count(*) FROM {self._name} GROUP BY slice"))  # noqa: S608

    def by_key(self) -> Iterator[tuple[Row, list[ExpectedRow]]]:
        columns = ", ".join((*self._keys, *_OWN, *self._columns.values()))
        rows = self._run(f"SELECT {columns} FROM {self._name} ORDER BY {self._place}")  # noqa: S608
        count = len(self._keys)
        for key, of_key in itertools.groupby(rows, lambda row: row[:count]):
            expected = [self._expected(*row[count:]) for row in of_key]
            yield dict(zip(self.table.key, key, strict=True)), expected

    def _expected(self, topic: str, partition: int, *rest: Any) -> ExpectedRow:
        last, records, slice_, refused, *values = rest
        named_values = zip(self._columns, values, strict=True)
        row = {name: value for name, value in named_values if value != self._unnamed}
        return ExpectedRow((topic, partition), last, records, slice_, refused, row)

    def drop(self) -> None:
        self._run(f"DROP TABLE {self._name}")

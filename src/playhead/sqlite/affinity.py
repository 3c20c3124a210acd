"""Finds values that the declared type of a column changes: SQLite converts them and says nothing."""

import sqlite3
from collections.abc import Iterable
from typing import Any

from playhead.sqlite.session import named

CONVERTED = "with_converted_values"
_COPY = 'temp."playhead_affinity"'
_TYPED = "SELECT name FROM pragma_table_xinfo(?) WHERE type <> '' AND type <> 'BLOB' AND NOT hidden"


class Affinity:
    """The types of a table's columns, in an empty temporary copy that converts values as the table does."""

    def __init__(self, connection: sqlite3.Connection, table: str) -> None:
        self._connection = connection
        self._typed = {name for (name,) in connection.execute(_TYPED, (table,))}
        if self._typed:
            columns = ", ".join(map(named, sorted(self._typed)))
            connection.execute(f"DROP TABLE IF EXISTS {_COPY}")
            connection.execute(
                f"CREATE TEMP TABLE {_COPY.partition('.')[2]} AS SELECT {columns} "  # noqa: S608 - quoted names
                f"FROM main.{named(table)} LIMIT 0"
            )

    def converts(self, row: dict[str, Any]) -> bool:
        """Return whether the table changes one of these values."""
        given = {name: row[name] for name in row if name in self._typed and _may_change(row[name])}
        if not given:
            return False
        columns, places = ", ".join(map(named, given)), ", ".join("?" * len(given))
        execute = self._connection.execute
        execute(f"INSERT INTO {_COPY} ({columns}) VALUES ({places})", [*given.values()])  # noqa: S608 - quoted names
        [kept] = execute(f"SELECT {columns} FROM {_COPY}").fetchall()  # noqa: S608 - quoted names
        execute(f"DELETE FROM {_COPY}")  # noqa: S608 - a constant
        return any(map(_is_another, given.values(), kept))


def count_of(connection: sqlite3.Connection, table: str, rows: Iterable[dict[str, Any]]) -> int:
    """Return in how many rows the table changes a value."""
    affinity = Affinity(connection, table)
    return sum(map(affinity.converts, rows))


def _may_change(value: Any) -> bool:
    """Return whether some type changes the value: a text that may be a number, or a number of many digits."""
    if isinstance(value, str):
        return any("0" <= sign <= "9" for sign in value)
    return isinstance(value, float) or (isinstance(value, int) and abs(value) > 1 << 53)


def _is_another(given: Any, kept: Any) -> bool:
    """Return whether a stored value is different; a number and the text that SQLite writes for it are the same."""
    if isinstance(given, str):
        return str(kept) != given
    return bool((float(kept) if isinstance(kept, str) else kept) != given)

"""Finds values that the declared type of a column changes: SQLite converts them and says nothing."""

from collections.abc import Iterable
from typing import Any

from playhead.tables.json_fields import Row
from playhead.tables.row_table import RowTable
from playhead.tables.sql import RowSession, listed, named, numbered

_COPY = "playhead_affinity"
_TYPED = (
    "SELECT name FROM pragma_table_xinfo($1) WHERE type <> '' AND type <> 'BLOB' AND NOT hidden"
)


def count_converted(session: RowSession, table: RowTable, rows: Iterable[Row]) -> int:
    """Return in how many rows the table changes a value: an empty copy of it converts them as it does."""
    typed = {name for (name,) in session.run(_TYPED, (table.name,))}
    if not typed:
        return 0
    session.run(f"DROP TABLE IF EXISTS temp.{_COPY}")
    session.run(
        f"CREATE TEMP TABLE {_COPY} AS SELECT {listed(sorted(typed))} "  # noqa: S608 - quoted names
        f"FROM main.{named(table.name)} LIMIT 0"
    )
    given = ({n: row[n] for n in row if n in typed and _may_change(row[n])} for row in rows)
    return sum(_converts(session, each) for each in given if each)


def _converts(session: RowSession, given: Row) -> bool:
    columns, values = listed(given), [*given.values()]
    statement = f"INSERT INTO {_COPY} ({columns}) VALUES ({numbered(len(given))})"  # noqa: S608 - quoted names
    try:
        session.run(statement, values)
    except session.refusals:  # As the table will: its record is refused.
        return False
    [kept] = session.run(f"SELECT {columns} FROM {_COPY}")  # noqa: S608 - quoted names
    session.run(f"DELETE FROM {_COPY}")  # noqa: S608 - a constant
    return any(map(_is_another, values, kept))


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

"""One table of SQLite: the statements that create, fill and mark it."""

import re
import sqlite3
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from playhead.errors import Refused
from playhead.request import TableRules
from playhead.sqlite.session import named
from playhead.tables.json_fields import Row
from playhead.tables.row_table import RowTable

REFUSED = (sqlite3.IntegrityError, sqlite3.DataError, OverflowError, UnicodeEncodeError)
"""SQLite's errors about a single row; the transaction can continue after them."""
_MARK = "playhead_mark_"
_NO_KEYWORDS = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^]]*\]|--[^\n]*|/\*.*?\*/", re.DOTALL
)
_REPLACES = re.compile(r"\bON\s+CONFLICT\s+REPLACE\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Table(RowTable):
    """A table at this moment; its mark is an empty index, which disappears when the table is dropped.

    Columns have no number, because SQLite gives new ones to the rest when one is dropped.
    """

    def insert(self, names: Collection[str]) -> str:
        """Return the statement that inserts rows with these columns."""
        columns, placeholders = ", ".join(map(named, names)), ", ".join("?" * len(names))
        changes = [f"{column} = excluded.{column}" for column in map(named, names)]
        actions = {"ignore": "NOTHING", "update": f"UPDATE SET {', '.join(changes)}"}
        action = actions.get(self.rules.on_conflict or "")
        conflict = f"ON CONFLICT ({', '.join(map(named, self.key))}) DO {action}" if action else ""
        return f"INSERT INTO {named(self.name)} ({columns}) VALUES ({placeholders}) {conflict}"  # noqa: S608 - quoted names

    def refuse_unwritable(self, connection: sqlite3.Connection) -> None:
        """Let SQLite check that the table exists and that it can follow the conflict rule."""
        self.refuse_lacking()
        cannot = f"records cannot be written to {self.name}"
        try:
            values = [None] * len(self.columns)
            connection.execute(f"EXPLAIN {self.insert(self.columns)}", values)
            connection.execute(f"EXPLAIN {self.marking()}")
        except sqlite3.OperationalError as exc:
            hint = "name the columns of a primary key or a unique index with --key"
            raise Refused(f"{cannot}: {exc}", hint=hint) from exc
        if self._replaces(connection):
            hint = "create the table without this clause, and use --on-conflict update --key COLS"
            why = "SQLite does not count the rows that this removes"
            text = f"{cannot}: it is defined with ON CONFLICT REPLACE, and {why}"
            raise Refused(text, hint=hint)

    def has_key_of(self, connection: sqlite3.Connection, row: Row) -> bool:
        """Return whether a row with the key of this one is in the table."""
        key = {name: row[name] for name in self.key}
        return bool(self.select(connection, ["1"], key))

    def select(
        self, connection: sqlite3.Connection, columns: Collection[str], key: Row, *values: Any
    ) -> list[Any]:
        """Return columns of the rows of a key; the values are those of expressions among the columns."""
        equal = " AND ".join(f"{named(name)} = ?" for name in key)
        statement = f"SELECT {', '.join(columns)} FROM {named(self.name)} WHERE {equal}"  # noqa: S608 - quoted names
        return connection.execute(statement, (*values, *key.values())).fetchall()

    def _replaces(self, connection: sqlite3.Connection) -> bool:
        """Return whether a constraint of the table itself removes rows that are in the way."""
        statement = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE"
        texts = connection.execute(statement, (self.name,)).fetchall()
        return any(_REPLACES.search(keywords(text)) for (text,) in texts)

    def marking(self) -> str:
        """Return the statement that marks the table, so that a table created in its place is recognised."""
        mark, column = named(_MARK + uuid4().hex), named(next(iter(self.columns)))
        return f"CREATE INDEX {mark} ON {named(self.name)} ({column}) WHERE 0"


def keywords(statement: str) -> str:
    """Return a statement without its texts, quoted names and comments."""
    return _NO_KEYWORDS.sub(" ", statement)


def read_table(connection: sqlite3.Connection, name: str, rules: TableRules) -> Table | None:
    """Return the table with its ordinary columns, or None if it does not exist."""
    rows = connection.execute("SELECT * FROM pragma_table_xinfo(?)", (name,)).fetchall()
    columns = {row[1]: row[2] for row in rows if not row[6]}
    primary = tuple(row[1] for row in rows if row[5])
    # SQLite finds a table under its name in any case, and keeps the case of its CREATE.
    statement = "SELECT name FROM sqlite_master WHERE tbl_name = ? COLLATE NOCASE AND name GLOB ?"
    marks = connection.execute(statement, (name, f"{_MARK}*")).fetchall()
    mark = marks[0][0] if marks else ""
    return Table(name, columns, rules.key or primary, mark, rules) if rows else None

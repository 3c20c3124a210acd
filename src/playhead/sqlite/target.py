"""The target for SQLite: records and the ledger go to tables of one database file."""

import hashlib
import itertools
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar
from uuid import uuid4

from playhead.errors import Refused
from playhead.host import file_lock, private_files
from playhead.host.faults import abort_point
from playhead.host.paths import state_dir
from playhead.request import TableRules
from playhead.sqlite.session import Session, database_file, open_database
from playhead.tables.column_names import fold
from playhead.tables.json_fields import Row
from playhead.tables.kept_rows import CHANGES, KeptRows
from playhead.tables.row_table import RowTable, WrittenRow
from playhead.tables.sql import RowSession, listed, named, numbered
from playhead.tables.target import RowTarget
from playhead.target import InUse

# Texts of a schema are not parsed: with comments, parameters and quotes, their author could hide a word that
# SQLite reads. Where one is that only looks like a keyword, this takes longer, and nothing is missed.
_REPLACES = re.compile(r"\bREPLACE\b", re.IGNORECASE)
# In a trigger; the function of this name replaces texts, not rows.
_REPLACES_ROWS = re.compile(r"\bREPLACE\b(?!\s*\()", re.IGNORECASE)
_DEFERRED = re.compile(r"\bDEFERRED\b", re.IGNORECASE)
_TRIGGERS = "SELECT tbl_name, sql FROM main.sqlite_master WHERE type = 'trigger'"
_FOLLOWED = (
    "SELECT 1 FROM main.sqlite_master m, pragma_foreign_key_list(m.name) f WHERE m.type = 'table' "
    "AND f.\"table\" = $1 COLLATE NOCASE AND f.on_update NOT IN ('NO ACTION', 'RESTRICT') LIMIT 1"
)
_COPY = "playhead_affinity"
_TYPED = (
    "SELECT name FROM pragma_table_xinfo($1) WHERE NOT hidden AND (type NOT IN ('', 'BLOB') "
    "OR (SELECT encoding FROM pragma_encoding) <> 'UTF-8')"
)
_LITERAL = re.compile(
    r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?|'(?:[^']|'')*'|x'[0-9a-f]*'|true|false",
    re.IGNORECASE,
)
# SQLite gives such a column a number in the place of a null.
_NUMBERED = (
    "SELECT name FROM pragma_table_xinfo($1) WHERE pk AND upper(type) = 'INTEGER' "
    "AND (SELECT max(pk) FROM pragma_table_xinfo($1)) = 1"
)
_MARK = "playhead_mark_"
_MARKS = "SELECT name FROM sqlite_master WHERE tbl_name = $1 COLLATE NOCASE AND name GLOB $2"
_MARKED = "SELECT DISTINCT tbl_name FROM main.sqlite_master WHERE type = 'index' AND name GLOB $1"
_TEXT = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = $1 COLLATE NOCASE"
_KEYS = """
SELECT f.id, f."table", f."from", coalesce(f."to", (
    SELECT p.name FROM pragma_table_xinfo(f."table") p WHERE p.pk = f.seq + 1))
FROM pragma_foreign_key_list($1) f ORDER BY f.id, f.seq
"""
# Unique indexes that `ON CONFLICT` may take: each with its columns and how it compares them.
_INDEXES = """
SELECT l.name, x.name, x.coll FROM pragma_index_list($1) l, pragma_index_xinfo(l.name) x
WHERE l."unique" AND NOT l.partial AND x.key
"""
# SQLite writes them as U+FFFD in a database of this encoding.
_NOT_IN_UTF16 = "\ufffe\uffff"
_IS_UNMET = "SELECT 1 FROM pragma_foreign_key_check($1) LIMIT 1"


@dataclass(frozen=True)
class SqliteTarget(RowTarget):
    """A table of a database file, or one table per topic; its columns select the fields of a
    record.

    Ordering: rows have no order. With the rule `update`, the slices of one partition are committed in
    offset order, so that the last record of a key stays.
    Idempotence: with a key and `ignore` or `update`, writing a record again does not change the table.
    Without a rule, records are appended, and a record that a unique index refuses falls under the error
    rule. A slice of one replay is committed only once.
    Delivery: exactly once: the rows of a slice and its ledger entry are one transaction of one file.
    """

    file: str
    table: str
    rules: TableRules = field(default_factory=TableRules)

    system: ClassVar = "SQLite"
    # SQLite has 2,000, and comparing needs some beside those of the table.
    most_columns: ClassVar = 1_990
    reserved: ClassVar = ("sqlite_", "playhead_")

    def identity(self) -> str:
        return f"sqlite:{database_file(self.file)}"

    @property
    def where(self) -> str:
        return self.file

    def make(self) -> None:
        file = database_file(self.file)
        if not file.exists():
            # Only for a new file: closing a file that SQLite has open would release its locks.
            if not file.parent.is_dir():
                private_files.folder(file.parent)
            private_files.touch(file)
            abort_point("sqlite.file_made")

    def opened(self, *, writes: bool = False) -> AbstractContextManager[Session]:
        """Open the database; to read a missing one, an empty one in memory: inspecting creates nothing."""
        file = database_file(self.file)
        return open_database(file, "rw" if writes or file.exists() else "memory")

    @contextmanager
    def hold(self, replay_id: str, /) -> Iterator[None]:
        name = hashlib.sha256(f"{self.identity()} {replay_id}".encode()).hexdigest()
        lock = private_files.folder(state_dir() / "sqlite") / f"{name}.lock"
        with file_lock.held(lock, lambda holder: InUse(replay_id, where=holder)):
            yield

    def find(self, session: RowSession, name: str) -> RowTable | None:
        rows = session.run("SELECT * FROM pragma_table_xinfo($1)", (name,))
        columns = {row[1]: row[2] for row in rows if not row[6]}
        key = self.rules.key or tuple(row[1] for row in rows if row[5])
        # SQLite finds a table under its name in any case, and keeps the case of its CREATE.
        marks = session.run(_MARKS, (name, f"{_MARK}*"))
        mark = marks[0][0] if marks else ""
        empty = frozenset(row[1] for row in rows if row[4] is None and not row[5])
        required = {row[1]: row[4] for row in rows if row[3] and row[4] is not None}
        plain = {name: text for name, text in required.items() if _LITERAL.fullmatch(text)}
        values = {name: session.run(f"SELECT {it}")[0][0] for name, it in plain.items()}
        own = frozenset(row[1] for row in rows if row[5]) | (required.keys() - plain.keys())
        return RowTable(name, columns, key, mark, self.rules, empty, values, own) if rows else None

    def names(self, session: RowSession) -> list[str]:
        statement = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        return [name for (name,) in session.run(statement)]

    def marking(self, table: RowTable) -> str:
        """Return the statement for an empty index, which disappears when the table is dropped."""
        mark, column = named(_MARK + uuid4().hex), named(next(iter(table.columns)))
        return f"CREATE INDEX {mark} ON {named(table.name)} ({column}) WHERE 0"

    def kept_rows(self, session: RowSession, table: RowTable) -> KeptRows:
        return SqliteKeptRows(session, table)

    def refuse_unwritable(self, session: RowSession, table: RowTable) -> None:
        """Let SQLite check that the table exists and that it can follow the conflict rule."""
        cannot = f"records cannot be written to {table.name}"
        try:
            session.run(f"EXPLAIN {table.insert(table.columns)}", [None] * len(table.columns))
            session.run(f"EXPLAIN {self.marking(table)}")
        except sqlite3.OperationalError as exc:
            hint = "name the columns of a primary key or a unique index with --key"
            raise Refused(f"{cannot}: {exc}", hint=hint) from exc
        if table.rules.on_conflict and (index := _compares_otherwise(session, table)):
            hint = f"give {index} the collation of its columns, or the columns that of {index}"
            why = "one row could be taken for another"
            text = f"{cannot}: the index {index} compares --key otherwise than its columns do, and {why}"
            raise Refused(text, hint=hint)
        if _has_own_conflicts(session, table) and any(
            _REPLACES.search(text) for (text,) in session.run(_TEXT, (table.name,))
        ):
            hint = "create the table without this clause, and use --on-conflict update --key COLS"
            why = "SQLite does not count the rows that this removes"
            text = f"{cannot}: it is defined with ON CONFLICT REPLACE, and {why}"
            raise Refused(text, hint=hint)

    def has_deferred_keys(self, session: RowSession, table: RowTable) -> bool:
        return any(_DEFERRED.search(text) for (text,) in session.run(_TEXT, (table.name,)))

    def unmet(
        self, session: RowSession, table: RowTable, rows: Iterable[WrittenRow]
    ) -> list[WrittenRow]:
        if not session.run(_IS_UNMET, (table.name,)):
            return []
        keys: dict[int, list[tuple[str, str, str]]] = {}
        for number, *parts in session.run(_KEYS, (table.name,)):
            keys.setdefault(number, []).append(tuple(parts))
        by = table.key if table.rules.on_conflict else ()
        found = []
        for each in rows:
            there = {name: each.row[name] for name in by}
            if any(_refers_to_none(session, table, each.row, key, there) for key in keys.values()):
                found.append(each)
        return found

    def count_converted(self, session: RowSession, table: RowTable, rows: Iterable[Row]) -> int:
        return count_converted(session, table, rows)


def _has_own_conflicts(session: RowSession, table: RowTable) -> bool:
    """Return whether constraints of the table do something else than abort: its programs for the two then differ."""
    into = f"INTO main.{named(table.name)} ({listed(table.columns)}) VALUES ({numbered(len(table.columns))})"
    programs = []
    for verb in ("INSERT", "INSERT OR ABORT"):
        found = session.run(f"EXPLAIN {verb} {into}", [None] * len(table.columns))
        # Those of triggers follow, and begin at 0 again.
        programs.append([*itertools.takewhile(lambda at: at[1][0] == at[0], enumerate(found))])
    return programs[0] != programs[1]


def _compares_otherwise(session: RowSession, table: RowTable) -> str | None:
    """Return a unique index of the key whose collation is not that of its columns: a row is looked up by theirs."""
    indexes: dict[str, list[tuple[str, str]]] = {}
    for index, column, collation in session.run(_INDEXES, (table.name,)):
        indexes.setdefault(index, []).append((column, collation))
    numbers = {name for (name,) in session.run(_NUMBERED, (table.name,))}
    for index, columns in indexes.items():
        if {name for name, _ in columns} != {*table.key}:
            continue
        for name, collation in columns:
            each = f"EXPLAIN SELECT {named(name)}{{}} = $1 FROM main.{named(table.name)}"  # noqa: S608 - quoted names
            own, other = (
                session.run(each.format(text), (None,))
                for text in ("", f" COLLATE {named(collation)}")
            )
            if name not in numbers and own != other:
                return index
    return None


def _refers_to_none(
    session: RowSession,
    table: RowTable,
    row: Row,
    key: Sequence[tuple[str, str, str]],
    there: Row,
) -> bool:
    """Return whether a row refers to one that does not exist; with a key, as it is in the table now."""
    columns = [column for _, column, _ in key]
    held = [row.get(column) for column in columns]
    if there:
        stored = table.select(session, [named(column) for column in columns], there)
        held = list(stored[0]) if stored else []
    if not held or None in held:
        return False
    same = " AND ".join(f"{named(to)} = ${n}" for n, (*_, to) in enumerate(key, 1))
    return not session.run(f"SELECT 1 FROM main.{named(key[0][0])} WHERE {same} LIMIT 1", held)  # noqa: S608


def count_converted(session: RowSession, table: RowTable, rows: Iterable[Row]) -> int:
    """Return in how many rows the table changes a value: an empty copy of it converts them as it does."""
    typed = {name for (name,) in session.run(_TYPED, (table.name,))}
    if not typed:
        return 0
    never_null = [name for (name,) in session.run(_NUMBERED, (table.name,))]
    session.run(f"DROP TABLE IF EXISTS temp.{_COPY}")
    session.run(
        f"CREATE TEMP TABLE {_COPY} AS SELECT {listed(sorted(typed))} "  # noqa: S608 - quoted names
        f"FROM main.{named(table.name)} LIMIT 0"
    )
    count = 0
    for row in rows:
        given = {n: row[n] for n in row if n in typed and _may_change(row[n])}
        loses_null = any(row.get(column, 0) is None for column in never_null)
        count += loses_null or bool(given and _converts(session, given))
    return count


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
        return any("0" <= sign <= "9" or sign in _NOT_IN_UTF16 for sign in value)
    return isinstance(value, float) or (isinstance(value, int) and abs(value) > 1 << 53)


def _is_another(given: Any, kept: Any) -> bool:
    """Return whether a stored value is different; a number and the text that SQLite writes for it are the same."""
    if isinstance(given, str):
        return str(kept) != given
    return bool((float(kept) if isinstance(kept, str) else kept) != given)


class SqliteKeptRows(KeptRows):
    """Temporary triggers, which SQLite fires before others, note each change.

    None is fired for a row that the REPLACE of a trigger deletes.
    """

    def risks(self) -> tuple[bool, bool]:
        name = self.table.name
        triggers = self.session.run(_TRIGGERS)
        watches = any(fold(of) == fold(name) for of, _ in triggers)
        if triggers and self.table.rules.on_conflict == "update":
            # An update may reach the triggers of other tables, whose foreign keys follow it.
            watches |= bool(self.session.run(_FOLLOWED, (name,)))
        return watches, watches and any(_REPLACES_ROWS.search(text) for _, text in triggers)

    def note(self, changes: Mapping[str, str]) -> None:
        self._triggers: list[str] = []
        table, names = named(self.table.name), [*map(named, self.by)]
        moved = " OR ".join(f"old.{name} IS NOT new.{name}" for name in names)
        for change, row in changes.items():
            values = ", ".join([f"'{change}'", *(f"{row}.{name}" for name in names)])
            when = f"WHEN {moved or 0}" if change == "update" else ""
            noted = f"INSERT INTO {CHANGES} VALUES ({values})"  # noqa: S608 - quoted names
            self._noted(change, table, when, noted)
        self._others = [
            name
            for (name,) in self.session.run(_MARKED, (f"{_MARK}*",))
            if fold(name) != fold(self.table.name)
        ]
        for n, name in enumerate(self._others):
            for change in changes.keys() - {"update"}:
                noted = f"INSERT INTO {CHANGES} (change) VALUES ('{change} elsewhere')"  # noqa: S608
                self._noted(change, named(name), "", noted, f"_{n}")
        self._size_elsewhere = sum(map(self.size, self._others)) if "insert" in changes else None

    def gone_elsewhere(self) -> int:
        gone = self.happened("delete elsewhere")
        if self._size_elsewhere is None:
            return gone
        replaced = self._size_elsewhere + self.happened("insert elsewhere") - gone
        return gone + max(0, replaced - sum(map(self.size, self._others)))

    def stop(self) -> None:
        for name in self._triggers:
            self.session.run(f"DROP TRIGGER temp.{name}")

    def _noted(self, change: str, table: str, when: str, noted: str, suffix: str = "") -> None:
        name = f"playhead_{change}{suffix}"
        self.session.run(
            f"CREATE TEMP TRIGGER {name} AFTER {change} ON main.{table} {when} BEGIN {noted}; END"
        )
        self._triggers.append(name)

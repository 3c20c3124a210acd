"""Counts what triggers of a database did not keep of the rows that were written to a table."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from playhead.sqlite.session import named
from playhead.sqlite.table import REFUSED, Table, keywords
from playhead.tables.json_fields import Row

_CHANGES, _WRITTEN = "playhead_changes", "playhead_written"
# The function of this name replaces texts, not rows.
_REPLACES = re.compile(r"\bREPLACE\b(?!\s*\()", re.IGNORECASE)
_TRIGGERS = "SELECT tbl_name, sql FROM main.sqlite_master WHERE type = 'trigger'"
_FOLLOWED = (
    "SELECT 1 FROM main.sqlite_master m, pragma_foreign_key_list(m.name) f WHERE m.type = 'table' "
    "AND f.\"table\" = ? COLLATE NOCASE AND f.on_update NOT IN ('NO ACTION', 'RESTRICT') LIMIT 1"
)


class KeptRows:
    """The rows of one slice that are not in the table any more, although no statement failed.

    Inserting deletes rows only through triggers: by their own statements, or by foreign keys. Temporary
    triggers, which SQLite fires before others, note each change. None is fired for a row that the
    REPLACE of a trigger deletes: such rows are what the size of the table does not explain.
    """

    def __init__(self, connection: sqlite3.Connection, table: Table) -> None:
        self._connection, self._run, self._table = connection, connection.execute, table
        self._is_keyed = table.rules.on_conflict in ("ignore", "update")
        self._by = [*(table.key if self._is_keyed else table.place)]
        self._keys = ", ".join(f"k{n}" for n in range(len(self._by)))
        self._written: list[Row] = []
        triggers = self._run(_TRIGGERS).fetchall()
        self._watches = any(of.lower() == table.name.lower() for of, _ in triggers)
        if triggers and table.rules.on_conflict == "update":
            # An update may reach the triggers of other tables, whose foreign keys follow it.
            self._watches |= bool(self._run(_FOLLOWED, (table.name,)).fetchall())
        replaces = any(_REPLACES.search(keywords(text)) for _, text in triggers)
        self._before = self._size() if self._watches and replaces else None
        if self._watches:
            self._note_changes()

    def add(self, row: Row) -> None:
        """Remember a row that counts as written."""
        if self._watches:
            self._written.append(row)

    @contextmanager
    def undone_if_refused(self) -> Iterator[None]:
        """Undo what a refused statement has done, which FAIL in a trigger leaves as it is."""
        if not self._watches:
            yield
            return
        self._run("SAVEPOINT playhead_row")
        try:
            yield
        except REFUSED:
            if self._connection.in_transaction:
                self._run("ROLLBACK TO playhead_row")
                self._run("RELEASE playhead_row")
            raise
        self._run("RELEASE playhead_row")

    def missing(self) -> tuple[int, int]:
        """Return how many records have no row now, and how many rows that were there before are gone."""
        if not self._watches:
            return 0, 0
        for change in ("delete", "insert", "update"):
            self._run(f"DROP TRIGGER IF EXISTS temp.playhead_{change}")
        deleted, missing = self._happened("delete"), (0, 0)
        replaced = 0
        if self._before is not None:
            replaced = self._before + self._happened("insert") - deleted - self._size()
        if deleted or replaced > 0:
            replaced = max(0, replaced)
            missing = (
                self._of_keys(replaced) if self._is_keyed else self._of_places(deleted, replaced)
            )
        for name in (_CHANGES, _WRITTEN):
            self._run(f"DROP TABLE IF EXISTS temp.{name}")
        return missing

    def _of_keys(self, replaced: int) -> tuple[int, int]:
        lost = sum(not self._table.has_key_of(self._connection, row) for row in self._written)
        keys, written = self._deleted_and_written()
        same = " AND ".join(f"t.{named(name)} = d.k{n}" for n, name in enumerate(self._by))
        there = f"EXISTS (SELECT 1 FROM main.{named(self._table.name)} t WHERE {same})"  # noqa: S608
        is_own = f"coalesce(({self._keys}) IN ({written}), 0)"
        return lost, self._count(f"({keys}) d WHERE NOT {is_own} AND NOT {there}") + replaced

    def _of_places(self, deleted: int, replaced: int) -> tuple[int, int]:
        # A deleted row counts as one of this slice if it is not known whose it was.
        lost = deleted
        if self._by and not self._happened("update"):
            places, written = self._deleted_and_written()
            same = " AND ".join(f"t.{named(name)} IS w.k{n}" for n, name in enumerate(self._by))
            # Of two rows of one record, the other one may be the one that was deleted.
            is_there = f"EXISTS (SELECT 1 FROM main.{named(self._table.name)} t WHERE {same})"  # noqa: S608
            lost = self._count(
                f"({written}) w WHERE ({self._keys}) IN ({places}) AND NOT {is_there}"
            )
        lost = min(lost + replaced, len(self._written))
        return lost, deleted + replaced - lost

    def _deleted_and_written(self) -> tuple[str, str]:
        """Return the statements that select what identifies the deleted rows, and those written."""
        self._copy(_WRITTEN)
        into = f"INSERT INTO {_WRITTEN} ({self._keys}) VALUES ({', '.join('?' * len(self._by))})"  # noqa: S608
        for row in self._written:
            self._run(into, [row[name] for name in self._by])
        deleted = f"SELECT {self._keys} FROM {_CHANGES} WHERE change = 'delete'"  # noqa: S608
        return deleted, f"SELECT {self._keys} FROM {_WRITTEN}"  # noqa: S608

    def _note_changes(self) -> None:
        self._copy(_CHANGES)
        table = named(self._table.name)
        changes = {"delete": "old"} | ({} if self._before is None else {"insert": "new"})
        if not self._is_keyed:
            changes["update"] = "new"
        for change, row in changes.items():
            values = ", ".join([f"'{change}'", *(f"{row}.{named(name)}" for name in self._by)])
            moved = " OR ".join(f"old.{named(name)} IS NOT new.{named(name)}" for name in self._by)
            when = f"WHEN {moved or 0}" if change == "update" else ""
            noted = f"INSERT INTO {_CHANGES} VALUES ({values})"  # noqa: S608 - quoted names
            self._run(
                f"CREATE TEMP TRIGGER playhead_{change} AFTER {change} ON main.{table} {when} "
                f"BEGIN {noted}; END"
            )

    def _copy(self, name: str) -> None:
        """Create an empty table whose columns convert values as those of the table do."""
        keys = "".join(f", {named(each)} AS k{n}" for n, each in enumerate(self._by))
        self._run(
            f"CREATE TEMP TABLE {name} AS SELECT '' AS change{keys} "  # noqa: S608 - quoted names
            f"FROM main.{named(self._table.name)} LIMIT 0"
        )

    def _happened(self, change: str) -> int:
        return self._count(f"{_CHANGES} WHERE change = '{change}'")

    def _size(self) -> int:
        return self._count(f"main.{named(self._table.name)}")

    def _count(self, of: str) -> int:
        [(count,)] = self._run(f"SELECT count(*) FROM {of}")  # noqa: S608 - quoted names
        return int(count)

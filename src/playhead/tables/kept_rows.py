"""Counts what triggers of a database did not keep of the rows that were written to a table."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from playhead.tables.json_fields import Row
from playhead.tables.row_table import RowTable
from playhead.tables.sql import RowSession, named, numbered

CHANGES = "playhead_changes"
"""The temporary table of changes: the kind of each, then what identifies the row."""
_WRITTEN = "playhead_written"


class KeptRows(ABC):
    """The rows of one slice that are not in the table any more, although no statement failed.

    Inserting deletes rows only through triggers: by their own statements, or by foreign keys. The
    database notes each change that it sees; others are what the size of the table does not explain.
    """

    def __init__(self, session: RowSession, table: RowTable) -> None:
        self.session, self._run, self.table = session, session.run, table
        self._is_keyed = table.rules.on_conflict in ("ignore", "update")
        self.by = [*(table.key if self._is_keyed else table.place)]
        self._keys = ", ".join(f"k{n}" for n in range(len(self.by)))
        self._written: list[Row] = []
        self._watches, deletes_unseen = self.risks()
        self._before = self.size(self.table.name) if deletes_unseen else None
        if self._watches:
            self._copy(CHANGES)
            self._copy(_WRITTEN)
            changes = {"delete": "old"} | ({} if self._before is None else {"insert": "new"})
            self.note(changes if self._is_keyed else changes | {"update": "new"})

    @abstractmethod
    def risks(self) -> tuple[bool, bool]:
        """Return whether inserting may delete rows, and whether it may do so unseen."""

    @abstractmethod
    def note(self, changes: Mapping[str, str]) -> None:
        """Note these changes, each with what identifies its old or new row; an update that moves a row."""

    @abstractmethod
    def gone_elsewhere(self) -> int:
        """Return how many rows of other tables that replays wrote to are gone, by the changes noted."""

    @abstractmethod
    def stop(self) -> None:
        """Note no more changes."""

    def add(self, row: Row) -> None:
        """Remember a row that counts as written."""
        if self._watches:
            self._written.append(row)

    def undone_if_refused(self) -> AbstractContextManager[None]:
        """Undo what a refused statement has done: a trigger may leave it as it is."""
        return self.session.savepoint() if self._watches else nullcontext()

    def missing(self) -> tuple[int, int]:
        """Return how many records have no row now, and how many rows that were there before are gone."""
        if not self._watches:
            return 0, 0
        self.stop()
        deleted, missing, replaced = self.happened("delete"), (0, 0), 0
        if self._before is not None:
            replaced = max(
                0, self._before + self.happened("insert") - deleted - self.size(self.table.name)
            )
        if deleted or replaced:
            missing = (
                self._of_keys(replaced) if self._is_keyed else self._of_places(deleted, replaced)
            )
        lost, also_removed = missing
        also_removed += self.gone_elsewhere()
        self._run(f"DROP TABLE {CHANGES}")
        self._run(f"DROP TABLE {_WRITTEN}")
        return lost, also_removed

    def _of_keys(self, replaced: int) -> tuple[int, int]:
        lost = sum(not self.table.has_key_of(self.session, row) for row in self._written)
        keys, written = self._deleted_and_written()
        is_own = f"coalesce(({self._keys}) IN ({written}), 0)"
        gone = f"({keys}) d WHERE NOT {is_own} AND NOT {self._is_there('=', 'd')}"
        return lost, self._count(gone) + replaced

    def _of_places(self, deleted: int, replaced: int) -> tuple[int, int]:
        # A deleted row counts as one of this slice if it is not known whose it was.
        lost = deleted
        if self.by and not self.happened("update"):
            places, written = self._deleted_and_written()
            # Of two rows of one record, the other one may be the one that was deleted.
            is_there = self._is_there(self.session.is_same, "w")
            lost = self._count(
                f"({written}) w WHERE ({self._keys}) IN ({places}) AND NOT {is_there}"
            )
        lost = min(lost + replaced, len(self._written))
        return lost, deleted + replaced - lost

    def _is_there(self, is_same: str, of: str) -> str:
        """Return the condition that the table has the row that `of` identifies."""
        same = " AND ".join(
            f"t.{named(name)} {is_same} {of}.k{n}" for n, name in enumerate(self.by)
        )
        return f"EXISTS (SELECT 1 FROM {named(self.table.name)} t WHERE {same})"  # noqa: S608

    def _deleted_and_written(self) -> tuple[str, str]:
        """Return the statements that select what identifies the deleted rows, and those written."""
        into = f"INSERT INTO {_WRITTEN} ({self._keys}) VALUES ({numbered(len(self.by))})"  # noqa: S608
        for row in self._written:
            self._run(into, [row[name] for name in self.by])
        deleted = f"SELECT {self._keys} FROM {CHANGES} WHERE change = 'delete'"  # noqa: S608
        return deleted, f"SELECT {self._keys} FROM {_WRITTEN}"  # noqa: S608

    def _copy(self, name: str) -> None:
        """Create an empty table whose columns convert values as those of the table do."""
        keys = "".join(f", {named(each)} AS k{n}" for n, each in enumerate(self.by))
        self._run(
            f"CREATE TEMPORARY TABLE {name} AS SELECT '' AS change{keys} "  # noqa: S608 - quoted names
            f"FROM {named(self.table.name)} LIMIT 0"
        )

    def happened(self, change: str) -> int:
        return self._count(f"{CHANGES} WHERE change = '{change}'")

    def size(self, name: str) -> int:
        return self._count(named(name))

    def _count(self, of: str) -> int:
        [(count,)] = self._run(f"SELECT count(*) FROM {of}")  # noqa: S608 - quoted names
        return int(count)

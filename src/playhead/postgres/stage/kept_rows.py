"""Counts what triggers and rules of a table, or its policies, did not keep of what was merged into it."""

from collections.abc import Mapping, Sequence

from playhead.errors import Refused
from playhead.ledger import ALSO_REMOVED, NOT_KEPT
from playhead.postgres.errors import RightMissing
from playhead.postgres.merge_sql import MergeSql
from playhead.postgres.open_table import OpenTable
from playhead.postgres.session import Session
from playhead.postgres.table import Table

NOT_DELETED = "not_deleted"
_REMOVED = "removed"
_ELSEWHERE = "elsewhere"
_NOT_INSERTED, _NOT_UPDATED = "not_inserted", "not_updated"
# Partitions, and tables that inherit from one: a statement deletes their rows, too, and a rule may write there what is
# read through the table.
_CHANGED = """
WITH RECURSIVE down AS (
    SELECT {oid}::oid AS oid
    UNION SELECT i.inhrelid FROM down JOIN pg_catalog.pg_inherits i ON i.inhparent = down.oid
) SELECT coalesce(pg_catalog.sum(pg_catalog.pg_stat_get_xact_tuples_{change}(oid)), 0)::int8 FROM down
"""


class KeptRows:
    """The rows of one slice that are not in the table as they should be, although no statement failed."""

    def __init__(self, session: Session, table: OpenTable) -> None:
        self._session, self._table = session, table.layout.table
        self.may_drop = self._table.may_drop_rows
        self.may_remove = self.may_drop or self._table.cascades
        """Whether the deletion or update of rows may delete others."""
        self.may_wait = self.may_remove or self._table.has_deferred
        """Whether something may wait for the commit: triggers may set off deferred ones of other tables."""

    def changes(self) -> tuple[int, int]:
        """Return how many rows of the table this transaction has deleted and, with rules, inserted."""
        count_deletions(self._session, self._table)
        oid = self._table.oid
        (count,) = self._session.one(_CHANGED.format(oid=oid, change="deleted"), kinds=[int])
        inserted = 0
        if self._table.may_write_elsewhere:
            (inserted,) = self._session.one(
                _CHANGED.format(oid=oid, change="inserted"), kinds=[int]
            )
        return int(count), int(inserted)

    def changed_since(self, before: tuple[int, int], found: Mapping[str, int]) -> dict[str, int]:
        """Return how many rows a statement has deleted beside those that it names, or written elsewhere."""
        now = self.changes()
        removed, inserted = now[0] - before[0], now[1] - before[1]
        if "deleted" in found:
            return {ALSO_REMOVED: max(0, removed - found["deleted"])}
        if not self._table.may_write_elsewhere:
            return {_REMOVED: removed}
        return {_REMOVED: removed, _ELSEWHERE: max(0, found["inserted"] - inserted)}

    def not_deleted(self, merge: MergeSql) -> int:
        """Return how many keys are still there after the deletion of their rows."""
        if not self.may_drop and not self._table.has_row_security:
            return 0
        return int(self._session.one(merge.still_there(), kinds=[int])[0])

    def outcome(
        self, merge: MergeSql, found: Mapping[str, int], counts: Mapping[str, int]
    ) -> dict[str, int]:
        """Return what was inserted, updated and left alone, without what was not kept, and the number of that.

        Rows that were there before and are gone are counted apart.
        """
        left, elsewhere = found["left_alone"], counts.get(_ELSEWHERE, 0)
        found = {**found, "inserted": found["inserted"] - elsewhere}
        dropped, gone = self._dropped(merge, found, counts) if self.may_drop else (0, 0)
        not_kept = dropped + gone + elsewhere + counts.get(NOT_DELETED, 0)
        also = counts.get(ALSO_REMOVED, 0) + counts.get(_REMOVED, 0) - gone
        others = {ALSO_REMOVED: also} if also else {}
        if not not_kept and not (left and self.may_drop):
            return {**found, **others}
        inserted = max(0, found["inserted"] - gone)
        updated = found["updated"] - (gone - (found["inserted"] - inserted))
        return {
            "inserted": inserted,
            "updated": updated,
            "left_alone": left - dropped,
            NOT_KEPT: not_kept,
            **others,
        }

    def _dropped(
        self, merge: MergeSql, found: Mapping[str, int], counts: Mapping[str, int]
    ) -> tuple[int, int]:
        """Return how many rows were not written, and how many were written and deleted at once."""
        left, removed = found["left_alone"], counts.get(_REMOVED, 0)
        written = found["inserted"] + found["updated"]
        if not merge.key or merge.rule in (None, "error"):
            # Without keys, no row can be looked for.
            return left, min(removed, written)
        if not left and not removed:
            return 0, 0
        if merge.answers_counts:
            not_inserted = counts.get(_NOT_INSERTED, 0)
            gone = max(0, self._not_there(merge) - not_inserted) if removed else 0
            return min(left, not_inserted + counts.get(_NOT_UPDATED, 0)), min(gone, written)
        not_there = self._not_there(merge)
        gone = min(removed, not_there, written)
        return min(left, not_there - gone), gone

    def _not_there(self, merge: MergeSql) -> int:
        return int(self._session.one(merge.not_there(), kinds=[int])[0])


def count_deletions(session: Session, table: Table) -> None:
    """Let the server count the rows that this transaction deletes; refuse a role that may not do that."""
    is_off = "NOT pg_catalog.current_setting('track_counts')::bool"
    try:
        session.run(f"SELECT pg_catalog.set_config('track_counts', 'on', true) WHERE {is_off}")
    except RightMissing as exc:
        raise Refused(
            f"triggers, rules or foreign keys of {table.place} may delete rows, and PostgreSQL does not count them: "
            "track_counts is off for this user",
            hint="ALTER ROLE … SET track_counts = on; or, from PostgreSQL 15: GRANT SET ON PARAMETER "
            "track_counts TO …",
        ) from exc


def unmet(found: Mapping[str, int], due: Sequence[int]) -> dict[str, int]:
    """Return how many rows a statement did not insert, or change, that it should have; nothing if not counted."""
    if not due:
        return {}
    new, changed = due
    # Another program's commit in between can make more of one kind than was counted.
    return {
        _NOT_INSERTED: max(0, new - found["inserted"]),
        _NOT_UPDATED: max(0, changed - found["updated"]),
    }

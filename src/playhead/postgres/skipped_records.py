"""Checks skipped records again: whether the table would still refuse them."""

from playhead.account import Account, ErrorRule
from playhead.ledger import Entry
from playhead.postgres.merge_sql import EXPECTED, named
from playhead.postgres.open_table import OpenTable
from playhead.postgres.rows.decode import ORDER
from playhead.postgres.session import CopySession
from playhead.postgres.stage.stage import Stage
from playhead.records import Records


class Skipped:
    """The records of one slice that were refused and skipped, according to the ledger.

    A refusal is confirmed if the record cannot be decoded or parsed, or has the key of an existing row under
    a rule that refuses those. The refusal of a constraint or a trigger cannot be checked without writing. A
    dead letter carries its own reason.
    """

    def __init__(self, session: CopySession, table: OpenTable, entry: Entry) -> None:
        self._session, self._table, self._entry = session, table, entry

    def unshown(self, whole: Records) -> list[int]:
        """Return the offsets of records that nothing here refuses."""
        if not self._entry.skipped:
            return []
        refused = set(self._entry.details.get("refused", ()))
        indexes = [i for i, offset in enumerate(whole.offsets) if offset in refused]
        if not indexes:
            return []
        records = whole.pick(indexes)
        account = Account(self._entry.slice, ErrorRule("skip"))
        decoded = self._table.decode(records, account)
        with self._session.undone():
            stage = Stage(self._session, self._table, decoded, records, account)
            stage.fill()
            stage.expect()
            met = self._met(stage) if self._table.habits.rule == "error" else set()
        shown = met | account.refused_offsets
        return [offset for offset in records.offsets if offset not in shown]

    def _met(self, stage: Stage) -> set[int]:
        """Return the records whose key the table has."""
        names = {each.name for each in stage.merge.fields}
        keys = [
            each.columns for each in self._table.layout.table.keys if set(each.columns) <= names
        ]
        found = set()
        for key in keys:
            same = " AND ".join(f"t.{named(name)} = e.{named(name)}" for name in key)
            there = f"EXISTS (SELECT FROM {self._table.place.quoted} t WHERE {same})"
            statement = f"SELECT e.{named(ORDER)} FROM {EXPECTED} e WHERE {there}"  # noqa: S608
            found |= {row[0] for row in self._session.rows(statement, kinds=[int])}
        return found

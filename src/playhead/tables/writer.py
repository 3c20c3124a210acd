"""Writes rows one by one, with the ledger's entry, for a database that commits both in one transaction."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from playhead.account import Account, ErrorRule
from playhead.errors import PlayheadError
from playhead.extra_fields import ExtraFields
from playhead.host.faults import abort_point
from playhead.json_objects import REPEATED
from playhead.ledger import ALSO_REMOVED, MOST_REFUSED, NOT_KEPT, Entry
from playhead.record import Slice
from playhead.records import Records
from playhead.tables.column_names import fold
from playhead.tables.columns import TOPIC
from playhead.tables.compare import Comparison
from playhead.tables.final_rows import FinalRows
from playhead.tables.ledger import OtherReplays, ledger_of
from playhead.tables.row_table import RowTable, WrittenRow, whereto_of
from playhead.tables.sql import RowSession
from playhead.tables.sql_rows import SqlRows
from playhead.target import SliceComparison, Writer
from playhead.terms import NotBegunThere, refuse_other_place
from playhead.written_rows import columns_filled, columns_written

if TYPE_CHECKING:
    from playhead.tables.target import RowTarget

CONVERTED = "with_converted_values"


class RowWriter(Writer):
    """Writes the slices of one replay through one connection."""

    def __init__(self, target: "RowTarget", session: RowSession, replay_id: str) -> None:
        self._target, self._session, self._replay_id = target, session, replay_id
        self._ledger = target.ledger(session)
        self._others = OtherReplays(session, ledger_of(session), replay_id)
        self._finals: dict[str, FinalRows] = {}

    def commit(self, account: Account, records: Iterable[Records], /) -> None:
        topic = account.slice.topic
        table = self._look_up(topic)
        # Read all records before the database is locked, because a source may be slow.
        rows = [*table.rows(account, records)]
        with self._session.transaction():
            now = self._look_up(topic)
            terms = self._target.replays(self._session).get(self._replay_id)
            if terms is None:
                raise NotBegunThere(self._replay_id, where=self._target.where)
            refuse_other_place(self._replay_id, terms, topic, whereto_of(now.name, now))
            self._ledger.admit(self._replay_id, account, is_ordered=self._target.is_ordered)
            insert = (
                self._insert_deferred
                if self._target.has_deferred_keys(self._session, table)
                else self._insert
            )
            details = insert(table, account, rows)
            abort_point("tables.rows_written")
            self._ledger.add(self._replay_id, account.close(details))
            abort_point("tables.entry_written")
        abort_point("tables.committed")

    def compare(self, entry: Entry, records: Iterable[Records], /) -> SliceComparison | None:
        table = self._look_up(entry.slice.topic)
        account = Account(entry.slice, ErrorRule("skip"))
        rows = [*table.rows(account, records)]
        refused = [*account.refused_offsets]
        extra_fields = ExtraFields.counted(each.left_out for each in rows)
        filled = columns_filled(entry)
        wanted = ((each.record, table.stored(each.row, filled)) for each in rows if each.row)
        shared_with = self._shared_with(table, entry.slice)
        if not table.keeps_one_of_a_key:
            why = "the table has no _partition and _offset"
            if table.place:
                shared = "rows of another topic may have its offset, and the table has no _topic"
                why = shared if shared_with else ""
            comparison = Comparison(self._others, SqlRows(self._session, table), entry, why)
            return comparison.findings(wanted, extra_fields, refused)
        if table.name not in self._finals:
            rows_there, number = SqlRows(self._session, table), len(self._finals)
            self._finals[table.name] = FinalRows(self._others, rows_there, number)
        is_shared = bool(shared_with - {self._replay_id})
        finals = self._finals[table.name]
        finals.add(entry, wanted, extra_fields, refused, is_shared=is_shared)
        return None

    def conclude(self) -> Sequence[SliceComparison]:
        finals, self._finals = self._finals, {}
        return [finding for each in finals.values() for finding in each.findings()]

    def _shared_with(self, table: RowTable, slice_: Slice) -> set[str]:
        """Return the replays that wrote, or may have written, another topic's rows with offsets of a slice to a table
        whose rows do not name their topic.
        """
        if not table.place or TOPIC in table.place:
            return set()
        replays, found = self._target.replays(self._session), set()
        for replay_id, topic in self._others.beside(slice_):
            terms = replays.get(replay_id)
            place = None if terms is None else terms.places.get(topic)
            if place is None or fold(place.name) == fold(whereto_of(table.name, table).name):
                found.add(replay_id)
        return found

    def _look_up(self, topic: str) -> RowTable:
        """Return a topic's table as it is now."""
        return self._target.there(self._session, topic)

    def _insert_deferred(
        self, table: RowTable, account: Account, rows: Sequence[WrittenRow]
    ) -> dict[str, Any]:
        """Insert the rows, and find those that the database would refuse only when it commits."""
        while True:
            self._session.run("SAVEPOINT playhead_slice")
            details = self._insert(table, account, rows)
            refused = account.refused_offsets
            written = [each for each in rows if each.row and each.record.offset not in refused]
            unmet = self._target.unmet(self._session, table, written)
            if not unmet:
                self._session.run("RELEASE playhead_slice")
                return details
            self._session.run("ROLLBACK TO playhead_slice")
            for each in unmet:
                reason = f"table {table.name}: it refers to a row that does not exist"
                account.refuse(each.record, kind="reference", reason=reason)
            left = account.refused_offsets
            rows = [each for each in rows if each.record.offset not in left]

    def _insert(
        self, table: RowTable, account: Account, rows: Sequence[WrittenRow]
    ) -> dict[str, Any]:
        session, dropped, left_alone = self._session, 0, 0
        kept = self._target.kept_rows(session, table)
        for record, row, *_ in rows:
            try:
                # A trigger or a constraint's own ON CONFLICT IGNORE may drop a row; `ignore` leaves out
                # rows whose key exists.
                if not row:
                    continue
                with kept.undone_if_refused():
                    count = session.count(table.insert([*row]), [*row.values()])
                if count:
                    kept.add(row)
                elif table.rules.on_conflict == "ignore" and table.has_key_of(session, row):
                    kept.add(row)
                    left_alone += 1
                else:
                    dropped += 1
            except session.refusals as exc:
                # ON CONFLICT ROLLBACK and RAISE(ROLLBACK) also undo the rows before this one.
                if not session.in_transaction:
                    hint = "let the table or its trigger ABORT instead; then `--on-error` decides"
                    text = f"table {table.name} ended the transaction of a slice: {exc}"
                    raise PlayheadError(text, hint=hint) from exc
                account.refuse(record, kind="constraint", reason=f"table {table.name}: {exc}")
        skipped = sum(not each.row for each in rows)
        lost, also_removed = kept.missing()
        dropped += lost
        refused = account.refused_offsets
        written = [each for each in rows if each.record.offset not in refused]
        counts = {NOT_KEPT: dropped, "dropped": dropped, "tombstones_skipped": skipped}
        counts |= {"left_alone": left_alone, ALSO_REMOVED: also_removed}
        values = (each.row for each in written)
        counts[CONVERTED] = self._target.count_converted(session, table, values)
        counts[REPEATED] = sum(each.repeats for each in written)
        return _details_of(table, account, written, counts)


def _details_of(
    table: RowTable, account: Account, kept: Sequence[WrittenRow], counts: Mapping[str, int]
) -> dict[str, Any]:
    """Return the details of an entry: counts other than 0, refused records, extra fields and filled columns."""
    listed = {"refused": sorted(account.refused_offsets)[:MOST_REFUSED]}
    found = {name: each for name, each in {**counts, **listed}.items() if each}
    extra = ExtraFields.counted(each.left_out for each in kept)
    filled = sorted({name for each in kept for name in each.row})
    there = table.there  # each call makes one
    columns = columns_written({name: there[name] for name in filled})
    return found | extra.as_details() | columns

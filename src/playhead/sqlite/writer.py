"""Commits the slices of one replay to SQLite, and compares them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from playhead.account import Account, ErrorRule
from playhead.errors import PlayheadError
from playhead.extra_fields import ExtraFields
from playhead.host.faults import abort_point
from playhead.ledger import ALSO_REMOVED, MOST_REFUSED, NOT_KEPT, Entry
from playhead.record import Record
from playhead.records import Records
from playhead.sqlite.affinity import CONVERTED, count_of
from playhead.sqlite.compare import Comparison
from playhead.sqlite.final_rows import FinalRows
from playhead.sqlite.kept_rows import KeptRows
from playhead.sqlite.ledger import Ledger
from playhead.sqlite.session import transaction
from playhead.sqlite.table import REFUSED, Row, Table
from playhead.target import SliceComparison, Writer
from playhead.terms import OtherTerms, Whereto, differing_place
from playhead.written_rows import columns_written

WrittenRow = tuple[Record, Row, tuple[str, ...]]
"""A record, the values of the columns that it fills, and its fields that no column takes."""


class SqliteWriter(Writer):
    """Writes through one connection; `look_up` returns a topic's table as it is now."""

    def __init__(self, ledger: Ledger, look_up: Callable[[str], tuple[Table, Whereto]]) -> None:
        self._ledger, self._look_up = ledger, look_up
        self._finals: dict[str, FinalRows] = {}

    def commit(self, account: Account, records: Iterable[Records], /) -> None:
        topic = account.slice.topic
        table, _ = self._look_up(topic)
        # Read all records before the file is locked, because a source may be slow.
        rows = [*_rows(table, account, records)]
        with transaction(self._ledger.connection):
            terms, (_, whereto) = self._ledger.terms(), self._look_up(topic)
            if difference := differing_place(terms.places.get(topic) if terms else None, whereto):
                raise OtherTerms(self._ledger.replay_id, differences=[difference])
            self._ledger.refuse(account)
            details = self._insert(table, account, rows)
            refused = account.refused_offsets
            names = {
                name for record, row, _ in rows if record.offset not in refused for name in row
            }
            details |= columns_written({each: table.there[each] for each in sorted(names)})
            abort_point("sqlite.rows_written")
            self._ledger.add(account.close(details))
            abort_point("sqlite.entry_written")
        abort_point("sqlite.committed")

    def compare(self, entry: Entry, records: Iterable[Records], /) -> SliceComparison | None:
        table, _ = self._look_up(entry.slice.topic)
        account = Account(entry.slice, ErrorRule("skip"))
        rows = [*_rows(table, account, records)]
        refused = tuple(account.refused_offsets)
        extra_fields = ExtraFields.counted(names for *_, names in rows)
        wanted = ((record, row) for record, row, _ in rows if row)
        if table.keeps_one_of_a_key:
            number = len(self._finals)
            if table.name not in self._finals:
                self._finals[table.name] = FinalRows(self._ledger, table, number)
            self._finals[table.name].add(entry, wanted, extra_fields, refused)
            return None
        found = Comparison(self._ledger, table, entry).findings(wanted)
        return replace(found, extra_fields=extra_fields, refused=(*refused, *found.refused))

    def conclude(self) -> Sequence[SliceComparison]:
        finals, self._finals = self._finals, {}
        return [finding for each in finals.values() for finding in each.findings()]

    def _insert(self, table: Table, account: Account, rows: Sequence[WrittenRow]) -> dict[str, Any]:
        connection, dropped, left_alone = self._ledger.connection, 0, 0
        kept = KeptRows(connection, table)
        for record, row, _ in rows:
            try:
                # A trigger or a constraint's own ON CONFLICT IGNORE may drop a row; `ignore` leaves out
                # rows whose key exists.
                if not row:
                    continue
                with kept.undone_if_refused():
                    count = connection.execute(table.insert([*row]), [*row.values()]).rowcount
                if count:
                    kept.add(row)
                elif table.rules.on_conflict == "ignore" and table.has_key_of(connection, row):
                    kept.add(row)
                    left_alone += 1
                else:
                    dropped += 1
            except REFUSED as exc:
                # ON CONFLICT ROLLBACK and RAISE(ROLLBACK) also undo the rows before this one.
                if not connection.in_transaction:
                    hint = "let the table or its trigger ABORT instead; then `--on-error` decides"
                    text = f"table {table.name} ended the transaction of a slice: {exc}"
                    raise PlayheadError(text, hint=hint) from exc
                account.refuse(record, kind="constraint", reason=f"table {table.name}: {exc}")
        skipped = sum(not row for _, row, _ in rows)
        lost, also_removed = kept.missing()
        dropped += lost
        counts = {NOT_KEPT: skipped + dropped, "dropped": dropped}
        counts |= {"left_alone": left_alone, ALSO_REMOVED: also_removed}
        refused_offsets = account.refused_offsets
        listed = {"refused": sorted(refused_offsets)[:MOST_REFUSED]}
        extra = ExtraFields.counted(
            names for record, _, names in rows if record.offset not in refused_offsets
        )
        written = (row for record, row, _ in rows if record.offset not in refused_offsets)
        counts[CONVERTED] = count_of(connection, table.name, written)
        found = {name: each for name, each in (counts | listed).items() if each}
        return found | extra.as_details()


def _rows(table: Table, account: Account, records: Iterable[Records]) -> Iterator[WrittenRow]:
    """Yield each writable record with its values; a skipped tombstone has no values."""
    for part in records:
        for record, value in zip(part, part.readable, strict=True):
            is_skipped = value is None and table.rules.tombstones == "skip"
            try:
                yield record, *(({}, ()) if is_skipped else table.row(record, value))
            except (ValueError, RecursionError) as exc:
                account.refuse(record, kind="value", reason=str(exc) or "it is nested too deeply")

"""Commits the slices of one replay to SQLite."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from playhead.account import Account
from playhead.errors import PlayheadError
from playhead.host.faults import abort_point
from playhead.ledger import ALSO_REMOVED, NOT_KEPT
from playhead.records import Records
from playhead.sqlite.affinity import CONVERTED, count_of
from playhead.sqlite.compared_rows import SqliteRows
from playhead.sqlite.kept_rows import KeptRows
from playhead.sqlite.ledger import Ledger
from playhead.sqlite.session import transaction
from playhead.sqlite.table import REFUSED, Table
from playhead.tables.row_table import WrittenRow, whereto_of
from playhead.tables.writer import RowWriter, details_of, kept_of
from playhead.terms import refuse_other_place


class SqliteWriter(RowWriter[Table]):
    """Writes rows and the ledger entry of a slice in one transaction."""

    def __init__(self, ledger: Ledger, look_up: Callable[[str], Table]) -> None:
        super().__init__(ledger, look_up, partial(SqliteRows, ledger.connection))
        self._ledger, self._connection = ledger, ledger.connection

    def commit(self, account: Account, records: Iterable[Records], /) -> None:
        topic = account.slice.topic
        table = self._look_up(topic)
        # Read all records before the file is locked, because a source may be slow.
        rows = [*table.rows(account, records)]
        with transaction(self._connection):
            now, replay_id = self._look_up(topic), self._ledger.replay_id
            place = whereto_of(now.name, now)
            refuse_other_place(replay_id, self._ledger.terms(), topic, place)
            self._ledger.refuse(account)
            details = self._insert(table, account, rows)
            abort_point("sqlite.rows_written")
            self._ledger.add(account.close(details))
            abort_point("sqlite.entry_written")
        abort_point("sqlite.committed")

    def _insert(self, table: Table, account: Account, rows: Sequence[WrittenRow]) -> dict[str, Any]:
        connection, dropped, left_alone = self._connection, 0, 0
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
        written = kept_of(account, rows)
        counts = {NOT_KEPT: skipped + dropped, "dropped": dropped}
        counts |= {"left_alone": left_alone, ALSO_REMOVED: also_removed}
        counts[CONVERTED] = count_of(connection, table.name, (row for _, row, _ in written))
        return details_of(table, account, written, counts)

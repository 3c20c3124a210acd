"""Commits slices to a table: rows and ledger entry in one transaction, directly or by a stage."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from playhead.account import Account
from playhead.faults import abort_point
from playhead.ledger import Entry
from playhead.postgres.compare import Comparison
from playhead.postgres.decode import Decoded
from playhead.postgres.failures import UNIQUE_VIOLATION, DataError, StatementRefused
from playhead.postgres.ledger import Ledger
from playhead.postgres.session import Session
from playhead.postgres.staging import Stage
from playhead.postgres.tables import OpenTable, copied
from playhead.record import Slice
from playhead.records import Records
from playhead.target import Findings

# After so many slices in which nothing collided, the direct way is tried again.
_CLEAN_ENOUGH = 8
# More of them would be a ledger of dead letters, which is not its business.
_MOST_REFUSED = 10_000


@dataclass(slots=True)
class Course:
    """Which way the next slices of a table go."""

    staged_left: int = 0
    """How many more slices go by the stage before the direct way is tried again."""

    def collided(self) -> None:
        self.staged_left = _CLEAN_ENOUGH

    def was_clean(self) -> None:
        self.staged_left = max(0, self.staged_left - 1)


class PostgresWriter:
    """An open target: one connection, one replay."""

    def __init__(
        self,
        session: Session,
        ledger: Ledger,
        replay_id: str,
        table_of: Callable[[str], OpenTable],
    ) -> None:
        self._session, self._ledger, self._replay_id = session, ledger, replay_id
        self._table_of = table_of
        self._courses: dict[str, Course] = {}

    def commit(self, account: Account, records: Iterable[Records], /) -> None:
        slice_ = account.slice
        whole = gathered(slice_, records)
        table = self._table_of(slice_.topic)
        course = self._courses.setdefault(slice_.topic, Course())
        decoded = table.decode(whole, account)
        if course.staged_left == 0 and table.may_go_directly(decoded):
            try:
                self._directly(table, decoded, account)
                return
            except DataError as exc:
                # Some value, or a row that is there already: the stage finds out whose.
                if exc.sqlstate == UNIQUE_VIOLATION:
                    course.collided()
        details = self._by_stage(table, decoded, whole, account)
        if details["updated"] or details["left_alone"]:
            course.collided()
        else:
            course.was_clean()

    def compare(self, entry: Entry, records: Iterable[Records], /) -> Findings:
        table = self._table_of(entry.slice.topic)
        whole = gathered(entry.slice, records)
        return Comparison(self._session, self._ledger, self._replay_id, table, entry).findings(
            whole
        )

    def _directly(self, table: OpenTable, decoded: Decoded, account: Account) -> None:
        with self._session.transaction():
            self._ledger.refuse_overlap(self._replay_id, account.slice)
            table.refuse_change(self._session)
            abort_point("postgres.direct.begun")
            if decoded.rows:
                self._session.copy(table.place, copied(decoded))
            abort_point("postgres.direct.copied")
            self._close(
                account, {"way": "direct", "inserted": decoded.rows} | table.remarks(decoded)
            )
        abort_point("postgres.direct.committed")

    def _by_stage(
        self, table: OpenTable, decoded: Decoded, whole: Records, account: Account
    ) -> dict[str, Any]:
        try:
            with self._session.transaction():
                self._ledger.refuse_overlap(self._replay_id, account.slice)
                table.refuse_change(self._session)
                abort_point("postgres.stage.begun")
                stage = Stage(self._session, table, decoded, whole, account)
                details = {"way": "staged"} | stage.write() | table.remarks(decoded)
                abort_point("postgres.stage.merged")
                self._close(account, details)
        except DataError as exc:
            # Nobody's value: a constraint of another table, or one that came with the commit.
            raise StatementRefused(
                self._session.where, sqlstate=exc.sqlstate, reason=exc.reason
            ) from exc
        abort_point("postgres.stage.committed")
        return details

    def _close(self, account: Account, details: dict[str, Any]) -> None:
        refused = sorted(account.refused_offsets)
        if refused:
            # So that `compare` need not find out again what only the whole table could tell.
            details["refused"] = refused[:_MOST_REFUSED]
        entry = account.close(details)
        abort_point("postgres.closed")
        self._ledger.add(self._replay_id, entry)
        abort_point("postgres.ledger.added")


def gathered(slice_: Slice, runs: Iterable[Records]) -> Records:
    """All records of a slice as one run; held in memory, as whoever gives them bounds them."""
    whole = Records(slice_.topic, slice_.partition)
    for run in runs:
        whole.offsets += run.offsets
        whole.timestamps_ms += run.timestamps_ms
        whole.timestamp_types += run.timestamp_types
        whole.keys += run.keys
        whole.values += run.values
        whole.headers += run.headers
    return whole

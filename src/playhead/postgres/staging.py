"""Brings a slice's rows in by a temporary table, and finds the records that the server refuses."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from playhead.account import Account
from playhead.errors import PlayheadError
from playhead.faults import abort_point
from playhead.postgres.conflict import STAGE, TEXTS, Merge
from playhead.postgres.decode import ORDER, Decoded
from playhead.postgres.failures import UNIQUE_VIOLATION, DataError
from playhead.postgres.session import Session
from playhead.postgres.tables import OpenTable
from playhead.records import Records

_KINDS = {
    "22001": "too_long",
    "22003": "out_of_reach",
    "22021": "nul",
    "22P02": "type",
    "22P05": "utf8",
    "22007": "type",
    "22008": "type",
    "23502": "null",
    "23503": "reference",
    UNIQUE_VIOLATION: "conflict",
    "23514": "check",
}


class ConflictFound(PlayheadError):
    """A record meets a row that is there already, and nobody said what then."""

    def __init__(self, place: str, *, table: str, reason: str) -> None:
        self.place, self.table, self.reason = place, table, reason
        super().__init__(
            f"{place} meets a row that table {table} has already: {reason}",
            hint="say what then: --on-conflict ignore, newer, update or error",
        )


class Stage:
    """One slice in temporary tables, inside the transaction of its commit."""

    def __init__(
        self,
        session: Session,
        table: OpenTable,
        decoded: Decoded,
        whole: Records,
        account: Account,
    ) -> None:
        self._session, self._table, self._decoded = session, table, decoded
        self._whole, self._account = whole, account
        self._merge: Merge = table.merge(decoded)
        self._counts: Counter[str] = Counter()

    def write(self) -> dict[str, Any]:
        """Rows into the table; says how many were inserted, updated and left alone."""
        self._fill()
        abort_point("postgres.stage.copied")
        orders = self._orders(STAGE)
        self._each(self._merge.insert(), orders, self._count_written)
        staged = len(orders) - self._counts["refused"]
        written = self._counts["inserted"] + self._counts["updated"]
        return {
            "inserted": self._counts["inserted"],
            "updated": self._counts["updated"],
            "left_alone": max(0, staged - written),
        }

    def _fill(self) -> None:
        decoded = self._decoded
        self._session.run(self._merge.create_stage())
        if len(decoded.ready):
            self._session.copy_aside(STAGE, decoded.ready)
        if decoded.loose is None:
            return
        as_text = [each for each in decoded.fields if each in self._table.layout.values]
        self._session.run(self._merge.create_texts(as_text))
        self._session.copy_aside(TEXTS, decoded.loose)
        self._each(self._merge.read_texts(as_text), self._orders(TEXTS), None)
        self._counts.clear()

    def _orders(self, table: str) -> list[int]:
        found = self._session.run(f'SELECT "{ORDER}" FROM {table} ORDER BY 1')  # noqa: S608 - ours
        return [row[0] for row in found]

    def _each(
        self,
        statement: str,
        orders: Sequence[int],
        count: Callable[[str, int, int], None] | None,
    ) -> None:
        """Run it for all records; where the server refuses, for fewer, until one is left to refuse."""
        if not orders:
            return
        try:
            with self._session.savepoint():
                (count or self._only_run)(statement, orders[0], orders[-1])
        except DataError as exc:
            if len(orders) == 1:
                self._refuse(orders[0], exc)
                return
            half = len(orders) // 2
            self._each(statement, orders[:half], count)
            self._each(statement, orders[half:], count)

    def _only_run(self, statement: str, first: int, last: int) -> None:
        self._session.run(statement, (first, last))

    def _count_written(self, statement: str, first: int, last: int) -> None:
        if self._merge.rule in ("update", "newer"):
            [(inserted, written)] = self._session.run(statement, (first, last))
        else:
            inserted = written = self._session.count(statement, (first, last))
        self._counts["inserted"] += inserted
        self._counts["updated"] += written - inserted

    def _refuse(self, order: int, error: DataError) -> None:
        record = self._whole.record(self._whole.offsets.index(order))
        if error.sqlstate == UNIQUE_VIOLATION and self._merge.rule is None:
            place = f"{record.topic}:{record.partition} offset {record.offset}"
            raise ConflictFound(place, table=str(self._merge.place), reason=error.reason)
        self._counts["refused"] += 1
        kind = _KINDS.get(error.sqlstate, "check" if error.sqlstate[:2] == "23" else "type")
        self._account.refuse(record, kind=kind, reason=error.reason)

"""Writes a slice's rows through a temporary table, and finds the records that the server refuses."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import pyarrow as pa

from playhead.account import Account
from playhead.errors import PlayheadError
from playhead.host.faults import abort_point
from playhead.postgres.answers import AnswerMisformed
from playhead.postgres.errors import (
    UNIQUE_VIOLATION,
    DataError,
    RightMissing,
    StatementRefused,
    kind_of,
    of_a_record,
)
from playhead.postgres.merge_sql import AT, GONE, GONE_TEXTS, STAGE, TEXTS, MergeSql, named
from playhead.postgres.open_table import OpenTable
from playhead.postgres.rows.decode import ORDER, Decoded
from playhead.postgres.rows.metadata_columns import microseconds_of
from playhead.postgres.rows.record_key import key_texts
from playhead.postgres.rows.text_format import Bad
from playhead.postgres.session import CopySession
from playhead.postgres.stage import invalid_rows
from playhead.postgres.stage.kept_rows import NOT_DELETED, KeptRows, unmet
from playhead.postgres.stage.latest_records import Latest, Statements
from playhead.records import Records

Statement = Callable[[int, int], str]
"""Returns the statement for the records between two offsets."""
Run = Callable[[str], Mapping[str, int]]
"""Runs a statement, and returns what to count."""

# With this many parts, scanning all rows for each takes longer than an index.
_INDEXED_FROM = 8
_MOST_DOUBTED = 100
# A row that refers to one of a later record.
_REFERENCE = "23503"


class _Undone(Exception):
    """Raised to undo a trial whose result is known."""


class ConflictFound(PlayheadError):
    """A record has the key of an existing row, and `--on-conflict` was not given."""

    def __init__(self, place: str, *, table: str, reason: str) -> None:
        self.place, self.table, self.reason = place, table, reason
        super().__init__(
            f"{place} has the key of an existing row in table {table}: {reason}",
            hint="--on-conflict ignore leaves the row, newer or update change it, error rejects the record",
        )


class Stage:
    """One slice in temporary tables, in the transaction of its commit."""

    def __init__(
        self,
        session: CopySession,
        table: OpenTable,
        decoded: Decoded,
        whole: Records,
        account: Account,
        merge: MergeSql | None = None,
    ) -> None:
        self._session, self._table, self._decoded = session, table, decoded
        self._whole, self._account = whole, account
        self._kept = KeptRows(session, table)
        self._watched = [self._inserted, self._deleted] if self._kept.may_remove else []
        self.merge = replace(
            merge or table.merge(decoded),
            source=(whole.topic, whole.partition),
            counts_due=self._kept.may_drop,
        )
        self.has_tombstones = table.habits.tombstones == "delete" and bool(decoded.tombstones)
        self._counts: Counter[str] = Counter()
        self._waiting: dict[int, DataError] = {}
        self._bad: dict[int, DataError] = {}
        self._has_passed = False

    def write(self) -> dict[str, int]:
        """Write the rows; return how many were inserted, updated, left alone and deleted."""
        self.fill()
        abort_point("postgres.stage.copied")
        latest = self._table.latest
        if latest is not None:
            self._mind_latest(latest)
        elif self.has_tombstones:
            self._delete()
            self._supersede()
        for merge in self._parts():
            self._apply(merge.insert, STAGE, self._sweeps(), run=self._inserted)
        if latest is not None and latest.keeps_rows(self._whole.partition):
            self._session.run(self._of(latest).keep_rows())
            abort_point("postgres.latest.rows_kept")
        counts = self._counts
        written = counts["inserted"] + counts["updated"]
        left = self._decoded.rows - counts["refused"] - counts["superseded"] - written
        found = {"inserted": counts["inserted"], "updated": counts["updated"], "left_alone": left}
        found = self._kept.outcome(self.merge, found, counts)
        if self.has_tombstones:
            found["deleted"] = counts["deleted"]
        if counts[NOT_DELETED]:
            found[NOT_DELETED] = counts[NOT_DELETED]
        if self.has_tombstones or counts["superseded"]:
            found["superseded"] = counts["superseded"]
        return found

    def _mind_latest(self, latest: Latest) -> None:
        """Under `newer`: remove records for which a later one is known, although no row says so."""
        statements = self._of(latest)
        latest.lock()
        if self.has_tombstones:
            self._session.run(statements.outdated_tombstones())
            self._delete()
            self._session.run(statements.keep_tombstones())
            abort_point("postgres.latest.tombstones_kept")
        self._apply(statements.outdated, STAGE, self._sweeps(), run=self._superseded)

    def _of(self, latest: Latest) -> Statements:
        return latest.statements(self.merge, self._whole.topic, self._whole.partition)

    def _parts(self) -> list[MergeSql]:
        """Return one merge for all rows; or one for each form of rows, in order."""
        if not self.merge.forms:
            return [self.merge]
        lay = self.merge.lay()
        if lay is not None:
            self._session.run(lay)
        found = self._session.rows(self.merge.parts(), kinds=(int, int))
        if len(found) > _INDEXED_FROM:
            self._session.run(self.merge.index_parts())
            self._session.analyze(STAGE)
        return [self.merge.for_part(layer, form) for layer, form in found]

    def fill(self) -> None:
        """Fill the temporary tables with tombstones and rows; only types without a COPY form stay texts."""
        decoded = self._decoded
        self._session.run(self.merge.make_stage())
        self._copy(STAGE, decoded.ready)
        if decoded.loose is not None:
            self._read_texts(decoded.loose)
        if self.has_tombstones:
            self._read_tombstones()

    def expect(self) -> None:
        """Add the same rows in the table's own types, with all of its columns."""
        self._session.run(self.merge.make_expected(self._table.layout.fields))
        self._apply(self.merge.expected, STAGE, self._sweeps())

    def _sweeps(self) -> Sequence[str]:
        return invalid_rows.before_insert(self.merge, has_validity=self._session.has_validity)

    def _read_texts(self, loose: Any) -> None:
        metadata = self._table.layout.metadata
        as_text = [each for each in self._decoded.fields if each not in metadata]
        self._session.run(self.merge.make_texts(as_text))
        self._copy(TEXTS, loose)
        sweeps = invalid_rows.before_read(as_text, has_validity=self._session.has_validity)
        self._apply(partial(self.merge.read_texts, as_text), TEXTS, sweeps)

    def _copy(self, name: str, rows: Any) -> None:
        """Copy rows; if the server refuses, copy fewer, until a single one is refused."""
        if not len(rows):
            return
        try:
            with self._session.savepoint():
                self._session.copy_aside(name, rows)
        except DataError as exc:
            if len(rows) == 1:
                self._refuse(rows.column(ORDER)[0].as_py(), exc.sqlstate, exc.reason)
                return
            half = len(rows) // 2
            self._copy(name, rows.slice(0, half))
            self._copy(name, rows.slice(half))

    def _apply(
        self,
        statement: Statement,
        source: str,
        sweeps: Sequence[str] = (),
        *,
        run: Run | None = None,
    ) -> None:
        """Run a statement for all records; if the server refuses, remove the bad ones and find the others."""
        run = run or self._uncounted
        slice_ = self._account.slice
        everything = slice_.from_offset, slice_.to_offset - 1
        if self._refusal(statement, *everything, run) is None:
            return
        for each in sweeps:
            self._sweep(each)
        if sweeps and self._refusal(statement, *everything, run) is None:
            return
        statement_of = f"SELECT {named(ORDER)} FROM {source} ORDER BY 1"  # noqa: S608
        orders = [row[0] for row in self._session.rows(statement_of, kinds=[int])]
        before, self._has_passed = self._counts.copy(), False
        try:
            with self._session.savepoint():
                self._bisect(statement, orders, run)
                self._settle_doubts(orders)
                if self._waiting:
                    self._try_again(statement, run)
                    raise _Undone
                self._forget(self._bad, source)
        except _Undone:
            self._counts = before
            self._without(self._bad, statement, source, run)

    def _settle_doubts(self, orders: Sequence[int]) -> None:
        """Refuse the records of doubtful errors if another record passed; otherwise no record is to blame."""
        for order in orders:
            refusal = self._bad.get(order)
            if refusal is None or refusal.doubt is None:
                continue
            if not self._has_passed:
                raise refusal.doubt
            self._refuse(order, refusal.sqlstate, refusal.reason)

    def _try_again(self, statement: Statement, run: Run) -> None:
        """Retry rows that refer to later rows; those refused again are bad."""
        is_better = True
        while is_better:
            left = {
                order: refusal
                for order in self._waiting
                if (refusal := self._refusal(statement, order, order, run)) is not None
            }
            is_better = 0 < len(left) < len(self._waiting)
            self._waiting = left
        for order, refusal in self._waiting.items():
            self._bad[order] = refusal
        self._waiting = {}

    def _without(
        self, bad: dict[int, DataError], statement: Statement, source: str, run: Run
    ) -> None:
        """Run all but the bad ones at once, because a row may refer to a later one."""
        self._forget(bad, source)
        for order, refusal in bad.items():
            self._refuse(order, refusal.sqlstate, refusal.reason)
        slice_ = self._account.slice
        whole = self._refusal(statement, slice_.from_offset, slice_.to_offset - 1, run)
        if whole is not None:
            raise whole

    def _forget(self, bad: Iterable[int], source: str) -> None:
        """Remove refused records, so that later statements ignore them."""
        orders = ", ".join(map(str, bad))
        if orders:
            self._session.run(f"DELETE FROM {source} WHERE {named(ORDER)} IN ({orders})")  # noqa: S608

    def _bisect(self, statement: Statement, orders: Sequence[int], run: Run) -> None:
        if not orders:
            return
        refusal = self._refusal(statement, orders[0], orders[-1], run)
        if refusal is None:
            self._has_passed = True
            return
        if len(orders) == 1:
            if refusal.sqlstate == _REFERENCE:
                self._waiting[orders[0]] = refusal
            else:
                self._bad[orders[0]] = refusal
                if refusal.doubt is not None:
                    # A broken trigger refuses all; a slice has too many to try each.
                    if not self._has_passed and len(self._bad) >= _MOST_DOUBTED:
                        raise refusal.doubt
                else:
                    self._refuse(orders[0], refusal.sqlstate, refusal.reason)
            return
        half = len(orders) // 2
        self._bisect(statement, orders[:half], run)
        self._bisect(statement, orders[half:], run)

    def _refusal(self, statement: Statement, first: int, last: int, run: Run) -> DataError | None:
        """Run a statement for a range of records; return the server's refusal, if any."""
        try:
            found = self._ran(statement(first, last), run)
        except DataError as exc:
            return exc
        except (StatementRefused, RightMissing) as exc:
            has_policies = self._table.layout.table.has_row_security
            bad = of_a_record(exc, has_policies=has_policies)
            if bad is None:
                raise
            self._ran(
                statement(last, first - 1), run
            )  # Without any record: this failure is permanent.
            return bad
        self._counts.update(found)
        return None

    def _ran(self, statement: str, run: Run) -> Mapping[str, int]:
        is_watched = run in self._watched
        with self._session.savepoint():
            before = self._kept.changes() if is_watched else (0, 0)
            found = run(statement)
            # The slice may insert rows again that its tombstones delete.
            if self._kept.may_wait and run != self._deleted:
                self._session.run("SET CONSTRAINTS ALL IMMEDIATE")
            return {**found, **self._kept.changed_since(before, found)} if is_watched else found

    def _inserted(self, statement: str) -> Mapping[str, int]:
        """Return how many rows were inserted, and how many existing ones were changed."""
        if not self.merge.answers_counts:
            return {"inserted": self._session.count(statement)}
        inserted, written, *due = self._session.one(statement, kinds=(int, ...))
        found = {"inserted": inserted, "updated": written - inserted}
        return found | unmet(found, due)

    def _deleted(self, statement: str) -> Mapping[str, int]:
        return {"deleted": self._session.count(statement)}

    def _superseded(self, statement: str) -> Mapping[str, int]:
        return {"superseded": self._session.count(statement)}

    def _uncounted(self, statement: str) -> Mapping[str, int]:
        self._session.run(statement)
        return {}

    def _sweep(self, statement: str) -> None:
        """Remove records that a check of all of them finds to be bad."""
        try:
            with self._session.savepoint():
                found = self._session.rows(statement, kinds=(int, str, str))
        except (DataError, StatementRefused):
            return  # Some types cannot be checked together; they are checked one by one.
        for order, sqlstate, reason in sorted(found):
            self._refuse(order, sqlstate, reason)

    def _refuse(self, order: int, sqlstate: str, reason: str) -> None:
        if order not in self._indexes:  # The server says which rows it refuses.
            raise AnswerMisformed("an offset that is not of its slice")
        record = self._whole.record(self._indexes[order])
        if sqlstate == UNIQUE_VIOLATION and self.merge.rule is None:
            place = f"{record.topic}:{record.partition} offset {record.offset}"
            raise ConflictFound(place, table=str(self.merge.place), reason=reason)
        self._counts["refused"] += 1
        self._account.refuse(record, kind=kind_of(sqlstate), reason=reason)

    @cached_property
    def _indexes(self) -> dict[int, int]:
        return {offset: index for index, offset in enumerate(self._whole.offsets)}

    def _read_tombstones(self) -> None:
        """Read the keys of tombstones."""
        merge, session = self.merge, self._session
        session.run(merge.make_gone_texts())
        session.run(merge.make_gone())
        self._copy(GONE_TEXTS, self._keys_of_tombstones())
        self._apply_to_tombstones(merge.read_gone, GONE_TEXTS, self._uncounted)

    def _delete(self) -> None:
        """Delete the rows of tombstones; a tombstone whose row cannot be deleted has no effect."""
        self._apply_to_tombstones(self.merge.delete, GONE, self._deleted)
        self._counts[NOT_DELETED] = self._kept.not_deleted(self.merge)

    def _apply_to_tombstones(self, statement: Statement, source: str, run: Run) -> None:
        refused = self._counts["refused"]
        self._apply(statement, source, run=run)
        # These were not rows, so they are not missing.
        self._counts["refused"] = refused

    def _supersede(self) -> None:
        """Remove staged rows before a tombstone; this finds keys that the column refuses."""
        self._apply(self.merge.supersede, STAGE, self._sweeps(), run=self._superseded)

    def _keys_of_tombstones(self) -> Any:
        layout, names = self._table.layout, self.merge.key
        key = [each for each in layout.fields if each.name in names]
        offsets, times, texts = [], [], []
        for index in self._decoded.tombstones:
            record = self._whole.record(index)
            try:
                texts.append(key_texts(record, key))
            except Bad as bad:
                self._account.refuse(record, kind=bad.kind, reason=bad.reason)
                continue
            offsets.append(record.offset)
            times.append(record.timestamp_ms)
        # A time out of range is null; if times count (`newer`), it was refused before.
        microseconds, _ = microseconds_of(times)
        columns = {
            ORDER: pa.array(offsets, pa.int64()),
            AT: microseconds.cast(pa.timestamp("us", tz="UTC")),
        }
        for each in key:
            columns[each.name] = pa.array([found[each.name] for found in texts], pa.string())
        return pa.table(columns)

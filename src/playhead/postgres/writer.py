"""Commits slices to a table: rows and ledger entry in one transaction, by direct COPY or through the stage."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from playhead.account import Account
from playhead.host.faults import abort_point
from playhead.inventory import KeysOf
from playhead.ledger import MOST_REFUSED, Entry
from playhead.postgres.compare import Comparison, rows_by
from playhead.postgres.compare_appended import AppendedRows
from playhead.postgres.compare_rows import Judgement
from playhead.postgres.errors import UNIQUE_VIOLATION, DataError, StatementRefused
from playhead.postgres.final_rows import FinalRows
from playhead.postgres.find_missing import MissingRows
from playhead.postgres.ledger import Ledger
from playhead.postgres.merge_sql import KEYS, STAGE, MergeSql, named
from playhead.postgres.open_table import OpenTable, copied
from playhead.postgres.record_keys import keys_of_records
from playhead.postgres.rows.altered_values import CUT, ROUNDED
from playhead.postgres.rows.column_layout import Field
from playhead.postgres.rows.decode import ORDER, Decoded
from playhead.postgres.session import CopySession, Session
from playhead.postgres.session import TableName as TablePlace
from playhead.postgres.stage.stage import Stage
from playhead.postgres.storage import storage_of, unemptied
from playhead.record import Slice
from playhead.records import Records
from playhead.target import SliceComparison, Writer
from playhead.terms import NotBegunThere
from playhead.written_rows import columns_written

# In a modifier, where a column keeps seconds, as opposed to `interval year to month`.
_SECONDS = 1 << 16 + 12

# With a larger share of conflicts, staging all rows costs less.
_MOST_MET = 0.5
# One index lookup for each key: the cost must not grow with the table, and without statistics of
# the temporary table, the planner cannot know that there are few keys.
_BY_INDEX = """
SELECT pg_catalog.set_config('enable_hashjoin', 'off', true), pg_catalog.set_config('enable_mergejoin', 'off', true),
       pg_catalog.set_config('enable_seqscan', 'off', true)
"""

# After this many slices without conflicts, direct COPY is tried again.
_CLEAN_ENOUGH = 8


@dataclass(slots=True)
class WritePath:
    """How the next slices of a table are written."""

    staged_left: int = 0
    """How many more slices are staged before direct COPY is tried again."""
    crowded_left: int = 0
    """How many more slices are staged completely, because most rows of one had conflicts."""

    def collided(self) -> None:
        self.staged_left = _CLEAN_ENOUGH

    def was_clean(self) -> None:
        self.staged_left = max(0, self.staged_left - 1)

    def was_crowded(self) -> None:
        self.crowded_left = _CLEAN_ENOUGH

    def may_part(self, could: bool) -> bool:
        """Return whether to separate rows with conflicts from the others."""
        self.crowded_left = max(0, self.crowded_left - 1)
        return could and self.crowded_left == 0


class _TooMany(Exception):
    """Too many rows have conflicts, or a later record may be known."""


class PostgresWriter(Writer):
    """An open target: one connection, one replay."""

    def __init__(
        self,
        session: CopySession,
        ledger: Ledger,
        replay_id: str,
        table_of: Callable[[str], OpenTable],
        known_by: Sequence[str] = (),
        tells: KeysOf | None = None,
    ) -> None:
        self._session, self._ledger, self._replay_id = session, ledger, replay_id
        self._table_of, self._known_by, self._tells = table_of, known_by, tells
        self._courses: dict[str, WritePath] = {}
        self._compared: dict[TablePlace, FinalRows | AppendedRows] = {}

    def commit(self, account: Account, records: Iterable[Records], /) -> None:
        slice_ = account.slice
        whole = gathered(slice_, records)
        table = self._table_of(slice_.topic)
        if not table.is_agreed:
            # The terms were written before the first job. Under one address another server may answer now.
            raise NotBegunThere(self._replay_id, where=self._session.where)
        course = self._courses.setdefault(slice_.topic, WritePath())
        decoded = table.decode(whole, account)
        if table.latest is not None:
            table.latest.make()
        may_be_copied = course.staged_left == 0 and _may_be_copied(table, account)
        if may_be_copied and table.may_go_directly(decoded):
            try:
                if self._directly(table, decoded, account):
                    return
            except (DataError, StatementRefused) as exc:
                # Some value or an existing row: the stage finds out which.
                if exc.sqlstate == UNIQUE_VIOLATION:
                    course.collided()
        details = self._by_stage(table, decoded, whole, account, course)
        if details["updated"] or details["left_alone"]:
            course.collided()
        else:
            course.was_clean()

    def compare(self, entry: Entry, records: Iterable[Records], /) -> SliceComparison | None:
        table = self._table_of(entry.slice.topic)
        whole = gathered(entry.slice, records)
        if self._tells is not None:
            return keys_of_records(self._session, table, entry, whole, self._tells)
        if self._known_by:
            return MissingRows(self._session, table, self._known_by, entry).findings(whole)
        if not needs_all_slices(table):
            by = rows_by(table)
            comparison = Comparison(self._session, self._ledger, self._replay_id, table, by, entry)
            return comparison.findings(whole)
        rows = self._compared.get(table.place)
        if rows is None:
            kind = FinalRows if table.habits.is_keyed else AppendedRows
            rows = self._compared[table.place] = kind(self._session, table, len(self._compared))
        rows.add(entry, whole)
        return None

    def conclude(self) -> Sequence[SliceComparison]:
        found: list[SliceComparison] = []
        for rows in self._compared.values():
            if isinstance(rows, FinalRows):
                rows_found = Judgement(self._session, self._ledger, self._replay_id, rows)
                found += rows_found.findings()
            else:
                found += rows.findings()
        return found

    def _directly(self, table: OpenTable, decoded: Decoded, account: Account) -> bool:
        """Return whether the slice was written directly; not if later records must be looked up."""
        with self._begun(table, account):
            if table.latest is not None and not table.latest.is_empty():
                return False
            for rows in copied(decoded) if decoded.rows else ():
                self._session.copy(table.place, rows)
            abort_point("postgres.direct.copied")
            self._close(table, decoded, account, {"way": "direct", "inserted": decoded.rows})
        abort_point("postgres.direct.committed")
        return True

    def _by_stage(
        self,
        table: OpenTable,
        decoded: Decoded,
        whole: Records,
        account: Account,
        course: WritePath,
    ) -> dict[str, Any]:
        merge = table.merge(decoded)

        def stage(rows: Decoded) -> Stage:
            return Stage(self._session, table, rows, whole, account, merge)

        could = _may_be_copied(table, account) and table.may_go_apart(decoded, merge)
        if course.may_part(could):
            before = account.refused_offsets
            try:
                details = self._apart(table, decoded, account, stage)
            except (DataError, StatementRefused):
                details = None  # Another program's row was inserted meanwhile, or a value is bad.
                account.back_to(before)  # The refusal was undone too.
            if details is not None:
                return details
            course.was_crowded()
        try:
            with self._begun(table, account):
                with self._unemptied(table, account):
                    details = stage(decoded).write()
                abort_point("postgres.stage.merged")
                decoded = with_altered_intervals(self._session, decoded)
                self._close(table, decoded, account, {"way": "staged"} | details)
        except DataError as exc:
            # No record's fault: a constraint of another table, or one checked at the commit.
            raise StatementRefused(
                self._session.where, sqlstate=exc.sqlstate, reason=exc.reason
            ) from exc
        abort_point("postgres.stage.committed")
        return details

    def _apart(
        self,
        table: OpenTable,
        decoded: Decoded,
        account: Account,
        stage: Callable[[Decoded], Stage],
    ) -> dict[str, Any] | None:
        """Stage only rows with conflicts; return None without any effect if these are too many."""
        with contextlib.suppress(_TooMany):
            with self._begun(table, account):
                if table.latest is not None and not table.latest.is_empty():
                    raise _TooMany
                parts = split_existing(self._session, table.merge(decoded), decoded)
                if parts is None:
                    raise _TooMany
                new, met = parts
                abort_point("postgres.apart.parted")
                for rows in copied(new) if new.rows else ():
                    self._session.copy(table.place, rows)
                abort_point("postgres.apart.copied")
                details = stage(met).write()
                details["inserted"] += new.rows
                self._close(table, decoded, account, {"way": "apart"} | details)
            abort_point("postgres.apart.committed")
            return details
        return None

    @contextmanager
    def _begun(self, table: OpenTable, account: Account) -> Iterator[None]:
        """Begin a transaction in which no other process commits this slice or changes the table."""
        with self._session.transaction():
            self._ledger.admit(self._replay_id, account, is_ordered=table.habits.is_ordered)
            table.refuse_change(self._session)
            abort_point("postgres.begun")
            yield

    def _unemptied(self, table: OpenTable, account: Account) -> AbstractContextManager[None]:
        # Not for a live pipeline: triggers may drop old partitions under it.
        if account.is_endless:
            return contextlib.nullcontext()
        return unemptied(self._session, table.layout.table)

    def _close(
        self, table: OpenTable, decoded: Decoded, account: Account, details: dict[str, Any]
    ) -> None:
        table.refuse_attached(self._session)
        if (details["inserted"] or details.get("updated")) and not account.is_endless:
            # Not for a live pipeline: old partitions are dropped under it as a rule.
            details |= storage_of(self._session, table.layout.table)
            details |= columns_written({each.name: each.column.there for each in decoded.fields})
        details |= table.remarks(decoded, account)
        refused = sorted(account.refused_offsets)
        if refused:
            # So that `compare` does not need to read the whole table again for it.
            details["refused"] = refused[:MOST_REFUSED]
        entry = account.close(details)
        abort_point("postgres.closed")
        keep = self._ledger.extend if account.is_endless else self._ledger.add
        keep(self._replay_id, entry)
        abort_point("postgres.ledger.added")


def needs_all_slices(table: OpenTable) -> bool:
    """Return whether a slice can be compared only together with all others of its replay."""
    return table.habits.is_keyed or not rows_by(table)


def _may_be_copied(table: OpenTable, account: Account) -> bool:
    """Return whether rows with new keys may be copied, as far as is known before."""
    latest = table.latest
    return latest is None or latest.may_be_let_be(account.slice.partition)


def gathered(slice_: Slice, runs: Iterable[Records]) -> Records:
    """Return all records of a slice as one run in memory, which the caller limits."""
    held = list(runs)
    if len(held) == 1:
        return held[0]
    whole = Records(slice_.topic, slice_.partition)
    for run in held:
        whole.extend(run)
    return whole


def split_existing(
    session: CopySession, merge: MergeSql, decoded: Decoded
) -> tuple[Decoded, Decoded] | None:
    """Return rows with new keys, and rows with existing ones; None if these are too many."""
    rows = decoded.ready
    session.run(merge.make_keys())
    session.copy_aside(KEYS, rows.select([ORDER, *merge.key]))
    session.run(_BY_INDEX)
    met = pa.array([row[0] for row in session.rows(merge.met(), kinds=[int])], pa.int64())
    if len(met) > _MOST_MET * len(rows):
        return None
    if not len(met):
        return decoded, replace(decoded, ready=rows.slice(0, 0))
    is_met = pc.is_in(rows.column(ORDER), value_set=met)
    new, existing = rows.filter(pc.invert(is_met)), rows.filter(is_met)
    return replace(decoded, ready=new), replace(decoded, ready=existing)


def with_altered_intervals(session: Session, decoded: Decoded) -> Decoded:
    """Return the rows with what their columns alter of intervals; the stage has what was written."""
    altered = dict(decoded.altered)
    for name in (ROUNDED, CUT):
        if columns := [each for each in decoded.fields if _alteration(each) == name]:
            altered[name] = altered.get(name, frozenset()) | _altered(session, columns)
    return replace(decoded, altered=altered)


def _alteration(field: Field) -> str | None:
    column = field.column
    if (column.element or column.base) != "interval" or column.base_modifier < 0:
        return None
    return ROUNDED if column.base_modifier & _SECONDS else CUT


def _altered(session: Session, columns: Sequence[Field]) -> frozenset[int]:
    """Return the offsets of rows with another value in one of the columns than their text has."""
    changed = " OR ".join(
        f"{held}::{each.column.base_type} IS DISTINCT FROM {held}::{each.column.type}"
        for each in columns
        for held in [named(each.name)]
    )
    statement = f"SELECT {named(ORDER)} FROM {STAGE} WHERE {changed}"  # noqa: S608
    found = session.rows(statement, kinds=[int])
    return frozenset(offset for (offset,) in found)

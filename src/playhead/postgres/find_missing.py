"""Finds records of a slice without a row in the table, by given columns."""

from collections.abc import Iterator, Sequence

from playhead.account import Account, ErrorRule
from playhead.errors import Refused
from playhead.ledger import Entry
from playhead.postgres.merge_sql import EXPECTED, named
from playhead.postgres.open_table import OpenTable
from playhead.postgres.record_rank import Rank, is_later
from playhead.postgres.rows.column_layout import has_place
from playhead.postgres.rows.column_types import TIMES
from playhead.postgres.rows.decode import ORDER
from playhead.postgres.session import CopySession, literal
from playhead.postgres.stage.stage import Stage
from playhead.records import Records
from playhead.tables.columns import OFFSET, PARTITION, TIMESTAMP, TOPIC
from playhead.target import SliceComparison

_ORDER, _TIME = named(ORDER), named(TIMESTAMP)
_TOPIC = f't.{named(TOPIC)}::text COLLATE "C"'
_PARTITION, _OFFSET = (f"t.{named(each)}::text::int8" for each in (PARTITION, OFFSET))


class NoSuchColumns(Refused):
    """Columns that should identify rows do not exist or are never filled."""

    def __init__(self, table: str, *, columns: Sequence[str], known: Sequence[str]) -> None:
        self.table, self.columns = table, tuple(columns)
        super().__init__(
            f"{', '.join(columns)} cannot identify rows of {table}: the table lacks one of "
            "them, or records never fill it",
            hint=f"columns of the table: {', '.join(known)}",
        )


class MissingRows:
    """Looks for the records of one slice in temporary tables of a transaction that is rolled back.

    A record has a row if some row has the same values in the columns. It must be as late as the record, as far as
    rows tell: an older one is of another record, which the missing one would have replaced. Under `newer` its time
    tells; otherwise its place does, if it is of the same partition. Records that cannot be a row, because they
    cannot be decoded or are tombstones, are not looked for, and neither are those with a null in the columns, which
    equals nothing in SQL; where rows name their place, these are looked for by it.
    """

    def __init__(
        self, session: CopySession, table: OpenTable, by: Sequence[str], entry: Entry
    ) -> None:
        self._session, self._table, self._entry = session, table, entry
        self._by = by
        known = [each.name for each in table.layout.fields]
        if unknown := [name for name in by if name not in known]:
            raise NoSuchColumns(str(table.place), columns=unknown, known=known)

    def findings(self, whole: Records) -> SliceComparison:
        """Return runs of records without a row."""
        account = Account(self._entry.slice, ErrorRule("skip"))
        decoded = self._table.decode(whole, account)
        expected, missing, elsewhere = 0, list[int](), 0
        if decoded.rows:
            with self._session.undone():
                stage = Stage(self._session, self._table, decoded, whole, account)
                stage.fill()
                stage.expect()
                # Without statistics, the server expects few rows and might scan the table for each.
                self._session.analyze(EXPECTED)
                expected, missing, elsewhere = self._looked_for()
        return SliceComparison(
            self._entry.slice,
            expected,
            expected - len(missing),
            "",
            "",
            different=len(missing),
            missing=tuple(_runs(whole.offsets, missing)),
            unlike=len(whole) - expected,
            elsewhere=elsewhere,
        )

    def _looked_for(self) -> tuple[int, list[int], int]:
        """Return how many records were looked for, which are missing, and how many a row from elsewhere is for."""
        no_key = " OR ".join(f"e.{named(name)} IS NULL" for name in self._by)
        expected, without_key = self._session.one(
            f"SELECT pg_catalog.count(*), pg_catalog.count(*) FILTER (WHERE {no_key}) FROM {EXPECTED} e",  # noqa: S608
            kinds=(int, int),
        )
        same = " AND ".join(f"t.{named(name)} = e.{named(name)}" for name in self._by)
        older, layout = self._older(), self._table.layout
        has_key = f"NOT ({no_key})"
        if older is None:
            return expected - without_key, self._without(same, has_key), 0
        missing = self._without(f"{same} AND ({older}) IS NOT TRUE", has_key)
        sure = self._without(f"{same} AND ({self._tells()}) AND NOT ({older})", has_key)
        elsewhere = len(sure) - len(missing)
        if not has_place(layout):
            return expected - without_key, missing, elsewhere
        if without_key:
            its_own = f"{self._is_here()} AND {_OFFSET} = e.{_ORDER}"
            missing = sorted([*missing, *self._without(its_own, f"({no_key})")])
        return expected, missing, elsewhere

    def _without(self, there: str, which: str) -> list[int]:
        """Return the offsets of such records without such a row."""
        row = f"EXISTS (SELECT FROM {self._table.place.quoted} t WHERE {there})"
        statement = f"SELECT e.{_ORDER} FROM {EXPECTED} e WHERE {which} AND NOT {row} ORDER BY 1"  # noqa: S608
        return [offset for (offset,) in self._session.rows(statement, kinds=[int])]

    def _is_here(self) -> str:
        """The condition that a row is from the partition of the records."""
        partition = f"{_PARTITION} = {self._entry.slice.partition}"
        return (
            f"({_TOPIC} = {self._topic} AND {partition})" if self._has_topic else f"({partition})"
        )

    def _places(self) -> tuple[str, str]:
        """The origins of a row and of a record, of which the greater one is later; empty if rows have none."""
        if not has_place(self._table.layout):
            return "", ""
        row = [_PARTITION, _OFFSET]
        record = [str(self._entry.slice.partition), f"e.{_ORDER}"]
        if self._has_topic:
            row, record = [_TOPIC, *row], [self._topic, *record]
        return f"({', '.join(row)})", f"({', '.join(record)})"

    @property
    def _topic(self) -> str:
        return f'{literal(self._entry.slice.topic)} COLLATE "C"'

    @property
    def _has_topic(self) -> bool:
        return TOPIC in [each.name for each in self._table.layout.metadata]

    def _older(self) -> str | None:
        """The condition that a record's row should have replaced a row, as merges decide it.

        Where the time decides, it does so for rows from everywhere; where the order does, only for those of this
        partition. Where the rule is unknown, a replay that fills gaps lets the time decide, so that here it does for
        rows from elsewhere, unless it lets the first row stay. None where rows do not tell, where they are compared
        by their place, or where the first row stays.
        """
        layout, habits = self._table.layout, self._table.habits
        if OFFSET in self._by or habits.stays == "ignore":
            return None
        if self._has_version():
            version, (there, here) = named(habits.stays_by), self._places()
            row, record = Rank(f"t.{version}", there), Rank(f"e.{version}", here)
            # A row without a time does not tell.
            return f"CASE WHEN t.{version} IS NOT NULL THEN {is_later(record, row)} END"
        if not has_place(layout):
            return None
        here = f"{self._is_here()} AND {_OFFSET} < e.{_ORDER}"
        if self._is_timed():
            return f"({here}) OR NOT {self._is_here()} AND t.{_TIME} < e.{_TIME}"
        return here

    def _tells(self) -> str:
        """The condition that a row tells whether it is older."""
        if self._has_version():
            return "true"
        if self._is_timed():
            return f"{self._is_here()} OR t.{_TIME} IS NOT NULL"
        return self._is_here()

    def _is_timed(self) -> bool:
        """Whether the rule is unknown, and rows have the times of their records."""
        fields = self._table.layout.fields
        times = [each for each in fields if each.name == TIMESTAMP and each.column.base in TIMES]
        habits = self._table.habits
        return habits.stays is None and habits.stays_by != "" and bool(times)

    def _has_version(self) -> bool:
        """Whether rows have the time that decides which of two stays."""
        layout, habits = self._table.layout, self._table.habits
        return habits.stays == "newer" and habits.stays_by in [each.name for each in layout.fields]


def _runs(offsets: Sequence[int], missing: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Return consecutive missing records: from, to, number."""
    wanted = set(missing)
    start: int | None = None
    last = count = 0
    for offset in offsets:
        if offset in wanted:
            start = offset if start is None else start
            last, count = offset, count + 1
        elif start is not None:
            yield start, last + 1, count
            start, count = None, 0
    if start is not None:
        yield start, last + 1, count

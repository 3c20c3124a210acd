"""Finds records of a slice without a row in the table, by given columns."""

from collections.abc import Iterator, Sequence

from playhead.account import Account, ErrorRule
from playhead.errors import Refused
from playhead.ledger import Entry
from playhead.postgres.merge_sql import EXPECTED, named
from playhead.postgres.open_table import OpenTable
from playhead.postgres.rows.decode import ORDER
from playhead.postgres.session import Session
from playhead.postgres.stage.stage import Stage
from playhead.records import Records
from playhead.target import SliceComparison

_ORDER = named(ORDER)


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

    A record has a row if some row has the same values in the columns; as in SQL, null equals nothing. Records
    that cannot be a row, because they cannot be decoded or are tombstones, are not looked for.
    """

    def __init__(self, session: Session, table: OpenTable, by: Sequence[str], entry: Entry) -> None:
        self._session, self._table, self._entry = session, table, entry
        self._by = by
        known = [each.name for each in table.layout.fields]
        if unknown := [name for name in by if name not in known]:
            raise NoSuchColumns(str(table.place), columns=unknown, known=known)

    def findings(self, whole: Records) -> SliceComparison:
        """Return runs of records without a row."""
        account = Account(self._entry.slice, ErrorRule("skip"))
        decoded = self._table.decode(whole, account)
        expected, missing = 0, list[int]()
        if decoded.rows:
            with self._session.undone():
                stage = Stage(self._session, self._table, decoded, whole, account)
                stage.fill()
                stage.expect()
                # Without statistics, the server expects few rows and might scan the table for each.
                self._session.run(f"ANALYZE {EXPECTED}")
                [(expected,)] = self._session.run(f"SELECT count(*) FROM {EXPECTED}")  # noqa: S608
                missing = [row[0] for row in self._session.run(self._statement())]
        return SliceComparison(
            self._entry.slice,
            expected,
            expected - len(missing),
            "",
            "",
            different=len(missing),
            missing=tuple(_runs(whole.offsets, missing)),
            unlike=len(whole) - expected,
        )

    def _statement(self) -> str:
        same = " AND ".join(f"t.{named(name)} = e.{named(name)}" for name in self._by)
        there = f"EXISTS (SELECT FROM {self._table.place.quoted} t WHERE {same})"
        return f"SELECT e.{_ORDER} FROM {EXPECTED} e WHERE NOT {there} ORDER BY 1"  # noqa: S608


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

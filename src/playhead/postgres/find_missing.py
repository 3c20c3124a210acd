"""Finds the records of a slice that no row of a table stands for, by columns that somebody names."""

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
    """Columns by which rows are to be known, and which are not there or never filled."""

    def __init__(self, table: str, *, columns: Sequence[str], known: Sequence[str]) -> None:
        self.table, self.columns = table, tuple(columns)
        super().__init__(
            f"rows of {table} cannot be known by {', '.join(columns)}: it has no such column, or none "
            "that records fill",
            hint=f"there are {', '.join(known)}",
        )


class MissingRows:
    """One slice, in temporary tables of a transaction that is rolled back.

    A record is there when some row has the same values in the columns; null is like nothing, as ever
    in SQL. What cannot be a row, because it cannot be decoded or is a tombstone, is not looked for.
    """

    def __init__(self, session: Session, table: OpenTable, by: Sequence[str], entry: Entry) -> None:
        self._session, self._table, self._entry = session, table, entry
        self._by = by
        known = [each.name for each in table.layout.fields]
        if unknown := [name for name in by if name not in known]:
            raise NoSuchColumns(str(table.place), columns=unknown, known=known)

    def findings(self, whole: Records) -> SliceComparison:
        """Runs of records that are not there."""
        account = Account(self._entry.slice, ErrorRule("skip"))
        decoded = self._table.decode(whole, account)
        expected, missing = 0, list[int]()
        if decoded.rows:
            with self._session.undone():
                stage = Stage(self._session, self._table, decoded, whole, account)
                stage.fill()
                stage.expect()
                # Without it the server thinks of a few rows, and might go through the table for each.
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
    """Records that are missing one after the other: from, to, how many."""
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

"""Compares the rows that one slice should have left in a table with the table's present rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from playhead.account import Account, ErrorRule
from playhead.extra_fields import ExtraFields
from playhead.ledger import Entry
from playhead.postgres.answers import reading
from playhead.postgres.ledger import Ledger
from playhead.postgres.merge_sql import named
from playhead.postgres.open_table import OpenTable, left_out
from playhead.postgres.rows.decode import ORDER
from playhead.postgres.session import CopySession
from playhead.postgres.skipped_records import Skipped
from playhead.postgres.stage.stage import Stage
from playhead.postgres.wanted_rows import (
    APART,
    WANTED,
    checksum,
    differing,
    has_place,
    inside,
    make_wanted,
    row_text,
    unless_refused,
)
from playhead.records import Records
from playhead.tables.columns import PLACE
from playhead.target import Difference, SliceComparison
from playhead.task.tally import SHOWN, Tally

_JUDGED = "playhead_judged"
_ORDER, _OFFSET = named(ORDER), named(PLACE[-1])


def rows_by(table: OpenTable) -> Sequence[str]:
    """Return columns that identify every row of a table; empty if none certainly do.

    Rows that conflicts or tombstones may change need more: see `FinalRows`.
    """
    if has_place(table.layout.table):
        return PLACE
    given = {each.name: each.column for each in table.layout.fields}
    for key in table.layout.table.keys:
        columns = [given.get(name) for name in key.columns]
        if all(each is not None and each.is_required and each.default is None for each in columns):
            return key.columns
    return ()


@dataclass(slots=True)
class ComparedSlice:
    """One slice that is compared together with others, and how often its commit may have met unknown rows."""

    entry: Entry
    place: int
    """The number of its partition."""
    unshown: Sequence[int]
    """Skipped records that nothing shows to have been refused."""
    tombstones: int = 0
    """Skipped tombstones, which leave nothing to look for."""
    met: int | None = None
    """How many of its records may have left another program's row alone; None if not counted."""
    spared: int | None = None
    """How many of its tombstones may have spared a later row."""
    extra_fields: ExtraFields = field(default_factory=ExtraFields)
    refused: tuple[int, ...] = ()

    def uncounted(self) -> SliceComparison:
        """Return its comparison if the counts are with the last slice of its partition."""
        nothing = SliceComparison(self.entry.slice, 0, 0, "", "")
        return replace(nothing, extra_fields=self.extra_fields, refused=self.refused)


def by_place(slices: Sequence[ComparedSlice]) -> Iterator[tuple[int, list[ComparedSlice]]]:
    """Return the slices of each partition."""
    for place in sorted({each.place for each in slices}):
        yield place, [each for each in slices if each.place == place]


def accounted(entry: Entry) -> Account:
    """Return an account that stands in for that of the commit."""
    return Account(entry.slice, ErrorRule("skip"))


def written(entry: Entry, whole: Records) -> Records:
    """Return the records without those that the ledger lists as refused."""
    refused = set(entry.details.get("refused", ()))
    kept = [index for index, offset in enumerate(whole.offsets) if offset not in refused]
    return whole if len(kept) == len(whole) else whole.pick(kept)


class Comparison:
    """Compares one slice in temporary tables of a transaction that is rolled back.

    For tables to which rows are only appended, and whose rows are identified by `by`. Every change is a
    difference, because no later record can have made it.
    """

    def __init__(
        self,
        session: CopySession,
        ledger: Ledger,
        replay_id: str,
        table: OpenTable,
        by: Sequence[str],
        entry: Entry,
    ) -> None:
        self._session, self._table, self._by, self._entry = session, table, by, entry
        self._ledger, self._replay_id = ledger, replay_id
        self._refused: tuple[int, ...] = ()

    def findings(self, whole: Records) -> SliceComparison:
        """Return the comparison of the slice."""
        unshown = Skipped(self._session, self._table, self._entry).unshown(whole)
        rows = written(self._entry, whole)
        account = accounted(self._entry)
        decoded = self._table.decode(rows, account)
        with self._session.undone():
            stage = Stage(self._session, self._table, decoded, rows, account)
            stage.fill()
            stage.expect()
            fields = self._table.layout.fields
            self._session.run(make_wanted(stage.merge, fields, is_update=False))
            self._session.run(self._judged())
            self._refused = tuple(account.refused_offsets)
            tombstones = self._table.count_skipped(decoded)
            return self._found(tombstones, unshown, left_out(decoded, account))

    def _found(
        self, tombstones: int, unshown: Sequence[int], extra_fields: ExtraFields
    ) -> SliceComparison:
        """Return the comparison; skipped tombstones leave nothing to look for."""
        expected, same, different, found, wanted, held = self._session.one(
            _COUNTS, kinds=(int, int, int, int, str, str)
        )
        tally = Tally(same + tombstones, expected - same, len(unshown), found=found)
        with reading():
            tally.expected_sum, tally.found_sum = int(wanted), int(held)
        shown = self._session.rows(
            f"SELECT o, what, columns FROM {_JUDGED} WHERE what IS NOT NULL ORDER BY o LIMIT {SHOWN}",  # noqa: S608
            kinds=(int, WORDS, str | None),
        )
        tally.differences = [self._difference(*row) for row in shown]
        more, extra = self._extra()
        tally.differences += [self._difference(offset, "extra", None) for offset in extra]
        tally.differences += [self._difference(offset, "unknown", None) for offset in unshown]
        tally.found += more
        tally.extra = different - tally.different + more
        return tally.comparison(self._entry.slice, extra_fields, self._refused)

    def _judged(self) -> str:
        fields, table = self._table.layout.fields, self._table.place.quoted
        same = " AND ".join(f"t.{named(name)} = e.{named(name)}" for name in self._by)
        compared = (
            f"SELECT e.{_ORDER} AS o, {row_text('e', fields)} AS wanted, "  # noqa: S608
            f"{row_text('t', fields)} AS there, t.{named(self._by[0])} IS NOT NULL AS is_there, "
            f"{differing(fields)} AS columns FROM {WANTED} e LEFT JOIN {table} t ON {same}"
        )
        numbered = f"SELECT *, pg_catalog.row_number() OVER (PARTITION BY o) AS n FROM ({compared} {APART}) r"  # noqa: S608
        return (
            f"CREATE TEMPORARY TABLE {_JUDGED} ON COMMIT DROP AS SELECT o, wanted, n, columns, "  # noqa: S608
            "CASE WHEN is_there THEN there END AS held, "
            "CASE WHEN NOT is_there THEN 'missing' WHEN n > 1 THEN 'extra' "
            f"WHEN wanted <> there THEN 'changed' END AS what FROM ({numbered}) c"
        )

    def _extra(self) -> tuple[int, list[int]]:
        """Return rows that claim offsets of the slice, but for which no row was to be written.

        Only for a run, whose ledger says what other replays have written.
        """
        table = self._table.layout.table
        if not self._entry.details or not has_place(table):
            return 0, []
        expected = f"SELECT FROM {WANTED} e WHERE e.{_OFFSET} = t.{_OFFSET}"
        there = (
            f"SELECT t.{_OFFSET}::text::int8 AS o FROM {table.place.quoted} t "  # noqa: S608
            f"WHERE {inside(table, [self._entry.slice])} AND NOT EXISTS ({expected})"
            f"{unless_refused(table, [(self._entry.slice, self._refused)])}"
            f"{self._ledger.unless_others(self._replay_id, table)}"
        )
        counted = f"SELECT pg_catalog.count(*) FROM ({there}) x"  # noqa: S608
        (count,) = self._session.one(counted, kinds=[int])
        if not count:
            return 0, []
        statement = f"SELECT o FROM ({there}) x ORDER BY 1 LIMIT {SHOWN}"  # noqa: S608
        found = self._session.rows(statement, kinds=[int])
        return count, [row[0] for row in found]

    def _difference(self, offset: int, what: str, columns: str | None) -> Difference:
        return difference(self._entry, str(self._table.place), offset, what, columns)


def difference(
    entry: Entry, table: str, offset: int, what: str, columns: str | None = None
) -> Difference:
    """Return one difference as a sentence."""
    texts = {
        "missing": f"no row in {table}",
        "extra": f"more rows in {table} than expected",
        "changed": f"other values in {table}: {columns}",
        "unknown": "it was skipped: only the ledger shows that it was refused",
    }
    slice_ = entry.slice
    return Difference(what, slice_.topic, slice_.partition, offset, texts[what])  # type: ignore[arg-type]


WORDS: Final = frozenset(("missing", "extra", "changed", "unknown"))
"""What a difference can be; the server says it in its answers."""
_COUNTS = f"""
SELECT pg_catalog.count(*) FILTER (WHERE n = 1), pg_catalog.count(*) FILTER (WHERE n = 1 AND what IS NULL),
       pg_catalog.count(*) FILTER (WHERE what IS NOT NULL), pg_catalog.count(*) FILTER (WHERE held IS NOT NULL),
       {checksum("wanted", "n = 1")}, {checksum("held", "true")}
FROM {_JUDGED}
"""  # noqa: S608 - ours

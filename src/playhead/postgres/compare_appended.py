"""Compares the appended rows of a whole replay, in a table without columns that identify rows."""

from collections.abc import Iterator, Sequence

from playhead.ledger import Entry
from playhead.postgres.answers import reading
from playhead.postgres.compare import WORDS, ComparedSlice, accounted, by_place, difference, written
from playhead.postgres.merge_sql import named
from playhead.postgres.open_table import OpenTable, left_out
from playhead.postgres.rows.decode import ORDER
from playhead.postgres.session import CopySession
from playhead.postgres.skipped_records import Skipped
from playhead.postgres.stage.stage import Stage
from playhead.postgres.wanted_rows import (
    APART,
    BITS,
    WANTED,
    checksum,
    differing,
    make_wanted,
    row_text,
)
from playhead.records import Records
from playhead.source import TopicPartition
from playhead.target import Difference, SliceComparison
from playhead.task.tally import SHOWN, Tally

_JUDGED = "playhead_judged"
_PLACE, _ORDER, _BITS = named("playhead:place"), named(ORDER), named(BITS)
_TEXTS = {
    "more": "the table has its row more often than the replay wrote it: a duplicate, or another program's row",
    "open": "it names columns that other records fill by default: no row is certainly its own",
}


class AppendedRows:
    """All written rows in a temporary table, counted by their values.

    If a unique index turns out to be filled in all of them, it identifies the rows.
    """

    def __init__(self, session: CopySession, table: OpenTable, number: int) -> None:
        self._session, self._table = session, table
        self._fields = table.layout.fields
        self._name = f"playhead_appended_{number}"
        self._slices: list[ComparedSlice] = []
        self._places: dict[TopicPartition, int] = {}

    def add(self, entry: Entry, whole: Records) -> None:
        """Add the records of a slice."""
        place = self._places.setdefault(entry.slice.place, len(self._places))
        unshown = Skipped(self._session, self._table, entry).unshown(whole)
        rows, account = written(entry, whole), accounted(entry)
        decoded = self._table.decode(rows, account)
        with self._session.transaction():
            stage = Stage(self._session, self._table, decoded, rows, account)
            stage.fill()
            stage.expect()
            self._session.run(make_wanted(stage.merge, self._fields, is_update=False))
            chosen = f"SELECT *, {place}::int4 AS {_PLACE} FROM {WANTED}"  # noqa: S608
            if self._slices:
                self._session.run(f"INSERT INTO {self._name} {chosen}")
            else:
                self._session.run(f"CREATE TEMPORARY TABLE {self._name} AS {chosen}")
        compared = ComparedSlice(entry, place, unshown, self._table.count_skipped(decoded))
        compared.extra_fields = left_out(decoded, account)
        compared.refused = tuple(account.refused_offsets)
        self._slices.append(compared)

    def findings(self) -> list[SliceComparison]:
        """Return the comparison of each slice; a partition's counts are with its last slice."""
        with self._session.undone():
            self._session.analyze(self._name)
            by = self._by()
            self._session.run(self._by_key(by) if by else self._by_all())
            return [each for of in by_place(self._slices) for each in self._of_place(*of)]

    def _of_place(self, place: int, slices: Sequence[ComparedSlice]) -> Iterator[SliceComparison]:
        for each in slices[:-1]:
            yield each.uncounted()
        last = slices[-1]
        tombstones = sum(each.tombstones for each in slices)
        unshown = [offset for each in slices for offset in each.unshown]
        expected, same, different, unknown, found, wanted, held = self._session.one(
            "SELECT pg_catalog.count(*) FILTER (WHERE n = 1), "  # noqa: S608
            "pg_catalog.count(*) FILTER (WHERE n = 1 AND what IS NULL), "
            "pg_catalog.count(*) FILTER (WHERE what IN ('missing', 'changed', 'extra')), "
            "pg_catalog.count(*) FILTER (WHERE what IN ('more', 'open')), "
            "pg_catalog.count(*) FILTER (WHERE held IS NOT NULL), "
            f"{checksum('wanted', 'n = 1')}, {checksum('held', 'true')} "
            f"FROM {_JUDGED} WHERE place = {place}",
            kinds=(int, int, int, int, int, str, str),
        )
        shown = self._session.rows(
            f"SELECT o, what, columns FROM {_JUDGED} WHERE place = {place} "  # noqa: S608
            f"AND what IS NOT NULL ORDER BY what IN ('more', 'open'), o LIMIT {SHOWN}",
            kinds=(int, WORDS | {*_TEXTS}, str | None),
        )
        tally = Tally(same + tombstones, expected - same - unknown, unknown + len(unshown))
        tally.extra, tally.found = different - tally.different, found
        with reading():
            tally.expected_sum, tally.found_sum = int(wanted), int(held)
        tally.differences = [self._difference(last.entry, *row) for row in shown]
        table = str(self._table.place)
        tally.differences += [difference(last.entry, table, at, "unknown") for at in unshown]
        yield tally.comparison(last.entry.slice, last.extra_fields, last.refused)

    def _difference(self, entry: Entry, offset: int, what: str, columns: str | None) -> Difference:
        if what not in _TEXTS:
            return difference(entry, str(self._table.place), offset, what, columns)
        return Difference("unknown", *entry.slice.place, offset, _TEXTS[what])

    def _by(self) -> Sequence[str]:
        """Return a unique index whose columns all rows name."""
        names = {each.name for each in self._fields}
        for key in self._table.layout.table.keys:
            if not set(key.columns) <= names:
                continue
            nulls = " OR ".join(f"e.{named(name)} IS NULL" for name in key.columns)
            statement = f"SELECT EXISTS (SELECT FROM {self._name} e WHERE {nulls})"  # noqa: S608
            if self._session.run(statement) == [(False,)]:
                return key.columns
        return ()

    def _by_key(self, by: Sequence[str]) -> str:
        same = " AND ".join(f"t.{named(name)} = e.{named(name)}" for name in by)
        texts = [row_text(alias, self._fields) for alias in "et"]
        compared = (
            f"SELECT e.{_PLACE} AS place, e.{_ORDER} AS o, {texts[0]} AS wanted, {texts[1]} AS there, "  # noqa: S608
            f"t.{named(by[0])} IS NOT NULL AS is_there, {differing(self._fields)} AS columns "
            f"FROM {self._name} e LEFT JOIN {self._table.place.quoted} t ON {same}"
        )
        numbered = (
            "SELECT *, pg_catalog.row_number() OVER (PARTITION BY place, o) AS n "  # noqa: S608
            f"FROM ({compared} {APART}) r"
        )
        return (
            f"CREATE TEMPORARY TABLE {_JUDGED} ON COMMIT DROP AS SELECT place, o, n, wanted, columns, "  # noqa: S608
            "CASE WHEN is_there THEN there END AS held, "
            "CASE WHEN NOT is_there THEN 'missing' WHEN n > 1 THEN 'extra' "
            f"WHEN wanted <> there THEN 'changed' END AS what FROM ({numbered}) c"
        )

    def _by_all(self) -> str:
        """Compare how often each row exists, by the columns that all rows name."""
        common = f"(SELECT pg_catalog.bit_and({_BITS}) FROM {self._name})"  # noqa: S608
        bits, is_common = self._session.one(
            f"SELECT {common}::text, NOT EXISTS (SELECT FROM {self._name} WHERE {_BITS} <> {common})",  # noqa: S608
            kinds=(str | None, bool),
        )
        known = [each for each, bit in zip(self._fields, bits or "", strict=False) if bit == "1"]
        wanted, there = (
            f"ROW({', '.join(f'{alias}.{named(each.name)}' for each in known)})::text"
            for alias in "et"
        )
        rows = (
            f"SELECT e.{_PLACE} AS place, e.{_ORDER} AS o, {wanted} AS wanted, "  # noqa: S608
            f"pg_catalog.row_number() OVER (PARTITION BY {wanted} ORDER BY e.{_PLACE}, e.{_ORDER}) AS nth, "
            f"pg_catalog.count(*) OVER (PARTITION BY {wanted}) AS needed FROM {self._name} e"
        )
        has = f"SELECT {there} AS held, pg_catalog.count(*) AS many FROM {self._table.place.quoted} t GROUP BY 1"  # noqa: S608
        doubt = "NULL" if is_common else "'open'"
        return (
            f"CREATE TEMPORARY TABLE {_JUDGED} ON COMMIT DROP AS SELECT place, o, 1 AS n, wanted, "  # noqa: S608
            "NULL::text AS columns, CASE WHEN nth <= coalesce(many, 0) THEN held END AS held, "
            "CASE WHEN nth > coalesce(many, 0) THEN 'missing' WHEN many > needed THEN 'more' "
            f"ELSE {doubt} END AS what FROM ({rows}) r LEFT JOIN ({has}) h ON h.held = r.wanted"
        )

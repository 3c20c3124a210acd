"""Compares the rows that a whole replay should have left with those of the table."""

from collections import Counter
from collections.abc import Iterator, Sequence

from playhead.postgres.answers import reading
from playhead.postgres.compare import WORDS, ComparedSlice, by_place, difference
from playhead.postgres.final_rows import (
    COUNT,
    IS_GONE,
    IS_MIXED,
    LAST,
    PLACE,
    FinalRows,
)
from playhead.postgres.ledger import Ledger
from playhead.postgres.merge_sql import AT, REPLACING, named
from playhead.postgres.session import Row, Session, literal
from playhead.postgres.wanted_rows import (
    APART,
    BITS,
    checksum,
    differing,
    has_place,
    inside,
    number,
    row_text,
    unless_refused,
)
from playhead.record import Slice
from playhead.tables.columns import OFFSET, PARTITION, TOPIC
from playhead.target import Difference, SliceComparison
from playhead.task.tally import SHOWN, Tally

_PAIRS, _JUDGED, _SLICES = "playhead_pairs", "playhead_judged", "playhead_slices"
_PLACE, _LAST, _GONE, _COUNT, _MIXED = map(named, (PLACE, LAST, IS_GONE, COUNT, IS_MIXED))
_AT, _BITS = named(AT), named(BITS)
_UNLIMITED = 1 << 62
_TEXTS = {
    "buried": "a row exists, although a tombstone came last",
    "mixed": "its row differs, but the expected row depends on how the replay was cut into slices",
    "shared": "its row differs, but several partitions have its key, and what each leaves depends on their order",
    "met": "its row differs, perhaps another program's earlier one: the ledger counts such rows",
    "later": "its row is a later one, which the rule leaves alone: the ledger counts such rows",
    "taken": "its row claims a record that this replay did not write",
}


class Judgement:
    """One comparison of the table, in a transaction that is rolled back."""

    def __init__(self, session: Session, ledger: Ledger, replay_id: str, rows: FinalRows) -> None:
        self._session, self._ledger, self._replay_id, self._rows = session, ledger, replay_id, rows
        self._fields = rows.table.layout.fields
        self._rule, self._version = rows.table.habits.rule, rows.table.habits.version
        self._has_place = has_place(rows.table.layout.table)
        self._is_of_run = any(each.entry.details for each in rows.slices)

    def findings(self) -> list[SliceComparison]:
        """Return the comparison of each slice; a partition's counts are with its last slice."""
        with self._session.undone():
            self._session.analyze(self._rows.name)
            self._note_slices()
            self._session.run(self._paired())
            self._session.run(self._judged())
            tallies = self._tallies()
            shown = self._shown()
            extra = self._extra()
        return [
            found
            for place, slices in by_place(self._rows.slices)
            for found in self._of_place(slices, tallies.get(place, Tally()), shown[place], extra)
        ]

    def _of_place(
        self,
        slices: Sequence[ComparedSlice],
        tally: Tally,
        shown: Sequence[Row],
        extra: "Counter[Slice]",
    ) -> Iterator[SliceComparison]:
        for other in slices[:-1]:
            yield other.uncounted()
        last = slices[-1].entry
        unshown = [offset for each in slices for offset in each.unshown]
        tally.differences = [self._difference(last.slice, *row) for row in shown]
        table = str(self._rows.table.place)
        theirs = {at: count for at, count in extra.items() if at.place == last.slice.place}
        tally.differences += [difference(last, table, at.from_offset, "extra") for at in theirs]
        tally.differences += [difference(last, table, offset, "unknown") for offset in unshown]
        tally.extra = sum(theirs.values())
        tally.found += tally.extra
        tally.unknown += len(unshown)
        yield tally.comparison(last.slice, slices[-1].extra_fields, slices[-1].refused)

    def _difference(
        self, slice_: Slice, offset: int, what: str, why: str, columns: str, count: int
    ) -> Difference:
        table = self._rows.table.place
        texts = {
            "missing": f"no row in {table}",
            "extra": f"more rows in {table} than expected",
            "changed": f"other values in {table}: {columns}",
        }
        text = _TEXTS.get(why) or texts.get(what, "its row differs")
        if what == "unknown" and columns:
            text = f"{text} (it differs in {columns})"
        if count > 1:
            text = f"{text}; {count:,} records have its key"
        return Difference(what, slice_.topic, slice_.partition, offset, text)  # type: ignore[arg-type]

    # --- statements

    def _note_slices(self) -> None:
        """Create the table of slices, with how many differences each can excuse."""
        rows = ", ".join(
            f"({each.place}, {each.entry.slice.from_offset}::int8, {each.entry.slice.to_offset}::int8, "
            f"{_UNLIMITED if each.met is None else each.met}::int8, "
            f"{_UNLIMITED if each.spared is None else each.spared}::int8)"
            for each in self._rows.slices
        )
        self._session.run(
            f"CREATE TEMPORARY TABLE {_SLICES} ON COMMIT DROP AS "  # noqa: S608 - numbers
            f"SELECT * FROM (VALUES {rows}) v (place, first, stop, met, spared)"
        )
        self._session.run(f"CREATE INDEX ON {_SLICES} (place, first)")
        self._session.analyze(_SLICES)

    def _paired(self) -> str:
        """Create a row for each key and partition, and for each duplicate row of the table."""
        key = [f"key{n}" for n, _ in enumerate(self._rows.key)]
        keys = "".join(
            f", e.{named(name)} AS {k}" for k, name in zip(key, self._rows.key, strict=True)
        )
        same = " AND ".join(f"t.{named(name)} = e.{named(name)}" for name in self._rows.key)
        first = named(self._rows.key[0])
        texts = [row_text(alias, self._fields) for alias in "et"]
        version = f", {self._effective()} AS version" if self._rule == "newer" else ""
        joined = (
            f"SELECT e.{_PLACE} AS place, e.{_LAST} AS o, e.{_COUNT} AS records, e.{_GONE} AS gone, "  # noqa: S608
            f"e.{_MIXED} AS mixed, t.{first} IS NOT NULL AS is_there, "
            f"CASE WHEN NOT e.{_GONE} THEN {texts[0]} END AS wanted, "
            f"CASE WHEN t.{first} IS NOT NULL THEN {texts[1]} END AS held, "
            f"{differing(self._fields)} AS columns, "
            f"{self._is_later()} AS is_later, {self._is_taken()} AS is_taken, "
            f"CASE WHEN {texts[0]} = {texts[1]} THEN {self._agrees()} END AS agrees{keys}{version} "
            f"FROM {self._rows.name} e LEFT JOIN {self._rows.table.place.quoted} t ON {same} {APART}"
        )
        of_key = f"PARTITION BY {', '.join(key)}"
        pairs = (
            f"SELECT *, {self._allowed(of_key)} AS allowed, "  # noqa: S608
            f"pg_catalog.dense_rank() OVER (ORDER BY {', '.join(key)}) AS k, "
            f"pg_catalog.row_number() OVER ({of_key}, place) AS n FROM ({joined}) e"
        )
        matches = "allowed AND (gone AND NOT is_there OR wanted = held AND agrees)"
        return (
            f"CREATE TEMPORARY TABLE {_PAIRS} ON COMMIT DROP AS "  # noqa: S608
            f"SELECT *, coalesce({matches}, false) AS matches, "
            "pg_catalog.row_number() OVER (PARTITION BY k ORDER BY n, "
            f"coalesce({matches}, false) DESC, allowed DESC, place) AS rank FROM ({pairs}) p"
        )

    def _judged(self) -> str:
        """Create the judgement of each key, on its first row; excuses are limited by the slice's counts."""
        key = "OVER (PARTITION BY k)"
        of_key = (
            f"SELECT *, pg_catalog.bool_or(matches) {key} AS is_same, pg_catalog.max(n) {key} > 1 AS is_double, "  # noqa: S608
            f"pg_catalog.min(place) {key} <> pg_catalog.max(place) {key} AS is_shared, "
            f"pg_catalog.bool_or(mixed) {key} AS is_mixed, "
            f"pg_catalog.bool_or(gone) {key} AS may_be_gone, pg_catalog.bool_and(is_later) {key} AS is_after_all "
            f"FROM {_PAIRS} r"
        )
        why = (
            "CASE WHEN is_double THEN 'double' WHEN is_same THEN NULL WHEN is_mixed THEN 'mixed' "
            f"WHEN is_there AND is_shared AND ({self._shared()}) THEN 'shared' "
            f"WHEN is_there AND NOT gone AND {self._may_be_met()} THEN 'met' "
            f"WHEN is_there AND {self._is_newer()} AND is_after_all THEN 'later' "
            "WHEN is_there AND is_taken THEN 'taken' "
            "WHEN is_there AND gone THEN 'buried' WHEN is_there THEN 'changed' ELSE 'missing' END"
        )
        judged = f"SELECT *, {why} AS why FROM ({of_key}) q WHERE rank = 1"  # noqa: S608
        excused = (
            "SELECT j.*, pg_catalog.row_number() OVER (PARTITION BY l.place, l.first, j.why, j.gone ORDER BY j.o) "  # noqa: S608
            "AS turn, CASE WHEN j.gone THEN l.spared ELSE l.met END AS excuses "
            f"FROM ({judged}) j LEFT JOIN LATERAL (SELECT * FROM {_SLICES} l WHERE l.place = j.place "
            "AND l.first <= j.o AND j.why IN ('met', 'later') ORDER BY l.first DESC LIMIT 1) l ON true"
        )
        what = (
            "CASE WHEN why IS NULL THEN 'same' WHEN why IN ('mixed', 'shared', 'taken') THEN 'unknown' "
            # Beyond the ledger's count of such rows, one may be of another replay that came later.
            "WHEN why IN ('met', 'later') AND (turn <= excuses OR is_taken) THEN 'unknown' "
            "WHEN why = 'double' OR gone THEN 'extra' WHEN why = 'missing' THEN 'missing' ELSE 'changed' END"
        )
        reason = "CASE WHEN turn > excuses AND is_taken THEN 'taken' ELSE why END"
        first = f"SELECT k, {reason} AS key_why, {what} AS what FROM ({excused}) x"  # noqa: S608
        return (
            f"CREATE TEMPORARY TABLE {_JUDGED} ON COMMIT DROP AS "  # noqa: S608
            f"SELECT r.*, f.what, f.key_why AS why FROM {_PAIRS} r JOIN ({first}) f USING (k)"
        )

    def _agrees(self) -> str:
        """Return whether the row also has what other partitions' records say of columns that its own do not name.

        Of several that name one, `update` leaves any of their values, and `newer` should leave the latest.
        """
        rows = self._rows
        if not self._may_be_mixture() or len(rows.places) < 2:
            return "true"
        if self._rule == "update":
            start, end, rest = "pg_catalog.bool_or(", ")", ""
        else:
            latest = self._latest_first(self._effective("o"), f"o.{_PLACE}")
            start, end, rest = "(pg_catalog.array_agg(", f" {latest})", ")[1]"
        columns = [
            f"coalesce({start}o.{name}::text IS NOT DISTINCT FROM t.{name}::text{end} FILTER (WHERE "
            f"pg_catalog.get_bit(o.{_BITS}, {index}) > pg_catalog.get_bit(e.{_BITS}, {index})){rest}, true)"
            for index, name in enumerate(named(each.name) for each in self._fields)
        ]
        same = " AND ".join(f"o.{name} = e.{name}" for name in map(named, rows.key))
        others = f"FROM {rows.name} o WHERE {same} AND o.{_PLACE} <> e.{_PLACE}"
        return f"(SELECT {' AND '.join(columns)} {others})"

    def _may_be_mixture(self) -> bool:
        """Return whether the row of a key may have columns of several records."""
        return self._rule in REPLACING and len(self._rows.forms) > 1

    def _shared(self) -> str:
        """Return when a row may be a mixture of several partitions' records."""
        is_mixture = "true" if self._may_be_mixture() else "false"
        return f"{is_mixture} OR may_be_gone" if self._rule == "ignore" else is_mixture

    def _may_be_met(self) -> str:
        return "true" if self._rule == "ignore" else "false"

    def _is_newer(self) -> str:
        return "true" if self._rule == "newer" else "false"

    def _effective(self, row: str = "e") -> str:
        version = named(self._version)
        if not self._rows.has_tombstones:
            return f"{row}.{version}"
        return f"CASE WHEN {row}.{_GONE} THEN {row}.{_AT} ELSE {row}.{version} END"

    def _allowed(self, of_key: str) -> str:
        """Return whether a partition's record of a key may be the last of all."""
        if self._rule != "newer":
            return "true"
        latest = self._latest_first("version", "place")
        return f"pg_catalog.dense_rank() OVER ({of_key} {latest}) = 1"

    def _latest_first(self, version: str, place: str) -> str:
        # Topics and partitions in the order that decides between equal versions.
        in_order = sorted(self._rows.places)
        numbers = [str(in_order.index(place)) for place in self._rows.places]
        order = f"(ARRAY[{', '.join(numbers)}])[{place} + 1]"
        return f"ORDER BY {version} DESC NULLS LAST, {order} DESC"

    def _is_later(self) -> str:
        if self._rule != "newer":
            return "false"
        # A row with an offset may be from a later record of the same version.
        than = ">=" if self._has_place else ">"
        return f"coalesce(t.{named(self._version)} {than} {self._effective()}, false)"

    def _is_taken(self) -> str:
        """Return whether the row claims another replay's record, as far as that is known.

        With a run, its ledger knows what other replays wrote; without one, everything outside
        counts.
        """
        table = self._rows.table.layout.table
        if not self._has_place:
            return "false"
        ours = inside(table, self._rows.spans())
        if not self._is_of_run:
            return f"coalesce(NOT {ours} AND {self._is_behind()}, false)"
        return f"coalesce(NOT {ours} AND {self._ledger.by_others(self._replay_id, table)}, false)"

    def _is_behind(self) -> str:
        """Return whether a row is from a later offset than those compared."""
        table = self._rows.table.layout.table
        ends: dict[tuple[str, int], int] = {}
        for span in self._rows.spans():
            ends[span.topic, span.partition] = span.to_offset
        conditions = [
            f"t.{named(TOPIC)}::text = {literal(topic)} AND {number(table, PARTITION)} = {partition} "
            f"AND {number(table, OFFSET)} >= {end}"
            for (topic, partition), end in ends.items()
        ]
        return f"({' OR '.join(conditions)})"

    # --- results

    def _tallies(self) -> dict[int, Tally]:
        once = "rank = 1"
        rows = self._session.rows(
            "SELECT place, coalesce(pg_catalog.sum(records) FILTER (WHERE n = 1 AND what = 'same'), 0)::int8, "  # noqa: S608
            "coalesce(pg_catalog.sum(records) FILTER (WHERE n = 1 AND what NOT IN ('same', 'unknown')), 0)::int8, "
            "coalesce(pg_catalog.sum(records) FILTER (WHERE n = 1 AND what = 'unknown'), 0)::int8, "
            f"pg_catalog.count(*) FILTER (WHERE is_there AND ({once} OR n > 1)), "
            f"{checksum('wanted', f'{once} AND NOT gone')}, "
            f"{checksum('held', f'is_there AND ({once} OR n > 1)')} "
            f"FROM {_JUDGED} GROUP BY place",
            kinds=(int, int, int, int, int, str, str),
        )
        with reading():
            return {
                place: Tally(
                    same,
                    different,
                    unknown,
                    0,
                    found,
                    expected_sum=int(wanted),
                    found_sum=int(held),
                )
                for place, same, different, unknown, found, wanted, held in rows
            }

    def _shown(self) -> dict[int, Sequence[Row]]:
        """Return the first differences of each partition."""
        places = range(len(self._rows.places))
        return {
            place: self._session.rows(
                "SELECT o, what, coalesce(why, ''), columns, records FROM "  # noqa: S608
                f"{_JUDGED} WHERE place = {place} AND rank = 1 AND what <> 'same' "
                f"ORDER BY what = 'unknown', o LIMIT {SHOWN}",
                kinds=(int, WORDS, str, str | None, int),
            )
            for place in places
        }

    def _extra(self) -> "Counter[Slice]":
        """Return rows that claim the replay's offsets, but have keys of none of its records."""
        table = self._rows.table.layout.table
        found: Counter[Slice] = Counter()
        if not (self._has_place and self._is_of_run):
            return found
        same = " AND ".join(f"t.{named(name)} = e.{named(name)}" for name in self._rows.key)
        refused = unless_refused(table, ((it.entry.slice, it.refused) for it in self._rows.slices))
        rows = self._session.rows(
            f"SELECT t.{named(TOPIC)}::text, {number(table, PARTITION)}::int8, "  # noqa: S608
            f"pg_catalog.min({number(table, OFFSET)})::int8, pg_catalog.count(*) FROM {table.place.quoted} t "
            f"WHERE {inside(table, self._rows.spans())}{refused} "
            f"AND NOT EXISTS (SELECT FROM {self._rows.name} e WHERE {same})"
            f"{self._ledger.unless_others(self._replay_id, table)} GROUP BY 1, 2",
            kinds=(str, int, int, int),
        )
        for topic, partition, offset, count in rows:
            found[Slice(topic, int(partition), int(offset), int(offset) + 1)] = int(count)
        return found

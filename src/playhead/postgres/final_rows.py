"""The rows that a whole replay should have left: for every key, the result of its last record."""

from collections.abc import Sequence

from playhead.ledger import Entry
from playhead.postgres.compare import ComparedSlice, accounted, written
from playhead.postgres.merge_sql import AT, GONE, named
from playhead.postgres.open_table import OpenTable, left_out
from playhead.postgres.rows.decode import ORDER
from playhead.postgres.rows.named_columns import FORM
from playhead.postgres.session import CopySession, Session
from playhead.postgres.skipped_records import Skipped
from playhead.postgres.stage.kept_rows import NOT_DELETED
from playhead.postgres.stage.stage import Stage
from playhead.postgres.wanted_rows import (
    BITS,
    LAYER,
    WANTED,
    bit_text,
    make_wanted,
    named_columns,
    none,
)
from playhead.record import Slice, joined_spans
from playhead.records import Records
from playhead.source import TopicPartition

PLACE, LAST, IS_GONE = "playhead:place", "playhead:last", "playhead:gone"
COUNT, IS_MIXED = "playhead:count", "playhead:mixed"
_ORDER, _FORM, _LAYER, _BITS, _AT = map(named, (ORDER, FORM, LAYER, BITS, AT))
_PLACE, _LAST, _GONE, _COUNT, _MIXED = map(named, (PLACE, LAST, IS_GONE, COUNT, IS_MIXED))


class FinalRows:
    """Collects the slices of a replay, those of a partition in offset order.

    A temporary table on the server has one row for each key and partition, as the conflict rule would have
    left it in an empty table. A replay does not define an order between partitions: if several have a key,
    any of their rows may be the last one, except under `newer`, where the latest version wins, then topic and
    partition.
    """

    def __init__(self, session: CopySession, table: OpenTable, number: int) -> None:
        self._session, self._table = session, table
        self.name = f"playhead_final_{number}"
        self.key = table.habits.key
        self.slices: list[ComparedSlice] = []
        self.places: dict[TopicPartition, int] = {}
        self.forms: set[frozenset[str]] = set()
        """The columns that a record names, of all records."""
        self.has_tombstones = False
        self._is_made = False

    @property
    def table(self) -> OpenTable:
        return self._table

    @property
    def fields(self) -> Sequence[str]:
        return [each.name for each in self._table.layout.fields]

    def add(self, entry: Entry, whole: Records) -> None:
        """Add the records of a slice."""
        place = self.places.setdefault(entry.slice.place, len(self.places))
        unshown = Skipped(self._session, self._table, entry).unshown(whole)
        compared = ComparedSlice(entry, place, unshown)
        rows, account = written(entry, whole), accounted(entry)
        decoded = self._table.decode(rows, account)
        compared.extra_fields = left_out(decoded, account)
        with self._session.transaction():
            if not self._is_made:
                self._make()
            stage = Stage(self._session, self._table, decoded, rows, account)
            stage.fill()
            stage.expect()
            _Taken(self, self._session, stage, compared).take()
        self._is_made = True
        compared.refused = tuple(account.refused_offsets)
        self.slices.append(compared)

    def _make(self) -> None:
        own = [(PLACE, "int4"), (LAST, "int8"), (IS_GONE, "bool"), (AT, "timestamptz")]
        own += [(BITS, f"bit({len(self.fields)})"), (COUNT, "int8"), (IS_MIXED, "bool")]
        columns = [f"{named(name)} {kind}" for name, kind in own]
        for each in self._table.layout.fields:
            # Without domains: a deleted row has nulls in NOT NULL columns.
            collation = f" COLLATE {each.column.collation}" if each.column.collation else ""
            columns.append(f"{named(each.name)} {each.column.base_type}{collation}")
        keys = ", ".join([*map(named, self.key), _PLACE])
        self._session.run(f"CREATE TEMPORARY TABLE {self.name} ({', '.join(columns)})")
        self._session.run(f"CREATE UNIQUE INDEX ON {self.name} ({keys})")

    def spans(self) -> list[Slice]:
        """Return the spans of all slices together."""
        return joined_spans(each.entry.slice for each in self.slices)


class _Taken:
    """One slice that is being added."""

    def __init__(
        self, into: FinalRows, session: Session, stage: Stage, compared: ComparedSlice
    ) -> None:
        self._into, self._session, self._stage, self._compared = into, session, stage, compared
        self._layout = into.table.layout.fields
        self._rule, self._version = into.table.habits.rule, into.table.habits.version
        self._is_update = self._rule in ("update", "newer")
        self._keys = ", ".join(map(named, into.key))

    def take(self) -> None:
        merge = self._stage.merge
        self._session.run(make_wanted(merge, self._layout, is_update=self._is_update))
        counted = f"SELECT pg_catalog.count(*) FROM {WANTED}"  # noqa: S608
        (rows,) = self._session.one(counted, kinds=[int])
        superseded = self._bury() if self._stage.has_tombstones else 0
        parts = self._session.rows(
            f"SELECT {_LAYER}::int8, {_FORM}::int8 FROM {WANTED} GROUP BY {_LAYER}, {_FORM} "  # noqa: S608
            f"ORDER BY {_LAYER}, pg_catalog.min({_ORDER})",
            kinds=(int, int),
        )
        taken = sum(self._put(layer, form) for layer, form in parts)
        self._into.has_tombstones |= self._stage.has_tombstones
        details = self._compared.entry.details
        if "inserted" in details:
            # Those that the replay's own records left alone were not left alone for another
            # program's row.
            own = max(0, rows - superseded - taken)
            self._compared.met = max(0, int(details.get("left_alone", 0)) - own)
            buried = int(details.get("tombstones", 0)) - int(details.get("deleted", 0))
            # Where a trigger kept the row, nothing was spared.
            self._compared.spared = max(0, buried - int(details.get(NOT_DELETED, 0)))

    def _put(self, layer: int, form: int) -> int:
        """Add rows of one form; return how many of them are the last of their key now."""
        merge = self._stage.merge
        given = merge.forms[form] if merge.forms else merge.fields
        self._into.forms.add(frozenset(each.name for each in given))
        takes = self._takes()
        known = bit_text(
            named_columns(
                merge, self._layout, form if merge.forms else None, is_update=self._is_update
            )
        )
        own = (
            f"{_LAST} = CASE WHEN {takes} THEN EXCLUDED.{_LAST} ELSE s.{_LAST} END, "
            f"{_BITS} = CASE WHEN NOT {takes} THEN s.{_BITS} WHEN s.{_GONE} THEN EXCLUDED.{_BITS} "
            f"ELSE s.{_BITS} & ~{known} | EXCLUDED.{_BITS} END, "
            f"{_GONE} = s.{_GONE} AND NOT {takes}, {_COUNT} = s.{_COUNT} + EXCLUDED.{_COUNT}, "
            f"{_MIXED} = s.{_MIXED} OR EXCLUDED.{_MIXED}"
        )
        columns = [named(each.name) for each in self._layout]
        sets = [
            f"{named(each.name)} = CASE WHEN {takes}{self._and_gone(each.name, given)} "
            f"THEN EXCLUDED.{named(each.name)} ELSE s.{named(each.name)} END"
            for each in self._layout
        ]
        names = ", ".join([_PLACE, _LAST, _GONE, _COUNT, _MIXED, _BITS, *columns])
        keys = self._keys_of("w")
        chosen = (
            f"SELECT DISTINCT ON ({keys}) {self._compared.place}, {_ORDER}, false, "  # noqa: S608
            f"pg_catalog.count(*) OVER (PARTITION BY {keys}), {self._is_mixed()}, {_BITS}, {', '.join(columns)} "
            f"FROM {WANTED} w WHERE {_LAYER} = {layer} AND {_FORM} = {form} ORDER BY {keys}, {self._wins()}"
        )
        (taken,) = self._session.one(
            f"WITH put AS (INSERT INTO {self._into.name} AS s ({names}) {chosen} "  # noqa: S608
            f"ON CONFLICT ({self._keys}, {_PLACE}) DO UPDATE SET {own}, {', '.join(sets)} "
            f"RETURNING s.{_LAST}) SELECT pg_catalog.count(*) FROM put "
            f"WHERE {_LAST} >= {self._compared.entry.slice.from_offset}",
            kinds=[int],
        )
        return int(taken)

    def _keys_of(self, alias: str) -> str:
        """Return the keys of one table: without it, `ORDER BY` takes a key `count` for a column of the result."""
        return ", ".join(f"{alias}.{named(name)}" for name in self._into.key)

    def _and_gone(self, name: str, given: Sequence[object]) -> str:
        """Keep columns that a record does not name, unless the row is new."""
        is_given = any(getattr(each, "name", None) == name for each in given)
        return "" if is_given else f" AND s.{_GONE}"

    def _takes(self) -> str:
        """Return whether a record replaces the last one of its key."""
        if self._rule == "ignore":
            return f"s.{_GONE}"
        if self._rule != "newer":
            return "true"
        version = named(self._version)
        is_after = f"s.{version} IS NULL OR s.{version} <= EXCLUDED.{version}"
        if self._into.table.habits.tombstones == "delete":
            # A version is a time only in this case.
            is_after = f"CASE WHEN s.{_GONE} THEN s.{_AT} <= EXCLUDED.{version} ELSE {is_after} END"
        return f"coalesce({is_after}, false)"

    def _wins(self) -> str:
        """Return the order of rows of one key and form."""
        if self._rule == "ignore":
            return _ORDER
        if self._rule == "newer":
            return f"w.{named(self._version)} DESC NULLS LAST, {_ORDER} DESC"
        return f"{_ORDER} DESC"

    def _is_mixed(self) -> str:
        """Return whether the result may depend on where slices were cut: then it cannot be reproduced."""
        is_partial = self._stage.has_tombstones and bool(self._stage.merge.forms)
        return "true" if self._rule == "newer" and is_partial else "false"

    # --- tombstones

    def _bury(self) -> int:
        """Mark keys as deleted, and remove rows of the slice before a tombstone."""
        order = f"{_AT} DESC, {_ORDER} DESC" if self._rule == "newer" else f"{_ORDER} DESC"
        keys, takes = self._keys_of("g"), "true"
        if self._rule == "newer":
            takes = (
                f"CASE WHEN s.{_GONE} THEN s.{_AT} <= EXCLUDED.{_AT} "
                f"ELSE NOT coalesce(s.{named(self._version)} > EXCLUDED.{_AT}, false) END"
            )
        nothing = none(self._layout)
        sets = ", ".join(
            f"{name} = CASE WHEN {takes} THEN EXCLUDED.{name} ELSE s.{name} END"
            for name in (_LAST, _GONE, _AT, _BITS)
        )
        chosen = (
            f"SELECT DISTINCT ON ({keys}) {self._compared.place}, {_ORDER}, true, {_AT}, "  # noqa: S608
            f"pg_catalog.count(*) OVER (PARTITION BY {keys}), {self._is_mixed()}, "
            f"{nothing}, {self._keys} FROM {GONE} g ORDER BY {keys}, {order}"
        )
        self._session.run(
            f"INSERT INTO {self._into.name} AS s "
            f"({_PLACE}, {_LAST}, {_GONE}, {_AT}, {_COUNT}, {_MIXED}, {_BITS}, {self._keys}) {chosen} "
            f"ON CONFLICT ({self._keys}, {_PLACE}) DO UPDATE SET {sets}, "
            f"{_COUNT} = s.{_COUNT} + EXCLUDED.{_COUNT}, {_MIXED} = s.{_MIXED} OR EXCLUDED.{_MIXED}"
        )
        return self._supersede()

    def _supersede(self) -> int:
        later = f"w.{_ORDER} < g.{_ORDER}"
        if self._rule == "newer":
            version = f"w.{named(self._version)}"
            later = f"({version} IS NULL OR ({version}, w.{_ORDER}) < (g.{_AT}, g.{_ORDER}))"
        keys = [named(name) for name in self._into.key]
        same = " AND ".join(f"w.{name} = g.{name}" for name in keys)
        theirs = " AND ".join(f"s.{name} = n.{name}" for name in keys)
        (count,) = self._session.one(
            f"WITH lost AS (DELETE FROM {WANTED} w USING {GONE} g WHERE {same} AND {later} "  # noqa: S608
            f"RETURNING {', '.join(f'w.{name}' for name in keys)}), "
            f"numbers AS (SELECT {self._keys}, pg_catalog.count(*) AS {_COUNT} FROM lost GROUP BY {self._keys}), "
            f"noted AS (UPDATE {self._into.name} s SET {_COUNT} = s.{_COUNT} + n.{_COUNT} FROM numbers n "
            f"WHERE {theirs} AND s.{_PLACE} = {self._compared.place} RETURNING n.{_COUNT}) "
            f"SELECT coalesce(pg_catalog.sum({_COUNT}), 0)::int8 FROM noted",
            kinds=[int],
        )
        return int(count)

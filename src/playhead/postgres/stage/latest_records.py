"""What `newer` remembers beside a table: the latest record of a key, if no row can tell it.

A deleted row cannot say that its tombstone was later than a new record, and a row without columns for its
origin cannot say which of two records of one version it is from. Records of partition 0 are not stored:
they are before those of all other partitions, and their own partition commits in order. A reader has the
table's lock until the transaction ends.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from playhead.note import Note
from playhead.postgres.merge_sql import AT, GONE, STAGE, MergeSql, named
from playhead.postgres.open_table import WriteRules
from playhead.postgres.own_table import OwnTable
from playhead.postgres.record_rank import Rank, is_later
from playhead.postgres.rows.column_layout import Field, Layout, has_place
from playhead.postgres.rows.decode import ORDER
from playhead.postgres.session import Session, TableName, literal

_REPLAY, _VERSION, _IS_DELETED = map(
    named, ("playhead:replay", "playhead:version", "playhead:deleted")
)
_TOPIC, _PARTITION, _OFFSET = map(
    named, ("playhead:topic", "playhead:partition", "playhead:offset")
)
_ORDER = named(ORDER)
_LONGEST_BYTES = 63
RIGHTS = ("SELECT", "INSERT", "UPDATE")


def beside(ledger: TableName, oid: int) -> TableName:
    """Return the table's name, which belongs to one table because of its key columns' types."""
    end = f"latest_{oid}" if ledger.name == "entries" else f"_latest_{oid}"
    kept = "" if ledger.name == "entries" else ledger.name
    short = kept.encode()[: _LONGEST_BYTES - len(end)].decode(errors="ignore")
    return TableName(ledger.schema, short + end)


def is_needed(layout: Layout, habits: WriteRules) -> bool:
    """Return whether the table's own rows do not contain enough."""
    return habits.rule == "newer" and (habits.tombstones == "delete" or not has_place(layout))


def not_remembered(table: TableName) -> Note:
    """The note for slices that were committed before keys were remembered."""
    text = (
        f"an earlier version committed to {table} without remembering deleted keys: an older "
        "record can bring back a deleted key; a replay under another ID avoids that"
    )
    return Note("not-remembered", text)


@dataclass(slots=True)
class Latest:
    """The latest records of one replay into one table, through one session."""

    session: Session
    ledger: TableName
    layout: Layout
    habits: WriteRules
    replay_id: str
    is_used: bool = False
    """Whether it certainly has entries."""
    _is_made: bool = field(default=False)

    @property
    def own(self) -> OwnTable:
        table = self.layout.table
        place = beside(self.ledger, table.oid)
        return OwnTable(self.session, place, _statement(self.layout, self.habits))

    def exists(self) -> bool:
        return OwnTable(
            self.session, beside(self.ledger, self.layout.table.oid), statement=""
        ).exists()

    def keeps_rows(self, partition: int) -> bool:
        """Return whether rows of a partition are stored too, not only tombstones."""
        return partition > 0 and not has_place(self.layout)

    def make(self) -> None:
        if not self._is_made:
            self.own.make()
            self._is_made = True

    def lock(self) -> None:
        """Lock the table against other partitions of the replay, so that what is read is complete."""
        self.session.run(
            "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1, 0))",
            (json.dumps(["playhead latest", self.replay_id, self.layout.table.oid]),),
        )

    def may_be_let_be(self, partition: int) -> bool:
        """Return whether rows may be copied directly, as far as is known before the transaction."""
        return not self.is_used and not self.keeps_rows(partition)

    def is_empty(self) -> bool:
        """Return whether nothing is stored, so that rows can be copied directly until the transaction ends."""
        self.lock()
        if not self.is_used:
            found = self.session.run(
                f"SELECT EXISTS (SELECT FROM {self.own.place.quoted} WHERE {_REPLAY} = $1)",  # noqa: S608
                (self.replay_id,),
            )
            self.is_used = found == [(True,)]
        return not self.is_used

    def statements(self, merge: MergeSql, topic: str, partition: int) -> "Statements":
        return Statements(merge, self.own.place, self.replay_id, topic, partition)


def _statement(layout: Layout, habits: WriteRules) -> str:
    """Return the CREATE TABLE; without modifiers and domains, because values have passed the column's type."""
    fields = {each.name: each for each in layout.fields}
    key = ", ".join(f"{named(name)} {_kind(fields[name])}" for name in habits.key)
    names = ", ".join(map(named, habits.key))
    columns = (
        f"{_REPLAY} text NOT NULL, {key}, "
        f"{_VERSION} {_kind(fields[habits.version])}, {_TOPIC} text NOT NULL, "
        f"{_PARTITION} int8 NOT NULL, {_OFFSET} int8 NOT NULL, {_IS_DELETED} bool NOT NULL, "
        f"PRIMARY KEY ({_REPLAY}, {names})"
    )
    escaped = columns.replace("{", "{{").replace("}", "}}")
    return f"CREATE TABLE IF NOT EXISTS {{table}} ({escaped})"


def _kind(field_: Field) -> str:
    column = field_.column
    return (
        f"{column.base_type} COLLATE {column.collation}" if column.collation else column.base_type
    )


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements of one slice; `s` is the stage, `g` its tombstones, `m` the stored records."""

    merge: MergeSql
    table: TableName
    replay_id: str
    topic: str
    partition: int

    def outdated(self, first: int, last: int) -> str:
        """Remove staged rows for which a later record is known."""
        return (
            f"DELETE FROM {STAGE} s USING {self.table.quoted} m "  # noqa: S608 - all quoted
            f"WHERE s.{_ORDER} BETWEEN {first} AND {last} AND {self._mine} "
            f"AND {self.merge.same('s', 'm')} AND {is_later(self._kept('m'), self._staged())}"
        )

    def outdated_tombstones(self) -> str:
        """Remove tombstones for which a later record is known."""
        return (
            f"DELETE FROM {GONE} g USING {self.table.quoted} m WHERE {self._mine} "  # noqa: S608
            f"AND {self.merge.same('g', 'm')} AND {is_later(self._kept('m'), self._gone())}"
        )

    def keep_tombstones(self) -> str:
        keys = [f"g.{named(name)}" for name in self.merge.key]
        version, place = f"g.{named(AT)}", f"g.{_ORDER}"
        return self._keep(f"{GONE} g", keys, (version, place), is_deleted=True)

    def keep_rows(self) -> str:
        """Store staged rows that were not refused."""
        keys = [self.merge.key_of(name) for name in self.merge.key]
        version, place = self.merge.key_of(self.merge.version), f"s.{_ORDER}"
        return self._keep(f"{STAGE} s", keys, (version, place), is_deleted=False)

    def _keep(
        self, source: str, keys: Sequence[str], latest: tuple[str, str], *, is_deleted: bool
    ) -> str:
        """Store the latest record of each key, unless the stored one is later."""
        version, offset = latest
        names = ", ".join(map(named, self.merge.key))
        own = ", ".join((_VERSION, _TOPIC, _PARTITION, _OFFSET, _IS_DELETED))
        distinct = ", ".join(keys)
        chosen = (
            f"SELECT DISTINCT ON ({distinct}) {literal(self.replay_id)}, {distinct}, {version}, "  # noqa: S608
            f"{literal(self.topic)}, {self.partition}, {offset}, {is_deleted} FROM {source} "
            f"ORDER BY {distinct}, {version} DESC NULLS LAST, {offset} DESC"
        )
        sets = ", ".join(
            f"{name} = EXCLUDED.{name}"
            for name in (_VERSION, _TOPIC, _PARTITION, _OFFSET, _IS_DELETED)
        )
        later = is_later(self._kept("EXCLUDED"), self._kept("m"))
        return (
            f"INSERT INTO {self.table.quoted} AS m ({_REPLAY}, {names}, {own}) {chosen} "
            f"ON CONFLICT ({_REPLAY}, {names}) DO UPDATE SET {sets} WHERE {later}"
        )

    @property
    def _mine(self) -> str:
        return f"m.{_REPLAY} = {literal(self.replay_id)}"

    def _kept(self, alias: str) -> Rank:
        place = f'({alias}.{_TOPIC} COLLATE "C", {alias}.{_PARTITION}, {alias}.{_OFFSET})'
        return Rank(f"{alias}.{_VERSION}", place)

    def _here(self, offset: str) -> str:
        return f'({literal(self.topic)} COLLATE "C", {self.partition}, {offset})'

    def _staged(self) -> Rank:
        return Rank(self.merge.key_of(self.merge.version), self._here(f"s.{_ORDER}"))

    def _gone(self) -> Rank:
        return Rank(f"g.{named(AT)}", self._here(f"g.{_ORDER}"))

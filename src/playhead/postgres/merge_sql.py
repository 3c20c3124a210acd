"""The statements that merge the staged rows of a slice into the table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from psycopg import sql

from playhead.postgres.errors import UNIQUE_VIOLATION
from playhead.postgres.record_rank import Rank, is_later
from playhead.postgres.rows.column_layout import Field
from playhead.postgres.rows.column_types import may_look_different
from playhead.postgres.rows.decode import ORDER
from playhead.postgres.rows.named_columns import FORM
from playhead.postgres.session import TableName, literal
from playhead.tables.columns import OFFSET, PARTITION, TOPIC

Rule = Literal["ignore", "newer", "update", "error"]
REPLACING = ("newer", "update")
STAGE, TEXTS = "playhead_rows", "playhead_texts"
KEYS = "playhead_keys"
GONE, GONE_TEXTS = "playhead_gone", "playhead_gone_texts"
EXPECTED = "playhead_expected"
AT = "playhead:at"
# So that values compare equally, whatever the columns' types and collations are.
_PLACES = {TOPIC: '{}::text COLLATE "C"', PARTITION: "{}::text::int8", OFFSET: "{}::text::int8"}
# Types to which a cast cuts a value that the column would refuse as too long.
_CUT = ("bpchar", "name", "bit", "varbit")


@lru_cache(maxsize=1024)
def named(name: str) -> str:
    """Quote a name."""
    return sql.Identifier(name).as_string()


_ORDER, _FORM, _LAYER = named(ORDER), named(FORM), named("playhead:layer")


def make_temporary(name: str, columns: Sequence[tuple[str, str]]) -> str:
    """Return the statement for a temporary table that is dropped at the transaction's end."""
    listed = ", ".join(f"{named(column)} {kind}" for column, kind in columns)
    return f"CREATE TEMPORARY TABLE {name} ({listed}) ON COMMIT DROP"


@dataclass(frozen=True, slots=True)
class MergeSql:
    """How staged rows merge with existing ones; statements with numbers are for a range of records."""

    place: TableName
    fields: tuple[Field, ...]
    key: tuple[str, ...] = ()
    rule: Rule | None = None
    version: str = ""
    """The column that `newer` compares."""
    is_distinct: bool = False
    """Whether no two staged rows have one key."""
    is_partitioned: bool = False
    forms: tuple[tuple[Field, ...], ...] = ()
    """If rows are written to different columns: the columns by a row's number."""
    places: tuple[str, ...] = ()
    """The columns with a row's origin: topic, partition and offset, as far as they exist."""
    source: tuple[str, int] = ("", 0)
    """The topic and the partition of the staged rows."""
    part: tuple[int, int] | None = None
    """The layer and the form of the rows, if not all are meant."""
    counts_due: bool = False
    """Whether `insert` also counts the rows that are to be inserted, and to be changed: a trigger may drop some."""

    def for_part(self, layer: int, form: int) -> "MergeSql":
        """Return the merge for rows of one form, none of which follows another form's row of its key and layer."""
        return replace(self, fields=self.forms[form], forms=(), part=(layer, form))

    @property
    def answers_counts(self) -> bool:
        """Whether `insert` is a query that returns how many rows were inserted and written."""
        return self.rule in REPLACING

    def make_stage(self) -> str:
        columns = [(each.name, _collated(each, each.aside)) for each in self.fields]
        numbers = [*self._form_column(), ("playhead:layer", "int8 DEFAULT 0")] if self.forms else []
        return make_temporary(STAGE, [(ORDER, "int8"), *numbers, *columns])

    def _form_column(self) -> list[tuple[str, str]]:
        return [(FORM, "int4")] if self.forms else []

    def lay(self) -> str | None:
        """Number each key's layers: a new one begins when the form changes."""
        if not self.key or self.is_distinct:
            return None
        order = f"(PARTITION BY {self._keys()} ORDER BY {_ORDER})"
        changes = (
            f"SELECT {_ORDER} AS o, {self._keys_as()}, "  # noqa: S608
            f"coalesce(({_FORM} <> pg_catalog.lag({_FORM}) OVER {order})::int, 0) AS n FROM {STAGE} s"
        )
        keys = ", ".join(f"k{number}" for number in range(len(self.key)))
        layers = f"SELECT o, pg_catalog.sum(n) OVER (PARTITION BY {keys} ORDER BY o) AS n FROM ({changes}) c"  # noqa: S608
        return f"UPDATE {STAGE} s SET {_LAYER} = l.n FROM ({layers}) l WHERE l.o = s.{_ORDER}"  # noqa: S608

    def parts(self) -> str:
        """Return layers and forms of staged rows, in the order of writing."""
        return f"SELECT {_LAYER}, {_FORM} FROM {STAGE} GROUP BY 1, 2 ORDER BY {_LAYER}, pg_catalog.min({_ORDER})"  # noqa: S608

    def index_parts(self) -> str:
        return f"CREATE INDEX ON {STAGE} ({_LAYER}, {_FORM})"

    def make_texts(self, as_text: Sequence[Field]) -> str:
        columns = [(each.name, "text" if each in as_text else each.aside) for each in self.fields]
        return make_temporary(TEXTS, [(ORDER, "int8"), *self._form_column(), *columns])

    def read_texts(self, as_text: Sequence[Field], first: int, last: int) -> str:
        """Let the server parse the texts."""
        held = ", ".join(
            reading(named(each.name), each, each.aside) if each in as_text else named(each.name)
            for each in self.fields
        )
        own = ", ".join([_ORDER, *(named(name) for name, _ in self._form_column())])
        columns = ", ".join([own, *(named(each.name) for each in self.fields)])
        return f"INSERT INTO {STAGE} ({columns}) SELECT {own}, {held} FROM {TEXTS} s {_some(first, last)}"  # noqa: S608

    def insert(self, first: int, last: int) -> str:
        """Insert rows into the table, by the rule."""
        columns = ", ".join(named(each.name) for each in self.fields)
        held = ", ".join(map(self._given, self.fields))
        some = self._of_part(first, last)
        chosen = self._chosen(held, some)
        statement = (
            f"INSERT INTO {self.place.quoted} AS t ({columns}) {chosen}{self._on_conflict()}"
        )
        if not self.answers_counts:
            return statement
        returned, is_new = self._newness()
        return (
            f"WITH written AS ({statement} RETURNING {returned}) "  # noqa: S608
            f"SELECT pg_catalog.count(*) FILTER (WHERE {is_new}), pg_catalog.count(*){self._due(some)} FROM written w"
        )

    def _due(self, some: str) -> str:
        """Return how many rows are new, and how many existing ones differ, before anything is written."""
        if not self.counts_due:
            return ""
        held = ", ".join(
            f"({self._given(each)})::{_typed(each)} AS {named(each.name)}" for each in self.fields
        )
        rows = f"FROM ({self._chosen(held, some)}) c"
        there = f"SELECT FROM {self.place.quoted} t WHERE {self.same('t', 'c')}"
        changed = f"EXISTS ({there} AND {self._changes('c')})" if self._others() else "false"
        new = f"(SELECT pg_catalog.count(*) {rows} WHERE NOT EXISTS ({there}))"
        return f", {new}, (SELECT pg_catalog.count(*) {rows} WHERE {changed})"

    def _of_part(self, first: int, last: int) -> str:
        some = _some(first, last)
        if self.part is None:
            return some
        layer, form = self.part
        return f"{some} AND s.{_LAYER} = {layer} AND s.{_FORM} = {form}"

    def _newness(self) -> tuple[str, str]:
        """Return what a written row returns, and the condition that it was inserted."""
        if not self.is_partitioned:
            return "(t.xmax = 0) AS is_new", "is_new"
        # A row routed to a partition has no system columns. The statement does not see its own
        # rows: the keys that it finds existed before.
        there = f"SELECT FROM {self.place.quoted} o WHERE {self.same('o', 'w')}"
        return ", ".join(f"t.{named(name)}" for name in self.key), f"NOT EXISTS ({there})"

    def supersede(self, first: int, last: int) -> str:
        """Remove staged rows before a tombstone of their slice."""
        later = f"s.{_ORDER} < g.{_ORDER}"
        if self.rule == "newer":
            staged = Rank(self.key_of(self.version), f"s.{_ORDER}")
            later = is_later(Rank(f"g.{named(AT)}", f"g.{_ORDER}"), staged)
        some = _some(first, last)
        return f"DELETE FROM {STAGE} s USING {GONE} g {some} AND {self.same('s', 'g')} AND {later}"  # noqa: S608

    def delete(self, first: int, last: int) -> str:
        """Delete the rows of deleted keys; under `newer`, unless they are later ones."""
        some = f"g.{_ORDER} BETWEEN {first} AND {last}"
        return (
            f"DELETE FROM {self.place.quoted} t USING {GONE} g "  # noqa: S608
            f"WHERE {self.same('t', 'g')} AND {some}{self._unless_later()}"
        )

    def still_there(self) -> str:
        """Return how many keys have a row that `delete` was to delete."""
        keys = ", ".join(f"g.{named(name)}" for name in self.key)
        there = (
            f"SELECT FROM {self.place.quoted} t WHERE {self.same('t', 'g')}{self._unless_later()}"
        )
        rows = f"SELECT DISTINCT {keys} FROM {GONE} g WHERE EXISTS ({there})"  # noqa: S608
        return f"SELECT pg_catalog.count(*) FROM ({rows}) n"  # noqa: S608

    def _unless_later(self) -> str:
        if self.rule != "newer":
            return ""
        gone = Rank(f"g.{named(AT)}", self._staged_place(f"g.{_ORDER}"))
        return f" AND NOT {is_later(self._rank('t'), gone)}"

    def make_gone(self) -> str:
        """Create a table for the keys of tombstones in the table's own types, which may change a value."""
        at = _typed(self._field(self.version)) if self.rule == "newer" else "timestamptz"
        return make_temporary(GONE, [(ORDER, "int8"), (AT, at), *self._key_columns()])

    def _key_columns(self) -> list[tuple[str, str]]:
        key = [each for each in self.fields if each.name in self.key]
        return [(each.name, _typed(each)) for each in key]

    def make_gone_texts(self) -> str:
        key = [(each.name, "text") for each in self.fields if each.name in self.key]
        return make_temporary(GONE_TEXTS, [(ORDER, "int8"), (AT, "timestamptz"), *key])

    def read_gone(self, first: int, last: int) -> str:
        """Let the server parse the keys of tombstones."""
        key = [each for each in self.fields if each.name in self.key]
        # Without modifiers, whose casts would cut a value that is too long.
        held = ", ".join(reading(named(each.name), each, each.column.base_type) for each in key)
        columns = f"{_ORDER}, {named(AT)}, {held}"
        return f"INSERT INTO {GONE} SELECT {columns} FROM {GONE_TEXTS} s {_some(first, last)}"  # noqa: S608

    def make_keys(self) -> str:
        """Create a table for keys only."""
        return make_temporary(KEYS, [(ORDER, "int8"), *self._key_columns()])

    def met(self) -> str:
        """Return the offsets of keys that the table has."""
        there = f"EXISTS (SELECT FROM {self.place.quoted} t WHERE {self.same('t', 'k')})"
        return f"SELECT {_ORDER} FROM {KEYS} k WHERE {there}"  # noqa: S608

    def not_there(self) -> str:
        """Return how many keys of staged rows the table lacks."""
        there = f"EXISTS (SELECT FROM {self.place.quoted} t WHERE {self.same('t', 's')})"
        rows = f"SELECT DISTINCT {self._keys_as()} FROM {STAGE} s WHERE NOT {there}"  # noqa: S608
        return f"SELECT pg_catalog.count(*) FROM ({rows}) n"  # noqa: S608

    def known(self) -> str:
        """Remove staged rows whose key exists in the table or earlier in the stage; return their offsets."""
        places = f"pg_catalog.row_number() OVER (PARTITION BY {self._keys()} ORDER BY {_ORDER})"
        again = f"SELECT o FROM (SELECT {_ORDER} AS o, {places} AS n FROM {STAGE} s) a WHERE n > 1"  # noqa: S608
        there = f"EXISTS (SELECT FROM {self.place.quoted} t WHERE {self.same('t', 's')})"
        return (
            f"DELETE FROM {STAGE} s WHERE {there} OR {_ORDER} IN ({again}) "  # noqa: S608
            f"RETURNING {_ORDER}, '{UNIQUE_VIOLATION}', 'a row of this key is there already'"
        )

    def same(self, one: str, other: str) -> str:
        """Return the condition that the keys of two tables are equal; `s` is the stage."""

        def side(alias: str, field: Field) -> str:
            return self._key_of(field) if alias == "s" else f"{alias}.{named(field.name)}"

        key = [each for each in self.fields if each.name in self.key]
        return " AND ".join(f"{side(one, each)} = {side(other, each)}" for each in key)

    def key_of(self, name: str) -> str:
        """Return a staged value as the column will store it."""
        return self._key_of(self._field(name))

    def _field(self, name: str) -> Field:
        return next(each for each in self.fields if each.name == name)

    def _rank(self, alias: str) -> Rank:
        """Return the rank of a row of the table."""
        columns = [_PLACES[name].format(f"{alias}.{named(name)}") for name in self.places]
        return Rank(f"{alias}.{named(self.version)}", f"({', '.join(columns)})" if columns else "")

    def _staged_place(self, offset: str) -> str:
        """Return the origin of a staged record, as far as rows of the table have it."""
        topic, partition = self.source
        held = {TOPIC: literal(topic), PARTITION: str(partition), OFFSET: offset}
        columns = [_PLACES[name].format(held[name]) for name in self.places]
        return f"({', '.join(columns)})" if columns else ""

    def _keys(self) -> str:
        return ", ".join(self._key_of(each) for each in self.fields if each.name in self.key)

    def _keys_as(self) -> str:
        key = [each for each in self.fields if each.name in self.key]
        return ", ".join(f"{self._key_of(each)} AS k{number}" for number, each in enumerate(key))

    def _key_of(self, field: Field) -> str:
        """Return a staged value as the column will store it; one that the column refuses matches no key."""
        held, column = self._held(field), field.column
        if column.base == "varchar" and column.base_modifier > 4:
            most = column.base_modifier - 4
            is_padded = f"pg_catalog.rtrim(pg_catalog.substr({held}, {most + 1}), ' ') = ''"
            return f"CASE WHEN {is_padded} THEN pg_catalog.left({held}, {most}) ELSE {held} END"
        if column.base in _CUT:
            return f"{held}::{column.base_type}"
        if column.base == "varchar" or column.type == column.base_type:
            return held
        return f"{held}::{column.type}"

    def expected(self, first: int, last: int) -> str:
        """Insert all staged rows with their offsets."""
        own = [_ORDER, *(named(name) for name, _ in self._form_column())]
        columns = ", ".join([*own, *(named(each.name) for each in self.fields)])
        held = ", ".join([*(f"s.{name}" for name in own), *map(self._held, self.fields)])
        return (
            f"INSERT INTO {EXPECTED} ({columns}) SELECT {held} FROM {STAGE} s {_some(first, last)}"  # noqa: S608
        )

    def make_expected(self, fields: Sequence[Field]) -> str:
        """Create it in the table's own types, which may change a value."""
        columns = [
            (each.name, _typed(each) if each in self.fields else each.column.base_type)
            for each in fields
        ]
        return make_temporary(EXPECTED, [(ORDER, "int8"), *self._form_column(), *columns])

    def _chosen(self, held: str, some: str) -> str:
        """Choose, of staged rows with one key, the one that wins by the rule."""
        where = f"FROM {STAGE} s {some}"
        if not self.key or self.is_distinct or self.rule in (None, "error"):
            return f"SELECT {held} {where}"
        wins = f"s.{_ORDER}" if self.rule == "ignore" else f"s.{_ORDER} DESC"
        if self.rule == "newer":
            wins = f"{self.key_of(self.version)} DESC NULLS LAST, {wins}"
        keys = self._keys()
        return f"SELECT DISTINCT ON ({keys}) {held} {where} ORDER BY {keys}, {wins}"

    def _held(self, field: Field) -> str:
        """Return a staged value after parsing."""
        staged, column = f"s.{named(field.name)}", field.column
        if not field.is_unread_aside:
            return staged
        read = reading(staged, field, column.base_type)
        return f"({read} COLLATE {column.collation})" if column.collation else read

    def _given(self, field: Field) -> str:
        """Return the staged value to insert: a NOT NULL column gets its default instead of null."""
        held, column = self._held(field), field.column
        if not (column.is_required and column.default):
            return held
        return f"coalesce({held}, {column.default})"

    def _on_conflict(self) -> str:
        if not self.key or self.rule in (None, "error"):
            return ""
        key = ", ".join(map(named, self.key))
        others = self._others()
        if self.rule == "ignore" or not others:
            return f" ON CONFLICT ({key}) DO NOTHING"
        sets = ", ".join(f"{named(each.name)} = EXCLUDED.{named(each.name)}" for each in others)
        return f" ON CONFLICT ({key}) DO UPDATE SET {sets} WHERE {self._changes('EXCLUDED')}"

    def _others(self) -> list[Field]:
        """Return the columns that a later record changes: of the key, those that may look different now."""
        return [
            each
            for each in self.fields
            if each.name not in self.key or may_look_different(each.column)
        ]

    def _changes(self, given: str) -> str:
        """Return the condition that a given row changes the table's row of its key."""
        # By their images: `=` also holds for different texts such as 1.5 and 1.50, and some types
        # have no equality.
        old, new = (
            ", ".join(f"{of}.{named(each.name)}" for each in self._others()) for of in ("t", given)
        )
        differs = f"ROW({old})::record OPERATOR(pg_catalog.*<>) ROW({new})::record"
        if self.rule == "newer":
            differs += f" AND {is_later(self._rank(given), self._rank('t'), or_same=True)}"
        return differs


def reading(text: str, field: Field, kind: str) -> str:
    """Return SQL that parses a text as a type, which is the field's own or text."""
    zoned = None if kind == "text" else read_first_as(field)
    return f"{text}::{zoned}::{kind}" if zoned else f"{text}::{kind}"


def read_first_as(field: Field) -> str | None:
    """Return a type that respects the zone in a text, for one that would silently ignore it."""
    column = field.column
    if column.base == "timestamp":
        return "timestamptz"
    return "timestamptz[]" if column.element == "timestamp" else None


def _some(first: int, last: int) -> str:
    return f"WHERE s.{_ORDER} BETWEEN {first} AND {last}"


def _collated(field: Field, kind: str) -> str:
    """Return SQL with the collation of the table, so that the same texts are equal."""
    can_be = field.column.collation and not field.is_unread_aside
    return f"{kind} COLLATE {field.column.collation}" if can_be else kind


def _typed(field: Field) -> str:
    """Return the column's own type with its collation."""
    column = field.column
    return f"{column.type} COLLATE {column.collation}" if column.collation else column.type

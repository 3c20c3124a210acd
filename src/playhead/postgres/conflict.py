"""The statements by which the rows of a slice, staged in a temporary table, come into the table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from psycopg import sql

from playhead.postgres.decode import ORDER
from playhead.postgres.failures import UNIQUE_VIOLATION
from playhead.postgres.layout import Field
from playhead.postgres.session import Place

Rule = Literal["ignore", "newer", "update", "error"]
REPLACING = ("newer", "update")
STAGE, TEXTS = "playhead_rows", "playhead_texts"
KEYS = "playhead_keys"
GONE, GONE_TEXTS = "playhead_gone", "playhead_gone_texts"
EXPECTED = "playhead_expected"
AT = "playhead:at"
# Types that cannot be compared with each other; their texts can.
_INCOMPARABLE = ("json", "xml", "point", "polygon", "path", "line", "lseg", "box", "circle")


def named(name: str) -> str:
    """A name as it stands in a statement."""
    return sql.Identifier(name).as_string()


def literal(text: str) -> str:
    """A text as it stands in a statement."""
    return sql.Literal(text).as_string()


_ORDER = named(ORDER)


def make_temporary(name: str, columns: Sequence[tuple[str, str]]) -> str:
    """A temporary table of names and types, gone at the transaction's end."""
    listed = ", ".join(f"{named(column)} {kind}" for column, kind in columns)
    return f"CREATE TEMPORARY TABLE {name} ({listed}) ON COMMIT DROP"


@dataclass(frozen=True, slots=True)
class Merge:
    """How staged rows meet those that are there; those that take numbers are for records from the first to the last."""

    place: Place
    fields: tuple[Field, ...]
    key: tuple[str, ...] = ()
    rule: Rule | None = None
    version: str = ""
    """The column that `newer` compares."""
    is_distinct: bool = False
    """Whether no two staged rows have one key."""

    @property
    def answers_counts(self) -> bool:
        """Whether `insert` is a query for how many were inserted, and how many written."""
        return self.rule in REPLACING

    def make_stage(self) -> str:
        columns = [(each.name, _collated(each, each.aside)) for each in self.fields]
        return make_temporary(STAGE, [(ORDER, "int8"), *columns])

    def make_texts(self, as_text: Sequence[Field]) -> str:
        columns = [(each.name, "text" if each in as_text else each.aside) for each in self.fields]
        return make_temporary(TEXTS, [(ORDER, "int8"), *columns])

    def read_texts(self, as_text: Sequence[Field], first: int, last: int) -> str:
        """Let the server read the texts."""
        held = ", ".join(
            f"{named(each.name)}::{each.aside}" if each in as_text else named(each.name)
            for each in self.fields
        )
        return f"INSERT INTO {STAGE} SELECT {_ORDER}, {held} FROM {TEXTS} s {_some(first, last)}"  # noqa: S608

    def insert(self, first: int, last: int) -> str:
        """Rows into the table, by the rule."""
        columns = ", ".join(named(each.name) for each in self.fields)
        held = ", ".join(map(self._given, self.fields))
        chosen = self._chosen(held, _some(first, last))
        statement = (
            f"INSERT INTO {self.place.quoted} AS t ({columns}) {chosen}{self._on_conflict()}"
        )
        if not self.answers_counts:
            return statement
        return (
            f"WITH written AS ({statement} RETURNING (t.xmax = 0) AS is_new) "  # noqa: S608
            "SELECT count(*) FILTER (WHERE is_new), count(*) FROM written"
        )

    def supersede(self) -> str:
        """Forget staged rows that a tombstone of their slice comes after."""
        later = f"s.{_ORDER} < g.{_ORDER}"
        if self.rule == "newer":
            version = named(self.version)
            later = f"(s.{version}, s.{_ORDER}) < (g.{named(AT)}, g.{_ORDER})"
        return f"DELETE FROM {STAGE} s USING {GONE} g WHERE {self._same('s', 'g')} AND {later}"  # noqa: S608

    def delete(self) -> str:
        """Delete the rows of the keys that are gone; under `newer`, unless they are later ones."""
        is_later = f"coalesce(t.{named(self.version)} > g.{named(AT)}, false)"
        unless = f" AND NOT {is_later}" if self.rule == "newer" else ""
        same = self._same("t", "g")
        return f"DELETE FROM {self.place.quoted} t USING {GONE} g WHERE {same}{unless}"  # noqa: S608

    def make_gone(self) -> str:
        """Keys of tombstones; a comparison needs their types to be the columns' own."""
        return make_temporary(GONE, [(ORDER, "int8"), (AT, "timestamptz"), *self._key_columns()])

    def _key_columns(self) -> list[tuple[str, str]]:
        key = [each for each in self.fields if each.name in self.key]
        return [(each.name, _collated(each, _type_of_key(each))) for each in key]

    def make_gone_texts(self) -> str:
        key = [(each.name, "text") for each in self.fields if each.name in self.key]
        return make_temporary(GONE_TEXTS, [(ORDER, "int8"), (AT, "timestamptz"), *key])

    def read_gone(self, first: int, last: int) -> str:
        """Let the server read the keys of tombstones."""
        key = [each for each in self.fields if each.name in self.key]
        held = ", ".join(f"{named(each.name)}::{_type_of_key(each)}" for each in key)
        columns = f"{_ORDER}, {named(AT)}, {held}"
        return f"INSERT INTO {GONE} SELECT {columns} FROM {GONE_TEXTS} s {_some(first, last)}"  # noqa: S608

    def make_keys(self) -> str:
        """For the keys alone."""
        return make_temporary(KEYS, [(ORDER, "int8"), *self._key_columns()])

    def met(self) -> str:
        """Offsets of the keys that the table has."""
        there = f"EXISTS (SELECT FROM {self.place.quoted} t WHERE {self._same('t', 'k')})"
        return f"SELECT {_ORDER} FROM {KEYS} k WHERE {there}"  # noqa: S608

    def known(self) -> str:
        """Forget staged rows whose key is in the table, or staged before; answers their offsets."""
        places = f"row_number() OVER (PARTITION BY {self._keys()} ORDER BY {_ORDER})"
        again = f"SELECT o FROM (SELECT {_ORDER} AS o, {places} AS n FROM {STAGE} s) a WHERE n > 1"  # noqa: S608
        there = f"EXISTS (SELECT FROM {self.place.quoted} t WHERE {self._same('t', 's')})"
        return (
            f"DELETE FROM {STAGE} s WHERE {there} OR {_ORDER} IN ({again}) "  # noqa: S608
            f"RETURNING {_ORDER}, '{UNIQUE_VIOLATION}', 'a row of this key is there already'"
        )

    def _same(self, one: str, other: str) -> str:
        """That the keys of two tables are equal; `s` is the stage."""

        def side(alias: str, field: Field) -> str:
            return self._held(field) if alias == "s" else f"{alias}.{named(field.name)}"

        key = [each for each in self.fields if each.name in self.key]
        return " AND ".join(f"{side(one, each)} = {side(other, each)}" for each in key)

    def _keys(self) -> str:
        return ", ".join(self._held(each) for each in self.fields if each.name in self.key)

    def expected(self, first: int, last: int) -> str:
        """The rows that a commit of the staged ones leaves, and what offset each is from."""
        columns = ", ".join([_ORDER, *(named(each.name) for each in self.fields)])
        held = ", ".join([f"s.{_ORDER}", *map(self._held, self.fields)])
        return f"INSERT INTO {EXPECTED} ({columns}) {self._chosen(held, _some(first, last))}"

    def make_expected(self) -> str:
        """In the table's own types, so that what these do to a value has been done."""
        columns = [(each.name, _collated(each, each.column.type)) for each in self.fields]
        return make_temporary(EXPECTED, [(ORDER, "int8"), *columns])

    def _chosen(self, held: str, some: str) -> str:
        """Of staged rows with one key, the one that the rule lets win."""
        where = f"FROM {STAGE} s {some}"
        if not self.key or self.is_distinct or self.rule in (None, "error"):
            return f"SELECT {held} {where}"
        wins = f"s.{_ORDER}" if self.rule == "ignore" else f"s.{_ORDER} DESC"
        if self.rule == "newer":
            version = next(each for each in self.fields if each.name == self.version)
            wins = f"{self._held(version)} DESC NULLS LAST, {wins}"
        keys = self._keys()
        return f"SELECT DISTINCT ON ({keys}) {held} {where} ORDER BY {keys}, {wins}"

    def _held(self, field: Field) -> str:
        """A staged value, read by now."""
        column = f"s.{named(field.name)}"
        return f"{column}::{field.column.base_type}" if field.is_unread_aside else column

    def _given(self, field: Field) -> str:
        """The same as it is inserted: what may not be null gets its default instead."""
        held, column = self._held(field), field.column
        if not (column.is_required and column.default):
            return held
        return f"coalesce({held}, {column.default})"

    def _on_conflict(self) -> str:
        if not self.key or self.rule in (None, "error"):
            return ""
        key = ", ".join(map(named, self.key))
        others = [each for each in self.fields if each.name not in self.key]
        if self.rule == "ignore" or not others:
            return f" ON CONFLICT ({key}) DO NOTHING"
        sets = ", ".join(f"{named(each.name)} = EXCLUDED.{named(each.name)}" for each in others)
        differs = (
            f"ROW({', '.join(_comparable('t', each) for each in others)}) IS DISTINCT FROM "
            f"ROW({', '.join(_comparable('EXCLUDED', each) for each in others)})"
        )
        if self.rule == "newer":
            version = named(self.version)
            differs += f" AND (t.{version} IS NULL OR t.{version} <= EXCLUDED.{version})"
        return f" ON CONFLICT ({key}) DO UPDATE SET {sets} WHERE {differs}"


def _some(first: int, last: int) -> str:
    return f"WHERE s.{_ORDER} BETWEEN {first} AND {last}"


def _collated(field: Field, kind: str) -> str:
    """So that texts are equal here when they are equal in the table."""
    can_be = field.column.collation and not field.is_unread_aside
    return f"{kind} COLLATE {field.column.collation}" if can_be else kind


def _type_of_key(field: Field) -> str:
    return field.column.base_type if field.is_unread_aside else field.aside


def _comparable(alias: str, field: Field) -> str:
    column = field.column
    value = f"{alias}.{named(column.name)}"
    is_incomparable = column.base in _INCOMPARABLE or column.element in _INCOMPARABLE
    return f"{value}::text" if is_incomparable else value

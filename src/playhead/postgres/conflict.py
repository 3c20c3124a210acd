"""The statements by which the rows of a slice, staged in a temporary table, come into the table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from psycopg import sql

from playhead.postgres.decode import ORDER
from playhead.postgres.layout import OFFSET, PARTITION, TIMESTAMP, TOPIC, Field
from playhead.postgres.session import Place

Rule = Literal["ignore", "newer", "update", "error"]
STAGE, TEXTS, GONE = "playhead_rows", "playhead_texts", "playhead_gone"
# Types that cannot be compared with each other; their texts can.
_INCOMPARABLE = ("json", "xml", "point", "polygon", "path", "line", "lseg", "box", "circle")


def named(name: str) -> str:
    """A name as it stands in a statement."""
    return sql.Identifier(name).as_string()


@dataclass(frozen=True, slots=True)
class Merge:
    """How the staged columns meet the rows that are there."""

    place: Place
    fields: tuple[Field, ...]
    key: tuple[str, ...] | None
    rule: Rule | None
    version: str | None
    """What `newer` compares."""

    def create_stage(self) -> str:
        columns = ", ".join(f"{named(each.name)} {each.aside}" for each in self.fields)
        return f"CREATE TEMPORARY TABLE {STAGE} ({named(ORDER)} int8, {columns}) ON COMMIT DROP"

    def create_texts(self, as_text: Sequence[Field]) -> str:
        columns = ", ".join(
            f"{named(each.name)} {'text' if each in as_text else each.aside}" for each in self.fields
        )
        return f"CREATE TEMPORARY TABLE {TEXTS} ({named(ORDER)} int8, {columns}) ON COMMIT DROP"

    def read_texts(self, as_text: Sequence[Field]) -> str:
        """Let the server read the texts; of the records in [$1, $2]."""
        held = ", ".join(
            f"{named(each.name)}::{each.aside}" if each in as_text else named(each.name)
            for each in self.fields
        )
        return (
            f"INSERT INTO {STAGE} SELECT {named(ORDER)}, {held} FROM {TEXTS} "  # noqa: S608
            f"WHERE {named(ORDER)} BETWEEN $1 AND $2"
        )

    def insert(self) -> str:
        """Rows of the records in [$1, $2], by the rule; answers inserted and all that were written."""
        columns = ", ".join(named(each.name) for each in self.fields)
        statement = (
            f"INSERT INTO {self.place.quoted} AS t ({columns}) {self._chosen()}{self._on_conflict()}"
        )
        if self.rule not in ("update", "newer"):
            return statement
        return (
            f"WITH written AS ({statement} RETURNING (t.xmax = 0) AS is_new) "  # noqa: S608
            "SELECT count(*) FILTER (WHERE is_new), count(*) FROM written"
        )

    def delete(self) -> str:
        """Delete the rows of the keys that are gone; under `newer`, unless they are later ones."""
        keys = " AND ".join(f"t.{named(name)} = g.{named(name)}" for name in self.key or ())
        later = ""
        if self.rule == "newer":
            version = named(self.version or TIMESTAMP)
            later = f" AND (t.{version} IS NULL OR t.{version} <= g.{version})"
        return f"DELETE FROM {self.place.quoted} AS t USING {GONE} AS g WHERE {keys}{later}"  # noqa: S608

    def _chosen(self) -> str:
        """Of rows with one key, the one that the rule lets win; by offset, those to come first."""
        order = named(ORDER)
        held = ", ".join(f"{self._held(each)}" for each in self.fields)
        where = f"FROM {STAGE} AS s WHERE s.{order} BETWEEN $1 AND $2"
        if self.key is None or self.rule in (None, "error"):
            return f"SELECT {held} {where}"
        key = ", ".join(self._held(each) for each in self.fields if each.name in self.key)
        wins = {"ignore": f"s.{order}", "update": f"s.{order} DESC"}
        version = self.rule == "newer" and next(
            each for each in self.fields if each.name == self.version
        )
        by = f"{self._held(version)} DESC NULLS LAST, s.{order} DESC" if version else wins[self.rule]
        return f"SELECT DISTINCT ON ({key}) {held} {where} ORDER BY {key}, {by}"

    def _held(self, field: Field) -> str:
        staged = f"s.{named(field.name)}"
        return f"{staged}::{field.column.base_type}" if field.aside != field.column.base_type and (
            field.wire is None
        ) else staged

    def _on_conflict(self) -> str:
        if self.key is None or self.rule in (None, "error"):
            return ""
        key = ", ".join(map(named, self.key))
        if self.rule == "ignore":
            return f" ON CONFLICT ({key}) DO NOTHING"
        others = [each for each in self.fields if each.name not in self.key]
        if not others:
            return f" ON CONFLICT ({key}) DO NOTHING"
        sets = ", ".join(f"{named(e.name)} = EXCLUDED.{named(e.name)}" for e in others)
        mine = ", ".join(_comparable(f"t.{named(e.name)}", e) for e in others)
        new = ", ".join(_comparable(f"EXCLUDED.{named(e.name)}", e) for e in others)
        where = f"ROW({mine}) IS DISTINCT FROM ROW({new})"
        if self.rule == "newer":
            version = named(self.version or TIMESTAMP)
            where += f" AND (t.{version} IS NULL OR t.{version} <= EXCLUDED.{version})"
        return f" ON CONFLICT ({key}) DO UPDATE SET {sets} WHERE {where}"


def _comparable(value: str, field: Field) -> str:
    column = field.column
    incomparable = column.base in _INCOMPARABLE or column.element in _INCOMPARABLE
    return f"{value}::text" if incomparable else value


def place_key(fields: Sequence[Field]) -> tuple[str, ...] | None:
    """The columns that say where a record stood, if the table has all of them."""
    names = {each.name for each in fields}
    return (TOPIC, PARTITION, OFFSET) if {TOPIC, PARTITION, OFFSET} <= names else None

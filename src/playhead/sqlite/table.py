"""One table: the rows that records become, and the statements that make, fill and compare it."""

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import uuid4

from playhead.errors import Refused
from playhead.note import Note
from playhead.record import Record
from playhead.records import Records
from playhead.request import TableRules
from playhead.sqlite.session import named

Row = dict[str, Any]
REFUSED = (sqlite3.IntegrityError, sqlite3.DataError, OverflowError, UnicodeEncodeError)
"""What SQLite raises over one row; the transaction goes on."""
PLACE = ("_topic", "_partition", "_offset")
_MARK = "playhead_mark_"
_TOKENS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}]')
_METADATA = (*PLACE, "_timestamp", "_key", "_headers")


@dataclass(frozen=True, slots=True)
class Table:
    """A table as it is now."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    mark: str
    """The name of an empty index of ours, which goes when the table is dropped."""
    rules: TableRules

    @property
    def place(self) -> list[str]:
        """Which columns say what record a row is; none when they do not."""
        its = [name for name in PLACE if name in self.columns]
        return its if its[-2:] == ["_partition", "_offset"] else []

    def row(self, record: Record, value: bytes | None) -> Row:
        """The columns that a record fills; a ValueError says why it fills none."""
        headers = json.dumps(
            record.headers, default=lambda value: value.decode(errors="surrogateescape")
        )
        place = record.topic, record.partition, record.offset
        known = (*place, record.timestamp_ms, _text_or_bytes(record.key), headers)
        row = dict(zip(_METADATA, known, strict=True)) | self._values(value)
        # Null is no conflict to a unique index: such a record would be there once more each time.
        if self.rules.on_conflict and any(row.get(name) is None for name in self.key):
            raise ValueError(f"it has no value for the key {', '.join(self.key)}")
        return {name: row[name] for name in row if name in self.columns}

    def insert(self, names: Sequence[str]) -> str:
        """The statement for rows that fill these columns."""
        columns, marks = ", ".join(map(named, names)), ", ".join("?" * len(names))
        changes = [f"{each} = excluded.{each}" for each in map(named, names)]
        does = {"ignore": "NOTHING", "update": f"UPDATE SET {', '.join(changes)}"}
        action = does.get(self.rules.on_conflict or "")
        conflict = f"ON CONFLICT ({', '.join(map(named, self.key))}) DO {action}" if action else ""
        return f"INSERT INTO {named(self.name)} ({columns}) VALUES ({marks}) {conflict}"  # noqa: S608 - quoted names

    def refuse_unwritable(self, connection: sqlite3.Connection) -> None:
        """SQLite itself says whether it can follow the rule, and whether it is a table at all."""
        try:
            values = [None] * len(self.columns)
            connection.execute(f"EXPLAIN {self.insert(self.columns)}", values)
            connection.execute(f"EXPLAIN {self.marking()}")
        except sqlite3.OperationalError as exc:
            hint = "a rule for conflicts needs a --key that is a primary key or a unique index"
            raise Refused(f"records cannot be written to {self.name}: {exc}", hint=hint) from exc

    def notes(self, samples: Iterable[Records]) -> Iterator[Note]:
        """What somebody should know of the table before records go there."""
        if not self.place:
            text = f"{self.name} has no _partition and _offset, and so cannot be verified"
            yield Note("target-unplaced", text)
        fields = sampled_fields(samples) if self.rules.form == "json" else {}
        if left_out := [name for name in fields if name not in self.columns]:
            text = f"{self.name} has no column for {', '.join(left_out)}, and they are left out"
            yield Note("target-left-out", text)

    def marking(self) -> str:
        """The statement that marks the table, so that one made in its place is known as another."""
        mark, column = named(_MARK + uuid4().hex), named(self.columns[0])
        return f"CREATE INDEX {mark} ON {named(self.name)} ({column}) WHERE 0"

    def _values(self, value: bytes | None) -> Row:
        if self.rules.form == "none":
            return {}
        if value is None and self.rules.tombstones != "null":
            raise ValueError(
                "it is a tombstone; --tombstones skip or null says what becomes of such"
            )
        if self.rules.form == "json":
            fields = fields_of(value)
            return {name: fields[name] for name in fields if name not in _METADATA}
        whole = value.decode() if value is not None and self.rules.form == "string" else value
        return dict.fromkeys(
            [name for name in ("_value", "value") if name in self.columns][:1], whole
        )


def read_table(connection: sqlite3.Connection, name: str, rules: TableRules) -> Table | None:
    """The table, without generated columns, which are hidden ones; None when there is none."""
    found = connection.execute("SELECT * FROM pragma_table_xinfo(?)", (name,)).fetchall()
    columns = tuple(row[1] for row in found if not row[6])
    primary = tuple(row[1] for row in found if row[5])
    # SQLite finds a table under its name in any case, and keeps the case of its CREATE.
    asked = "SELECT name FROM sqlite_master WHERE tbl_name = ? COLLATE NOCASE AND name GLOB ?"
    marks = connection.execute(asked, (name, f"{_MARK}*")).fetchall()
    mark = marks[0][0] if marks else ""
    return Table(name, columns, rules.key or primary, mark, rules) if found else None


def new_table(name: str, samples: Iterable[Records], rules: TableRules) -> dict[str, Any]:
    """A table for such records as a plan keeps it: names alone. Its columns take values of every type."""
    whole: Row = {} if rules.form == "none" else {"value": None}
    fields = sampled_fields(samples) if rules.form == "json" else whole
    if lacking := [column for column in rules.key if column not in fields]:
        raise Refused(f"no sampled record has the key column {lacking[0]}", hint="another --key")
    columns = [*{**fields, **dict.fromkeys(_METADATA)}]
    return {"table": name, "columns": columns, "key": [*(rules.key or PLACE)]}


def creating(document: dict[str, Any]) -> str:
    """The statement that makes it; everything that came from a plan is quoted."""
    columns, key = (", ".join(map(named, document[each])) for each in ("columns", "key"))
    return f"CREATE TABLE {named(document['table'])} ({columns}, PRIMARY KEY ({key}))"


def fields_of(value: bytes | None) -> Row:
    """The fields of a JSON value; what is nested stays the text that it is."""
    if value is None:
        return {}
    text, read = value.decode(), {"parse_float": _number, "parse_constant": int}
    fields = json.loads(text, **read)  # type: ignore[arg-type]
    if not isinstance(fields, dict):
        raise ValueError("the value is no JSON object")  # noqa: TRY004 - a record is refused for it
    if not any(isinstance(field, dict | list) for field in fields.values()):
        return fields
    nested = _nested(text)
    return {n: nested[n] if isinstance(v, dict | list) else v for n, v in fields.items()}


def _nested(text: str) -> dict[str, str]:
    """The text of each field that is an object or a list, in an object that is valid JSON."""
    nested, depth, begin, name = {}, 0, 0, ""
    for token in _TOKENS.finditer(text):
        sign = token[0][0]
        if sign == '"' and depth == 1:
            name = token[0]
        elif sign in "{[":
            begin = token.start() if depth == 1 else begin
            depth += 1
        elif sign in "}]":
            depth -= 1
            if depth == 1:
                nested[json.loads(name)] = text[begin : token.end()]
    return nested


def _number(text: str) -> float | str:
    """A number that a double has; any other stays the text that it is."""
    number = float(text)
    return number if Decimal(text) == Decimal(repr(number)) else text


def sampled_fields(samples: Iterable[Records]) -> Row:
    """The fields of the sampled values; what is no JSON object is passed over."""
    fields: Row = {}
    for value in (value for run in samples for value in run.readable):
        with suppress(ValueError, RecursionError):
            fields |= fields_of(value)
    return fields


def _text_or_bytes(value: bytes | None) -> str | bytes | None:
    try:
        return value if value is None or b"\0" in value else value.decode()
    except UnicodeDecodeError:
        return value

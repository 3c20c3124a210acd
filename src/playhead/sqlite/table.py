"""One table: how records become rows, and the statements that create, fill and mark it."""

import json
import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import uuid4

from playhead.errors import NoSuchColumn, Refused
from playhead.note import Note
from playhead.record import Record
from playhead.records import Records
from playhead.request import EXTRA_FIELDS_RULES, TableRules
from playhead.sqlite.session import named
from playhead.written_rows import ColumnThere

Row = dict[str, Any]
REFUSED = (sqlite3.IntegrityError, sqlite3.DataError, OverflowError, UnicodeEncodeError)
"""SQLite's errors about a single row; the transaction can continue after them."""
PLACE = ("_topic", "_partition", "_offset")
RESERVED = ("sqlite_", "playhead_")
"""Tables whose names begin so are SQLite's and the ledger's."""
_MARK = "playhead_mark_"
_TOKENS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}]')
NO_KEYWORDS = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^]]*\]|--[^\n]*|/\*.*?\*/", re.DOTALL
)
_REPLACES = re.compile(r"\bON\s+CONFLICT\s+REPLACE\b", re.IGNORECASE)
_METADATA = (*PLACE, "_timestamp", "_key", "_headers")


@dataclass(frozen=True, slots=True)
class Table:
    """The columns and the key of a table at this moment."""

    name: str
    columns: Mapping[str, str]
    """The declared type of each; often an empty one."""
    key: tuple[str, ...]
    mark: str
    """The name of an empty index that Playhead creates; it disappears when the table is dropped."""
    rules: TableRules

    @property
    def there(self) -> dict[str, ColumnThere]:
        """The columns; they have no number, because SQLite gives new ones to the rest when one is dropped."""
        return {name: ColumnThere(0, declared) for name, declared in self.columns.items()}

    def lacking(self) -> list[str]:
        """Return what the table lacks now, without which a row cannot be looked up by its key."""
        if not self.rules.on_conflict:
            return []
        if not self.key:
            return [f"{self.name} has no primary key any more"]
        return [
            f"{self.name} has no column {n} any more" for n in self.key if n not in self.columns
        ]

    @property
    def extra(self) -> str | None:
        """Return the column for the fields that have no column of their own."""
        rule = self.rules.extra_fields
        return None if rule in EXTRA_FIELDS_RULES else rule

    @property
    def place(self) -> list[str]:
        """Return the columns that identify a row's record; empty if the table lacks them."""
        names = [name for name in PLACE if name in self.columns]
        return names if names[-2:] == ["_partition", "_offset"] else []

    @property
    def keeps_one_of_a_key(self) -> bool:
        """Return whether a row depends on all records of its key; rows without a place cannot be compared."""
        return self.rules.on_conflict is not None and bool(self.place)

    def row(self, record: Record, value: bytes | None) -> tuple[Row, tuple[str, ...]]:
        """Return the values of the columns that a record fills, and its fields that no column takes.

        Raise ValueError if the record cannot be written.
        """
        headers = json.dumps(
            record.headers, default=lambda value: value.decode(errors="surrogateescape")
        )
        position = record.topic, record.partition, record.offset
        metadata = (*position, record.timestamp_ms, _text_or_bytes(record.key), headers)
        values, left_out = self._values(value)
        row = dict(zip(_METADATA, metadata, strict=True)) | values
        # A unique index never treats NULL as a conflict: each replay would add such a record again.
        if self.rules.on_conflict and any(row.get(name) is None for name in self.key):
            raise ValueError(f"it has no value for the key {', '.join(self.key)}")
        return {name: row[name] for name in row if name in self.columns}, left_out

    def insert(self, names: Collection[str]) -> str:
        """Return the statement that inserts rows with these columns."""
        columns, placeholders = ", ".join(map(named, names)), ", ".join("?" * len(names))
        changes = [f"{column} = excluded.{column}" for column in map(named, names)]
        actions = {"ignore": "NOTHING", "update": f"UPDATE SET {', '.join(changes)}"}
        action = actions.get(self.rules.on_conflict or "")
        conflict = f"ON CONFLICT ({', '.join(map(named, self.key))}) DO {action}" if action else ""
        return f"INSERT INTO {named(self.name)} ({columns}) VALUES ({placeholders}) {conflict}"  # noqa: S608 - quoted names

    def refuse_unwritable(self, connection: sqlite3.Connection) -> None:
        """Let SQLite check that the table exists and that it can follow the conflict rule."""
        if self.extra is not None and self.extra not in self.columns:
            hint = f"ALTER TABLE {self.name} ADD COLUMN {self.extra}; or --extra-fields note"
            raise Refused(f"{self.name} has no column {self.extra} for --extra-fields", hint=hint)
        for name in self.rules.key or ():
            if name not in self.columns:
                raise NoSuchColumn("--key", name, table=self.name, known=[*self.columns])
        try:
            values = [None] * len(self.columns)
            connection.execute(f"EXPLAIN {self.insert(self.columns)}", values)
            connection.execute(f"EXPLAIN {self.marking()}")
        except sqlite3.OperationalError as exc:
            hint = "name the columns of a primary key or a unique index with --key"
            raise Refused(f"records cannot be written to {self.name}: {exc}", hint=hint) from exc

        if self._replaces(connection):
            hint = "create the table without this clause, and use --on-conflict update --key COLS"
            text = (
                f"records cannot be written to {self.name}: it is defined with ON CONFLICT REPLACE"
            )
            raise Refused(
                f"{text}, and SQLite does not count the rows that this removes", hint=hint
            )

    def has_key_of(self, connection: sqlite3.Connection, row: Row) -> bool:
        """Return whether a row with the key of this one is in the table."""
        equal = " AND ".join(f"{named(name)} = ?" for name in self.key)
        statement = f"SELECT 1 FROM {named(self.name)} WHERE {equal} LIMIT 1"  # noqa: S608 - quoted names
        return bool(connection.execute(statement, [row[name] for name in self.key]).fetchall())

    def _replaces(self, connection: sqlite3.Connection) -> bool:
        """Return whether a constraint of the table itself removes rows that are in the way."""
        statement = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE"
        texts = connection.execute(statement, (self.name,)).fetchall()
        return any(_REPLACES.search(NO_KEYWORDS.sub(" ", text)) for (text,) in texts)

    def notes(self, samples: Iterable[Records]) -> Iterator[Note]:
        """Yield what a user should know about the table; refuse a table whose rows would lack the values."""
        if not self.place:
            text = (
                f"{self.name} lacks the columns _partition and _offset: its rows cannot be verified"
            )
            yield Note("target-unplaced", text)
        fields = sampled_fields(samples) if self.rules.form == "json" else {}
        if self.extra is None and fields and not fields.keys() & {*self.columns} - {*_METADATA}:
            hint = "--select gives fields other names; --extra-fields COLUMN stores them as JSON"
            text = f"no column of {self.name} takes a field of the sampled values ({', '.join(fields)})"
            raise Refused(f"{text}: its rows would lack the values", hint=hint)
        if self.extra is None and (unknown := self._left_out(fields)):
            action = (
                "records with them are refused" if self._refuses else "these fields are left out"
            )
            text = f"{self.name} has no column for {', '.join(unknown)}: {action}; --extra-fields COLUMN "
            yield Note("target-left-out", f"{text}stores them as JSON in a column")

    def shown(self, records: Records) -> Iterator[Row]:
        """Yield the rows that would be written for these records."""
        for record, value in zip(records, records.readable, strict=True):
            try:
                yield self.row(record, value)[0]
            except (ValueError, RecursionError) as exc:
                yield {"_offset": record.offset, "cannot be written": str(exc)}

    def marking(self) -> str:
        """Return the statement that marks the table, so that a table created in its place is recognised."""
        mark, column = named(_MARK + uuid4().hex), named(next(iter(self.columns)))
        return f"CREATE INDEX {mark} ON {named(self.name)} ({column}) WHERE 0"

    @property
    def _refuses(self) -> bool:
        return self.rules.extra_fields == "fail"

    def _left_out(self, fields: Row) -> tuple[str, ...]:
        """Return the fields with a value that have no column of their own."""
        own = {*self.columns} - {*_METADATA, self.extra}
        return tuple(
            sorted(name for name in fields if name not in own and fields[name] is not None)
        )

    def _values(self, value: bytes | None) -> tuple[Row, tuple[str, ...]]:
        if self.rules.form == "none":
            return {}, ()
        if value is None and self.rules.tombstones != "null":
            raise ValueError(
                "it is a tombstone, and no rule says how to write it (see --tombstones)"
            )
        if self.rules.form == "json":
            fields = fields_of(value)
            left_out = self._left_out(fields)
            if left_out and self._refuses:
                raise ValueError(f"no column takes {', '.join(left_out[:3])} (--extra-fields fail)")
            values = {name: fields[name] for name in fields if name not in (*_METADATA, self.extra)}
            if left_out and self.extra is not None:
                whole = json.loads(value or b"{}", parse_float=_number)
                values[self.extra] = json.dumps({name: whole[name] for name in left_out})
            return values, () if self.extra is not None else left_out
        content = value.decode() if value is not None and self.rules.form == "string" else value
        names = [name for name in ("_value", "value") if name in self.columns][:1]
        return dict.fromkeys(names, content), ()


def read_table(connection: sqlite3.Connection, name: str, rules: TableRules) -> Table | None:
    """Return the table with its ordinary columns, or None if it does not exist."""
    rows = connection.execute("SELECT * FROM pragma_table_xinfo(?)", (name,)).fetchall()
    columns = {row[1]: row[2] for row in rows if not row[6]}
    primary = tuple(row[1] for row in rows if row[5])
    # SQLite finds a table under its name in any case, and keeps the case of its CREATE.
    statement = "SELECT name FROM sqlite_master WHERE tbl_name = ? COLLATE NOCASE AND name GLOB ?"
    marks = connection.execute(statement, (name, f"{_MARK}*")).fetchall()
    mark = marks[0][0] if marks else ""
    return Table(name, columns, rules.key or primary, mark, rules) if rows else None


def table_names(connection: sqlite3.Connection) -> list[str]:
    """Return the names of the tables that are not SQLite's or Playhead's own."""
    statement = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
    names = [name for (name,) in connection.execute(statement)]
    return [name for name in names if not name.lower().startswith(RESERVED)]


def new_table(name: str, samples: Iterable[Records], rules: TableRules) -> dict[str, Any]:
    """Describe a new table for these records by names only; its columns accept every type."""
    whole: Row = {} if rules.form == "none" else {"value": None}
    fields = sampled_fields(samples) if rules.form == "json" else whole
    if lacking := [column for column in rules.key if column not in fields]:
        raise Refused(f"the key column {lacking[0]} is in no sampled record", hint="another --key")
    extra = set() if rules.extra_fields in EXTRA_FIELDS_RULES else {rules.extra_fields}
    if rules.form == "json" and not fields and not extra:
        hint = "--decode string stores each value as a whole; or choose a span with other records"
        text = "no sampled value is a JSON object with a field"
        raise Refused(f"no table {name} can be created: {text}", hint=hint)
    columns = [*{**fields, **dict.fromkeys(extra), **dict.fromkeys(_METADATA)}]
    return {"table": name, "columns": columns, "key": [*(rules.key or PLACE)]}


def creating(document: dict[str, Any]) -> str:
    """Return the CREATE TABLE statement; every name of the plan is quoted."""
    columns, key = (", ".join(map(named, document[each])) for each in ("columns", "key"))
    return f"CREATE TABLE {named(document['table'])} ({columns}, PRIMARY KEY ({key}))"


def fields_of(value: bytes | None) -> Row:
    """Return the fields of a JSON object; nested values keep their JSON text."""
    if value is None:
        return {}
    text, read = value.decode(), {"parse_float": _number, "parse_constant": int}
    fields = json.loads(text, **read)  # type: ignore[arg-type]
    if not isinstance(fields, dict):
        raise ValueError("the value is not a JSON object")  # noqa: TRY004 - a record is refused for it
    if not any(isinstance(field, dict | list) for field in fields.values()):
        return fields
    nested = _nested(text)
    return {n: nested[n] if isinstance(v, dict | list) else v for n, v in fields.items()}


def _nested(text: str) -> dict[str, str]:
    """Return the JSON text of each field that is an object or a list; the text must be valid JSON."""
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
    """Return a number if a double can hold it exactly, and otherwise its text."""
    number = float(text)
    try:
        is_exact = Decimal(text) == Decimal(repr(number))
    except InvalidOperation:  # Its exponent is beyond those of Decimal.
        return text
    return number if is_exact else text


def sampled_fields(samples: Iterable[Records]) -> Row:
    """Collect the fields of the sampled values, ignoring values that are not JSON objects."""
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

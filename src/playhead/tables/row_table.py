"""A table that takes rows of plain values: its columns, and what a record's row has in them."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from playhead.account import Account
from playhead.errors import NoSuchColumn, Refused
from playhead.json_objects import FIELDS_REPEATED, repeats_one_of
from playhead.note import Note
from playhead.record import Record
from playhead.records import Records
from playhead.request import TableRules
from playhead.tables.columns import METADATA, OFFSET, PARTITION, PLACE, TOPIC, WHOLE
from playhead.tables.json_fields import Row, fields_of, object_with, sampled_fields
from playhead.tables.order_notes import notes_of_order
from playhead.tables.sql import SqlSession, listed, named, numbered
from playhead.terms import Whereto
from playhead.written_rows import ColumnThere, lacking


class WrittenRow(NamedTuple):
    """A record, and what becomes of it."""

    record: Record
    row: Row
    """The values of the columns that it fills; none for a skipped tombstone."""
    left_out: tuple[str, ...]
    """Its fields that no column takes."""
    repeats: bool = False
    """Whether two of its fields have one name, and a column got the last."""


@dataclass(frozen=True, slots=True)
class RowTable:
    """The columns and the key of a table at this moment."""

    name: str
    columns: Mapping[str, str]
    """The declared type of each; often an empty one."""
    key: tuple[str, ...]
    mark: str
    """What another table in its place would not have; empty if nothing tells them apart."""
    rules: TableRules
    empty: frozenset[str] = frozenset()
    """The columns that are null in a new row that does not name them."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """What columns that must not be null get instead."""
    own: frozenset[str] = frozenset()
    """The columns that only a field fills: those of the primary key, and others with a default that is computed."""

    @property
    def there(self) -> dict[str, ColumnThere]:
        """The columns, without numbers that stay."""
        return {name: ColumnThere(0, declared) for name, declared in self.columns.items()}

    def lacking(self) -> list[str]:
        """Return what the table lacks now, without which a row cannot be looked up by its key."""
        return lacking(self.name, self.key, self.columns) if self.rules.on_conflict else []

    @property
    def place(self) -> list[str]:
        """Return the columns that identify a row's record; empty if the table lacks them."""
        names = [name for name in PLACE if name in self.columns]
        return names if names[-2:] == [PARTITION, OFFSET] else []

    @property
    def keeps_one_of_a_key(self) -> bool:
        """Return whether a row depends on all records of its key; rows without a place cannot be compared."""
        return self.rules.on_conflict is not None and bool(self.place)

    def rows(self, account: Account, records: Iterable[Records]) -> Iterator[WrittenRow]:
        """Yield each writable record with its values; a skipped tombstone has no values."""
        for part in records:
            for record, value in zip(part, part.readable, strict=True):
                is_skipped = value is None and self.rules.tombstones == "skip"
                try:
                    yield WrittenRow(record, {}, ()) if is_skipped else self.row(record, value)
                except (ValueError, RecursionError) as exc:
                    reason = str(exc) or "it is nested too deeply"
                    account.refuse(record, kind="value", reason=reason)

    def row(self, record: Record, value: bytes | None) -> WrittenRow:
        """Return what becomes of a record; raise ValueError if it cannot be written."""
        headers = json.dumps(
            record.headers, default=lambda value: value.decode(errors="surrogateescape")
        )
        position = record.topic, record.partition, record.offset
        metadata = (*position, record.timestamp_ms, _text_or_bytes(record.key), headers)
        values, left_out, repeats = self._values(value)
        row = dict(zip(METADATA, metadata, strict=True)) | values
        # A unique index never treats NULL as a conflict: each replay would add such a record again.
        if self.rules.on_conflict and any(row.get(name) is None for name in self.key):
            raise ValueError(f"it has no value for the key {', '.join(self.key)}")
        filled = {name: row[name] for name in row if name in self.columns}
        return WrittenRow(record, filled, left_out, repeats)

    def stored(self, row: Row, filled: Collection[str]) -> Row:
        """Return what is stored for a row in columns that records of its slice filled, as far as that is known.

        An update keeps columns that it does not name; those that nothing filled are other programs'.
        """
        if self.rules.on_conflict == "update":
            return row
        unnamed = self.empty - row.keys()
        return row | {name: None for name in self.columns if name in unnamed and name in filled}

    def refuse_lacking(self) -> None:
        """Refuse a table without a column that the rules name."""
        if self._extra is not None and self._extra not in self.columns:
            hint = f"ALTER TABLE {self.name} ADD COLUMN {self._extra}; or --extra-fields note"
            raise Refused(f"{self.name} has no column {self._extra} for --extra-fields", hint=hint)
        for name in self.rules.key:
            if name not in self.columns:
                raise NoSuchColumn("--key", name, table=self.name, known=[*self.columns])

    def notes(self, samples: Sequence[Records]) -> Iterator[Note]:
        """Yield what a user should know about the table; refuse a table whose rows would lack the values."""
        if not self.place:
            text = (
                f"{self.name} lacks the columns _partition and _offset: its rows cannot be verified"
            )
            yield Note("target-unplaced", text)
        fields = sampled_fields(samples) if self.rules.form == "json" else {}
        if self._extra is None and fields and not fields.keys() & {*self.columns} - {*METADATA}:
            hint = "--select gives fields other names; --extra-fields COLUMN stores them as JSON"
            text = f"no column of {self.name} takes a field of the sampled values ({', '.join(fields)})"
            raise Refused(f"{text}: its rows would lack the values", hint=hint)
        if self._extra is None and (unknown := self._left_out(fields)):
            action = (
                "records with them are refused" if self._refuses else "these fields are left out"
            )
            text = f"{self.name} has no column for {', '.join(unknown)}: {action}; --extra-fields COLUMN "
            yield Note("target-left-out", f"{text}stores them as JSON in a column")
        if count := sum(each.repeats for run in samples for each in self._sampled(run)):
            text = (
                f"{count:,} of the sampled records have two fields of one name: the last one counts"
            )
            yield Note(FIELDS_REPEATED, text)

    def notes_of_sharing(self, topics: Sequence[str], partitions: int) -> Iterator[Note]:
        """Yield what a user should know where these topics, with this number of partitions, go to the table."""
        yield from notes_of_order(
            self.rules.on_conflict,
            partitions=partitions,
            is_ordered=self.rules.on_conflict is not None and OFFSET not in self.key,
        )
        if len(topics) > 1 and self.place and TOPIC not in self.place:
            text = f"{self.name} takes records of {len(topics)} topics and lacks the column _topic: its rows "
            yield Note("target-unplaced", f"{text}cannot be verified")

    def insert(self, names: Collection[str]) -> str:
        """Return the statement that inserts a row with these columns under the rule for conflicts."""
        changes = ", ".join(f"{column} = excluded.{column}" for column in map(named, names))
        actions = {"ignore": "NOTHING", "update": f"UPDATE SET {changes}"}
        action = actions.get(self.rules.on_conflict or "")
        conflict = f" ON CONFLICT ({listed(self.key)}) DO {action}" if action else ""
        into = f"{named(self.name)} ({listed(names)})"
        return f"INSERT INTO {into} VALUES ({numbered(len(names))}){conflict}"  # noqa: S608 - quoted names

    def select(
        self, session: SqlSession, columns: Iterable[str], key: Row, values: Sequence[Any] = ()
    ) -> Sequence[tuple[Any, ...]]:
        """Return columns of the rows of a key; the values are those of expressions among the columns."""
        each = enumerate(key, len(values) + 1)
        equal = " AND ".join(f"{named(name)} = ${n}" for n, name in each)
        statement = f"SELECT {', '.join(columns)} FROM {named(self.name)} WHERE {equal}"  # noqa: S608 - quoted names
        return session.run(statement, (*values, *key.values()))

    def has_key_of(self, session: SqlSession, row: Row) -> bool:
        """Return whether a row with the key of this one is in the table."""
        return bool(self.select(session, ["1"], {name: row[name] for name in self.key}))

    def shown(self, records: Records) -> Iterator[Row]:
        """Yield the rows that would be written for these records."""
        for record, value in zip(records, records.readable, strict=True):
            try:
                yield self.row(record, value).row
            except (ValueError, RecursionError) as exc:
                yield {OFFSET: record.offset, "cannot be written": str(exc)}

    def _sampled(self, records: Records) -> Iterator[WrittenRow]:
        for record, value in zip(records, records.readable, strict=True):
            with suppress(ValueError, RecursionError):
                yield self.row(record, value)

    @property
    def _extra(self) -> str | None:
        return self.rules.extra_column

    @property
    def _refuses(self) -> bool:
        return self.rules.extra_fields == "fail"

    def _left_out(self, fields: Row) -> tuple[str, ...]:
        """Return the fields with a value that have no column of their own."""
        own = {*self.columns} - {*METADATA, self._extra}
        return tuple(
            sorted(name for name in fields if name not in own and fields[name] is not None)
        )

    def _values(self, value: bytes | None) -> tuple[Row, tuple[str, ...], bool]:
        if self.rules.form == "none":
            return {}, (), False
        if value is None and self.rules.tombstones != "null":
            raise ValueError(
                "it is a tombstone, and no rule says how to write it (see --tombstones)"
            )
        if self.rules.form == "json":
            if value is None:
                # It names every column, so that an update leaves nothing of the row before.
                nulls = self._emptied(name for name in self.columns if name not in METADATA)
                return nulls, (), False
            fields = fields_of(value)
            left_out = self._left_out(fields)
            if left_out and self._refuses:
                raise ValueError(f"no column takes {', '.join(left_out[:3])} (--extra-fields fail)")
            values = {name: fields[name] for name in fields if name not in (*METADATA, self._extra)}
            repeats = repeats_one_of(fields, values.keys() & self.columns.keys())
            if left_out and self._extra is not None:
                values[self._extra] = object_with(value, left_out)
            elif self._extra is not None and self.rules.on_conflict == "update":
                # Or the row would keep those of the record before.
                values |= self._emptied([self._extra])
            return values, () if self._extra is not None else left_out, repeats
        content = value.decode() if value is not None and self.rules.form == "string" else value
        names = [name for name in WHOLE if name in self.columns][:1]
        return dict.fromkeys(names, content), (), False

    def _emptied(self, names: Iterable[str]) -> Row:
        """Return what columns without a value get."""
        return {name: self.defaults.get(name) for name in names if name not in self.own}


def whereto_of(name: str, table: RowTable | None) -> Whereto:
    """Return a table as terms have it."""
    return Whereto(f"table {name}", "" if table is None else table.mark or "no mark")


def new_table(name: str, samples: Iterable[Records], rules: TableRules) -> dict[str, Any]:
    """Describe a new table for these records by names only; its columns accept every type."""
    whole: Row = {} if rules.form == "none" else {"value": None}
    fields = sampled_fields(samples) if rules.form == "json" else whole
    if unsampled := [column for column in rules.key if column not in (*fields, *METADATA)]:
        hint = "another --key"
        raise Refused(f"the key column {unsampled[0]} is in no sampled record", hint=hint)
    extra = [] if rules.extra_column is None else [rules.extra_column]
    if rules.form == "json" and not fields and not extra:
        hint = "--decode string stores each value as a whole; or choose a span with other records"
        text = "no sampled value is a JSON object with a field"
        raise Refused(f"no table {name} can be created: {text}", hint=hint)
    columns = [*{**fields, **dict.fromkeys(extra), **dict.fromkeys(METADATA)}]
    return {"table": name, "columns": columns, "key": [*(rules.key or PLACE)]}


def _text_or_bytes(value: bytes | None) -> str | bytes | None:
    try:
        return value if value is None or b"\0" in value else value.decode()
    except UnicodeDecodeError:
        return value

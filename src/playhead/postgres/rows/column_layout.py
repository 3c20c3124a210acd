"""Decides what is written to each column of a table: a field of the value, or a part of the record."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from playhead.errors import Refused
from playhead.postgres.rows.column_types import JSONS, TEXTS, ColumnCodec, route_of
from playhead.postgres.table import Column, Table
from playhead.tables.columns import EXTRA, KEY, METADATA, OFFSET, PARTITION, WHOLE

OWN_NAMES = "playhead:"
"""Begins the names that Playhead gives columns beside those of the table, such as a record's offset."""
_METADATA_ROUTES = (*TEXTS, *JSONS, "int2", "int4", "int8", "timestamp", "timestamptz", "bytea")


@dataclass(frozen=True, slots=True)
class Field:
    """A column and its source; without a codec, its text is sent for the server to parse."""

    column: Column
    route: ColumnCodec | None

    @property
    def name(self) -> str:
        return self.column.name

    @property
    def is_read(self) -> bool:
        """Whether Arrow's reader can fill it."""
        return self.route is not None and self.route.read is not None

    @property
    def arrow(self) -> Any:
        """Its type in an Arrow table that is ready to be copied."""
        return pa.string() if self.route is None else self.route.wire

    @property
    def aside(self) -> str:
        """Its type in a temporary table, which accepts every value, without modifier or domain."""
        column = self.column
        is_text = self.route is None or column.base in TEXTS or column.kind == "e"
        return "text" if is_text else column.base_type

    @property
    def is_unread_aside(self) -> bool:
        """Whether the temporary table has a text that is not parsed yet."""
        return self.aside == "text" and self.column.base not in TEXTS


@dataclass(frozen=True, slots=True)
class Layout:
    """The sources of a table's columns."""

    table: Table
    metadata: tuple[Field, ...]
    values: tuple[Field, ...]
    """The columns for the fields of a JSON value; or the one for the whole value."""
    extra: Field | None = None
    """The column for all fields without a column."""

    @property
    def fields(self) -> tuple[Field, ...]:
        rest = () if self.extra is None else (self.extra,)
        return (*self.metadata, *self.values, *rest)


def has_place(layout: Layout) -> bool:
    """Return whether each row says which record it is from."""
    return {PARTITION, OFFSET} <= {each.name for each in layout.metadata}


def layout_of(table: Table, decode: str, extra: str = EXTRA) -> Layout:
    """The layout that a way of decoding leads to; `extra` is the column for what no other one takes."""
    ours = [column for column in table.columns if column.is_ours]
    for column in ours:
        if column.name.startswith(OWN_NAMES):
            # The value of Playhead's own column of this name would be written to it.
            text = f"column {column.name} of {table.place} begins with {OWN_NAMES!r}, like Playhead's own names"
            raise Refused(text, hint=f"ALTER TABLE {table.place} RENAME COLUMN …, and use --select")
    metadata = tuple(_metadata(column) for column in ours if column.name in METADATA)
    others = [column for column in ours if column.name not in METADATA]
    if decode != "json":
        return Layout(table, metadata, tuple(map(_whole, _whole_column(others, decode))))
    kept = next((each for each in others if each.name == extra and each.base in JSONS), None)
    named = tuple(Field(each, route_of(each)) for each in others if each is not kept)
    rest = Field(kept, route_of(kept)) if kept is not None else None
    return Layout(table, metadata, named, rest)


def _whole_column(others: Sequence[Column], decode: str) -> list[Column]:
    if decode == "none":
        return []
    return [each for name in WHOLE for each in others if each.name == name][:1]


def _whole(column: Column) -> Field:
    """Return the whole value's column; only types for every text or all bytes have a codec."""
    return Field(column, route_of(column) if column.base in (*TEXTS, "bytea") else None)


def _metadata(column: Column) -> Field:
    known = (*TEXTS, *JSONS, "bytea") if column.name == KEY else _METADATA_ROUTES
    has_route = column.kind == "b" and column.base in known
    return Field(column, route_of(column) if has_route else None)

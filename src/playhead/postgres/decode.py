"""Turns the records of a slice into Arrow tables: all at once where Arrow can, one by one where it cannot."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from playhead.account import Account
from playhead.postgres import fast
from playhead.postgres.careful import Bad, Documents, read_object, text_for
from playhead.postgres.layout import Field, Layout
from playhead.postgres.metadata import bytes_text, metadata_column
from playhead.records import Records

ORDER = "playhead:offset"
# Values that Arrow refuses together are tried in so many parts, down to parts so small.
_PARTS = 8
_SMALLEST = 128

Index = Sequence[int]


@dataclass(frozen=True, slots=True)
class Decoded:
    """A slice as rows for one table; what cannot be a row was refused already."""

    fields: tuple[Field, ...]
    """The columns to write: those that some record has something for, and the key's."""
    ready: Any
    """Rows in the form in which they are copied; columns without a form of their own as text."""
    loose: Any
    """Rows whose values are all text, for the server to read; None when there are none."""
    tombstones: tuple[int, ...] = ()
    """Indexes of the records without a value, when these are no rows."""


class Decoder:
    """Knows the layout of one table; belongs to one thread."""

    def __init__(self, layout: Layout, decode: str, always: Sequence[str] = ()) -> None:
        self.layout, self._decode, self._always = layout, decode, frozenset(always)
        self._documents = Documents.of(layout.values)
        self._unread = tuple(each for each in layout.values if not fast.is_read(each))

    def decode(self, records: Records, account: Account, *, nulls_are_rows: bool) -> Decoded:
        """All of a slice's records; `account.refuse` is told of those that cannot be rows."""
        refusals = _Refusals(records, account)
        metadata = {
            field.name: metadata_column(field, records, refusals.add)
            for field in self.layout.metadata
        }
        nulls = [i for i, value in enumerate(records.values) if value is None]
        values = self._values(records, refusals)
        if nulls_are_rows and nulls:
            values.loose += [(i, {}) for i in nulls]
            nulls = []
        values.drop(refusals.indexes)
        fields = self._carried(values)
        return Decoded(
            fields,
            self._ready(values, fields, metadata, records),
            self._loose(values, fields, metadata, records),
            tuple(i for i in nulls if i not in refusals.indexes),
        )

    def _values(self, records: Records, refusals: "_Refusals") -> "_Values":
        live = [i for i, value in enumerate(records.values) if value is not None]
        if self._decode == "json":
            return self._objects(live, records, refusals)
        values = _Values()
        held = [records.values[i] for i in live]
        columns: dict[str, Any] = {}
        for field in self.layout.values:
            columns[field.name] = _whole(field, held, live, refusals)
        values.parts.append((live, pa.table(columns) if columns else None))
        return values

    def _objects(self, live: Index, records: Records, refusals: "_Refusals") -> "_Values":
        values = _Values()
        loose: list[int] = []
        self._read(live, records, values, loose)
        for i in loose:
            try:
                values.loose.append((i, self._documents.texts(records.values[i] or b"")))
            except Bad as bad:
                refusals.add(i, bad)
        if self._unread:
            values.parts = [
                (part, self._with_unread(part, table, records, refusals))
                for part, table in values.parts
            ]
        return values

    def _read(self, part: Index, records: Records, values: "_Values", loose: list[int]) -> None:
        """Let Arrow read them, in smaller parts where it must; what it may not read is loose."""
        if not part:
            return
        held: list[Any] = [records.values[i] for i in part]
        found = fast.read(held, self._documents)
        if found is None and len(part) <= _SMALLEST:
            loose.extend(part)
        elif found is None:
            size = -(-len(part) // _PARTS)
            for start in range(0, len(part), size):
                self._read(part[start : start + size], records, values, loose)
        else:
            table, doubtful = found
            loose.extend(part[i] for i in doubtful)
            values.parts.append(_without(part, table, set(doubtful)))

    def _with_unread(
        self, part: Index, table: Any, records: Records, refusals: "_Refusals"
    ) -> Any:
        """The columns that Arrow's reader cannot fill, from the values once more."""
        texts: dict[str, list[str | None]] = {field.name: [] for field in self._unread}
        for i in part:
            found: dict[str, str] = {}
            try:
                document = read_object(records.values[i] or b"")
                spelling = self._documents.spelling(document)
                for field in self._unread:
                    held = document.get(spelling.get(field.name, ""))
                    if held is not None and field.name in spelling:
                        found[field.name] = text_for(field, held)
            except Bad as bad:
                refusals.add(i, bad)
            for name, column in texts.items():
                column.append(found.get(name))
        for name, column in texts.items():
            table = table.append_column(name, pa.array(column, pa.string()))
        return table

    def _carried(self, values: "_Values") -> tuple[Field, ...]:
        """A column that no record of the slice has a field for is left out, so that its default applies."""
        carried = {name for _, texts in values.loose for name in texts}
        for _, table in values.parts:
            if table is not None:
                carried |= {
                    name for name in table.column_names if table.column(name).null_count < len(table)
                }
        carried |= self._always
        named = tuple(field for field in self.layout.values if field.name in carried)
        return (*self.layout.metadata, *named)

    def _ready(
        self, values: "_Values", fields: Sequence[Field], metadata: dict[str, Any], records: Records
    ) -> Any:
        index = [i for part, _ in values.parts for i in part]
        tables = [table for _, table in values.parts if table is not None]
        columns = _placed(index, fields, metadata, records)
        rows = pa.concat_tables(tables) if tables else None
        for field in fields:
            if field.name not in columns and rows is not None:
                columns[field.name] = rows.column(field.name)
        return pa.table(columns)

    def _loose(
        self, values: "_Values", fields: Sequence[Field], metadata: dict[str, Any], records: Records
    ) -> Any:
        if not values.loose:
            return None
        columns = _placed([i for i, _ in values.loose], fields, metadata, records)
        for field in fields:
            if field.name not in columns:
                texts = [texts.get(field.name) for _, texts in values.loose]
                columns[field.name] = pa.array(texts, pa.string())
        return pa.table(columns)


class _Refusals:
    """Tells the account of each record once."""

    def __init__(self, records: Records, account: Account) -> None:
        self._records, self._account = records, account
        self.indexes: set[int] = set()

    def add(self, index: int, bad: Bad) -> None:
        if index not in self.indexes:
            self.indexes.add(index)
            record = self._records.record(index)
            self._account.refuse(record, kind=bad.kind, reason=bad.reason)


class _Values:
    """The columns that come from values, by the indexes of their records."""

    def __init__(self) -> None:
        self.parts: list[tuple[Index, Any]] = []
        self.loose: list[tuple[int, dict[str, str]]] = []

    def drop(self, refused: set[int]) -> None:
        """Leave out records that were refused after all."""
        if not refused:
            return
        self.loose = [(i, texts) for i, texts in self.loose if i not in refused]
        self.parts = [
            _without(part, table, {n for n, i in enumerate(part) if i in refused})
            for part, table in self.parts
        ]


def _without(part: Index, table: Any, numbers: set[int]) -> tuple[Index, Any]:
    if not numbers:
        return part, table
    kept = [n for n in range(len(part)) if n not in numbers]
    left = table.take(pa.array(kept, pa.int64())) if table is not None else None
    return tuple(part[n] for n in kept), left


def _placed(
    index: Index, fields: Sequence[Field], metadata: dict[str, Any], records: Records
) -> dict[str, Any]:
    """The record's own columns for these records, its offset first."""
    everything = len(index) == len(records) and list(index) == list(range(len(records)))
    offsets = records.offsets if everything else [records.offsets[i] for i in index]
    columns: dict[str, Any] = {ORDER: pa.array(offsets, pa.int64())}
    taken = None if everything else pa.array(index, pa.int64())
    for field in fields:
        if field.name in metadata:
            column = metadata[field.name]
            columns[field.name] = column if taken is None else pc.take(column, taken)
    return columns


def _whole(field: Field, held: Sequence[Any], live: Index, refusals: _Refusals) -> Any:
    """A column that takes values as they are."""
    if field.column.base == "bytea":
        return pa.array(held, pa.binary())
    texts: list[str | None] = []
    for i, value in zip(live, held, strict=True):
        try:
            texts.append(bytes_text(value, "the value"))
        except Bad as bad:
            refusals.add(i, bad)
            texts.append(None)
    return pa.array(texts, pa.string())

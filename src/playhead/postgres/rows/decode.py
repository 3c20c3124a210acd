"""Converts the records of a slice to Arrow tables: all at once where Arrow can, else one by one."""

import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from playhead.account import Account
from playhead.postgres.rows import arrow_json
from playhead.postgres.rows.altered_values import CUT, ROUNDED
from playhead.postgres.rows.column_layout import Field, Layout
from playhead.postgres.rows.metadata_columns import altered_metadata, metadata_column
from playhead.postgres.rows.named_columns import FORM, ColumnNamer, ColumnSets
from playhead.postgres.rows.python_json import Documents, read_names, read_object
from playhead.postgres.rows.text_format import Bad
from playhead.postgres.rows.whole_value import altered_texts, whole_column
from playhead.records import Records

ORDER = "playhead:offset"
# Values that Arrow refuses together are tried in this many parts, down to this size.
_PARTS = 8
_SMALLEST = 128
_SHOWN, _LONGEST_SHOWN = 3, 64

Index = Sequence[int]


@dataclass(frozen=True, slots=True)
class Decoded:
    """A slice as rows for one table, without the records that were refused."""

    fields: tuple[Field, ...]
    """The columns to write: those that some record fills or names, and those always wanted."""
    ready: Any
    """Rows in the form in which they are copied; columns without a codec as text."""
    loose: Any
    """Rows with only text values for the server to parse; None if there are none."""
    tombstones: tuple[int, ...] = ()
    """The indexes of records without a value, if these are not rows."""
    forms: tuple[tuple[Field, ...], ...] = ()
    """If rows are written to different columns: the columns by a row's number."""
    altered: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Offsets of records that are not kept exactly, by what happens to them."""
    left_out: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """By offset, the fields that no column takes, of the records that have such."""

    def by_form(self) -> "list[tuple[tuple[Field, ...], Any]]":
        """Yield rows that are ready, with the columns that are written for them."""
        if not self.forms:
            return [(self.fields, self.ready)]
        column = self.ready.column(FORM)
        parts = [
            (fields, self.ready.filter(pc.equal(column, n))) for n, fields in enumerate(self.forms)
        ]
        return [(fields, rows) for fields, rows in parts if len(rows)]

    @property
    def rows(self) -> int:
        return len(self.ready) + (0 if self.loose is None else len(self.loose))


class Refusals:
    """Refuses each record in the account once."""

    def __init__(self, records: Records, account: Account) -> None:
        self._records, self._account = records, account
        self.indexes: set[int] = set()

    def add(self, index: int, bad: Bad) -> None:
        if index not in self.indexes:
            self.indexes.add(index)
            record = self._records.record(index)
            self._account.refuse(record, kind=bad.kind, reason=bad.reason)


@dataclass(slots=True)
class _Values:
    """The columns that come from values, by the indexes of their records."""

    parts: list[tuple[Index, Any]] = field(default_factory=list)
    loose: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    altered: dict[str, set[int]] = field(default_factory=dict)
    """Records that are not kept exactly, by what happens to them."""
    unsure: list[Index] = field(default_factory=list)
    """Records that Arrow has read, and that may have fields which no column takes."""
    left_out: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Those fields."""

    def drop(self, refused: set[int]) -> None:
        """Leave out records that were refused later."""
        if not refused:
            return
        self.loose = [(i, texts) for i, texts in self.loose if i not in refused]
        self.parts = [
            _without(part, table, {n for n, i in enumerate(part) if i in refused})
            for part, table in self.parts
        ]

    def note(self, i: int, alterations: Iterable[str]) -> None:
        for each in alterations:
            self.altered.setdefault(each, set()).add(i)

    def leave_out(self, i: int, names: tuple[str, ...]) -> None:
        if names:
            self.left_out[i] = names

    def carried(self) -> set[str]:
        """The columns that some record fills."""
        names = {name for _, texts in self.loose for name in texts}
        for _, table in self.parts:
            for name in () if table is None else table.column_names:
                if table.column(name).null_count < len(table):
                    names.add(name)
        return names


class Decoder:
    """Decodes for the layout of one table; belongs to one thread.

    `always` are columns to write also when no record has anything for them, and `never_null` those
    without which a record cannot be written. Of those that are `minded` a record writes only what it
    names, whatever other records do. Records with fields that no column takes can be refused.
    """

    def __init__(
        self,
        layout: Layout,
        decode: str,
        *,
        always: Sequence[str] = (),
        never_null: Sequence[str] = (),
        minded: Collection[str] = (),
        refuses_left_out: bool = False,
    ) -> None:
        self._layout, self._decode = layout, decode
        self._always, self._never_null = frozenset(always), tuple(never_null)
        self._minded, self._refuses_left_out = frozenset(minded), refuses_left_out
        self._has_left_out = False
        self._documents = Documents(layout.values, layout.extra)
        self._namer = ColumnNamer(self._documents, self._minded)
        self._unread = [each for each in layout.values if not each.is_read]
        self._beside = [*self._unread, *([layout.extra] if layout.extra is not None else [])]

    def decode(self, records: Records, refusals: Refusals, *, nulls_are_rows: bool) -> Decoded:
        """Decode all records of a slice."""
        metadata = {
            each.name: metadata_column(each, records, refusals.add)
            for each in self._layout.metadata
        }
        nulls: list[int] = []
        live: Index = range(len(records))
        held = records.readable
        if None in held:
            nulls = [i for i, value in enumerate(held) if value is None]
            live = [i for i, value in enumerate(held) if value is not None]
        values = self._values(live, records, refusals)
        if nulls_are_rows and nulls:
            values.parts.append((nulls, None))
            nulls = []
        gone = set(nulls)
        for i, found in altered_metadata(self._layout.metadata, records):
            values.note(i, () if i in gone else found)
        self._refuse_nulls(values, metadata, refusals)
        if self._refuses_left_out:
            for i in sorted(values.left_out):
                refusals.add(i, _no_column(values.left_out[i]))
        values.drop(refusals.indexes)
        named = self._named(values, records, refusals)
        values.drop(refusals.indexes)
        written = (values.carried() - self._minded) | self._always | metadata.keys()
        forms = tuple(self._fields(written | names) for names in named.names)
        fields = self._fields(written.union(*named.names))
        if named.column is not None:
            metadata[FORM] = named.column
        return Decoded(
            fields,
            _ready(values, fields, metadata, records),
            _loose(values, fields, metadata, records),
            tuple(i for i in nulls if i not in refusals.indexes),
            forms if len(forms) > 1 else (),
            {
                name: frozenset(records.offsets[i] for i in indexes)
                for name, indexes in values.altered.items()
            },
            {records.offsets[i]: names for i, names in values.left_out.items()},
        )

    def _fields(self, names: Collection[str]) -> tuple[Field, ...]:
        return tuple(each for each in self._layout.fields if each.name in names)

    def _named(self, values: _Values, records: Records, refusals: Refusals) -> ColumnSets:
        """Find the `minded` columns that each record names."""
        forms = ColumnSets(len(records))
        if not self._minded:
            return forms
        for part, table in values.parts:
            if table is None or self._decode != "json":
                self._namer.note_nulls(forms, part)
            elif part:
                held = [records.readable[i] or b"" for i in part]
                self._namer.note_table(forms, part, table, held, refusals.add)
        for i, _ in values.loose:
            self._namer.note_text(forms, i, records.readable[i] or b"")
        return forms

    def _values(self, live: Index, records: Records, refusals: Refusals) -> _Values:
        if self._decode == "json":
            return self._objects(live, records, refusals)
        held = [records.readable[i] for i in live]
        values, columns = _Values(), dict[str, Any]()
        for each in self._layout.values:
            columns[each.name] = whole_column(each, held, live, refusals.add)
            for i, found in zip(live, altered_texts(each, columns[each.name]), strict=False):
                values.note(i, found)
        values.parts.append((live, pa.table(columns) if columns else None))
        return values

    def _objects(self, live: Index, records: Records, refusals: Refusals) -> _Values:
        values = _Values()
        live, many = arrow_json.without_many_values(live, records.readable)
        live, loose = arrow_json.without_far_decimals(live, records.readable, self._documents)
        self._read(live, records, values, loose)
        loose += many
        for i in sorted(loose):
            try:
                document = read_object(records.readable[i] or b"")
                values.loose.append((i, self._documents.texts(document)))
                values.note(i, self._documents.alterations(document))
                values.leave_out(i, self._documents.left_out(document))
            except Bad as bad:
                refusals.add(i, bad)
        if self._beside:
            for n, (part, table) in enumerate(values.parts):
                more = self._beside_columns(part, records, values, refusals)
                values.parts[n] = (part, _appended(table, more))
        else:
            self._note_left_out(values, records, refusals)
        return values

    def _note_left_out(self, values: _Values, records: Records, refusals: Refusals) -> None:
        """The fields of what Arrow has read that no column takes, from the values once more."""
        before = len(values.left_out)
        for i in (i for part in values.unsure for i in part):
            try:
                document = read_names(records.readable[i] or b"")
                values.leave_out(i, self._documents.left_out(document))
            except Bad as bad:  # Arrow had no reason to look into all of it
                refusals.add(i, bad)
        # What is so in one slice is mostly so in the next: then Arrow is not asked in vain.
        self._has_left_out = len(values.left_out) > before

    def _read(self, part: Index, records: Records, values: _Values, loose: list[int]) -> None:
        """Let Arrow read values, in smaller parts if necessary; values that it must not read are loose."""
        if not part:
            return
        is_all = isinstance(part, range) and len(part) == len(records)
        readable = records.readable
        held: list[Any] = readable if is_all else [readable[i] for i in part]
        # Where values are read once more, for columns that Arrow cannot fill, their other fields are seen then.
        has_others = self._has_left_out or bool(self._beside)
        rows = arrow_json.read(held, self._documents, has_others=has_others)
        if rows is not None:
            loose.extend(part[i] for i in rows.odd)
            for i in rows.rounded:
                values.note(part[i], (ROUNDED,))
            for i in rows.cut:
                values.note(part[i], (CUT,))
            values.parts.append(_without(part, rows.table, set(rows.odd)))
            if not rows.is_complete:
                values.unsure.append(values.parts[-1][0])
        elif len(part) <= _SMALLEST:
            loose.extend(part)
        else:
            size = -(-len(part) // _PARTS)
            for start in range(0, len(part), size):
                self._read(part[start : start + size], records, values, loose)

    def _beside_columns(
        self, part: Index, records: Records, values: _Values, refusals: Refusals
    ) -> dict[str, Any]:
        """Fill the columns that Arrow's reader cannot fill, from the values again."""
        texts: dict[str, list[str | None]] = {each.name: [] for each in self._beside}
        for i in part:
            found: dict[str, str] = {}
            try:
                document = read_object(records.readable[i] or b"")
                found = self._documents.texts(document, self._unread)
                values.note(i, self._documents.alterations(document, self._unread))
                values.leave_out(i, self._documents.left_out(document))
            except Bad as bad:
                refusals.add(i, bad)
            for name, column in texts.items():
                column.append(found.get(name))
        return {each.name: _packed(each, texts[each.name]) for each in self._beside}

    def _refuse_nulls(self, values: _Values, metadata: dict[str, Any], refusals: Refusals) -> None:
        for name in self._never_null:
            for i in _nulls(name, values, metadata):
                refusals.add(i, Bad("no_key", f"nothing for column {name}, which identifies rows"))


def _no_column(names: Sequence[str]) -> Bad:
    shown = ", ".join(repr(name[:_LONGEST_SHOWN]) for name in names[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return Bad("extra_field", f"no column takes {shown}{more} (--extra-fields fail)")


def _nulls(name: str, values: _Values, metadata: dict[str, Any]) -> list[int]:
    """Return the records without a value for a column."""
    found = []
    for part, table in values.parts:
        if name in metadata:
            found += [i for i in part if not metadata[name][i].is_valid]
        elif table is None or name not in table.column_names:
            found += part
        elif table.column(name).null_count:
            nulls = pc.indices_nonzero(pc.is_null(table.column(name).combine_chunks()))
            found += [part[n] for n in nulls.to_pylist()]
    for i, texts in values.loose:
        if not (metadata[name][i].is_valid if name in metadata else name in texts):
            found.append(i)
    return found


def _ready(
    values: _Values, fields: Sequence[Field], metadata: dict[str, Any], records: Records
) -> Any:
    parts = [part for part, _ in values.parts]
    index = parts[0] if len(parts) == 1 else [i for part in parts for i in part]
    columns = _placed(index, fields, metadata, records)
    for each in fields:
        if each.name not in columns:
            pieces = [piece for part in values.parts for piece in _pieces(each, *part)]
            columns[each.name] = pa.chunked_array(pieces, each.arrow)
    return pa.table(columns)


def _pieces(each: Field, part: Index, table: Any) -> list[Any]:
    """Return a column as it was read: joining its parts would copy all of it."""
    if table is None or each.name not in table.column_names:
        return [pa.nulls(len(part), each.arrow)]
    column = table.column(each.name)
    return [*column.iterchunks()] if isinstance(column, pa.ChunkedArray) else [column]


def _loose(
    values: _Values, fields: Sequence[Field], metadata: dict[str, Any], records: Records
) -> Any:
    if not values.loose:
        return None
    columns = _placed([i for i, _ in values.loose], fields, metadata, records)
    for each in fields:
        if each.name not in columns:
            texts = [texts.get(each.name) for _, texts in values.loose]
            columns[each.name] = pa.array(texts, pa.string())
    return pa.table(columns)


def _placed(
    index: Index, fields: Sequence[Field], metadata: dict[str, Any], records: Records
) -> dict[str, Any]:
    """Return the records' metadata columns, the offset first."""
    everything = range(len(records))
    is_all = index == everything or (
        len(index) == len(records) and all(map(operator.eq, index, everything))
    )
    taken = None if is_all else pa.array(index, pa.int64())
    offsets = pa.array(records.offsets, pa.int64())
    columns: dict[str, Any] = {ORDER: offsets if taken is None else offsets.take(taken)}
    for name in (FORM, *(each.name for each in fields)):
        if name in metadata:
            column = metadata[name]
            columns[name] = column if taken is None else column.take(taken)
    return columns


def _packed(each: Field, texts: Sequence[str | None]) -> Any:
    pack = each.route.pack if each.route is not None else None
    return pack(texts) if pack else pa.array(texts, pa.string())


def _appended(table: Any, columns: Mapping[str, Any]) -> Any:
    for name, column in columns.items():
        table = table.append_column(name, column)
    return table


def _without(part: Index, table: Any, numbers: set[int]) -> tuple[Index, Any]:
    if not numbers:
        return part, table
    kept = [n for n in range(len(part)) if n not in numbers]
    left = table.take(pa.array(kept, pa.int64())) if table is not None else None
    return tuple(part[n] for n in kept), left

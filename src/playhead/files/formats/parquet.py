"""Parquet: every field of a record in its own column, compressed by zstd."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from playhead.account import Account
from playhead.files.codec import EARLIEST_MS, LATEST_MS, NO_TIME_MS, Group, sayable
from playhead.files.file_names import Format
from playhead.files.formats import parquet_footer
from playhead.files.formats.parquet_pages import Pages, pages_of
from playhead.files.stores.store import Piece
from playhead.files.typed_columns import Columns, fields_of, filled
from playhead.record import Headers, Slice
from playhead.records import Records

_HEADER = pa.struct([pa.field("name", pa.string(), nullable=False), pa.field("value", pa.binary())])
_HEADERS = pa.list_(pa.field("element", _HEADER, nullable=False))
_UTC_MS = pa.timestamp("ms", "UTC")

# The names of the folders have topic and partition. pandas and pyarrow refuse a folder whose files have them too.
_FIELDS = [
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("timestamp_ms", pa.int64(), nullable=False),
    pa.field("timestamp", _UTC_MS),
    pa.field("timestamp_type", pa.int8(), nullable=False),
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("headers", _HEADERS, nullable=False),
]
# `timestamp` is for people's tools; a record is restored from `timestamp_ms`.
_RESTORED = ["offset", "timestamp_ms", "timestamp_type", "key", "value", "headers"]
_OF_BYTES = ["key", "value", "headers"]

_WRITING: dict[str, Any] = {
    "compression": "zstd",
    "compression_level": 1,
    "use_dictionary": ["timestamp_type", "key", "headers.list.element.name"],
    # Neighbouring values differ little, which suits this encoding.
    "column_encoding": dict.fromkeys(
        ("offset", "timestamp_ms", "timestamp"), "DELTA_BINARY_PACKED"
    ),
    # Minimum and maximum of payload bytes are useless, and cost time.
    "write_statistics": ["offset", "timestamp_ms", "timestamp"],
    "store_schema": False,
}


# A file is of one slice, of 64 MiB and a record at most. Another user may have written one of some
# kilobytes that unfolds to many gigabytes.
_MOST_BYTES = 1 << 30
_BYTES_OF_A_VALUE = 32
# Of texts and bytes. Values of a dictionary are counted before they are repeated; other encodings repeat
# parts of values.
_DICTIONARIES = {"RLE_DICTIONARY", "PLAIN_DICTIONARY"}
_ENCODINGS = {"PLAIN", "RLE", "BIT_PACKED", "DELTA_LENGTH_BYTE_ARRAY", *_DICTIONARIES}


@dataclass(frozen=True, slots=True)
class ParquetCodec:
    """Columns offset, timestamp_ms, timestamp, timestamp_type, key, value, headers.

    `timestamp_type` is Kafka's number (0 create time, 1 log append time, -1 none); `timestamp` is null without a
    time, and outside the years 1 to 9999.
    """

    columns: Mapping[str, Columns] = field(default_factory=dict)
    """For each topic, the JSON fields that get their own columns `value_FIELD`."""
    name: Format = "parquet"

    def group(self, account: Account, records: Records, /) -> Group:
        kept = sayable(account, records)
        wanted = self.columns.get(kept.topic)
        if not wanted:
            return Group(kept)
        found = filled(account, kept, wanted)
        typed = pa.table(found.arrays, schema=pa.schema(fields_of(wanted)))
        return Group(found.records, typed, found.repeated)

    def encode(self, groups: Iterable[Group], /) -> list[Piece]:
        file = pa.BufferOutputStream()
        writer: pq.ParquetWriter | None = None
        for group in groups:
            table = _table(group)
            writer = writer or pq.ParquetWriter(file, table.schema, **_WRITING)
            writer.write_table(table, row_group_size=len(table))
        if writer is None:
            return []
        writer.close()
        return [memoryview(file.getvalue())]

    def decode(self, data: bytes, slice_: Slice, /) -> Iterator[Records]:
        try:
            repeated = _repeated(data, parquet_footer.read(data), slice_)
            with pq.ParquetFile(pa.BufferReader(data), read_dictionary=repeated) as file:
                _refuse_types(file.schema_arrow)
                for index in range(file.num_row_groups):
                    table = file.read_row_group(index, columns=_RESTORED, use_threads=False)
                    yield _records(table, slice_)
        except pa.ArrowException as exc:  # Some of its classes are of no common one of Python's.
            raise ValueError(str(exc)) from exc


def _table(group: Group) -> pa.Table:
    records = group.records
    times = pa.array(records.timestamps_ms, pa.int64())
    columns = [
        pa.array(records.offsets, pa.int64()),
        times,
        _shown(times),
        pa.array(records.timestamp_types, pa.int8()),
        pa.array(records.keys, pa.binary()),
        pa.array(records.values, pa.binary()),
        _header_column(records.headers),
    ]
    table = pa.Table.from_arrays(columns, schema=pa.schema(_FIELDS))
    for field_ in group.typed.schema if group.typed is not None else ():
        table = table.append_column(field_, group.typed.column(field_.name))
    return table


def _shown(times: pa.Array) -> pa.Array:
    known = pc.and_(pc.greater_equal(times, EARLIEST_MS), pc.less_equal(times, LATEST_MS))
    known = pc.and_(known, pc.not_equal(times, NO_TIME_MS))
    return pc.if_else(known, times, pa.scalar(None, pa.int64())).cast(_UTC_MS)


def _header_column(headers: list[Headers]) -> pa.Array:
    starts = pa.array(accumulate(map(len, headers), initial=0), pa.int32())
    flat = [header for each in headers if each for header in each]
    names = pa.array([name for name, _ in flat], pa.string())
    values = pa.array([value for _, value in flat], pa.binary())
    pairs = pa.StructArray.from_arrays([names, values], fields=list(_HEADER))
    return pa.ListArray.from_arrays(starts, pairs, type=_HEADERS)


def _repeated(data: bytes, footer: parquet_footer.Footer, slice_: Slice) -> list[str]:
    """Return the columns with a dictionary of texts or bytes; raise ValueError for more than a slice."""
    if footer.rows > slice_.to_offset - slice_.from_offset:
        raise ValueError(f"it has {footer.rows:,} records, more than offsets")
    size, repeated = 0, set()
    for column in footer.columns:
        name = column.path.partition(".")[0]
        if name not in _RESTORED:
            continue
        size += column.unfolded + _BYTES_OF_A_VALUE * column.values
        pages = _honest_pages(data, column)
        if name not in _OF_BYTES:
            continue
        if others := pages.encodings - _ENCODINGS:
            raise ValueError(f"its column {column.path} is encoded by {', '.join(sorted(others))}")
        if pages.encodings & _DICTIONARIES:
            repeated.add(column.path)
    _refuse_size(size)
    return sorted(repeated)


def _honest_pages(data: bytes, column: parquet_footer.Column) -> Pages:
    """Raise ValueError for pages that have more than the footer says, by which their size is judged."""
    pages = pages_of(data, column.start, min(column.start + column.packed, len(data)))
    if pages.unfolded > column.unfolded or pages.values > column.values:
        raise ValueError(
            f"the pages of its column {column.path} have {pages.unfolded:,} bytes and {pages.values:,} values, "
            f"and the footer says {column.unfolded:,} and {column.values:,}"
        )
    return pages


def _refuse_types(schema: pa.Schema) -> None:
    for field_ in _FIELDS:
        if field_.name not in _RESTORED:
            continue
        found = _plain(schema.field(field_.name).type)
        if found != _plain(field_.type):
            raise ValueError(f"its column {field_.name} is {found}, needed: {field_.type}")


def _refuse_size(size: int) -> None:
    if size > _MOST_BYTES:
        raise ValueError(f"it unfolds to {size:,} bytes, needed at most {_MOST_BYTES:,}")


def _plain(type_: pa.DataType) -> pa.DataType:
    """Return a type without dictionaries, and without what a library may say otherwise: what is never null."""
    if pa.types.is_dictionary(type_):
        return type_.value_type
    if pa.types.is_list(type_) and pa.types.is_struct(type_.value_type):
        return pa.list_(pa.struct([(each.name, _plain(each.type)) for each in type_.value_type]))
    return type_


def _unfolded(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column that may be a dictionary, unless they would be too large."""
    plain = column
    if pa.types.is_dictionary(column.type):
        for piece in column.iterchunks():
            lengths = pc.binary_length(piece.dictionary).cast(pa.int64())
            _refuse_size(pc.sum(lengths.take(piece.indices)).as_py() or 0)
        plain = column.cast(column.type.value_type)
    values: list[Any] = plain.to_pylist()
    return values


def _records(table: pa.Table, slice_: Slice) -> Records:
    lists = {name: _unfolded(table.column(name)) for name in _RESTORED if name != "headers"}
    return Records(
        slice_.topic,
        slice_.partition,
        lists["offset"],
        lists["timestamp_ms"],
        lists["timestamp_type"],
        lists["key"],
        lists["value"],
        _headers(table.column("headers"), len(table)),
    )


def _headers(column: pa.ChunkedArray, count: int) -> list[Headers]:
    flat = pc.list_flatten(column)
    if len(flat) == 0:
        return [()] * count
    names, values = (_unfolded(pc.struct_field(flat, each)) for each in (0, 1))
    if None in names:
        raise ValueError("a header has no name")
    pairs = list(zip(names, values, strict=True))
    ends = list(accumulate(pc.list_value_length(column).to_pylist(), initial=0))
    return [tuple(pairs[start:end]) for start, end in pairwise(ends)]

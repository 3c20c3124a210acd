"""CSV by RFC 4180: one row for each record, with the form of each key and value in its own column."""

import base64
import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import csv as arrow_csv

from playhead.account import Account
from playhead.files.codec import Group, sayable, shown_times
from playhead.files.file_names import Format
from playhead.files.formats.jsonl import headers_as_json, headers_from_json
from playhead.files.stores.store import Piece
from playhead.record import Headers, Slice
from playhead.records import Records

_TYPES = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp_ms": pa.int64(),
    "timestamp": pa.string(),
    "timestamp_type": pa.int8(),
    "key": pa.binary(),
    "key_form": pa.string(),
    "value": pa.binary(),
    "value_form": pa.string(),
    "headers": pa.string(),
}
HEADER = tuple(_TYPES)
_FIRST_LINE = f"{','.join(HEADER)}\r\n".encode()
_TEXT, _BASE64, _NULL = "text", "base64", "null"
# Arrow's reader requires a row to be in one block: the whole file is one.
_LEAST_BLOCK, _MOST_BLOCK = 1 << 16, (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class CsvCodec:
    """The columns of Parquet, plus `key_form` and `value_form`.

    The form is `text` (the field's UTF-8 bytes; an empty field is empty bytes), `base64` (bytes that are not
    valid UTF-8), or `null` (with an empty field). `headers` is JSON, as in JSON Lines. Rows end in CR LF; fields
    with commas, quotes, CR or LF are quoted, with quotes doubled.
    """

    name: Format = "csv"

    def group(self, account: Account, records: Records, /) -> Group:
        return Group(sayable(account, records))

    def encode(self, groups: Iterable[Group], /) -> list[Piece]:
        pieces: list[Piece] = []
        for group in groups:
            text = io.StringIO(newline="")
            writer = csv.writer(text)
            if not pieces:
                writer.writerow(_TYPES)
            writer.writerows(rows_of(group.records))
            pieces.append(text.getvalue().encode())
        return pieces

    def decode(self, data: bytes, slice_: Slice, /) -> Iterator[Records]:
        # Each column takes Arrow some kilobytes: two megabytes of commas would take gigabytes.
        if not data.startswith(_FIRST_LINE):
            raise ValueError("its first line does not name our columns")
        block = min(max(len(data) + 1, _LEAST_BLOCK), _MOST_BLOCK)
        table = arrow_csv.read_csv(
            pa.BufferReader(data),
            arrow_csv.ReadOptions(use_threads=False, block_size=block),
            arrow_csv.ParseOptions(newlines_in_values=True),
            arrow_csv.ConvertOptions(column_types=_TYPES, strings_can_be_null=False),
        )
        yield _records(table, slice_)


def rows_of(records: Records) -> Iterator[tuple[object, ...]]:
    """Return the cells under the names of `HEADER`."""
    keys, key_forms = _written(records.keys)
    values, value_forms = _written(records.values)
    columns = zip(
        records.offsets,
        records.timestamps_ms,
        shown_times(records.timestamps_ms),
        records.timestamp_types,
        keys,
        key_forms,
        values,
        value_forms,
        map(headers_as_json, records.headers),
        strict=True,
    )
    return ((records.topic, records.partition, *row) for row in columns)


def _written(column: Iterable[bytes | None]) -> tuple[list[str], list[str]]:
    texts, forms = [], []
    for value in column:
        if value is None:
            text, form = "", _NULL
        else:
            try:
                text, form = value.decode(), _TEXT
            except UnicodeDecodeError:
                text, form = base64.b64encode(value).decode(), _BASE64
        texts.append(text)
        forms.append(form)
    return texts, forms


def _records(table: pa.Table, slice_: Slice) -> Records:
    column = {name: table.column(name).to_pylist() for name in _TYPES}
    return Records(
        slice_.topic,
        slice_.partition,
        column["offset"],
        column["timestamp_ms"],
        column["timestamp_type"],
        [_read(*pair) for pair in zip(column["key"], column["key_form"], strict=True)],
        [_read(*pair) for pair in zip(column["value"], column["value_form"], strict=True)],
        [_headers(text) for text in column["headers"]],
    )


def _read(field: bytes, form: str) -> bytes | None:
    if form == _TEXT:
        return field
    if form == _NULL:
        return None
    if form == _BASE64:
        return base64.b64decode(field, validate=True)
    raise ValueError(f"a form {form!r}")


def _headers(text: str) -> Headers:
    return headers_from_json(json.loads(text)) if text != "[]" else ()

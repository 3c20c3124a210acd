"""JSON Lines: one object for each record, with text for bytes that are UTF-8."""

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any

from playhead.account import Account
from playhead.files.codec import Group, sayable, shown_times
from playhead.files.file_names import Format
from playhead.files.stores.store import Piece
from playhead.record import Headers, Slice
from playhead.records import Records

_BASE64 = "base64"
_LINES = 1_000


@dataclass(frozen=True, slots=True)
class JsonCodec:
    """The fields are the columns of Parquet; a header is a pair `[name, value]`.

    Bytes are null, or a string if they are valid UTF-8, or else `{"base64": "…"}`. A string always means its
    UTF-8 bytes and an object its decoded base64, so that nothing is ambiguous. `timestamp` is RFC 3339, for
    people; a record is restored from `timestamp_ms`.
    """

    name: Format = "json"

    def group(self, account: Account, records: Records, /) -> Group:
        return Group(sayable(account, records))

    def encode(self, groups: Iterable[Group], /) -> list[Piece]:
        return ["".join(_lines(group.records)).encode() for group in groups]

    def decode(self, data: bytes, slice_: Slice, /) -> Iterator[Records]:
        # Not splitlines, which splits at more characters than JSON Lines.
        lines = data.decode().split("\n")
        if lines.pop():
            raise ValueError("the last line has no end")
        for start in range(0, len(lines), _LINES):
            # As one array: one call for many lines, which share the names of their fields.
            yield _records(json.loads(f"[{','.join(lines[start : start + _LINES])}]"), slice_)


def bytes_as_json(value: bytes | None) -> str:
    """Encode bytes as JSON text."""
    if value is None:
        return "null"
    try:
        return encode_basestring(value.decode())
    except UnicodeDecodeError:
        return f'{{"{_BASE64}":"{base64.b64encode(value).decode()}"}}'


def bytes_from_json(document: Any) -> bytes | None:
    """Decode a parsed value of `bytes_as_json`."""
    if document is None or isinstance(document, str):
        return None if document is None else document.encode()
    return base64.b64decode(document[_BASE64], validate=True)


def headers_as_json(headers: Headers) -> str:
    """Encode headers as JSON text, in order."""
    if not headers:
        return "[]"
    pairs = (f"[{encode_basestring(name)},{bytes_as_json(value)}]" for name, value in headers)
    return f"[{','.join(pairs)}]"


def headers_from_json(document: Any) -> Headers:
    """Decode parsed headers of `headers_as_json`."""
    if any(not isinstance(name, str) for name, _ in document):
        raise TypeError("a header's name is not a text")
    return tuple((name, bytes_from_json(value)) for name, value in document)


def _lines(records: Records) -> Iterator[str]:
    place = f'{{"topic":{encode_basestring(records.topic)},"partition":{records.partition}'
    rows = zip(
        records.offsets,
        records.timestamps_ms,
        shown_times(records.timestamps_ms),
        records.timestamp_types,
        map(bytes_as_json, records.keys),
        map(bytes_as_json, records.values),
        map(headers_as_json, records.headers),
        strict=True,
    )
    for offset, timestamp_ms, shown, type_, key, value, headers in rows:
        timestamp = f'"{shown}"' if shown else "null"
        yield (
            f'{place},"offset":{offset},"timestamp_ms":{timestamp_ms},"timestamp":{timestamp},'
            f'"timestamp_type":{type_},"key":{key},"value":{value},"headers":{headers}}}\n'
        )


def _records(rows: list[dict[str, Any]], slice_: Slice) -> Records:
    return Records(
        slice_.topic,
        slice_.partition,
        [row["offset"] for row in rows],
        [row["timestamp_ms"] for row in rows],
        [row["timestamp_type"] for row in rows],
        [bytes_from_json(row["key"]) for row in rows],
        [bytes_from_json(row["value"]) for row in rows],
        [headers_from_json(row["headers"]) for row in rows],
    )

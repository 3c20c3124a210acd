"""Decodes requests and responses by their schemas into documents of captured traffic.

Field names are Kafka's in lower camel case. 64-bit integers are strings; bytes and UUIDs are base64. Fields
that are zero, empty or null are left out. Fields with different names in Produce and Fetch get one name.
"""

import struct
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from math import isinf, isnan
from typing import Any, Final

from playhead.capture.decode_records import Bounds, Document, record_sets
from playhead.capture.protocol import (
    Field,
    Side,
    response_head_bytes,
    shape_of,
)
from playhead.unpacking import Malformed, varint

_NUMBERS: Final = {
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "uint16": struct.Struct(">H"),
    "int32": struct.Struct(">i"),
    "int64": struct.Struct(">q"),
    "float64": struct.Struct(">d"),
}
_NAMES: Final = {
    "topicData": "topics",
    "responses": "topics",
    "partitionData": "partitions",
    "partitionResponses": "partitions",
    "topic": "name",
    "partition": "index",
    "partitionIndex": "index",
}
_RENAMED: Final = frozenset({"Produce", "Fetch", "ShareFetch", "ShareAcknowledge"})
_NULL: Final = -1


@dataclass(slots=True)
class Reading:
    """The bytes of a request or a response, and the reasons why records could not be decoded."""

    data: bytes
    reasons: list[str] = field(default_factory=list)
    bounds: Bounds = field(default_factory=Bounds)


_Read = Callable[[Reading, int], tuple[Any, int]]


def decoded(
    api: int, version: int, side: Side, frame: bytes, body_at: int, bounds: Bounds | None = None
) -> tuple[Document, list[str]]:
    """Return the fields after the header, and the reasons why record batches could not be decoded."""
    reading = Reading(frame, bounds=bounds or Bounds())
    try:
        found, at = _reader(api, version, side)(reading, body_at)
    except (struct.error, IndexError, UnicodeDecodeError) as exc:
        raise Malformed("it ends early or does not match its schema") from exc
    if at < len(frame) and side == "request":
        # librdkafka sends extra bytes after its Metadata request, which brokers ignore.
        found["trailing"] = b64encode(frame[at:]).decode()
    elif at != len(frame):
        raise Malformed(f"{len(frame) - at} bytes follow its end")
    return found, reading.reasons


def response_at(api: int, version: int, frame: bytes) -> int:
    """Return the position of the body in a response."""
    at = response_head_bytes(api, version)
    if at > 4 and frame[4:5] not in (b"", b"\0"):
        raise Malformed("its header has tagged fields")
    return at


@cache
def _reader(api: int, version: int, side: Side) -> _Read:
    shape = shape_of(api, side, version)
    renamed = shape.name.removesuffix("Request").removesuffix("Response") in _RENAMED
    return _struct(shape.fields, shape.is_flexible, _NAMES if renamed else {})


def _struct(fields: tuple[Field, ...], is_flexible: bool, names: dict[str, str]) -> _Read:
    plain = [
        (names.get(f.name, f.name), _value(f, is_flexible, names)) for f in fields if f.tag is None
    ]
    tagged = {
        f.tag: (names.get(f.name, f.name), _value(f, is_flexible, names))
        for f in fields
        if f.tag is not None
    }

    def read(on: Reading, at: int) -> tuple[Document, int]:
        found: Document = {}
        for name, each in plain:
            value, at = each(on, at)
            if value:
                found[name] = value
        if is_flexible:
            at = _tags(on, at, tagged, found)
        return found, at

    return read


def _tags(on: Reading, at: int, tagged: dict[int, tuple[str, _Read]], into: Document) -> int:
    count, at = varint(on.data, at)
    on.bounds.take(count)
    for _ in range(count):
        tag, at = varint(on.data, at)
        size, at = varint(on.data, at)
        end = at + size
        if tag in tagged:
            name, each = tagged[tag]
            value, stop = each(on, at)
            if stop != end:
                raise Malformed(f"tagged field {tag} does not have its declared length")
            if value:
                into[name] = value
        else:
            into.setdefault("unknownTaggedFields", []).append(
                {"tag": tag, "data": b64encode(on.data[at:end]).decode()}
            )
        at = end
    return at


def _value(field: Field, is_flexible: bool, names: dict[str, str]) -> _Read:
    kind = field.kind
    if kind.startswith("[]"):
        each = _value(field._replace(kind=kind[2:], is_nullable=False), is_flexible, names)
        holds_records = any(inner.kind == "records" for inner in field.fields)
        return _list(each, _size(is_flexible, ">i"), holds_records)
    if kind == "struct":
        inner = _struct(field.fields, is_flexible, names)
        return _optional(inner) if field.is_nullable else inner
    if kind == "bool":
        return _bool
    if kind == "float64":
        return _float
    if kind in _NUMBERS:
        return _number(_NUMBERS[kind], is_long=kind == "int64")
    if kind == "uuid":
        return _uuid
    size = _size(is_flexible, ">h" if kind == "string" else ">i")
    return _sized(size, {"string": _text, "records": _records}.get(kind, _base64))


def _number(form: struct.Struct, *, is_long: bool) -> _Read:
    def read(on: Reading, at: int) -> tuple[Any, int]:
        (value,) = form.unpack_from(on.data, at)
        return (str(value) if is_long and value else value), at + form.size

    return read


def _float(on: Reading, at: int) -> tuple[float | str, int]:
    """Read a number, or the text for what JSON has no number for."""
    (value,) = _NUMBERS["float64"].unpack_from(on.data, at)
    if isnan(value):
        return "NaN", at + 8
    if isinf(value):
        return ("Infinity" if value > 0 else "-Infinity"), at + 8
    return float(value), at + 8


def _bool(on: Reading, at: int) -> tuple[bool, int]:
    return on.data[at] != 0, at + 1


def _uuid(on: Reading, at: int) -> tuple[str | None, int]:
    found = on.data[at : at + 16]
    if len(found) != 16:
        raise Malformed("a UUID ends early")
    return (b64encode(found).decode() if any(found) else None), at + 16


def _size(is_flexible: bool, form: str) -> _Read:
    """Return a reader of a length; -1 means null."""
    if is_flexible:

        def read(on: Reading, at: int) -> tuple[int, int]:
            size, at = varint(on.data, at)
            return size - 1, at
    else:
        packed = struct.Struct(form)

        def read(on: Reading, at: int) -> tuple[int, int]:
            (size,) = packed.unpack_from(on.data, at)
            return int(size), at + packed.size

    return read


def _sized(size: _Read, convert: Callable[[Reading, memoryview], Any]) -> _Read:
    def read(on: Reading, at: int) -> tuple[Any, int]:
        count, at = size(on, at)
        if count <= _NULL:
            return None, at
        if at + count > len(on.data):
            raise Malformed("it ends early")
        return convert(on, memoryview(on.data)[at : at + count]), at + count

    return read


def _text(_: Reading, found: memoryview) -> str:
    return str(found, "utf-8")


def _base64(_: Reading, found: memoryview) -> str:
    return b64encode(found).decode()


def _records(on: Reading, found: memoryview) -> Any:
    sets, reasons, cut = record_sets(found, on.bounds)
    on.reasons += reasons
    return (sets, cut) if sets or cut else None


def _list(each: _Read, size: _Read, holds_records: bool) -> _Read:
    def read(on: Reading, at: int) -> tuple[list[Any], int]:
        count, at = size(on, at)
        on.bounds.take(max(count, 0))
        found: list[Any] = []
        for _ in range(count):
            value, at = each(on, at)
            if holds_records:
                found += _with_sets(value)
            else:
                found.append(value)
        return found, at

    return read


def _with_sets(partition: Document) -> list[Document]:
    """Return the partition once per record set, so that `records` is always one set."""
    found = partition.pop("records", None)
    if found is None:
        return [partition]
    sets, cut = found
    if cut:
        partition["cutBytes"] = cut
    if not sets:
        return [partition]
    index = {"index": partition["index"]} if "index" in partition else {}
    return [partition | {"records": sets[0]}, *(index | {"records": more} for more in sets[1:])]


def _optional(inner: _Read) -> _Read:
    """Return a reader of a nullable struct, whose first byte is -1 if it is null."""

    def read(on: Reading, at: int) -> tuple[Document | None, int]:
        return (None, at + 1) if on.data[at] == 0xFF else inner(on, at + 1)

    return read

"""Decodes the records of a Produce or a Fetch into documents of captured traffic.

Kafka stores records in sets; each set has a header and is compressed as a whole. Numbers that are zero
are left out, as in all captured traffic. A key or a value that is null is left out; an empty one is present.
"""

import struct
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from playhead.unpacking import (
    NAMES,
    CodecMissing,
    Malformed,
    UnpacksTooFar,
    signed_varint,
    unpacked,
)

Document = dict[str, Any]
_HEAD: Final = struct.Struct(">qiibIhiqqqhii")
MEMORY_BYTES: Final = 64 << 20
"""The default of --max-memory."""
# Records that compress well become some hundred times smaller; a small request may have a full batch of them.
_MOST_TIMES: Final = 1_000
_LEAST_UNPACKED_BYTES: Final = 1 << 20
_MOST_UNPACKED_BYTES: Final = 128 << 20
_LENGTH_BYTES: Final = 12  # base offset and length, which the length field does not include
_MAGIC_AT: Final = 16
_CURRENT: Final = 2
_CODEC, _LOG_APPEND, _TRANSACTIONAL, _CONTROL, _HORIZON = 0x07, 0x08, 0x10, 0x20, 0x40
_FLAGS: Final = {
    _LOG_APPEND: "ATTRIBUTE_LOG_APPEND_TIME",
    _TRANSACTIONAL: "ATTRIBUTE_TRANSACTIONAL",
    _CONTROL: "ATTRIBUTE_CONTROL",
    _HORIZON: "ATTRIBUTE_DELETE_HORIZON",
}


@dataclass(slots=True)
class Bounds:
    """The sizes to which one request or response may still expand: a few bytes can mean gigabytes."""

    entries: int = 600_000
    """Sets, records, headers, and entries of lists; each becomes some hundred bytes of memory, however small it is."""
    unpacked_bytes: int = _MOST_UNPACKED_BYTES

    @classmethod
    def of(cls, size: int, memory_bytes: int) -> "Bounds":
        """Return the bounds of a request or response of this size, with this --max-memory."""
        by_size = max(_LEAST_UNPACKED_BYTES, _MOST_TIMES * size)
        return cls(unpacked_bytes=min(by_size, memory_bytes, _MOST_UNPACKED_BYTES))

    def take(self, entries: int) -> None:
        if not 0 <= entries <= self.entries:
            raise Malformed(f"{entries:,} entries; the limit that is left is {self.entries:,}")
        self.entries -= entries


def record_sets(data: bytes | memoryview, bounds: Bounds) -> tuple[list[Document], list[str], int]:
    """Return the record sets, the reasons for undecodable ones, and the number of bytes of a truncated set.

    A broker truncates the last set at the size limit of its response, and clients ignore it.
    """
    view = memoryview(data)
    sets, reasons, at = list[Document](), list[str](), 0
    for head_at, end in _places(view):
        bounds.take(1)
        try:
            sets.append(_set(view[head_at:end], bounds))
        except (Malformed, CodecMissing, struct.error, IndexError) as exc:
            is_said = isinstance(exc, Malformed | CodecMissing)
            reasons.append(str(exc) if is_said else "its records end too early")
            sets.append(_as_it_is(view[head_at:end], reasons[-1]))
        at = end
    return sets, reasons, len(view) - at


def _places(view: memoryview) -> Iterator[tuple[int, int]]:
    at = 0
    while len(view) - at > _MAGIC_AT:
        (length,) = struct.unpack_from(">i", view, at + 8)
        end = at + _LENGTH_BYTES + length
        if end > len(view):
            return
        if end <= at + _MAGIC_AT:
            raise Malformed(f"a record set of {length} bytes")
        yield at, end
        at = end


def _as_it_is(view: memoryview, reason: str) -> Document:
    offset, length = struct.unpack_from(">qi", view)
    document: Document = {"magic": view[_MAGIC_AT], "batchLength": length}
    if offset:
        document["baseOffset"] = str(offset)
    return document | {"undecoded": undecoded(view, reason)}


def undecoded(found: bytes | memoryview, reason: str) -> Document:
    """Return undecodable bytes as an object that no reader takes for decoded records."""
    return {"base64": b64encode(found).decode(), "reason": reason}


def _set(view: memoryview, bounds: Bounds) -> Document:
    if view[_MAGIC_AT] != _CURRENT:
        raise Malformed(f"records of the old format {view[_MAGIC_AT]}")
    head = _HEAD.unpack_from(view)
    offset, length, leader, magic, crc, attributes, last, base, most, pid, epoch, seq, count = head
    bounds.take(count)
    plain = _unpacked(attributes & _CODEC, view[_HEAD.size :], bounds)
    is_control = bool(attributes & _CONTROL)
    document: Document = {
        "attributes": _attributes(attributes),
        "baseSequence": seq,
        "baseTimestamp": str(base),
        "batchLength": length,
        "crc32": crc,
        "magic": magic,
        "maxTimestamp": str(most),
        "producerEpoch": epoch,
        "producerId": str(pid),
        "records": _records(plain, count, bounds, is_control=is_control),
    }
    if attributes & _LOG_APPEND:
        for record in document["records"]:
            record["timestamp"] = str(
                most
            )  # with LogAppendTime all records have the timestamp of their set
    if offset:
        document["baseOffset"] = str(offset)
    if last:
        document["lastOffsetDelta"] = last
    if leader:
        document["partitionLeaderEpoch"] = leader
    return document


def _unpacked(codec: int, data: memoryview, bounds: Bounds) -> bytes | memoryview:
    """Return the decompressed records, and charge them; a failed attempt is work too."""
    try:
        plain = unpacked(codec, data, bounds.unpacked_bytes)
    except UnpacksTooFar:
        bounds.unpacked_bytes = 0
        raise
    except Malformed:
        bounds.unpacked_bytes //= 2  # how far it got is unknown
        raise
    if codec:
        bounds.unpacked_bytes -= len(plain)
    return plain


def _attributes(attributes: int) -> list[str]:
    codec = attributes & _CODEC
    named = NAMES[codec] if codec < len(NAMES) else f"CODEC_{codec}"
    return [f"ATTRIBUTE_{named}", *(name for flag, name in _FLAGS.items() if attributes & flag)]


def _records(
    data: bytes | memoryview, count: int, bounds: Bounds, *, is_control: bool
) -> list[Document]:
    found, at = [], 0
    data = bytes(data)
    for _ in range(count):
        size, at = signed_varint(data, at)
        end = at + size
        if size < 0 or end > len(data):
            raise Malformed("a record ends early")
        found.append((_control if is_control else _record)(data, at, end, bounds))
        at = end
    if at != len(data):
        raise Malformed(f"{len(data) - at} bytes follow after {count} records")
    return found


def _record(data: bytes, at: int, end: int, bounds: Bounds) -> Document:
    """One record: its lengths and deltas are numbers whose sign is their last bit."""
    record: Document = {}
    delta, at = signed_varint(data, at + 1)
    if delta:
        record["timestampDelta"] = str(delta)
    delta, at = signed_varint(data, at)
    if delta:
        record["offsetDelta"] = delta
    at = _put(record, "key", data, at)
    at = _put(record, "value", data, at)
    count, at = signed_varint(data, at)
    if count:
        bounds.take(count)
        record["headers"] = headers = []
        for _ in range(count):
            header: Document = {}
            at = _put(header, "key", data, at)
            at = _put(header, "value", data, at)
            headers.append(header)
    if at != end:
        raise Malformed("a record does not have its declared length")
    return record


def _control(data: bytes, at: int, end: int, bounds: Bounds) -> Document:
    """A marker of a transaction: its kind, as Kafka writes it into the key."""
    marker = _record(data, at, end, bounds)
    raw: Document = {
        name: marker[name] for name in ("timestampDelta", "offsetDelta") if name in marker
    }
    _, at = signed_varint(data, at + 1)
    _, at = signed_varint(data, at)
    size, at = signed_varint(data, at)
    kind = struct.unpack_from(">h", data, at + 2)[0] if size >= 4 else -1
    return raw | {"controlType": {0: "ABORT", 1: "COMMIT"}.get(kind, str(kind))}


def _put(record: Document, name: str, data: bytes, at: int) -> int:
    """Add the bytes as text if they are UTF-8, otherwise as base64."""
    size, at = signed_varint(data, at)
    if size < 0:
        return at
    end = at + size
    found = data[at:end]
    if len(found) != size:
        raise Malformed("a record ends early")
    try:
        record[f"{name}String"] = found.decode()
    except UnicodeDecodeError:
        record[name] = b64encode(found).decode()
    return end

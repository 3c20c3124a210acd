"""Finds the id of the schema that bytes were written with: before them, or in a header."""

import struct
from dataclasses import dataclass
from uuid import UUID

from playhead.record import Headers

KEY_HEADER, VALUE_HEADER = "__key_schema_id", "__value_schema_id"
_NUMBER, _GUID = 0, 1  # The first byte tells which of the two follows.
_MOST_INDEXES = 1_000


@dataclass(frozen=True, slots=True)
class SchemaId:
    """A registry's number of a schema, or its global id."""

    number: int | None = None
    guid: UUID | None = None

    def __str__(self) -> str:
        return f"id {self.number}" if self.guid is None else f"guid {self.guid}"


@dataclass(frozen=True, slots=True)
class Framed:
    """An id, and the bytes after it; `indexed` is Protobuf's choice of a type in the file."""

    schema_id: SchemaId
    indexed: bytes
    body: bytes | None
    """None if the body follows the indexes."""

    def protobuf(self) -> tuple[tuple[int, ...], bytes]:
        """Return the type, as indexes from the outermost on, and the body."""
        indexes, at = read_indexes(self.indexed)
        return indexes, self.indexed[at:] if self.body is None else self.body

    def plain(self) -> bytes:
        """Return the body if there are no indexes."""
        return self.indexed if self.body is None else self.body


def find(data: bytes, headers: Headers, *, is_key: bool) -> Framed:
    """Return the id of the last header, else of the bytes; ValueError if neither has one.

    Serializers append theirs: a record that was read, changed and sent again may have that of its first bytes too.
    """
    wanted = KEY_HEADER if is_key else VALUE_HEADER
    for name, value in reversed(headers):
        if name == wanted and value is not None:
            schema_id, rest = _read_id(value, f"header {wanted}")
            return Framed(schema_id, rest, data)
    schema_id, rest = _read_id(data, "the bytes")
    return Framed(schema_id, rest, None)


def _read_id(data: bytes, where: str) -> tuple[SchemaId, bytes]:
    if data[:1] == bytes([_NUMBER]) and len(data) >= 5:
        return SchemaId(number=struct.unpack_from(">I", data, 1)[0]), data[5:]
    if data[:1] == bytes([_GUID]) and len(data) >= 17:
        return SchemaId(guid=UUID(bytes=data[1:17])), data[17:]
    raise ValueError(f"no schema id in {where}: they begin with {data[:5].hex() or 'nothing'}")


def read_indexes(data: bytes) -> tuple[tuple[int, ...], int]:
    """Parse zigzag numbers: a count, then each index; none means the first type. Return where they end."""
    count, at = _varint(data, 0)
    if not 0 <= count <= _MOST_INDEXES:
        raise ValueError(f"{count} indexes of a type")
    if count == 0:
        return (0,), at
    found = []
    for _ in range(count):
        index, at = _varint(data, at)
        found.append(index)
    return tuple(found), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("the type indexes are incomplete")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at

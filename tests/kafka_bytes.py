"""Requests and responses of every API and version, made up from their definitions and written as Kafka would."""

import random
import struct
from collections.abc import Iterator
from typing import Any

from playhead.capture.frames import framed
from playhead.capture.protocol import (
    API_VERSIONS,
    Field,
    ProtocolShape,
    Side,
    apis,
    as_varint,
    known_versions,
    shape_of,
)

Values = dict[str, Any]
_FORMS = {
    "int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "int64": ">q", "float64": ">d",
}  # fmt: skip
_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_TEXTS = ["", "a", "orders", "größer ✓", "x" * 200]
_BYTES = [b"", b"\0", b"\xff\x00bytes", b"y" * 300]


def every_version() -> Iterator[tuple[int, int]]:
    """Each API with each version of it that is known."""
    for api in apis():
        first, last = known_versions(api) or (0, -1)
        yield from ((api, version) for version in range(first, last + 1))


def made_up(fields: tuple[Field, ...], rng: random.Random, tagged: float = 0.7) -> Values:
    """A value for each field; of those with a tag so many are there."""
    return {
        field.name: _value(field, rng, tagged)
        for field in fields
        if field.tag is None or rng.random() < tagged
    }


def _value(field: Field, rng: random.Random, tagged: float) -> Any:
    kind = field.kind
    if field.is_nullable and rng.random() < 0.2:
        return None
    if kind.startswith("[]"):
        each = field._replace(kind=kind[2:], is_nullable=False)
        return [_value(each, rng, tagged) for _ in range(rng.choice([0, 1, 2, 3]))]
    if kind == "struct":
        return made_up(field.fields, rng, tagged)
    if kind in _BITS:
        positive = rng.getrandbits(_BITS[kind] - 1) if rng.random() < 0.5 else rng.randrange(5)
        return positive if field.name == "port" or rng.random() < 0.7 else -1
    if kind == "uint16":
        return rng.randrange(1, 65_536)
    return {
        "bool": lambda: rng.random() < 0.5,
        "float64": lambda: rng.randrange(100) / 4,
        "uuid": lambda: rng.randbytes(16),
        "string": lambda: rng.choice(_TEXTS),
        "bytes": lambda: rng.choice(_BYTES),
        "records": lambda: b"",
    }[kind]()


def encoded(shape: ProtocolShape, values: Values) -> bytes:
    """The body."""
    return _struct(shape.fields, values, shape.is_flexible)


def _struct(fields: tuple[Field, ...], values: Values, flexible: bool) -> bytes:
    plain = b"".join(_bytes(f, values[f.name], flexible) for f in fields if f.tag is None)
    if not flexible:
        return plain
    tagged = sorted((f.tag, f) for f in fields if f.tag is not None and f.name in values)
    parts = [as_varint(len(tagged))]
    for tag, field in tagged:
        content = _bytes(field, values[field.name], True)
        parts += [as_varint(tag), as_varint(len(content)), content]
    return plain + b"".join(parts)


def _bytes(field: Field, value: Any, flexible: bool) -> bytes:
    kind = field.kind
    if kind.startswith("[]"):
        each = field._replace(kind=kind[2:], is_nullable=False)
        size = None if value is None else len(value)
        return _size(size, ">i", flexible) + b"".join(
            _bytes(each, v, flexible) for v in value or ()
        )
    if kind == "struct":
        if value is None:
            return b"\xff"
        return (b"\x01" if field.is_nullable else b"") + _struct(field.fields, value, flexible)
    if kind == "bool":
        return bytes([value])
    if kind == "uuid":
        return bytes(value)
    if kind in _FORMS:
        return struct.pack(_FORMS[kind], value)
    said = value.encode() if isinstance(value, str) else value
    form = ">h" if kind == "string" else ">i"
    return _size(None if said is None else len(said), form, flexible) + (said or b"")


def _size(size: int | None, form: str, flexible: bool) -> bytes:
    if flexible:
        return as_varint(0 if size is None else size + 1)
    return struct.pack(form, -1 if size is None else size)


def request_frame(api: int, version: int, values: Values, *, correlation: int = 7) -> bytes:
    """A whole request of a client that is called `app`."""
    shape = shape_of(api, "request", version)
    head = struct.pack(">hhih", api, version, correlation, 3) + b"app"
    return framed(head + (b"\0" if shape.is_flexible else b"") + encoded(shape, values))


def response_frame(api: int, version: int, values: Values, *, correlation: int = 7) -> bytes:
    """A whole response."""
    shape = shape_of(api, "response", version)
    has_tags = shape.is_flexible and api != API_VERSIONS
    return framed(
        struct.pack(">i", correlation) + (b"\0" if has_tags else b"") + encoded(shape, values)
    )


def frame_of(
    api: int, version: int, side: Side, rng: random.Random, tagged: float = 0.7
) -> tuple[bytes, Values]:
    """One that is made up, and what it says."""
    values = made_up(shape_of(api, side, version).fields, rng, tagged)
    build = request_frame if side == "request" else response_frame
    return build(api, version, values), values


def set_of(*values: bytes) -> bytes:
    """Records with these values, in a set that is not packed; its check sum is nobody's business here."""
    records = b"".join(_record(number, value) for number, value in enumerate(values))
    last = len(values) - 1
    head = struct.pack(
        ">qiibIhiqqqhii",
        0,
        49 + len(records),
        0,
        2,
        0,
        0,
        last,
        1_000,
        1_000,
        -1,
        -1,
        -1,
        len(values),
    )
    return head + records


def _record(number: int, value: bytes) -> bytes:
    body = b"\0\0" + _signed(number) + _signed(1) + b"k" + _signed(len(value)) + value + b"\0"
    return _signed(len(body)) + body


def _signed(value: int) -> bytes:
    """A number whose sign is its last bit; none here is negative."""
    return as_varint(value * 2)

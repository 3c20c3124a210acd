"""Replaces the broker addresses in a response, and leaves every other byte unchanged.

A response is walked by its schema; only lengths and addresses are read. The result is a list of splices:
a range of bytes and its replacement. A length field that encloses a splice is a splice too.
"""

import struct
from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple

from playhead.capture.frames import SIZE_BYTES, framed
from playhead.capture.protocol import (
    MOST_TAGS,
    Field,
    as_varint,
    response_head_bytes,
    shape_of,
)
from playhead.unpacking import Malformed, varint

Translate = Callable[[str, int], tuple[str, int]]
"""Maps the address of a broker to the address that clients get instead."""
_FIXED: Final = {
    "bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "int64": 8, "float64": 8, "uuid": 16,
}  # fmt: skip
_PORTS: Final = {"int32": ">i", "uint16": ">H"}
# A batched FindCoordinator has one address per group; a million of them would occupy a thread for many seconds.
_MOST_ADDRESSES: Final = 100_000
# A hundred thousand take 0.3 s. Entries without an address count too: eight million bytes can have a million.
MOST_ENTRIES: Final = 4_000_000
"""Elements of lists and tagged fields that are walked at most: more would occupy a thread for a minute."""
# These structs contain addresses of client applications, not of brokers.
_NOT_BROKERS: Final = frozenset({"userEndpoint"})
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")


class TooManyEntries(Malformed):
    """A response with more entries than may be walked."""

    def __init__(self, most: int) -> None:
        self.most = most
        super().__init__(f"more than {most:,} entries")


class Splice(NamedTuple):
    """A range of bytes, and its replacement."""

    first: int
    stop: int
    instead: bytes


class _Walk:
    """The state of one walk: the bytes of the response, the splices that were found, and the entries."""

    __slots__ = ("data", "end", "entries", "most_entries", "splices", "translate")

    def __init__(self, data: bytes, translate: Translate, most_entries: int) -> None:
        self.data, self.translate = data, translate
        self.entries, self.most_entries = 0, most_entries
        self.end = len(data)
        self.splices: list[Splice] = []

    def take(self, entries: int) -> None:
        """Count entries before they are walked."""
        self.entries += max(entries, 0)
        if self.entries > self.most_entries:
            raise TooManyEntries(self.most_entries)

    def grown_since(self, mark: int) -> int:
        """Return by how many bytes the splices since `mark` change the length."""
        return sum(len(s.instead) - (s.stop - s.first) for s in self.splices[mark:])


_Step = Callable[[_Walk, int], int]


@cache
def has_addresses(api: int, version: int) -> bool:
    """Return whether a response of this API and version can contain a broker address."""
    return _any_address(shape_of(api, "response", version).fields, "")


def rewritten(
    api: int, version: int, frame: bytes, translate: Translate, most_entries: int = MOST_ENTRIES
) -> bytes:
    """Return the frame with other addresses; raises `Malformed` if it does not match its schema.

    Raises `TooManyEntries` if it has more, before it walks them.
    """
    walk = _Walk(frame, translate, most_entries)
    try:
        at = _walker(api, version)(walk, SIZE_BYTES + response_head_bytes(api, version))
    except (struct.error, IndexError, UnicodeDecodeError) as exc:
        raise Malformed("it ends early or does not match its schema") from exc
    if at != walk.end:
        raise Malformed(f"{walk.end - at} bytes follow its end")
    return spliced(frame, walk.splices)


def spliced(frame: bytes, splices: list[Splice]) -> bytes:
    """Return the frame with the splices applied, and its length field corrected."""
    if not splices:
        return frame
    parts, at = list[bytes](), SIZE_BYTES
    for splice in sorted(splices):
        parts += [frame[at : splice.first], splice.instead]
        at = splice.stop
    return framed(b"".join([*parts, frame[at:]]))


@cache
def _walker(api: int, version: int) -> _Step:
    shape = shape_of(api, "response", version)
    return _struct("", shape.fields, shape.is_flexible)


def _any_address(fields: tuple[Field, ...], name: str) -> bool:
    return _is_address(fields, name) or any(_any_address(f.fields, f.name) for f in fields)


def _is_address(fields: tuple[Field, ...], name: str) -> bool:
    return name not in _NOT_BROKERS and {"host", "port"} <= {field.name for field in fields}


def _struct(name: str, fields: tuple[Field, ...], is_flexible: bool) -> _Step:
    """Return a step past all fields of a struct; adjacent fields of fixed size are merged into one step."""
    steps: list[_Step] = []
    fixed = 0
    is_address = _is_address(fields, name)
    for field in (f for f in fields if f.tag is None):
        size = _FIXED.get(field.kind)
        if size is not None and not (is_address and field.name == "port"):
            fixed += size
            continue
        if fixed:
            steps.append(_past(fixed))
            fixed = 0
        steps.append(_step(field, is_flexible))
    if fixed:
        steps.append(_past(fixed))
    if is_address:
        return _address(fields, is_flexible)
    if is_flexible:
        steps.append(_tags(fields))
    return _all(steps)


def _all(steps: list[_Step]) -> _Step:
    if len(steps) == 1:
        return steps[0]

    def walk(on: _Walk, at: int) -> int:
        for step in steps:
            at = step(on, at)
        return at

    return walk


def _past(size: int) -> _Step:
    def walk(on: _Walk, at: int) -> int:
        at += size
        if at > on.end:
            raise Malformed("it ends early")
        return at

    return walk


def _step(field: Field, is_flexible: bool) -> _Step:
    kind = field.kind
    if kind in _FIXED:
        return _past(_FIXED[kind])
    if kind.startswith("[]"):
        return _list(field, is_flexible)
    if kind == "struct":
        inner = _struct(field.name, field.fields, is_flexible)
        return _optional(inner) if field.is_nullable else inner
    if is_flexible:
        return _compact
    return _short if kind == "string" else _long


def _optional(inner: _Step) -> _Step:
    """Return a step past a nullable struct, whose first byte is -1 if it is null."""

    def walk(on: _Walk, at: int) -> int:
        return at + 1 if on.data[at] == 0xFF else inner(on, at + 1)

    return walk


def _compact(on: _Walk, at: int) -> int:
    size, at = varint(on.data, at)
    return at + size - 1 if size else at


def _short(on: _Walk, at: int) -> int:
    (size,) = _INT16.unpack_from(on.data, at)
    return at + 2 + max(int(size), 0)


def _long(on: _Walk, at: int) -> int:
    (size,) = _INT32.unpack_from(on.data, at)
    return at + 4 + max(int(size), 0)


def _list(field: Field, is_flexible: bool) -> _Step:
    kind = field.kind.removeprefix("[]")
    element = field._replace(kind=kind, is_nullable=False)
    size = _FIXED.get(kind)
    inner = None if size is not None else _step(element, is_flexible)

    def walk(on: _Walk, at: int) -> int:
        if is_flexible:
            count, at = varint(on.data, at)
            count -= 1
        else:
            count, at = _INT32.unpack_from(on.data, at)[0], at + 4
        if inner is None:
            at += (size or 0) * max(count, 0)
        else:
            on.take(count)
            for _ in range(count):
                at = inner(on, at)
        if at > on.end:
            raise Malformed("a list ends early")
        return at

    return walk


def _tags(fields: tuple[Field, ...]) -> _Step:
    """Return a step past the tagged fields; only those that can contain an address are walked."""
    inside = {
        field.tag: _step(field, True)
        for field in fields
        if field.tag is not None and _any_address((field,), "")
    }

    def walk(on: _Walk, at: int) -> int:
        count, at = varint(on.data, at)
        if count > MOST_TAGS:
            raise Malformed(f"{count:,} tagged fields")
        on.take(count)
        for _ in range(count):
            tag, at = varint(on.data, at)
            size_at = at
            size, at = varint(on.data, at)
            step = inside.get(tag)
            if step is not None:
                mark = len(on.splices)
                if step(on, at) != at + size:
                    raise Malformed(f"tagged field {tag} does not have its declared length")
                if grown := on.grown_since(mark):
                    on.splices.append(Splice(size_at, at, as_varint(size + grown)))
            at += size
        return at

    return walk


def _address(fields: tuple[Field, ...], is_flexible: bool) -> _Step:
    """Return a step past a struct with a broker address, which adds splices for host and port."""
    steps = [
        (field.name, _step(field, is_flexible), _PORTS.get(field.kind, ">i"))
        for field in fields
        if field.tag is None
    ]
    rest = _tags(fields) if is_flexible else None

    def walk(on: _Walk, at: int) -> int:
        host, port = Splice(0, 0, b""), Splice(0, 0, b"")
        form = ">i"
        for name, step, own in steps:
            begins, at = at, step(on, at)
            if name == "host":
                host = Splice(begins, at, b"")
            elif name == "port":
                port, form = Splice(begins, at, b""), own
        _translate(on, host, port, (form, is_flexible))
        return rest(on, at) if rest is not None else at

    return walk


def _translate(on: _Walk, host: Splice, port: Splice, how: tuple[str, bool]) -> None:
    form, is_flexible = how
    at = varint(on.data, host.first)[1] if is_flexible else host.first + 2
    name = on.data[at : host.stop].decode()
    (number,) = struct.unpack_from(form, on.data, port.first)
    if not name or number <= 0:
        return  # a group without a coordinator
    if len(on.splices) >= 2 * _MOST_ADDRESSES:
        raise Malformed(f"more than {_MOST_ADDRESSES:,} addresses")
    name, number = on.translate(name, int(number))
    said = name.encode()
    size = as_varint(len(said) + 1) if is_flexible else _INT16.pack(len(said))
    on.splices.append(host._replace(instead=size + said))
    on.splices.append(port._replace(instead=struct.pack(form, number)))

"""The schemas of Kafka's requests and responses, by API and version, from Kafka's own definitions."""

import json
import re
import struct
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, NamedTuple

from playhead.capture.frames import SIZE_BYTES
from playhead.unpacking import Malformed, varint

Side = Literal["request", "response"]
PRODUCE, FETCH, METADATA = 0, 1, 3
SASL_HANDSHAKE, API_VERSIONS = 17, 18
_FILE: Final = "definitions.json"
_HEADER: Final = struct.Struct(">hhih")
_SHORTEST_HEADER: Final = 8
MOST_TAGS: Final = 256


class Field(NamedTuple):
    """One field of a request or a response, in one version."""

    name: str
    kind: str
    """`int32`, `string`, `records` …; `struct` if it has fields; prefixed with `[]` for a list."""
    is_nullable: bool
    tag: int | None
    fields: "tuple[Field, ...]"


class ProtocolShape(NamedTuple):
    """The schema of a request or a response in one version."""

    name: str
    is_flexible: bool
    """Whether it is a flexible version: compact lengths and tagged fields."""
    fields: tuple[Field, ...]


class Header(NamedTuple):
    """The header of a request."""

    api: int
    version: int
    correlation: int
    client: str | None
    body_at: int
    """Position of the body, after the tagged fields of the header."""


@dataclass(frozen=True, slots=True)
class _Api:
    name: str
    forms: list[dict[str, Any]]

    def form(self, version: int) -> dict[str, Any] | None:
        for form in self.forms:
            first, last = form["versions"]
            if first <= version <= last:
                return form
        return None


@cache
def apis() -> dict[int, _Api]:
    """Return every API that clients may call, by its key."""
    text = files(__package__).joinpath(_FILE).read_text(encoding="utf-8")
    return {
        int(key): _Api(api["name"], api["forms"]) for key, api in json.loads(text)["apis"].items()
    }


def name_of(api: int) -> str:
    """Return the name, such as `Fetch`; the key for an unknown API."""
    known = apis().get(api)
    return known.name if known else f"API {api}"


@cache
def constant_of(api: int) -> str:
    """Return the constant, such as `KAFKA_API_KEY_FIND_COORDINATOR`."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|\s+", "_", name_of(api))
    return f"KAFKA_API_KEY_{words.upper()}"


@cache
def known_versions(api: int) -> tuple[int, int] | None:
    """Return the first and the last supported version."""
    known = apis().get(api)
    if known is None:
        return None
    pairs = [form["versions"] for form in known.forms]
    return min(first for first, _ in pairs), max(last for _, last in pairs)


@cache
def is_known(api: int, version: int) -> bool:
    known = apis().get(api)
    return known is not None and known.form(version) is not None


@cache
def shape_of(api: int, side: Side, version: int) -> ProtocolShape:
    """Return the schema of a request or a response; raises `Malformed` if `is_known` is false."""
    known = apis().get(api)
    form = known.form(version) if known else None
    if known is None or form is None:
        raise Malformed(f"{name_of(api)} version {version} is unknown")
    said = form[side]
    fields = _fields(said["fields"], version)
    name = f"{known.name}{'Request' if side == 'request' else 'Response'}"
    return ProtocolShape(name, _holds(said["flexible"], version), fields)


def _fields(found: list[list[Any]], version: int) -> tuple[Field, ...]:
    """Return the fields of this version, in order."""
    kept = []
    for name, kind, versions, nullable, tag, tagged, inner in found:
        if not _holds(versions, version):
            continue
        own = kind if inner is None else "[]struct" if kind.startswith("[]") else "struct"
        has_tag = _holds(tagged, version)
        below = _fields(inner, version) if inner else ()
        kept.append(Field(name, own, _holds(nullable, version), tag if has_tag else None, below))
    return tuple(kept)


def _holds(versions: list[int] | None, version: int) -> bool:
    return versions is not None and versions[0] <= version <= versions[1]


@cache
def response_head_bytes(api: int, version: int) -> int:
    """Return the size of the response header: the correlation id and, in flexible versions, tagged fields."""
    if api == API_VERSIONS:
        return 4  # a client that requests ApiVersions does not know yet which header version is supported
    return 5 if shape_of(api, "response", version).is_flexible else 4


def read_head(frame: bytes | bytearray | memoryview) -> tuple[int, int, int]:
    """Return API key, version and correlation id of a request of any version."""
    if len(frame) < _SHORTEST_HEADER:
        raise Malformed(f"a request of {len(frame)} bytes")
    api, version, correlation = struct.unpack_from(">hhi", frame)
    return int(api), int(version), int(correlation)


def read_header(frame: bytes) -> Header:
    """Return the header of a request whose version is known."""
    try:
        api, version, correlation, size = _HEADER.unpack_from(frame)
        at = _HEADER.size
        client = None
        if size >= 0:
            client = frame[at : at + size].decode("utf-8", "replace")
            at += size
        if shape_of(api, "request", version).is_flexible:
            at = past_tags(frame, at)
    except (struct.error, IndexError) as exc:
        raise Malformed("the header ends early") from exc
    if at > len(frame):
        raise Malformed("the header ends early")
    return Header(api, version, correlation, client, at)


def past_tags(data: bytes, at: int) -> int:
    """Return the position after the tagged fields, without reading them."""
    count, at = varint(data, at)
    if count > MOST_TAGS:
        # Kafka defines a few tagged fields; millions would block the forwarding thread.
        raise Malformed(f"a header with {count:,} tagged fields")
    for _ in range(count):
        _, at = varint(data, at)
        size, at = varint(data, at)
        at += size
    return at


def as_varint(value: int) -> bytes:
    """Return the shortest encoding of an unsigned varint."""
    said = bytearray()
    while value >= 0x80:
        said.append(value & 0x7F | 0x80)
        value >>= 7
    said.append(value)
    return bytes(said)


_PRODUCE_TEXT_FROM, _PRODUCE_FLEXIBLE_FROM = 3, 9


def acks_of(version: int, frame: bytes) -> int:
    """Return the acks of a Produce request; with 0 there is no response."""
    (client,) = struct.unpack_from(">h", frame, SIZE_BYTES + 8)
    at = SIZE_BYTES + 10 + max(client, 0)
    if version >= _PRODUCE_FLEXIBLE_FROM:
        size, at = varint(frame, past_tags(frame, at))
        at += max(size - 1, 0)
    elif version >= _PRODUCE_TEXT_FROM:
        (size,) = struct.unpack_from(">h", frame, at)
        at += 2 + max(size, 0)
    (acks,) = struct.unpack_from(">h", frame, at)
    return int(acks)

"""Removes API versions that the proxy cannot decode from a broker's ApiVersions response."""

import struct
from typing import Final

from playhead.capture.address_rewrite import Splice, spliced
from playhead.capture.frames import SIZE_BYTES, framed
from playhead.capture.protocol import (
    API_VERSIONS,
    SASL_HANDSHAKE,
    as_varint,
    known_versions,
    past_tags,
)
from playhead.unpacking import Malformed, varint

UNSUPPORTED_VERSION: Final = 35
_ENTRY: Final = struct.Struct(">hhh")
_HEAD_BYTES: Final = SIZE_BYTES + 4  # and the correlation id
# SaslHandshake version 0 is followed by frames without a header, and no client has used it since Kafka 1.0.
_LEAST: Final = {SASL_HANDSHAKE: 1}
_FLEXIBLE_FROM: Final = 3
# Kafka has fewer than a hundred.
_MOST_APIS: Final = 1_000


def restricted(version: int, frame: bytes) -> bytes:
    """Return the frame of an ApiVersions response, reduced to versions that broker and proxy support."""
    try:
        return _restricted(version, frame)
    except (struct.error, IndexError) as exc:
        raise Malformed("the list of versions ends early") from exc


def _restricted(version: int, frame: bytes) -> bytes:
    (error,) = struct.unpack_from(">h", frame, _HEAD_BYTES)
    # A broker that does not support the requested version answers with version 0.
    is_flexible = version >= _FLEXIBLE_FROM and error != UNSUPPORTED_VERSION
    at = _HEAD_BYTES + 2
    if is_flexible:
        count, begin = varint(frame, at)
        count -= 1
    else:
        (count,) = struct.unpack_from(">i", frame, at)
        begin = at + 4
    if count > _MOST_APIS:
        raise Malformed(f"{count:,} APIs; a million would block the forwarding thread")
    splices, kept, place = [], 0, begin
    for _ in range(count):
        end = place + _ENTRY.size
        api, first, last = _ENTRY.unpack_from(frame, place)
        if is_flexible:
            end = past_tags(frame, end)
        found = offered(api, first, last)
        if found is None:
            splices.append(Splice(place, end, b""))
        else:
            kept += 1
            if found != (first, last):
                entry = _ENTRY.pack(api, *found)
                splices.append(Splice(place, place + _ENTRY.size, entry))
        place = end
    if kept != count:
        said = as_varint(kept + 1) if is_flexible else struct.pack(">i", kept)
        splices.append(Splice(at, begin, said))
    return spliced(frame, splices)


def offered(api: int, first: int, last: int) -> tuple[int, int] | None:
    """Return the versions that broker and proxy support; None if there are none."""
    known = known_versions(api)
    if known is None:
        return None
    least, most = max(first, known[0], _LEAST.get(api, 0)), min(last, known[1])
    return (least, most) if least <= most else None


def refusal(correlation: int) -> bytes:
    """Return the response of a broker to an unsupported version of ApiVersions."""
    known = known_versions(API_VERSIONS) or (0, 0)
    head = struct.pack(">ihi", correlation, UNSUPPORTED_VERSION, 1)
    return framed(head + _ENTRY.pack(API_VERSIONS, *known))

"""The wire format in which the proxy sends pairs to the recorder process."""

import json
import struct
from collections.abc import Iterator
from dataclasses import asdict
from typing import Final, NamedTuple

from playhead.capture.pair_document import Captured, Connection

_PAIR: Final = struct.Struct(">BIQQIIII?")
_CONNECTION: Final = struct.Struct(">BI")
_IS_PAIR, _IS_CONNECTION, _IS_END = 1, 2, 3


class Ended(NamedTuple):
    """A connection that has ended: no further pair of it follows."""

    connection: int


def packed_connection(connection: Connection) -> bytes:
    said = json.dumps(asdict(connection)).encode()
    return _CONNECTION.pack(_IS_CONNECTION, len(said)) + said


def packed_end(connection: int) -> bytes:
    return _CONNECTION.pack(_IS_END, connection)


def packed_head(found: Captured) -> bytes:
    """Return the header of a pair, which precedes its request and response."""
    return _PAIR.pack(
        _IS_PAIR,
        found.connection,
        found.at_ns,
        found.took_ns,
        found.request_bytes,
        found.response_bytes,
        len(found.request),
        len(found.response),
        found.was_awaited,
    )


Passed = Captured | Connection | Ended


class Unpacker:
    """Decodes received bytes into connections, ends and pairs."""

    def __init__(self) -> None:
        self._held = bytearray()

    def take(self, data: bytes) -> Iterator[Passed]:
        """Yield what these bytes complete."""
        held = self._held
        held += data
        at = 0
        try:
            while (found := self._one(at)) is not None:
                each, at = found
                yield each
        finally:
            del held[:at]

    def _one(self, at: int) -> tuple[Passed, int] | None:
        held = self._held
        begin = at + _CONNECTION.size
        if len(held) < begin:
            return None
        kind, number = _CONNECTION.unpack_from(held, at)
        if kind == _IS_PAIR:
            return self._pair(at)
        if kind == _IS_END:
            return Ended(number), begin
        end = begin + number
        if len(held) < end:
            return None
        return Connection(**json.loads(held[begin:end])), end

    def _pair(self, at: int) -> tuple[Captured, int] | None:
        held = self._held
        begin = at + _PAIR.size
        if len(held) < begin:
            return None
        _, connection, at_ns, took_ns, asked, told, request, response, awaited = _PAIR.unpack_from(
            held, at
        )
        middle, end = begin + request, begin + request + response
        if len(held) < end:
            return None
        with memoryview(held) as view:
            frames = bytes(view[begin:middle]), bytes(view[middle:end])
        return Captured(connection, at_ns, took_ns, *frames, asked, told, awaited), end

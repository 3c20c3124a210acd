"""How pairs get from the process that forwards them to the one that writes them down."""

import json
import struct
from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

from playhead.capture.pair import Captured, Connection

_PAIR: Final = struct.Struct(">BIQQIIII?")
_CONNECTION: Final = struct.Struct(">BI")
_IS_PAIR, _IS_CONNECTION = 1, 2


def packed_connection(connection: Connection) -> bytes:
    said = json.dumps(asdict(connection)).encode()
    return _CONNECTION.pack(_IS_CONNECTION, len(said)) + said


def packed_head(found: Captured) -> bytes:
    """What goes before the request and the response of a pair."""
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


class Unpacker:
    """Takes bytes as they come."""

    def __init__(self) -> None:
        self._held = bytearray()

    def take(self, data: bytes) -> Iterator[Captured | Connection]:
        """What is whole with these bytes."""
        held = self._held
        held += data
        at = 0
        try:
            while (found := self._one(at)) is not None:
                each, at = found
                yield each
        finally:
            del held[:at]

    def _one(self, at: int) -> tuple[Captured | Connection, int] | None:
        held = self._held
        if len(held) <= at:
            return None
        if held[at] == _IS_CONNECTION:
            if len(held) < at + _CONNECTION.size:
                return None
            _, size = _CONNECTION.unpack_from(held, at)
            end = at + _CONNECTION.size + size
            if len(held) < end:
                return None
            return Connection(**json.loads(held[at + _CONNECTION.size : end])), end
        return self._pair(at)

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

"""Cuts a stream of bytes into Kafka's frames, wherever the network has cut it."""

import struct
from collections.abc import Iterator
from typing import Final

SIZE_BYTES: Final = 4
MOST_BYTES: Final = 256 << 20
"""Brokers take 100 MiB unless told otherwise; and what TLS begins with would be 352 MiB."""
_SIZE: Final = struct.Struct(">i")
# What else people speak to a port, by how it begins.
_STRANGERS: Final = {
    b"\x16\x03": "TLS",
    b"GET ": "HTTP",
    b"POST": "HTTP",
    b"PUT ": "HTTP",
    b"HEAD": "HTTP",
}


class NotKafka(Exception):
    """Bytes that cannot be the length of a frame; `speaks` is what they look like instead."""

    def __init__(self, begins: bytes) -> None:
        self.begins = begins
        words = (name for start, name in _STRANGERS.items() if begins.startswith(start))
        self.speaks = next(words, None)
        super().__init__(f"{begins.hex(' ')} is no length of a frame")


class Framer:
    """Takes bytes as they come, and gives whole frames, each with the four bytes of its length."""

    def __init__(self) -> None:
        self._held = bytearray()

    def take(self, data: bytes) -> Iterator[bytes]:
        """The frames that are whole with these bytes."""
        if not self._held:
            whole = _whole(data)
            if whole is not None:
                yield data
                return
        self._held += data
        yield from self._cut()

    def _cut(self) -> Iterator[bytes]:
        held, at = self._held, 0
        try:
            while len(held) - at >= SIZE_BYTES:
                end = at + SIZE_BYTES + size_of(held, at)
                if end > len(held):
                    break
                # One copy, not two: the frame outlives what is held.
                with memoryview(held) as view:
                    frame = bytes(view[at:end])
                at = end
                yield frame
        finally:
            if at:
                del held[:at]

    @property
    def held_bytes(self) -> int:
        """Of a frame that is not whole yet."""
        return len(self._held)


def size_of(data: bytes | bytearray, at: int = 0) -> int:
    """The length that a frame announces."""
    (size,) = _SIZE.unpack_from(data, at)
    if not 0 <= size <= MOST_BYTES:
        raise NotKafka(bytes(data[at : at + SIZE_BYTES]))
    return int(size)


def framed(body: bytes) -> bytes:
    """With its length before it."""
    return _SIZE.pack(len(body)) + body


def _whole(data: bytes) -> bytes | None:
    """The bytes when they are one frame and nothing else, as they mostly are."""
    if len(data) < SIZE_BYTES or SIZE_BYTES + size_of(data) != len(data):
        return None
    return data

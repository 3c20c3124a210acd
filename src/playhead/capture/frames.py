"""Splits a stream of bytes into Kafka frames."""

import struct
from collections.abc import Iterator
from typing import Final

SIZE_BYTES: Final = 4
MOST_BYTES: Final = 256 << 20
"""Brokers take 100 MiB unless told otherwise; and what TLS begins with would be 352 MiB."""
LEAST_MOST_BYTES: Final = 100 << 20
"""What brokers take of a request by default; a larger --max-memory lets larger ones pass."""
_SIZE: Final = struct.Struct(">i")
# Other protocols, by their first bytes.
_STRANGERS: Final = {
    b"\x16\x03": "TLS",
    b"GET ": "HTTP",
    b"POST": "HTTP",
    b"PUT ": "HTTP",
    b"HEAD": "HTTP",
}


class NotKafka(Exception):
    """The bytes are not the length of a frame; `speaks` is the protocol that they look like."""

    def __init__(self, begins: bytes) -> None:
        self.begins = begins
        words = (name for start, name in _STRANGERS.items() if begins.startswith(start))
        self.speaks = next(words, None)
        super().__init__(f"{begins.hex(' ')} is not the length of a frame")


class TooLarge(NotKafka):
    """A frame that announces more bytes than are taken of it."""

    def __init__(self, begins: bytes, size: int, most: int) -> None:
        super().__init__(begins)
        self.size, self.most = size, most

    def __str__(self) -> str:
        return f"a request of {self.size:,} bytes, more than the {self.most:,} that --max-memory lets pass"


class Framer:
    """Collects received bytes, and yields complete frames, each with its length of four bytes."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._held, self._most = bytearray(), most_bytes

    def take(self, data: bytes) -> Iterator[bytes]:
        """Yield the frames that these bytes complete."""
        if not self._held:
            whole = _whole(data, self._most)
            if whole is not None:
                yield data
                return
        self._held += data
        yield from self._cut()

    def _cut(self) -> Iterator[bytes]:
        held, at = self._held, 0
        try:
            while len(held) - at >= SIZE_BYTES:
                end = at + SIZE_BYTES + size_of(held, at, self._most)
                if end > len(held):
                    break
                # Copy once: the frame outlives the buffer.
                with memoryview(held) as view:
                    frame = bytes(view[at:end])
                at = end
                yield frame
        finally:
            if at:
                del held[:at]

    @property
    def held_bytes(self) -> int:
        """Buffered bytes of the incomplete frame."""
        return len(self._held)


def size_of(data: bytes | bytearray, at: int = 0, most: int = MOST_BYTES) -> int:
    """The length that a frame announces."""
    (size,) = _SIZE.unpack_from(data, at)
    if not 0 <= size <= MOST_BYTES:
        raise NotKafka(bytes(data[at : at + SIZE_BYTES]))
    if size > most:
        raise TooLarge(bytes(data[at : at + SIZE_BYTES]), size, most)
    return int(size)


def framed(body: bytes) -> bytes:
    """Return the body with its length in front."""
    return _SIZE.pack(len(body)) + body


def _whole(data: bytes, most: int) -> bytes | None:
    """The bytes when they are one frame and nothing else, as they mostly are."""
    if len(data) < SIZE_BYTES or SIZE_BYTES + size_of(data, 0, most) != len(data):
        return None
    return data

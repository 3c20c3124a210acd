"""Decompresses Kafka's record batches: gzip with zlib, the other codecs with Arrow."""

import struct
import zlib
from collections.abc import Iterator
from typing import Any, Final

NAMES: Final = ("NO_COMPRESSION", "GZIP", "SNAPPY", "LZ4", "ZSTD")
_GZIP: Final = 31
_PIECE_BYTES: Final = 1 << 20
_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_HEAD_BYTES: Final = 16
_LEAST_BLOCK: Final = 256
"""What a block counts at least: millions of empty ones would take minutes, and have no bytes."""


class Malformed(Exception):
    """Bytes that do not match Kafka's protocol."""


class CodecMissing(Exception):
    """A codec that is not installed."""


class UnpacksTooFar(Malformed):
    """Records that decompress to more bytes than are left."""


def unpacked(codec: int, data: bytes | memoryview, most: int) -> bytes | memoryview:
    """Return the decompressed records; raises `UnpacksTooFar` beyond `most` bytes: a few bytes can mean gigabytes."""
    if codec == 0:
        return data
    if codec >= len(NAMES):
        raise Malformed(f"codec {codec} is unknown")
    if most <= 0:
        raise _too_much(0)  # without opening it
    try:
        return _BY_CODEC[codec](bytes(data), most)
    except (zlib.error, OSError, ValueError, IndexError, struct.error) as exc:
        raise Malformed(f"{NAMES[codec]}: {exc}") from exc


def _gzip(data: bytes, most: int) -> bytes:
    unpacker = zlib.decompressobj(_GZIP)
    found = unpacker.decompress(data, max(most, 1))
    if unpacker.unconsumed_tail or len(found) > most:
        raise _too_much(most)
    if data and not unpacker.eof:
        raise Malformed("GZIP: it ends early")
    return found


def _snappy(data: bytes, most: int) -> bytes:
    """Decompress raw Snappy, or the xerial blocks that Java clients write."""
    if not data.startswith(_XERIAL):
        return _snappy_block(data, most)
    parts: list[bytes] = []
    left = most
    for block in _xerial_blocks(data):
        parts.append(_snappy_block(block, left))
        left -= max(len(parts[-1]), _LEAST_BLOCK)
        if left < 0:
            raise _too_much(most)
    return b"".join(parts)


def _xerial_blocks(data: bytes) -> Iterator[bytes]:
    at = _XERIAL_HEAD_BYTES
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        if not 0 <= size <= len(data) - at - 4:
            raise Malformed("SNAPPY: a block ends early")
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


def _snappy_block(block: bytes, most: int) -> bytes:
    size, _ = varint(block, 0)
    if size > most:
        raise _too_much(most)
    found: bytes = _arrow().Codec("snappy").decompress(block, size, asbytes=True)
    return found


def _lz4(data: bytes, most: int) -> bytes:
    return _stream("lz4", data, most)


def _zstd(data: bytes, most: int) -> bytes:
    return _stream("zstd", data, most)


def _stream(codec: str, data: bytes, most: int) -> bytes:
    arrow = _arrow()
    with arrow.CompressedInputStream(arrow.BufferReader(data), codec) as stream:
        parts: list[bytes] = []
        # In chunks, because the requested size is allocated at once. `read` never frees it if the data are damaged.
        while part := stream.read_buffer(min(_PIECE_BYTES, most + 1)).to_pybytes():
            most -= len(part)
            if most < 0:
                raise _too_much(most + sum(map(len, parts)) + len(part))
            parts.append(part)
    return b"".join(parts)


def varint(data: bytes | bytearray | memoryview, at: int) -> tuple[int, int]:
    """Return an unsigned varint of one to five bytes, and the position after it."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7
        if shift > 28:
            raise Malformed("a length of more than five bytes")


def signed_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number whose sign is its last bit, seven bits in a byte, and the position after it."""
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    value, shift = byte & 0x7F, 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise Malformed("a number of more than ten bytes")


def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError as exc:
        raise CodecMissing("snappy, lz4 and zstd need playhead[local]") from exc
    return pyarrow


def _too_much(most: int) -> UnpacksTooFar:
    return UnpacksTooFar(f"it decompresses to more than {most:,} bytes, the limit that is left")


_BY_CODEC: Final = {1: _gzip, 2: _snappy, 3: _lz4, 4: _zstd}

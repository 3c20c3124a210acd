"""Makes of good inputs others that are nearly good, which get deeper into a parser than noise does."""

import random
import struct

LARGEST = 1 << 20
_NUMBERS = (0, 1, 127, 128, 255, 256, 32_767, 65_535, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1)
_PIECES = (
    b"", b"\0", b"\xff", b"\xff" * 9, b"\xed\xa0\x80", b"\\ud800", b"\x1b[2J", b"\r", b"\n", b'"', b"'", b"\\",
    b"9" * 5_000, b"-", b"1e999", b"NaN", b"null", b"[" * 3_000, b"{" * 3_000, b"(" * 3_000, b"]", b"}", b")",
    b"[" * 100_000, b'{"a":' * 2_000, b"\x80" * 12, b"${HOME}", b"file:/etc/passwd", b"../", b"%s", b"\xc2\xa0",
    "\u202e\u0660\u00b2".encode(), b"a" * 10_000, b"now", b"..", b":", b",", b"/", b"=", b"#", b"*",
)  # fmt: skip


def mutated(drawn: random.Random, start: list[bytes]) -> bytes:
    """One of the inputs after one to six changes."""
    data = bytearray(drawn.choice(start))
    for _ in range(drawn.choice((1, 1, 1, 2, 3, 6))):
        drawn.choice(_CHANGES)(drawn, data, start)
        del data[LARGEST:]
    return bytes(data)


def _at(drawn: random.Random, data: bytearray) -> int:
    return drawn.randint(0, len(data))


def _flip(drawn: random.Random, data: bytearray, _: list[bytes]) -> None:
    if data:
        data[drawn.randrange(len(data))] ^= 1 << drawn.randrange(8)


def _put(drawn: random.Random, data: bytearray, _: list[bytes]) -> None:
    at = _at(drawn, data)
    data[at : at + drawn.choice((0, 0, 1, 4))] = drawn.choice(_PIECES)


def _number(drawn: random.Random, data: bytearray, _: list[bytes]) -> None:
    form = drawn.choice((">B", ">H", ">I", ">Q"))
    value = drawn.choice(_NUMBERS) % (1 << 8 * struct.calcsize(form))
    at = _at(drawn, data)
    data[at : at + struct.calcsize(form)] = struct.pack(form, value)


def _cut(drawn: random.Random, data: bytearray, _: list[bytes]) -> None:
    first, last = sorted((_at(drawn, data), _at(drawn, data)))
    del data[first:last]


def _repeat(drawn: random.Random, data: bytearray, _: list[bytes]) -> None:
    first, last = sorted((_at(drawn, data), _at(drawn, data)))
    data[last:last] = data[first:last] * drawn.choice((1, 2, 50))


def _cross(drawn: random.Random, data: bytearray, start: list[bytes]) -> None:
    other = drawn.choice(start)
    at = drawn.randint(0, len(other))
    data[_at(drawn, data) :] = other[at:]


def _noise(drawn: random.Random, data: bytearray, _: list[bytes]) -> None:
    at = _at(drawn, data)
    data[at:at] = drawn.randbytes(drawn.randint(1, 12))


_CHANGES = (_flip, _flip, _put, _put, _number, _cut, _repeat, _cross, _noise)

"""Writes a large document as JSON in parts, so that its text is never in memory as a whole.

A byte of a record can become six characters (`\\u0000`), and one unusual character makes each of them four
bytes in memory.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

_PIECE: Final = 64 << 10
_PART_BYTES: Final = 1 << 20
# What a number, or the place of a value in a list, counts.
_SMALL: Final = 16
_dumps: Final = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, separators=(",", ":")
).encode


def as_line(document: Any) -> bytes:
    """Return the document as one line."""
    return _bytes(_dumps(document)) + b"\n"


def in_parts(document: Any) -> Iterator[bytes]:
    """Yield the same line in parts of about 1 MiB."""
    part = bytearray()
    for piece in _pieces(document):
        part += _bytes(piece)
        if len(part) >= _PART_BYTES:
            yield bytes(part)
            part.clear()
    yield bytes(part) + b"\n"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _pieces(value: Any) -> Iterator[str]:
    if _left(value, _PIECE) >= 0:
        yield _dumps(value)
    elif isinstance(value, str):
        yield '"'
        for at in range(0, len(value), _PIECE):
            yield _dumps(value[at : at + _PIECE])[1:-1]
        yield '"'
    elif isinstance(value, dict):
        before = "{"
        for name, each in value.items():
            yield f"{before}{_dumps(name)}:"
            yield from _pieces(each)
            before = ","
        yield "}"
    else:
        before = "["
        for each in value:
            yield before
            yield from _pieces(each)
            before = ","
        yield "]"


def _left(value: Any, most: int) -> int:
    """Return how much of `most` characters a value leaves; stops as soon as it is nothing."""
    if isinstance(value, str):
        return most - len(value) - _SMALL
    if not isinstance(value, dict | list):
        return most - _SMALL
    for each in value.values() if isinstance(value, dict) else value:
        most = _left(each, most)
        if most < 0:
            break
    return most

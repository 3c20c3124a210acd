"""The records that the engine is not given: too large ones, and documents for which its JSON reader returns NULL.

No condition is true for NULL, so such a record would count as filtered although its content is unknown.
It is refused instead.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from playhead.decoding import Decoder, Decoding, Kinds
from playhead.records import Records
from playhead.source import NOT_WHOLE

MOST_BYTES: Final = 64 << 20
"""Bytes of a record. The engine keeps it several times in its memory, which is 1 GB by default."""
DEEPEST: Final = 1_000
LONGEST_NUMBER: Final = 1_000
LONGEST_NAME: Final = 50_000
"""In the engine's characters, of which one beyond U+FFFF is two."""
# Each pattern matches at one place only, or a value of many quotes or digits would take hours. A string that is
# not closed reaches to the end of the value. The engine also reads strings in single quotes, and a double quote
# in them begins no string.
_STRING: Final = re.compile(
    rb"""(?s:"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|'(?:[^'\\]++|\\.)*+(?:'|\\?\Z))"""
)
_FEW_BYTES: Final = 1 << 20
_BRACKET: Final = re.compile(rb"[\[\]{}]")
_LONG_NUMBER: Final = re.compile(rb"(?<![-+.0-9eE])[-+.0-9eE]{%d}" % (LONGEST_NUMBER + 1))
_NAME_ENDS: Final = re.compile(rb"\s*:")
_ESCAPE: Final = re.compile(rb"\\(?:u[0-9A-Fa-f]{4}|(?s:.))")


@dataclass(frozen=True)
class LimitedJson:
    """A decoding, or none, whose values are refused if no expression can read them."""

    inner: Decoding | None = None

    def open(self) -> "JsonLimits":
        return JsonLimits(None if self.inner is None else self.inner.open())


@dataclass(frozen=True)
class JsonLimits:
    """Checks sizes, and the documents that are long enough to be nested too deeply."""

    inner: Decoder | None

    def decoded_first(self, records: Records, /) -> Records:
        if self.inner is None:
            found = replace(records, decoded=records.values, undecoded={})
        else:
            found = self.inner.decoded_first(records)
        found = _without_large(found)
        reasons = {
            offset: reason
            for offset, key, value in zip(found.offsets, found.keys, found.readable, strict=True)
            if (reason := _why_not("key", key) or _why_not("value", value)) is not None
        }
        return replace(found, undecoded=reasons | dict(found.undecoded))

    def kinds(self, runs: Iterable[Records], /) -> Kinds:
        return {} if self.inner is None else self.inner.kinds(runs)


def _without_large(records: Records) -> Records:
    """Return the records with those emptied and rejected that are too large."""
    is_decoded = records.decoded is not None and records.decoded is not records.values
    decoded = records.readable if is_decoded else ()
    of_headers = chain.from_iterable(chain.from_iterable(records.headers))
    parts = chain(records.keys, records.values, decoded, of_headers)
    if sum(map(len, filter(None, parts))) <= MOST_BYTES:
        return records
    sizes = [_size(records, index) for index in range(len(records))]
    large = {
        at: f"{NOT_WHOLE}it has {size:,} bytes, and at most {MOST_BYTES:,} are given to expressions"
        for at, size in zip(records.offsets, sizes, strict=True)
        if size > MOST_BYTES
    }
    fits = [at not in large for at in records.offsets]

    def emptied(column: Sequence[Any], empty: Any) -> list[Any]:
        return [each if is_kept else empty for each, is_kept in zip(column, fits, strict=True)]

    values = emptied(records.values, None)
    return replace(
        records,
        keys=emptied(records.keys, None),
        values=values,
        headers=emptied(records.headers, ()),
        decoded=emptied(decoded, None) if is_decoded else values,
        undecoded=dict(records.undecoded) | large,
    )


def _size(records: Records, index: int) -> int:
    value, decoded = records.values[index], records.readable[index]
    parts = [records.keys[index], value, *chain.from_iterable(records.headers[index])]
    return sum(map(len, filter(None, parts))) + (len(decoded or b"") if decoded is not value else 0)


def _why_not(what: str, held: bytes | None) -> str | None:
    if held is None or len(held) <= LONGEST_NUMBER or held.lstrip()[:1] not in (b"{", b"["):
        return None
    is_suspect = held.count(b"[") + held.count(b"{") > DEEPEST
    if _has_long_name(held):
        return f"the {what} has a field name of more than {LONGEST_NAME:,} characters: no expression can read it"
    if not is_suspect and _LONG_NUMBER.search(held) is None:
        return None
    bare = _without_strings(held)
    if is_suspect and is_deep(bare, DEEPEST):
        return f"the {what} is nested more than {DEEPEST:,} deep: no expression can read it"
    if _LONG_NUMBER.search(bare) is not None:
        most = f"{LONGEST_NUMBER:,}"
        return f"the {what} has a number of more than {most} digits: no expression can read it"
    return None


def _has_long_name(document: bytes) -> bool:
    return len(document) > LONGEST_NAME and any(
        found.end() - found.start() > LONGEST_NAME
        and _NAME_ENDS.match(document, found.end())
        and _characters(found[0][1:-1]) > LONGEST_NAME
        for found in _STRING.finditer(document)
    )


def _characters(text: bytes) -> int:
    bare = _ESCAPE.sub(b"x", text).decode("utf-8", errors="replace")
    return len(bare.encode("utf-16-le")) // 2


def is_nested_deeper(document: bytes, most: int) -> bool:
    """Return whether a document is nested more than `most` levels deep."""
    if document.count(b"[") + document.count(b"{") <= most:
        return False
    return is_deep(_without_strings(document), most)


def _without_strings(document: bytes) -> bytes:
    """Return a document with empty strings; of a long one, without keeping all the parts between them."""
    if len(document) <= _FEW_BYTES:
        return _STRING.sub(b'""', document)
    bare, end = bytearray(), 0
    for found in _STRING.finditer(document):
        bare += document[end : found.start()]
        bare += b'""'
        end = found.end()
    bare += document[end:]
    return bytes(bare)


def is_deep(bare: bytes, most: int) -> bool:
    """Return whether a document without its strings has too many open brackets."""
    depth = 0
    for found in _BRACKET.finditer(bare):
        depth += 1 if found[0] in b"[{" else -1
        if depth > most:
            return True
    return False

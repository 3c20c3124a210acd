"""The documents for which the engine's JSON reader gives up and returns NULL.

No condition is true for NULL, so such a record would count as filtered although its content is unknown.
It is refused instead.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from playhead.records import Records

DEEPEST: Final = 1_000
LONGEST_NUMBER: Final = 1_000
# Each pattern matches at one place only, or a value of many quotes or digits would take hours. A string that is
# not closed reaches to the end of the value. The engine also reads strings in single quotes, and a double quote
# in them begins no string.
_STRING: Final = re.compile(
    rb"""(?s:"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|'(?:[^'\\]++|\\.)*+(?:'|\\?\Z))"""
)
_FEW_BYTES: Final = 1 << 20
_BRACKET: Final = re.compile(rb"[\[\]{}]")
_LONG_NUMBER: Final = re.compile(rb"(?<![-+.0-9eE])[-+.0-9eE]{%d}" % (LONGEST_NUMBER + 1))


@dataclass(frozen=True)
class LimitedJson:
    """A decoding that keeps values, but refuses those that no expression can read."""

    def open(self) -> "JsonLimits":
        return JsonLimits()


class JsonLimits:
    """Checks only values that are long enough to be nested too deeply."""

    def decoded_first(self, records: Records, /) -> Records:
        reasons = {
            offset: reason
            for offset, key, value in zip(
                records.offsets, records.keys, records.values, strict=True
            )
            if (reason := _why_not("key", key) or _why_not("value", value)) is not None
        }
        return replace(records, decoded=records.values, undecoded=reasons)

    def kinds(self, _: Iterable[Records], /) -> Mapping[str, str]:
        return {}


def _why_not(what: str, held: bytes | None) -> str | None:
    if held is None or len(held) <= LONGEST_NUMBER or held.lstrip()[:1] not in (b"{", b"["):
        return None
    is_suspect = held.count(b"[") + held.count(b"{") > DEEPEST
    if not is_suspect and _LONG_NUMBER.search(held) is None:
        return None
    bare = _without_strings(held)
    if is_suspect and is_deep(bare, DEEPEST):
        return f"the {what} is nested more than {DEEPEST:,} deep: no expression can read it"
    if _LONG_NUMBER.search(bare) is not None:
        most = f"{LONGEST_NUMBER:,}"
        return f"the {what} has a number of more than {most} digits: no expression can read it"
    return None


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

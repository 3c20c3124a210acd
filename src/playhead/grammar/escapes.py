"""The escaped forms of a text in URLs, forms, JSON, XML, Python, JAAS and Java's properties, for finding it."""

import json
import re
from functools import cache
from html import escape
from urllib.parse import quote

# A pattern takes 0.2 ms for each character that can be escaped; a key has some hundreds of them.
_MOST_ESCAPED = 2_000
_LETTERS = {"\a": "a", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", "\v": "v"}
_ENTITIES = {"&": "amp", "<": "lt", ">": "gt", '"': "quot", "'": "apos"}
# Each level of string nesting doubles the backslashes. The match is possessive: otherwise a text of
# many backslashes is matched in exponential time.
_ESCAPE = r"\\{1,8}+"


def has_pattern(value: str) -> bool:
    """Return whether one pattern can find all escaped forms of a text in a short time."""
    return sum(not each.isalnum() for each in value) <= _MOST_ESCAPED


def spellings(value: str) -> set[str]:
    """Return the usual escaped forms of a value that is too long for a pattern of all of them."""
    quoted = quote(value, safe="", errors="surrogatepass")
    texts = {value, json.dumps(value)[1:-1], repr(value)[1:-1], escape(value)}
    return texts | {quoted, quoted.replace("%20", "+")}


@cache
def pattern_of(value: str) -> re.Pattern[str]:
    """Return a pattern for the value as URLs, forms, JSON, XML, Python, JAAS and Java properties write it."""
    parts = re.findall(r"(\\*)([^\\]|\Z)", value)
    return re.compile("".join(_one(character, len(before)) for before, character in parts))


def _one(character: str, backslashes: int) -> str:
    """Return a pattern for one character of a text after `backslashes` backslashes."""
    # These are never escaped, and a pattern that begins with one is fast.
    if not backslashes and (not character or (character.isascii() and character.isalnum())):
        return character
    before, most = r"(?:\\{1,8}+)?+", 8 * backslashes + 8
    if backslashes:
        written = f"(?:{_percent(chr(92))}|{_entity(chr(92))})"
        before = rf"(?:\\{{{backslashes},{most}}}+|{written}{{{backslashes}}})"
    if not character:
        return before
    escaped = rf"\\{{{backslashes or 1},{most}}}+(?:{_by_code(character)})"
    # The character itself is last, or it would match inside its own escape: `%` in `%25`.
    plain = rf"{_percent(character)}|{_entity(character)}|{re.escape(character)}"
    plain = f"(?:{plain}{'|[+]' if character == ' ' else ''})"
    return f"(?:{escaped}|{before}{plain})"


def _percent(character: str) -> str:
    """Return the URL escape of a character; a URL inside a URL escapes the percent signs again."""
    return "".join(f"%(?:25){{0,2}}(?i:{byte:02x})" for byte in utf8(character))


def _entity(character: str) -> str:
    """Return a pattern for a character in XML or HTML, where an escape inside a text is escaped again."""
    code, name = ord(character), _ENTITIES.get(character, "")
    numbers = rf"\#0{{0,5}}{code}|\#x0{{0,5}}{code:x}"
    return f"&(?:amp;){{0,2}}(?i:{numbers}{'|' if name else ''}{name});"


def _by_code(character: str) -> str:
    """Return what follows the backslash: a letter, the code, the bytes' codes, or Java's surrogate halves."""
    code, units = ord(character), character.encode("utf-16-be", "surrogatepass")
    ways = [
        _ESCAPE.join(f"u{units[i : i + 2].hex()}" for i in range(0, len(units), 2)),
        _ESCAPE.join(f"x{byte:02x}" for byte in utf8(character)),
        f"U{code:08x}|x{code:02x}|{code:03o}",
    ]
    return f"(?i:{'|'.join(ways)})" + (f"|{_LETTERS[character]}" if character in _LETTERS else "")


def utf8(text: str) -> bytes:
    """Return the bytes of a text, whatever it is."""
    # An argument of a command line may contain bytes that are not text.
    return text.encode("utf-8", "surrogatepass")

"""JSON as it is written: the text of a value and of each field, and names that occur twice."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from playhead.printable import is_unicode

REPEATED = "with_repeated_fields"
"""In an entry's details: how many records have two fields of one name, of which a column kept the last."""
FIELDS_REPEATED = "target-fields-repeated"
"""The code of the note that a plan has for sampled ones."""
MOST_VALUES = 4 << 20
"""The maximum number of values in one value of a record: each takes some 100 bytes when it is parsed, even an
empty list of two bytes, and a few kilobytes of a packed record batch can be hundreds of megabytes of them."""
_NAME = re.compile(r'[\s,]*("[^"\\]*(?:\\.[^"\\]*)*")\s*:\s*')
_DECODER = json.JSONDecoder()
_STRING = re.compile(r'"[^"]*"?')
_BLOCK = 1 << 20
_TOKEN = re.compile(r"""(?P<string>"[^"\\]*(?:\\.[^"\\]*)*")|[,:]?[ \t\r\n]+|[,:]""")


class JsonText(str):
    """A JSON value as its text, with all digits, and all fields of one name."""

    __slots__ = ()

    @classmethod
    def of(cls, text: str) -> "JsonText":
        """Return valid JSON on one line, spaced as Python's encoder does it, with letters for their escapes."""
        return cls(_TOKEN.sub(_respelled, text))


def _respelled(token: re.Match[str]) -> str:
    string = token["string"]
    if string is None:
        sign = token[0][:1]
        return f"{sign} " if sign in (",", ":") else ""
    if "\\" not in string:
        return string
    plain = json.dumps(json.loads(string), ensure_ascii=False)
    return plain if is_unicode(plain) else string


class Repeated(dict[str, Any]):
    """An object with repeated names: the last field of each, and all fields as written."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs

    @property
    def repeated(self) -> set[str]:
        """The names that occur more than once."""
        counts = Counter(name for name, _ in self.pairs)
        return {name for name, count in counts.items() if count > 1}


def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object with all of its fields, also where names are repeated."""
    found = dict(pairs)
    return found if len(found) == len(pairs) else Repeated(pairs)


def repeats_one_of(fields: Any, names: Iterable[str]) -> bool:
    """Return whether an object, as `object_of` made it, has one of these names twice."""
    return isinstance(fields, Repeated) and not fields.repeated.isdisjoint(names)


def texts_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the JSON text of each field of an object; the whole must be valid JSON."""
    at = text.index("{") + 1
    while name := _NAME.match(text, at):
        _, at = _DECODER.raw_decode(text, name.end())
        yield json.loads(name[1]), text[name.end() : at]


def has_more_values(text: str, most: int) -> bool:
    """Return whether a JSON text has more values; each takes memory when the text is parsed, even an empty list."""
    return len(text) > most < _signs(text) and _has_more(text, most)


def need_few_values(text: str) -> str:
    """Return a JSON text; raise ValueError if it would fill the memory when it is parsed."""
    if has_more_values(text, MOST_VALUES):
        raise ValueError(f"there are more than {MOST_VALUES:,} values in it")
    return text


def _signs(text: str) -> int:
    """Return how many values a text has at most; each but the first has such a sign before it."""
    return sum(map(text.count, ",[{"))


def _has_more(text: str, most: int) -> bool:
    """Count without the signs in strings, block by block: each string takes memory until all are removed."""
    text = text.replace("\\\\", "").replace('\\"', "")
    count, opening = 0, ""
    for start in range(0, len(text), _BLOCK):
        block = opening + text[start : start + _BLOCK]
        count += _signs(_STRING.sub("", block))
        if count > most:
            return True
        opening = '"' * (block.count('"') % 2)
    return False

"""The types that an expression may use: parsed here, and written again for Spark."""

import re
from dataclasses import dataclass

from playhead.errors import UsageError

_PLAIN = frozenset(
    """bigint binary boolean byte date double float int integer long real short smallint string
    timestamp timestamp_ltz timestamp_ntz tinyint variant""".split()  # noqa: SIM905
)
# Types with numbers in brackets: a length, or precision and scale.
_SIZED = frozenset("char character dec decimal numeric time varchar".split())  # noqa: SIM905
_NESTED = {"array": 1, "map": 2}
_UNITS = frozenset("year month day hour minute second".split())  # noqa: SIM905
NAMES = (*sorted({*_PLAIN, *_SIZED, *_NESTED, "interval", "struct"}),)
_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FIELD = re.compile(r"`(?:[^`]|``)+`|\w+")
_SIZE = re.compile(r"\s*\(\s*(\d{1,4})\s*(?:,\s*(-?\d{1,4})\s*)?\)")
_DEEPEST = 50


class BadType(UsageError):
    """A text that is not a type; `at` is the position of the error."""

    def __init__(self, at: int, length: int, *, reason: str, name: str = "") -> None:
        self.at, self.length, self.reason, self.name = at, length, reason, name
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class SqlType:
    """A type in Spark's spelling, and where its text ends."""

    sql: str
    end: int


def read_type(text: str, start: int = 0) -> SqlType:
    """Parse the type at a position; other text may follow."""
    return _Reader(text).type_at(start, _DEEPEST)


def whole_type(text: str) -> str:
    """Parse a text that is a type, and return Spark's spelling."""
    found = read_type(text)
    end = _after_space(text, found.end)
    if end < len(text):
        raise BadType(end, 1, reason=f"{text[end]!r} is not expected behind a type")
    return found.sql


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text

    def type_at(self, start: int, depth: int) -> SqlType:
        start = _after_space(self._text, start)
        match = _WORD.match(self._text, start)
        if match is None:
            raise BadType(start, 1, reason="a type is needed here, as in double")
        written, end = match.group(), match.end()
        name = written.lower()
        if not depth:
            raise BadType(start, 1, reason=f"types are nested more than {_DEEPEST} deep here")
        if name in _NESTED:
            return self._nested(written, end, depth - 1)
        if name == "struct":
            return self._struct(end, depth - 1)
        if name == "interval":
            return self._interval(end)
        if name in _SIZED:
            return self._sized(written, end)
        if name in _PLAIN:
            return SqlType(written, end)
        raise BadType(start, end - start, reason=f"there is no type {name!r}", name=name)

    def _sized(self, name: str, end: int) -> SqlType:
        match = _SIZE.match(self._text, end)
        if match is None:
            return SqlType(name, end)
        return SqlType(f"{name}({','.join(filter(None, match.groups()))})", match.end())

    def _nested(self, name: str, end: int, depth: int) -> SqlType:
        parts: list[str] = []
        for opening in ("<", ",")[: _NESTED[name.lower()]]:
            part = self.type_at(self._sign(opening, end), depth)
            parts.append(part.sql)
            end = part.end
        return SqlType(f"{name}<{','.join(parts)}>", self._sign(">", end))

    def _struct(self, end: int, depth: int) -> SqlType:
        fields: list[str] = []
        end = self._sign("<", end)
        while not fields or self._is_sign(",", end):
            end = self._sign(",", end) if fields else end
            start = _after_space(self._text, end)
            match = _FIELD.match(self._text, start)
            if match is None:
                raise BadType(start, 1, reason="the name of a field is needed here")
            end = match.end()
            part = self.type_at(self._sign(":", end) if self._is_sign(":", end) else end, depth)
            fields.append(f"{quoted_if_odd(match.group())}:{part.sql}")
            end = part.end
        return SqlType(f"struct<{','.join(fields)}>", self._sign(">", end))

    def _interval(self, end: int) -> SqlType:
        found = ["interval"]
        for words in (_UNITS, {"to"}, _UNITS):
            match = _WORD.match(self._text, _after_space(self._text, end))
            if match is None or match.group().lower() not in words:
                break
            found.append(match.group().lower())
            end = match.end()
        return SqlType(" ".join(found), end)

    def _is_sign(self, sign: str, at: int) -> bool:
        return self._text.startswith(sign, _after_space(self._text, at))

    def _sign(self, sign: str, at: int) -> int:
        at = _after_space(self._text, at)
        if not self._text.startswith(sign, at):
            raise BadType(min(at, len(self._text) - 1), 1, reason=f"the type needs {sign!r} here")
        return at + 1


def quoted_if_odd(name: str) -> str:
    """Return an identifier as it is, or in back quotes: in Java, a character like ſ has an ASCII capital."""
    return name if name.isascii() or name.startswith("`") else f"`{name}`"

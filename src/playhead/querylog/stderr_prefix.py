"""Parses the lines of a stderr log: converts log_line_prefix into patterns."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from playhead.errors import BadValue
from playhead.querylog.log_time import epoch_us, time_us
from playhead.querylog.rows import MOST_LINE, SEVERITIES, LogRow, NotARow

DEFAULT_PREFIX: Final = "%m [%p] "
KNOWN_PREFIXES: Final = (DEFAULT_PREFIX, "%m|%u|%d|%c|")
"""The server's default, and the prefix that pgreplay needs."""
_ZONE: Final = r" [A-Za-z0-9+:-]{1,8}"
_SECOND: Final = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
# Without a limit, a statement with many separators would take quadratic time.
_NAME, _HOST = ".{0,63}?", ".{0,300}?"
_ESCAPES: Final = {
    "a": rf"(?P<a>{_NAME})",
    "u": rf"(?P<u>{_NAME})",
    "d": rf"(?P<d>{_NAME})",
    "r": _HOST,
    "h": _HOST,
    "b": rf"(?P<b>{_NAME})",
    "p": r"(?P<p>\d+)",
    "P": r"\d*",
    "t": rf"(?P<t>{_SECOND}{_ZONE})",
    "m": rf"(?P<m>{_SECOND}[.]\d{{3}}{_ZONE})",
    "n": r"(?P<n>\d+\.\d{3})",
    "i": rf"(?P<i>{_NAME})",
    "e": r"(?P<e>[0-9A-Z]{5})",
    "c": r"(?P<c>[0-9a-f]+\.[0-9a-f]+)",
    "l": r"(?P<l>\d{1,18})",
    "s": _SECOND + _ZONE,
    "v": r"(?P<v>\d+/\d+|)",
    "x": r"\d+",
    "Q": r"-?\d+",
}
_ESCAPE: Final = re.compile(r"%(-?\d+)?([A-Za-z%])")
_FIRST: Final = "|".join(sorted(SEVERITIES, key=len, reverse=True))
_MORE: Final = "DETAIL|HINT|QUERY|CONTEXT|STATEMENT|LOCATION|BACKTRACE"
_FIELDS: Final = {"DETAIL": "detail", "CONTEXT": "context", "STATEMENT": "query"}


@dataclass(frozen=True, slots=True)
class Prefix:
    """A prefix as patterns for the first line of a row, and for its further lines."""

    text: str
    first: re.Pattern[str]
    more: re.Pattern[str]

    def read(self, text: str) -> LogRow:
        """Parse a whole row: its first line, its DETAIL and STATEMENT, and lines that begin with a tab."""
        found = self.first.match(text)
        if found is None:
            raise NotARow(f"it does not begin with log_line_prefix = '{self.text}'")
        parts = {"message": [text[found.end() :].partition("\n")[0]]}
        field: list[str] = parts["message"]
        for line in text[found.end() :].split("\n")[1:]:
            if line.startswith("\t"):
                field.append(line[1:])
            elif (more := self.more.match(line)) is not None:
                field = parts.setdefault(_FIELDS.get(more["more"], "other"), [])
                field.append(line[more.end() :])
            elif line:
                raise NotARow("a line of it begins with neither the prefix nor a tab")
        return _row(found, {name: "\n".join(lines) for name, lines in parts.items()})


def _row(found: re.Match[str], parts: dict[str, str]) -> LogRow:
    have = {name: value or None for name, value in found.groupdict().items()}
    user, database = (None if have.get(n) == "[unknown]" else have.get(n) for n in "ud")
    at = have.get("m") or have.get("t")
    line = have.get("l")
    if line is not None and int(line) >= MOST_LINE:
        raise NotARow("the line number is not a number")
    return LogRow(
        time_us=time_us(at) if at is not None else epoch_us(have["n"] or ""),
        session=have.get("c") or have.get("p") or "",
        severity=have["severity"] or "",
        message=parts["message"],
        line=None if line is None else int(line),
        detail=parts.get("detail"),
        context=parts.get("context"),
        query=parts.get("query"),
        tag=have.get("i"),
        sqlstate=have.get("e"),
        user=user,
        database=database,
        application=None if have.get("a") == "[unknown]" else have.get("a"),
        backend=have.get("b"),
        virtual_transaction=have.get("v"),
    )


@lru_cache(maxsize=16)
def prefix_of(text: str) -> Prefix:
    """Parse a log_line_prefix, which must contain a time (%m, %t or %n) and a session (%c or %p)."""
    pattern, at, names = "", 0, set[str]()
    is_partial = False
    for escape in _ESCAPE.finditer(text):
        pattern += re.escape(text[at : escape.start()])
        at = escape.end()
        padding, letter = escape[1], escape[2]
        if letter == "%":
            pattern += "%"
        elif letter == "q":
            # Rows of processes without a session end here.
            pattern, is_partial = pattern + "(?:", True
        else:
            pattern += _padded(_pattern_of(text, letter, names), padding)
    pattern += re.escape(text[at:]) + (")?" if is_partial else "")
    if not names & {"m", "t", "n"} or not names & {"c", "p"}:
        needed = "at least a time (%m, %t or %n) and a session (%c or %p)"
        raise BadValue("log_line_prefix", found=text, needed=needed)
    first = re.compile(rf"{pattern}(?P<severity>{_FIRST}):  ")
    more = re.compile(rf"{re.sub(r'[?]P<[a-z]>', '?:', pattern, flags=re.I)}(?P<more>{_MORE}):  ")
    return Prefix(text, first, more)


def prefix_among(prefixes: Sequence[str], beginning: bytes) -> str:
    """Return the prefix that most lines of a log begin with."""
    lines = beginning.decode("utf-8", "replace").splitlines()

    def fitting(text: str) -> int:
        return sum(prefix_of(text).first.match(line) is not None for line in lines)

    return max(prefixes, key=fitting)


def _pattern_of(text: str, letter: str, names: set[str]) -> str:
    if letter not in _ESCAPES:
        raise BadValue("log_line_prefix", found=text, needed=f"no %{letter}, which is unknown")
    if letter in names:
        return _ESCAPES[letter].replace(f"(?P<{letter}>", "(?:")
    names.add(letter)
    return _ESCAPES[letter]


def _padded(pattern: str, padding: str | None) -> str:
    if not padding:
        return pattern
    return rf"{pattern} *" if padding.startswith("-") else rf" *{pattern}"

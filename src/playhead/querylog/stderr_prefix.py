"""Parses the lines of a stderr log: converts log_line_prefix into patterns."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from playhead.errors import BadValue
from playhead.querylog.line_pattern import AnyText, Beginning, LinePattern
from playhead.querylog.log_time import epoch_us, time_us
from playhead.querylog.rows import MOST_LINE, SEVERITIES, LogRow, NotARow

DEFAULT_PREFIX: Final = "%m [%p] "
KNOWN_PREFIXES: Final = (DEFAULT_PREFIX, "%m|%u|%d|%c|")
"""The server's default, and the prefix that pgreplay needs."""
_ZONE: Final = r" [A-Za-z0-9+:-]{1,8}"
_SECOND: Final = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
_NAME, _HOST = 63, 300
_WIDEST: Final = 999
_ANY_TEXT: Final = {
    "a": _NAME,
    "u": _NAME,
    "d": _NAME,
    "b": _NAME,
    "i": _NAME,
    "r": _HOST,
    "h": _HOST,
}
"""Fields of any text and their longest values; only a host has no use."""
_UNUSED: Final = "rh"
# Everything has a limit: two numbers side by side would take quadratic time.
_ESCAPES: Final = {
    "p": r"(?P<p>\d{1,10})",
    "P": r"\d{0,10}",
    "t": rf"(?P<t>{_SECOND}{_ZONE})",
    "m": rf"(?P<m>{_SECOND}[.]\d{{3}}{_ZONE})",
    "n": r"(?P<n>\d{1,15}\.\d{3})",
    "e": r"(?P<e>[0-9A-Z]{5})",
    "c": r"(?P<c>[0-9a-f]{1,16}\.[0-9a-f]{1,8})",
    "l": r"(?P<l>\d{1,18})",
    "s": _SECOND + _ZONE,
    "v": r"(?P<v>\d{1,10}/\d{1,20}|)",
    "x": r"\d{1,20}",
    "Q": r"-?\d{1,20}",
}
_ESCAPE: Final = re.compile(r"%(-?\d+)?([A-Za-z%])")
_FIRST: Final = "|".join(sorted(SEVERITIES, key=len, reverse=True))
_MORE: Final = "DETAIL|HINT|QUERY|CONTEXT|STATEMENT|LOCATION|BACKTRACE"
_WORDS: Final = {"severity": _FIRST, "more": _MORE}
_FIELDS: Final = {"DETAIL": "detail", "CONTEXT": "context", "STATEMENT": "query"}
_Piece = str | AnyText


class Patterns:
    """The patterns of a prefix, the longest first: rows of processes without a session end at its %q."""

    def __init__(self, pieces: Sequence[_Piece], ends: Sequence[int], word: str) -> None:
        self._each = [_pattern(pieces[:end], rf"(?P<{word}>{_WORDS[word]}):  ") for end in ends]

    def match(self, text: str) -> Beginning | None:
        """Return the beginning that the first of them finds."""
        return next(filter(None, (each.match(text) for each in self._each)), None)


def _pattern(pieces: Iterable[_Piece], last: str) -> LinePattern:
    between, fields = [""], list[AnyText]()
    for piece in pieces:
        if isinstance(piece, AnyText):
            fields.append(piece)
            between.append("")
        else:
            between[-1] += piece
    between[-1] += last
    return LinePattern(between, fields)


@dataclass(frozen=True, slots=True)
class Prefix:
    """A prefix as patterns for the first line of a row, and for its further lines."""

    text: str
    first: Patterns
    more: Patterns

    def read(self, text: str) -> LogRow:
        """Parse a whole row: its first line, its DETAIL and STATEMENT, and lines that begin with a tab."""
        found = self.first.match(text)
        if found is None:
            raise NotARow(f"it does not begin with log_line_prefix = '{self.text}'")
        parts = {"message": [text[found.end :].partition("\n")[0]]}
        field: list[str] = parts["message"]
        for line in text[found.end :].split("\n")[1:]:
            if line.startswith("\t"):
                field.append(line[1:])
            elif (more := self.more.match(line)) is not None:
                field = parts.setdefault(_FIELDS.get(more.fields["more"] or "", "other"), [])
                field.append(line[more.end :])
            elif line:
                raise NotARow("a line of it begins with neither the prefix nor a tab")
        return _row(found, {name: "\n".join(lines) for name, lines in parts.items()})


def _row(found: Beginning, parts: dict[str, str]) -> LogRow:
    have = {name: value or None for name, value in found.fields.items()}
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
    pieces, ends, at, names = list[_Piece](), list[int](), 0, set[str]()
    for escape in _ESCAPE.finditer(text):
        pieces.append(re.escape(text[at : escape.start()]))
        at = escape.end()
        padding, letter = escape[1], escape[2]
        if letter == "%":
            pieces.append("%")
        elif letter == "q":
            ends.append(len(pieces))
        else:
            pieces += _padded(_piece_of(text, letter, names), padding)
    pieces.append(re.escape(text[at:]))
    if not names & {"m", "t", "n"} or not names & {"c", "p"}:
        needed = "at least a time (%m, %t or %n) and a session (%c or %p)"
        raise BadValue("log_line_prefix", found=text, needed=needed)
    ends = [len(pieces), *ends[:1]]
    return Prefix(text, Patterns(pieces, ends, "severity"), Patterns(pieces, ends, "more"))


def prefix_among(prefixes: Sequence[str], beginning: bytes) -> str:
    """Return the prefix that most lines of a log begin with."""
    lines = beginning.decode("utf-8", "replace").splitlines()

    def fitting(text: str) -> int:
        return sum(prefix_of(text).first.match(line) is not None for line in lines)

    return max(prefixes, key=fitting)


def _piece_of(text: str, letter: str, names: set[str]) -> _Piece:
    is_again = letter in names
    if letter in _ANY_TEXT:
        names.add(letter)
        is_unused = is_again or letter in _UNUSED
        return AnyText(None if is_unused else letter, _ANY_TEXT[letter])
    if letter not in _ESCAPES:
        raise BadValue("log_line_prefix", found=text, needed=f"no %{letter}, which is unknown")
    names.add(letter)
    return _ESCAPES[letter].replace(f"(?P<{letter}>", "(?:") if is_again else _ESCAPES[letter]


def _padded(piece: _Piece, padding: str | None) -> Sequence[_Piece]:
    if not padding:
        return (piece,)
    width = padding.removeprefix("-")
    spaces = f" {{0,{min(int(width), _WIDEST) if len(width) <= len(str(_WIDEST)) else _WIDEST}}}"
    return (piece, spaces) if padding.startswith("-") else (spaces, piece)

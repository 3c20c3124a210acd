"""Formats a JSON value as the text from which the server parses a column of some type."""

import base64
import binascii
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from playhead.json_objects import Repeated
from playhead.postgres.rows.column_types import FLOATS, INTEGERS, JSONS, LONGEST_NAME, TEXTS, TIMES
from playhead.postgres.rows.unclear_dates import unclear_date
from playhead.postgres.table import Column

_TIMES = ("date", "time", "timetz", "timestamp", "timestamptz")
_STRETCHES = (
    "daterange",
    "tsrange",
    "tstzrange",
    "datemultirange",
    "tsmultirange",
    "tstzmultirange",
)
_WORDS = ("tsvector", "tsquery")
_HAVE_DATES = {"date", "timestamp", "timestamptz", *_STRETCHES}
# Anywhere between characters that the server skips: `now()`, `!today 10:00`, `[now,)`.
_MOVING = re.compile(r"(?<![a-z])(now|today|tomorrow|yesterday)(?![a-z])", re.IGNORECASE)
# In ranges, arrays and rows, letters after a backslash and around quotes form one word.
_IGNORED = str.maketrans("", "", '"\\')

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The ISO 8601 forms that Arrow reads; the server parses any other text.
_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?)?"
    r"(?:(Z)|([+-])(\d\d)(?::?(\d\d))?)?)?",
    re.ASCII,
)
# A number that becomes zero in four bytes: the server would refuse it, Arrow reads zero.
_FLOAT4_NOTHING = 2.0**-150
# Digits of a count since 1970, and how many of its units are a second: each is then a time from 1973 to 2286.
# 44582400000 may be milliseconds of 1971 or seconds of 3382; 20210804 is perhaps no count at all.
_EPOCH_UNITS = {9: 1, 10: 1, 12: 10**3, 13: 10**3, 15: 10**6, 16: 10**6, 18: 10**9, 19: 10**9}
_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")
_EXPONENT = re.compile("[eE]")
# The server's limit is its stack; this is far below it, and below Python's, which needs a call for
# each level.
_DEEPEST = 500
# Of types whose longer values the server cuts; `char` is the type that SQL writes "char".
_MOST_BYTES = {"name": LONGEST_NAME, "char": 1}
# Of types that wrap around at a number that is larger, or below 0.
_HIGHEST = {"oid": 2**32 - 1, "xid": 2**32 - 1, "cid": 2**32 - 1, "xid8": 2**64 - 1}
# Of types with numbers inside, which wrap around below 0.
_NEVER_NEGATIVE = ("oidvector", "tid")
# The server ignores what follows.
_TID = re.compile(r"\s*\(\s*[-+]?\d+\s*,\s*[-+]?\d+\s*\)\s*")
_SNAPSHOT = re.compile(r"\d{1,19}:\d{1,19}:(?:\d{1,19}(?:,\d{1,19})*+)?", re.ASCII)
# Of types whose parts wrap around, are ignored, or become the highest number.
_SHAPES = {
    "macaddr": re.compile(
        r"\s*(?:0*[0-9a-f]{1,2}(?:[:-]0*[0-9a-f]{1,2}){5}|[0-9a-f]{6}[:-]?[0-9a-f]{6}"
        r"|[0-9a-f]{4}(?:[.-]?[0-9a-f]{4}){2})\s*",
        re.ASCII | re.IGNORECASE,
    ),
    # The server ignores half of a byte at the end.
    "macaddr8": re.compile(
        r"\s*[0-9a-f]{2}(?:[:.-]?[0-9a-f]{2}){5}(?:(?:[:.-]?[0-9a-f]{2}){2})?\s*",
        re.ASCII | re.IGNORECASE,
    ),
    "pg_snapshot": _SNAPSHOT,
    "txid_snapshot": _SNAPSHOT,
}
ELEMENT_OF_TEXT = re.compile(r'"((?:[^"\\]|\\.)*+)"|((?:[^{},"\\]|\\.)++)', re.DOTALL)
"""An element of an array that is written as PostgreSQL's text: in quotes, or plain."""
# A byte of the type "char", as the server writes it.
_OCTAL = re.compile(r"\\[0-3][0-7]{2}")
# The server's maximum.
_MOST_DIMENSIONS = 6


class Number(str):
    """A number that is not an integer of Python, as it was written."""

    __slots__ = ()


class Bad(Exception):
    """Why a value cannot be written: one word, and a sentence."""

    def __init__(self, kind: str, reason: str) -> None:
        self.kind, self.reason = kind, reason
        super().__init__(reason)


def text_for(column: Column, held: Any) -> str:
    """Return the text that the server parses into this JSON value, which is not null."""
    try:
        if column.decimal_point != ".":
            held = _with_point(column.decimal_point, held)
        text = _text(column.base, column.element, held, column.name)
        return checked_for(column, text, column.name)
    except RecursionError as exc:  # The call stack was already deep.
        raise Bad("json", f"{column.name}: nested too deeply") from exc


def _with_point(point: str, held: Any) -> Any:
    """Return a number, or numbers in lists, as this server reads them: others take 12.34 for 1234."""
    if isinstance(held, list):
        return [_with_point(point, each) for each in held]
    return Number(held.replace(".", point)) if isinstance(held, Number) else held


def checked_for(column: Column, text: str, where: str) -> str:
    """Return the text if the column then has the same value whenever it is written."""
    if (word := moving_word(column, text)) is not None:
        reason = f"{where}: {word!r} means the time of writing, which is not the record's"
        raise Bad("moving", reason)
    # In a row, `10.0.0.1` is an address beside a time; a range has nothing but its bounds, and a domain nothing
    # but its type.
    is_own_type = column.holds_times and (column.element_kind or column.kind) in ("b", "r", "m")
    are_many = bool(column.element) or column.base in _STRETCHES or is_own_type
    has_dates = is_own_type or bool({column.base, column.element} & _HAVE_DATES)
    if has_dates and (date := unclear_date(text, are_many=are_many)):
        reason = f"{where}: the year of {date!r} has two digits, so that it may be another date"
        raise Bad("unclear_date", reason)
    _refuse_other_value(column.base, text, where)
    _refuse_other_elements(column.element, text, where)
    return checked(text, where)


def _refuse_other_value(base: str, text: str, where: str) -> None:
    """Refuse a text that the server would cut, or take for another number, and not report it."""
    if (highest := _HIGHEST.get(base)) is not None:
        number = text.strip()
        if base == "oid" and not number.startswith("-"):
            return  # It reports the others itself.
        # The server takes 010 for 8.
        if not (number.isdecimal() and len(number) <= 20 and str(int(number)) == number) or (
            int(number) > highest
        ):
            raise Bad("out_of_reach", f"{where}: no number of type {base}: 0 to {highest}")
    if base == "tid" and _TID.fullmatch(text) is None:
        raise Bad("out_of_reach", f"{where}: no tid, such as (0,1)")
    if (shape := _SHAPES.get(base)) is not None and shape.fullmatch(text) is None:
        raise Bad(
            "out_of_reach", f"{where}: no {base}, or one of numbers that are too large for it"
        )
    if base in _NEVER_NEGATIVE and "-" in text:
        raise Bad("out_of_reach", f"{where}: a number below 0, which {base} takes for another")
    most = _MOST_BYTES.get(base)
    if most is None or len(text.encode("utf-8", "replace")) <= most:
        return
    if base == "name":
        raise Bad("too_long", f"{where}: a name has at most {LONGEST_NAME} bytes")
    if not _OCTAL.fullmatch(text):
        raise Bad("too_long", f'{where}: a "char" has one byte')


def _refuse_other_elements(element: str, text: str, where: str) -> None:
    """Refuse the same in an array that is written as PostgreSQL's text."""
    if element not in (*_HIGHEST, *_NEVER_NEGATIVE, *_MOST_BYTES, *_SHAPES):
        return
    if not text.lstrip().startswith(("{", "[")):
        return
    for quoted, plain in ELEMENT_OF_TEXT.findall(text.partition("{")[2]):
        held = quoted or plain.strip()
        if held and held.upper() != "NULL":
            _refuse_other_value(element, held.replace("\\", ""), where)


def checked(text: str, where: str) -> str:
    """Return the text if PostgreSQL can store it."""
    if "\0" in text:
        raise Bad("nul", f"{where}: a character NUL, which PostgreSQL does not store in text")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise Bad("utf8", f"{where}: half of a surrogate pair at {exc.start}") from exc
    return text


def written(held: Any, where: str, depth: int = 0) -> str:
    """Return JSON with every number as it was written."""
    if depth > _DEEPEST:
        raise Bad("json", f"{where}: nested too deeply")
    if isinstance(held, Number):
        if held in _NO_NUMBERS:
            raise Bad("json", f"{where}: {held} is not a JSON number")
        return held
    inner: list[str] = []  # Loops, because a generator would need another call.
    if isinstance(held, dict):
        for name, each in held.pairs if isinstance(held, Repeated) else held.items():
            inner.append(f"{_quoted(name)}:{written(each, where, depth + 1)}")
        return "{" + ",".join(inner) + "}"
    if isinstance(held, list):
        for each in held:
            inner.append(written(each, where, depth + 1))
        return "[" + ",".join(inner) + "]"
    return _quoted(held)


def _quoted(held: Any) -> str:
    return json.dumps(held, ensure_ascii=False)


def _text(base: str, element: str, held: Any, where: str) -> str:
    if base in JSONS:
        return _json_text(base, held, where)
    if isinstance(held, list) and element:
        return _array(element, held, where)
    if base == "bytea" and not isinstance(held, str):
        # In its text the server would take a backslash for the beginning of an escape.
        return "\\x" + checked(written(held, where), where).encode().hex()
    if isinstance(held, bool):
        return "true" if held else "false"
    if isinstance(held, int | Number):
        return _number(base, held, where)
    if isinstance(held, str):
        return _string(base, held, where)
    if base in _WORDS or (base in (*_TIMES, "interval") and not _is_year_month_day(held)):
        # The server skips brackets and commas: it takes [2021,100] for the hundredth day of 2021. In ["a b"]
        # it finds the words `["a` and `b"]`.
        raise Bad("type", f"{where}: a list or an object, and no {base}")
    return written(held, where)


def _is_year_month_day(held: Any) -> bool:
    """Return whether a value is a date as Java's JSON libraries write it."""
    return isinstance(held, list) and len(held) == 3 and all(type(each) is int for each in held)


def _json_text(base: str, held: Any, where: str) -> str:
    text = written(held, where)
    if base == "jsonb" and "\\u0000" in text.replace("\\\\", ""):
        raise Bad("nul", f"{where}: a character NUL, which jsonb does not hold")
    return text


def _array(element: str, held: Sequence[Any], where: str, dimensions: int = 1) -> str:
    """Return an array literal with every element quoted."""
    if dimensions > _MOST_DIMENSIONS:
        raise Bad("type", f"{where}: an array has at most {_MOST_DIMENSIONS} dimensions")
    return "{" + ",".join(_element(element, each, where, dimensions) for each in held) + "}"


def _element(element: str, held: Any, where: str, dimensions: int) -> str:
    if held is None:
        return "NULL"
    if isinstance(held, list) and element not in JSONS:
        return _array(element, held, where, dimensions + 1)
    text = _text(element, "", held, where)
    _refuse_other_value(element, text, where)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _string(base: str, held: str, where: str) -> str:
    if base == "bytea":
        return _bytes(held, where)
    if base in TIMES and (match := _ISO.fullmatch(held)):
        return _instant(match) or held
    return held


def _bytes(held: str, where: str) -> str:
    if held.startswith("\\x"):
        return held
    try:
        return "\\x" + base64.b64decode(held, validate=True).hex()
    except (binascii.Error, ValueError) as exc:
        raise Bad("type", f"{where}: neither base64 nor hex after \\x") from exc


def _instant(match: "re.Match[str]") -> str | None:
    """Return the time in UTC; None if it does not exist, which the server then reports."""
    year, month, day, hour, minute, second, fraction = match.groups("0")[:7]
    hours, minutes = int(match[10] or 0), int(match[11] or 0)
    if hours > 23 or minutes > 59:
        return None
    try:
        local = datetime(
            int(year), int(month), int(day), int(hour), int(minute), int(second), tzinfo=UTC
        )
        ahead = timedelta(hours=hours, minutes=minutes)
        instant = local + ahead if match[9] == "-" else local - ahead
    except (ValueError, OverflowError):
        return None
    return _shown(instant + timedelta(microseconds=int(fraction.ljust(6, "0"))))


def _shown(instant: datetime) -> str:
    return f"{instant.replace(tzinfo=None).isoformat(sep=' ', timespec='microseconds')}+00"


def _number(base: str, held: "int | Number", where: str) -> str:
    if held == "-0" and base not in (*FLOATS, *TEXTS):
        held = 0
    if base in TIMES:
        return _since_epoch(held, where)
    if base in ("time", "timetz"):
        # The server takes 120000 for noon; as milliseconds of the day, as Kafka Connect writes them, it is 00:02.
        raise Bad(
            "type", f"{where}: {held} is a number, which may have several meanings, and no time"
        )
    if isinstance(held, int):
        return str(held)
    if base == "date":  # The server takes 1.100 for the hundredth day of a year.
        raise Bad("type", f"{where}: {held} is a number with decimals, and no date")
    if base in INTEGERS:
        return _whole(held)
    return _float(base, held, where) if base in FLOATS else held


def _whole(held: Number) -> str:
    """Write 1.0 and 1e3 as whole numbers, because the server would not parse them as such."""
    try:
        exact = Decimal(held)
        if exact.adjusted() < 20 and exact == exact.to_integral_value():
            return str(int(exact))
    except (InvalidOperation, OverflowError, ValueError):
        pass  # Not a number, which the server reports.
    return held


def _float(base: str, held: Number, where: str) -> str:
    if held in _NO_NUMBERS:
        return held
    if float(held) in (float("inf"), float("-inf")):
        raise Bad("out_of_reach", f"{where}: a number outside the range of {base}")
    if _is_zero(base, held):
        return "-0" if held.startswith("-") else "0"
    return held


def _is_zero(base: str, held: Number) -> bool:
    number = float(held)
    return number == 0 or (base == "float4" and abs(number) <= _FLOAT4_NOTHING)


def becomes_zero(base: str, held: Number) -> bool:
    """Return whether a number that is not 0 is too near to it for a floating-point column."""
    return _is_zero(base, held) and any(digit in "123456789" for digit in _EXPONENT.split(held)[0])


def decimals_of_epoch(held: "int | Number") -> int:
    """Return how many digits of a number since 1970 are a part of a second; 0 also if it is not a time."""
    per_second = _per_second(held)
    return 0 if per_second is None else len(str(per_second)) - 1


def _per_second(held: "int | Number") -> int | None:
    return 1 if held == 0 else _EPOCH_UNITS.get(len(str(held).lstrip("-")))


def _since_epoch(held: "int | Number", where: str) -> str:
    """Return seconds, milliseconds, microseconds or nanoseconds since 1970, distinguished by their digits."""
    per_second = _per_second(held)
    if not isinstance(held, int):
        raise Bad("type", f"{where}: not a whole number of seconds, ms, µs or ns since 1970")
    if per_second is None:
        reason = f"{where}: {held} may be seconds, ms, µs or ns since 1970, or a date: its digits do not say which"
        raise Bad("unclear_date", reason)
    try:
        return _shown(_EPOCH + timedelta(microseconds=held * 10**6 // per_second))
    except OverflowError as exc:
        raise Bad("type", f"{where}: a number that is not a time") from exc


def moving_word(column: Column, text: str) -> str | None:
    """Return the word in a text that would make a column's value depend on the time of writing."""
    names = (*_TIMES, *_STRETCHES)
    if not (column.holds_times or column.base in names or column.element in names):
        return None
    found = _MOVING.search(text) or _MOVING.search(text.translate(_IGNORED))
    return found[0] if found else None

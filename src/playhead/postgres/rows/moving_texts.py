"""Texts that the server takes for the time at which it reads them: never a record's own time."""

import re

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
# Anywhere between other signs, which the server passes over: `now()`, `!today 10:00`, `[now,)`.
_MOVING = re.compile(r"(?<![a-z])(now|today|tomorrow|yesterday)(?![a-z])", re.IGNORECASE)
# Ranges, arrays and rows read letters behind a backslash, and around quotes, as one word.
_IGNORED = str.maketrans("", "", '"\\')


def moving_word(column: Column, text: str) -> str | None:
    """The word of a text that would make a column's value depend on when it is written."""
    names = (*_TIMES, *_STRETCHES)
    if not (column.holds_times or column.base in names or column.element in names):
        return None
    found = _MOVING.search(text) or _MOVING.search(text.translate(_IGNORED))
    return found[0] if found else None

"""Texts that the server replaces by the time of writing, which is never the record's own time."""

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
# Anywhere between characters that the server skips: `now()`, `!today 10:00`, `[now,)`.
_MOVING = re.compile(r"(?<![a-z])(now|today|tomorrow|yesterday)(?![a-z])", re.IGNORECASE)
# In ranges, arrays and rows, letters after a backslash and around quotes form one word.
_IGNORED = str.maketrans("", "", '"\\')


def moving_word(column: Column, text: str) -> str | None:
    """Return the word in a text that would make a column's value depend on the time of writing."""
    names = (*_TIMES, *_STRETCHES)
    if not (column.holds_times or column.base in names or column.element in names):
        return None
    found = _MOVING.search(text) or _MOVING.search(text.translate(_IGNORED))
    return found[0] if found else None

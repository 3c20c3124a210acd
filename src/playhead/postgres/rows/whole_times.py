"""Texts of times of which a date, a time of day, or a time without a zone keeps everything.

The server reads many more, and ignores a zone, a date or a time of day in them without an error. So
these are the ones that are known to be whole, and any other counts as one that is cut.
"""

import re
from collections.abc import Callable
from typing import Final

_MONTHS = "january february march april may june july august september sept october november december".split()  # noqa: SIM905
_MONTH = rf"(?:{'|'.join(f'{each}|{each[:3]}' for each in _MONTHS)})\.?"
_DAY = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6}[,.]?\s+)?"
# The last two are parts of a range's bound, in which a comma is no end.
_DATE = (
    rf"(?:{_DAY}(?:\d+(?P<sign>[-/.])(?:\d{{1,2}}|{_MONTH})(?P=sign)\d+|\d{{6,8}}|\d{{4}}[-.]\d{{3}}"
    rf"|(?:julian|J)\s*\d+|\d+\s*{_MONTH},?\s*\d+|{_MONTH}\s*\d{{1,2}}(?:,\s*|\s+|-)\d+"
    rf"|\d+\s+{_MONTH}\s*\d+|{_MONTH}\s*\d{{1,2}}|\d{{4}}))"
)
_CLOCK = r"(?:(?:\d{1,2}:\d{1,2}(?::\d{1,2}(?:[.,]\d*)?)?|(?:\d{4}|\d{6})(?:\.\d*)?)(?:\s*[AP]M\b)?|allballs)"
_MIDNIGHT = r"(?:00?:00?(?::00?(?:[.,]0*)?)?|0000|000000(?:\.0*)?|allballs)"
# The server takes `2021-00:00` behind a month for a time of day.
_UTC = r"(?:\s*(?:Z|zulu|UTC?|GMT|(?<!\s\d{4})[+-]00(?::?00)?))?"
_ERA = r"(?:\s*(?:AD|BC))?"
_ZONE = r"(?:\s*(?:[A-Z_/]+|[+-]\d\d?(?::?\d\d){0,2}))?"
_BETWEEN = r"(?:T|\s+|\s*T\s*)"
_NO_TIMES = r"epoch|[+-]?infinity|empty|null|[^0-9a-z]*+"


def _whole(*parts: str) -> "Callable[[str], re.Match[str] | None]":
    return re.compile(rf"\s*+(?:{'|'.join((*parts, _NO_TIMES))})\s*+", re.IGNORECASE).fullmatch


_OF_DATE = _whole(f"{_DATE}(?:{_BETWEEN}{_MIDNIGHT})?{_UTC}{_ERA}")
WHOLE: Final = {
    "date": _OF_DATE,
    "date of a range": _OF_DATE,
    # A value of a timestamp is given to the server as one with a zone, a bound cannot be.
    "timestamp of a range": _whole(f"{_DATE}(?:{_BETWEEN}{_CLOCK})?{_UTC}{_ERA}"),
    "time": _whole(f"T?{_CLOCK}{_UTC}"),
    "timetz": _whole(f"T?{_CLOCK}{_ZONE}"),
}
"""By what a text is for: matches one of which everything is kept."""

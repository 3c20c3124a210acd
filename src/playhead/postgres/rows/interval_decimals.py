"""Decimals in the text of an interval that the server rounds.

It keeps months, days and microseconds apart: a part of a month becomes days, and a part of a day
microseconds, but a part of a year is rounded to months.
"""

import re

_DAY_US = 86_400 * 10**6
_MONTH_US = 30 * _DAY_US
# By the beginnings of the units' names: microseconds, or months for those that are rounded to months.
_UNITS = (
    (r"us|micro", 1),
    (r"ms|milli", 10**3),
    (r"s", 10**6),
    (r"mon", _MONTH_US),
    (r"mil", 12_000),
    (r"m", 60 * 10**6),
    (r"h", 3_600 * 10**6),
    (r"dec", 120),
    (r"d", _DAY_US),
    (r"w", 7 * _DAY_US),
    (r"y", 12),
    (r"c", 1_200),
)
_DECIMALS = re.compile(
    r"(?P<clock>:\d*)?[.,](?P<decimals>\d+)\s*(?P<unit>[a-z]*)(?P<more>(?=\s*[^a-z\s]))?",
    re.IGNORECASE,
)
_ISO = re.compile(r"\s*[+-]?P", re.IGNORECASE)
_POWER = re.compile(r"\de[+-]?\d", re.IGNORECASE)
# More decimals than this are no whole microseconds in any unit.
_MOST_DECIMALS = 16


def is_whole(decimals: str, units: int) -> bool:
    """Return whether these decimals of a number are a whole count of the smaller units in it."""
    kept = decimals.rstrip("0")
    return len(kept) <= _MOST_DECIMALS and int(kept or "0") * units % 10 ** len(kept) == 0


def is_rounded(text: str) -> bool:
    """Return whether an interval, as the server reads it, has not exactly the decimals of its text."""
    is_iso = _ISO.match(text) is not None
    if is_iso and _POWER.search(text):
        return True
    begin_of_time = text.upper().find("T") if is_iso else -1
    for found in _DECIMALS.finditer(text):
        if found["clock"]:
            units = 10**6
        elif is_iso:
            is_time = 0 <= begin_of_time < found.start()
            units = _units_of_letter(found["unit"][:1].upper(), is_time=is_time)
        else:
            units = _units_of_word(found["unit"].lower(), is_last=found["more"] is None)
        if not is_whole(found["decimals"], units):
            return True
    return False


def _units_of_letter(letter: str, *, is_time: bool) -> int:
    if is_time:
        return {"H": 3_600, "M": 60}.get(letter, 1) * 10**6
    # A number without a letter may be of years, of which nothing smaller than a month is kept.
    return {"M": _MONTH_US, "W": 7 * _DAY_US, "D": _DAY_US}.get(letter, 12)


def _units_of_word(unit: str, *, is_last: bool) -> int:
    if unit in ("", "ago"):  # Before a time of day, it is of days.
        return 10**6 if is_last else _DAY_US
    return next((units for begin, units in _UNITS if re.match(begin, unit)), 10**6)

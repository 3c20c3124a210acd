"""Durations in people's and in ISO 8601's form, exact to the nanosecond: `2h30m`, `500ms`, `PT2H0M0S`, `P1D`."""

import re
from typing import Final

from playhead.grammar.cursor import Cursor

MS: Final = 1_000_000
SECOND: Final = 1_000 * MS
DAY: Final = 86_400 * SECOND
_UNITS: Final = {
    "w": 7 * DAY,
    "d": DAY,
    "h": 3_600 * SECOND,
    "m": 60 * SECOND,
    "s": SECOND,
    "ms": MS,
    "us": 1_000,
    "ns": 1,
}
_ISO_DATE: Final = {"W": 7 * DAY, "D": DAY}
_ISO_TIME: Final = {"H": 3_600 * SECOND, "M": 60 * SECOND, "S": SECOND}
_SHOWN: Final = ("d", "h", "m", "s", "ms", "us", "ns")
_MICRO: Final = str.maketrans("µμ", "uu")  # The micro sign and the Greek letter look alike.
_NUMBER: Final = re.compile(r"([0-9]{1,15})(?:[.,]([0-9]{1,18}))?")
_UNIT: Final = re.compile(r"[^\W\d_]+")
FORMS: Final = "2h30m, 1d12h, 90s, 500ms, or PT2H30M; units are w d h m s ms us ns"


def parse_duration_ms(text: str, *, where: str = "the duration") -> int:
    """Parse a duration into whole milliseconds; refuse a fraction of a millisecond."""
    phrase = Cursor.of(text, where)
    whole, rest = divmod(duration_ns(phrase), MS)
    if rest:
        raise phrase.refuse("found a fraction of a millisecond, needed whole milliseconds")
    return whole


def show_duration_ms(duration_ms: int) -> str:
    """Format a duration so that `parse_duration_ms` reads the same one."""
    return show_duration_ns(duration_ms * MS)


def show_duration_ns(duration_ns: int) -> str:
    """Format a duration in days, hours and so on, largest unit first; a day is 24 hours."""
    if duration_ns < 0:
        return f"-{show_duration_ns(-duration_ns)}"
    parts = []
    for unit in _SHOWN:
        count, duration_ns = divmod(duration_ns, _UNITS[unit])
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0s"


def duration_ns(phrase: Cursor) -> int:
    """Parse the whole phrase as a duration without a sign."""
    text = phrase.text
    if not text:
        raise phrase.refuse("found nothing, needed a duration", hint=FORMS)
    if text[0] in "-+":
        raise phrase.refuse(f"found {phrase.found(0)}, needed a duration without a sign")
    if text[0] not in "Pp":
        return _total(phrase, _UNITS)
    date, at_time, time = text[1:].upper().partition("T")
    if (at_time and not time) or not (date or time):
        raise phrase.refuse("the duration ends early", at=len(text), hint=FORMS)
    total = _total(phrase.cut(1, 1 + len(date)), _ISO_DATE) if date else 0
    return total + (_total(phrase.cut(2 + len(date)), _ISO_TIME) if time else 0)


def _total(phrase: Cursor, units: dict[str, int]) -> int:
    """Add up pairs of number and unit, whose units must descend."""
    text, at, total, last = phrase.text, 0, 0, 0
    while at < len(text):
        number = _NUMBER.match(text, at)
        if number is None:
            raise phrase.refuse(f"found {phrase.found(at)}, needed a number", at=at, hint=FORMS)
        unit_ns, end = _unit(phrase, number.end(), units)
        if last and unit_ns >= last:
            raise phrase.refuse(
                "found units out of order, needed large to small, each once", at=number.end()
            )
        total += _exactly(phrase, number, unit_ns)
        at, last = end, unit_ns
    return total


def _unit(phrase: Cursor, at: int, units: dict[str, int]) -> tuple[int, int]:
    """Return the length of the unit at this position, and where its text ends."""
    found = _UNIT.match(phrase.text, at)
    iso = units is not _UNITS
    name = found.group() if found else ""
    known = units.get(name.upper() if iso else name.translate(_MICRO))
    if known is not None and found is not None:
        return known, found.end()
    if iso and name.upper() in ("Y", "M"):
        raise phrase.refuse("years and months have no fixed length; write days", at=at)
    shown = repr(name) if name else phrase.found(at)
    needed = " ".join(units)
    raise phrase.refuse(f"found {shown}, needed a unit: {needed}", at=at, hint=FORMS)


def _exactly(phrase: Cursor, number: re.Match[str], unit_ns: int) -> int:
    whole, fraction = number[1], number[2] or ""
    scale: int = 10 ** len(fraction)
    part, rest = divmod(int(fraction or "0") * unit_ns, scale)
    if rest:
        raise phrase.refuse(
            "found less than a nanosecond, needed whole nanoseconds", at=number.start(2)
        )
    return int(whole) * unit_ns + part

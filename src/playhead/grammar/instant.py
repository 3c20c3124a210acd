"""Times as users write them, and the instants they mean, given the present time.

Nothing here reads a clock: `now_ns` is an argument.
"""

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import date
from typing import Final

from playhead.grammar.cursor import Cursor
from playhead.grammar.duration import DAY, MS, SECOND, duration_ns, show_duration_ns
from playhead.grammar.zone import EPOCH_DAY, UTC, day_of, instant_ns, read_zone

FORMS: Final = (
    "write 2021-08-04T12:30:00Z, 2021-08-04, 12:30, now, now-2h, -2h, start, end, or seconds "
    "(10 digits), ms (13), us (16) or ns (19) since 1970"
)
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400  # The calendar repeats after this many years.
_EPOCH_UNITS: Final = {10: SECOND, 13: MS, 16: 1_000, 19: 1}
_FRACTION: Final = re.compile(r"[.,]([0-9]+)")


# --- points of time


@dataclass(frozen=True, slots=True)
class Instant:
    """A fixed instant."""

    ns: int

    def at_ns(self, now_ns: int) -> int:  # noqa: ARG002
        return self.ns

    def __str__(self) -> str:
        return show_ns(self.ns)


@dataclass(frozen=True, slots=True)
class FromNow:
    """A duration after the present, or before it if negative."""

    shift_ns: int

    def at_ns(self, now_ns: int) -> int:
        return now_ns + self.shift_ns

    def __str__(self) -> str:
        sign = "+" if self.shift_ns > 0 else ""
        return f"now{sign}{show_duration_ns(self.shift_ns)}" if self.shift_ns else "now"


@dataclass(frozen=True, slots=True)
class ClockTime:
    """A time of the present day in a zone."""

    of_day_ns: int
    zone: str

    def at_ns(self, now_ns: int) -> int:
        said = Cursor.of(str(self), "the time of today")
        return instant_ns(day_of(now_ns, self.zone), self.of_day_ns, self.zone, said)

    def __str__(self) -> str:
        suffix = {UTC: "Z"}.get(self.zone, self.zone)
        return _show_of_day(self.of_day_ns) + (suffix if suffix[0] in "Z+-" else f"[{suffix}]")


Point = Instant | FromNow | ClockTime


@dataclass(frozen=True, slots=True)
class WrittenTime:
    """A time, the zone in which it was read, and whether the text contained that zone."""

    point: Point
    zone: str
    zone_is_written: bool

    def beside(self, other: "WrittenTime | None", phrase: Cursor) -> Point:
        """Give a bare time of day the day of the other side, and its zone if it has none."""
        if not isinstance(self.point, ClockTime) or other is None:
            return self.point
        inherits = other.zone_is_written and not self.zone_is_written
        zone = other.zone if inherits else self.zone
        if not isinstance(other.point, Instant):
            return ClockTime(self.point.of_day_ns, zone)
        day = day_of(other.point.ns, zone)
        return Instant(instant_ns(day, self.point.of_day_ns, zone, phrase))


# --- reading


def read_point(phrase: Cursor, zone: str) -> WrittenTime:
    """Parse the whole phrase as a time; `zone` applies if none is written."""
    text = phrase.text
    if text.startswith("now"):
        shift = _shift(phrase.cut(3).strip()) if text != "now" else 0
        return WrittenTime(FromNow(shift), zone, False)
    if text[:1] in ("+", "-"):
        return WrittenTime(FromNow(_shift(phrase)), zone, False)
    if re.fullmatch(r"[0-9]+", text):
        return WrittenTime(Instant(_epoch_ns(phrase)), zone, False)
    if re.match(r"[0-9]{1,5}-", text):
        return _read_dated(phrase, zone)
    if re.match(r"[0-9]{1,2}:", text):
        of_day, end = _read_of_day(phrase, 0)
        name = read_zone(phrase.cut(end))
        return WrittenTime(ClockTime(of_day, name or zone), name or zone, name is not None)
    if not text:
        raise phrase.refuse("found nothing, needed a time", hint=FORMS)
    at = len(re.match(r"[0-9]*", text)[0])  # type: ignore[index]
    raise phrase.refuse(f"found {phrase.found(at)}, needed a time", at=at, hint=FORMS)


def _shift(phrase: Cursor) -> int:
    if phrase.text[0] not in "+-":
        raise phrase.refuse(f"found {phrase.found(0)}, needed + or - and a duration: now-2h")
    return duration_ns(phrase.cut(1).strip()) * (-1 if phrase.text[0] == "-" else 1)


def _epoch_ns(phrase: Cursor) -> int:
    digits = len(phrase.text)
    if digits not in _EPOCH_UNITS:
        is_date = digits == 8
        raise phrase.refuse(
            f"found {digits} digits, needed 10 (seconds), 13 (ms), 16 (us) or 19 (ns) since 1970",
            hint="write a date as 2021-08-04" if is_date else None,
        )
    return int(phrase.text) * _EPOCH_UNITS[digits]


def _read_dated(phrase: Cursor, zone: str) -> WrittenTime:
    _scan(phrase, 0, "0000-00-00")
    text = phrase.text
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    if year < 1970:
        raise phrase.refuse(
            f"year {text[:4]} is out of reach: times count from 1970",
            hint="the log's first record is `start`",
        )
    _within(phrase, 5, "month", 1, 12)
    _within(phrase, 8, "day", 1, monthrange(year, month)[1])
    of_day, end = 0, 10
    if text[10:11] in ("T", "t", " ") and text[11:12].isdigit():
        of_day, end = _read_of_day(phrase, 11)
    elif text[10:11] in ("T", "t"):
        raise phrase.refuse(f"found {phrase.found(11)}, needed a time: 12:30", at=11)
    name = read_zone(phrase.cut(end))
    ns = instant_ns(date(year, month, day), of_day, name or zone, phrase)
    return WrittenTime(Instant(ns), name or zone, name is not None)


def _read_of_day(phrase: Cursor, at: int) -> tuple[int, int]:
    """Parse a time of day; return nanoseconds since midnight, and where its text ends."""
    _scan(phrase, at, "00:00")
    total = _within(phrase, at, "hour", 0, 23) * 3_600 * SECOND
    total += _within(phrase, at + 3, "minute", 0, 59) * 60 * SECOND
    at += 5
    if phrase.text[at : at + 1] != ":":
        return total, at
    _scan(phrase, at, ":00")
    total += _within(phrase, at + 1, "second", 0, 59) * SECOND
    at += 3
    fraction = _FRACTION.match(phrase.text, at)
    if fraction is None:
        return total, at
    if len(fraction[1]) > 9:
        raise phrase.refuse("more than 9 digits of a second", at=at + 10)
    return total + int(fraction[1].ljust(9, "0")), fraction.end()


def _scan(phrase: Cursor, at: int, form: str) -> None:
    """Check that the text has this form there; 0 stands for any digit."""
    for index, wanted in enumerate(form, at):
        found = phrase.text[index : index + 1]
        if found != wanted if wanted != "0" else found not in tuple("0123456789"):
            needed = "a digit" if wanted == "0" else repr(wanted)
            shown = phrase.found(index)
            raise phrase.refuse(f"found {shown}, needed {needed}", at=index, hint=FORMS)


def _within(phrase: Cursor, at: int, name: str, low: int, high: int) -> int:
    found = phrase.text[at : at + 2]
    if low <= int(found) <= high:
        return int(found)
    raise phrase.refuse(f"{name} {found}, needed {low:02} to {high:02}", at=at)


# --- formatting


def show_ms(ms: int) -> str:
    """Format a record's time as RFC 3339; years after 9999, which a log may contain, have a sign."""
    return show_ns(ms * MS)


def show_ns(ns: int) -> str:
    """Format a time with three digits of a second, or six or nine if needed."""
    days, of_day_ns = divmod(ns, DAY)
    cycles, ordinal = divmod(days + EPOCH_DAY - 1, _CYCLE_DAYS)
    day = date.fromordinal(ordinal + 1)
    year = day.year + cycles * _CYCLE_YEARS
    shown = f"{year:04}" if 0 <= year <= 9999 else f"{year:+05}"
    return f"{shown}-{day.month:02}-{day.day:02}T{_show_of_day(of_day_ns, 3)}Z"


def _show_of_day(of_day_ns: int, least: int = 0) -> str:
    seconds, fraction = divmod(of_day_ns, SECOND)
    digits = f"{fraction:09}"
    while len(digits) > least and digits.endswith("000"):
        digits = digits[:-3]
    shown = f"{seconds // 3_600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{shown}.{digits}" if digits else shown

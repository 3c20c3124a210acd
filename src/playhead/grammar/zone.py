"""Zones by name or offset, and the instant of a local time in a zone.

A local time that does not exist, or exists twice, is refused and never guessed.
"""

import re
from datetime import UTC as UTC_TZ
from datetime import date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final

from playhead.grammar.cursor import Cursor
from playhead.grammar.duration import DAY, SECOND

UTC: Final = "UTC"
EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_OFFSET: Final = re.compile(r"([+-])([0-9]{2})(?::?([0-9]{2}))?")


def zone_name(text: str, *, where: str) -> str:
    """Return the canonical spelling of a zone: UTC, an offset like +05:30, or an IANA name."""
    return _name(Cursor.of(text, where))


def _name(phrase: Cursor) -> str:
    if phrase.text[:1] in ("+", "-"):
        return _offset_name(phrase)
    return UTC if phrase.text.upper() in ("Z", UTC) else _iana_name(phrase)


def read_zone(phrase: Cursor) -> str | None:
    """Parse the text after a time: nothing, Z, UTC, an offset, or a name in brackets."""
    rest = phrase.strip()
    text = rest.text
    if not text:
        return None
    if text[0] in "+-" or text.upper() in ("Z", UTC):
        return _name(rest)
    if text[0] == "[" and text[-1] == "]":
        return _name(rest.cut(1, len(text) - 1))
    raise rest.refuse(
        f"found {rest.found(0)}, needed the end or a zone: Z, +05:30 or [Europe/Berlin]"
    )


def _offset_name(phrase: Cursor) -> str:
    found = _OFFSET.match(phrase.text)
    at = found.end() if found else 0
    if found is None or at < len(phrase.text):
        raise phrase.refuse(f"found {phrase.found(at)}, needed an offset as +05:30", at=at)
    hours, minutes = found[2], found[3] or "00"
    if int(hours) > 23 or int(minutes) > 59:
        raise phrase.refuse(f"offset {found[0]}, needed at most 23:59", at=1)
    return UTC if int(hours + minutes) == 0 else f"{found[1]}{hours}:{minutes}"


def _iana_name(phrase: Cursor) -> str:
    from difflib import get_close_matches
    from zoneinfo import ZoneInfo, available_timezones

    name = phrase.text
    try:
        # `right/` zones count leap seconds, which record times do not.
        if not name.startswith("right/"):
            return ZoneInfo(name).key
    except (KeyError, ValueError, OSError):
        pass
    known = {each.lower(): each for each in available_timezones()}
    near = get_close_matches(name.lower(), known, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(known[each] for each in near)}?" if near else None
    if not known:
        hint = "this machine has no zone database: pip install tzdata, or write an offset"
    raise phrase.refuse(
        f"there is no zone {name!r}, needed UTC, an offset like +05:30, or a name like Europe/Berlin",
        hint=hint,
    )


@lru_cache(maxsize=64)
def tzinfo_of(zone: str) -> tzinfo:
    """A zone by its canonical name, as Python has it."""
    if zone == UTC:
        return UTC_TZ
    if zone[0] in "+-":
        sign = -1 if zone[0] == "-" else 1
        return timezone(sign * timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6])))
    from zoneinfo import ZoneInfo

    return ZoneInfo(zone)


def day_of(ns: int, zone: str) -> date:
    """Return the day of an instant in a zone."""
    at = datetime(1970, 1, 1, tzinfo=UTC_TZ) + timedelta(seconds=ns // SECOND)
    return at.astimezone(tzinfo_of(zone)).date()


def instant_ns(day: date, of_day_ns: int, zone: str, phrase: Cursor) -> int:
    """Return the instant of a local time in a zone; refuse a time that has none, or two."""
    seconds = of_day_ns // SECOND
    local = datetime(day.year, day.month, day.day) + timedelta(seconds=seconds)
    known = tzinfo_of(zone)
    # Python's `fold` chooses between two readings; if they agree, there is nothing to choose.
    first, second = (known.utcoffset(local.replace(fold=fold)) or timedelta() for fold in (0, 1))
    if first != second:
        later = local + (second - first)
        shown = local.strftime("%Y-%m-%d %H:%M:%S")
        if second > first:
            raise phrase.refuse(
                f"{shown} does not exist in {zone}: the clocks skip it",
                hint=f"the clocks show {later.strftime('%H:%M:%S')} then; or write the offset",
            )
        raise phrase.refuse(
            f"{shown} exists twice in {zone}, because the clocks go back",
            hint=f"write the offset: {_show_offset(first)} for the first, {_show_offset(second)} for the second",
        )
    offset_ns = (first // timedelta(microseconds=1)) * 1_000
    ns = (day.toordinal() - EPOCH_DAY) * DAY + of_day_ns - offset_ns
    if ns < 0:
        raise phrase.refuse("the time is before 1970, and times count from 1970", hint="or `start`")
    return ns


def _show_offset(offset: timedelta) -> str:
    minutes = round(offset.total_seconds() / 60)
    sign, minutes = ("-", -minutes) if minutes < 0 else ("+", minutes)
    return f"{sign}{minutes // 60:02}:{minutes % 60:02}"

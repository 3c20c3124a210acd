"""Zones by name or offset, and the one instant at which a zone's clocks show a local time.

A local time that the clocks skip, or show twice, is refused and never guessed.
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
    """A zone in its canonical spelling: UTC, an offset as +05:30, or a name of the IANA database."""
    return _name(Cursor.of(text, where))


def _name(phrase: Cursor) -> str:
    if phrase.text[:1] in ("+", "-"):
        return _offset_name(phrase)
    return UTC if phrase.text.upper() in ("Z", UTC) else _iana_name(phrase)


def read_zone(phrase: Cursor) -> str | None:
    """What stands after a time: nothing, Z, UTC, an offset, or a name in brackets."""
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
        # `right/` counts leap seconds, which the times of records do not have.
        if not name.startswith("right/"):
            return ZoneInfo(name).key
    except (KeyError, ValueError, OSError):
        pass
    known = {each.lower(): each for each in available_timezones()}
    near = get_close_matches(name.lower(), known, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(known[each] for each in near)}?" if near else None
    if not known:
        hint = "this machine has no database of zones: pip install tzdata, or write an offset"
    raise phrase.refuse(
        f"no zone is called {name!r}, needed UTC, an offset as +05:30, or a name as Europe/Berlin",
        hint=hint,
    )


@lru_cache(maxsize=64)
def _tzinfo(zone: str) -> tzinfo:
    if zone == UTC:
        return UTC_TZ
    if zone[0] in "+-":
        sign = -1 if zone[0] == "-" else 1
        return timezone(sign * timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6])))
    from zoneinfo import ZoneInfo

    return ZoneInfo(zone)


def day_of(ns: int, zone: str) -> date:
    """The day it is in a zone at an instant."""
    at = datetime(1970, 1, 1, tzinfo=UTC_TZ) + timedelta(seconds=ns // SECOND)
    return at.astimezone(_tzinfo(zone)).date()


def instant_ns(day: date, of_day_ns: int, zone: str, phrase: Cursor) -> int:
    """The one instant at which a zone's clocks show this; refused when there is none, or two."""
    seconds = of_day_ns // SECOND
    local = datetime(day.year, day.month, day.day) + timedelta(seconds=seconds)
    known = _tzinfo(zone)
    # Python's `fold` is the choice between two readings; where they agree there is nothing to choose.
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
            f"{shown} comes twice in {zone}, when the clocks go back",
            hint=f"write the offset: {_show_offset(first)} the first time, "
            f"{_show_offset(second)} the second",
        )
    offset_ns = (first // timedelta(microseconds=1)) * 1_000
    ns = (day.toordinal() - EPOCH_DAY) * DAY + of_day_ns - offset_ns
    if ns < 0:
        raise phrase.refuse("before 1970, and times count from there", hint="or `start`")
    return ns


def _show_offset(offset: timedelta) -> str:
    minutes = round(offset.total_seconds() / 60)
    sign, minutes = ("-", -minutes) if minutes < 0 else ("+", minutes)
    return f"{sign}{minutes // 60:02}:{minutes % 60:02}"

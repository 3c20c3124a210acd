"""Parses a record's time: a number whose digits tell the unit, or RFC 3339."""

import re
from functools import lru_cache
from typing import Final

from playhead.grammar.cursor import Cursor, NotUnderstood
from playhead.grammar.duration import MS, SECOND
from playhead.grammar.instant import Instant, read_point
from playhead.ingest.json_path import Unfit

KIND: Final = "no time"
_UNITS: Final = {10: SECOND, 13: MS, 16: 1_000, 19: 1}
_MS_DIGITS: Final = 13
_NUMBER: Final = re.compile(r"([0-9]+)(?:\.([0-9]{1,18}))?")
_TO_THE_SECOND: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,]([0-9]{1,9}))?([^0-9.,].*)?"
)


def timestamp_ms(text: str, zone: str) -> int:
    """Return the first whole millisecond that is not before the time, for Kafka."""
    if len(text) == _MS_DIGITS and text.isdecimal() and text.isascii():
        found = int(text)
    elif number := _NUMBER.fullmatch(text):
        found = _ms_of_digits(number[1], number[2] or "")
    elif dated := _TO_THE_SECOND.fullmatch(text):
        fraction_ns = int((dated[2] or "").ljust(9, "0"))
        found = _ms_of_text(dated[1] + (dated[3] or ""), zone) - (-fraction_ns // MS)
    else:
        found = _ms_of_text(text, zone)
    if found == 0:
        raise Unfit(KIND, reason="it is 0 (1970-01-01), which the Kafka client cannot send")
    return found


def _ms_of_digits(whole: str, fraction: str) -> int:
    unit = _UNITS.get(len(whole))
    if unit is None:
        needed = "needed 10 (seconds), 13 (ms), 16 (us) or 19 (ns) since 1970"
        raise Unfit(KIND, reason=f"found {len(whole)} digits, {needed}")
    divisor: int = 10 ** len(fraction) * MS
    return -(-int(whole + fraction) * unit // divisor)


@lru_cache(maxsize=1_024)  # Records that arrive together usually have the same second.
def _ms_of_text(text: str, zone: str) -> int:
    try:
        point = read_point(Cursor.of(text, "time"), zone).point
    except NotUnderstood as exc:
        raise Unfit(KIND, reason=f"{text[:60]!r}: {exc.reason}") from exc
    if not isinstance(point, Instant):
        raise Unfit(KIND, reason=f"{text[:60]!r} is not a time")
    return -(-point.ns // MS)

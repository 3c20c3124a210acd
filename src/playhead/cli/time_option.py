"""A single time from an option, in the configured zone."""

import time

from playhead.config.context import Configuration
from playhead.grammar.cursor import Cursor
from playhead.grammar.duration import MS
from playhead.grammar.instant import read_point
from playhead.grammar.zone import zone_name


def instant_ms(flag: str, text: str, configuration: Configuration) -> int:
    """Return the first whole millisecond that is not before the time."""
    zone = zone_name(configuration.get("timezone") or "UTC", where="timezone")
    phrase = Cursor.of(text, flag)
    point = read_point(phrase, zone).point
    ns = point.at_ns(time.time_ns())
    if ns < 0:
        raise phrase.refuse("it is before 1970, and times count from there")
    return -(-ns // MS)

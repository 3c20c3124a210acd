"""Shows the times in a text for people in the zone that they asked for; all texts have them in UTC."""

import re
from datetime import UTC as UTC_TZ
from datetime import datetime
from typing import Final

from playhead.grammar.zone import UTC, tzinfo_of

_TIME: Final = re.compile(
    r"(?<![0-9T:+-])([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})((?:\.[0-9]+)?)Z(?![0-9A-Za-z])"
)


def local_times(text: str, zone: str) -> str:
    """Each time by the clocks of the zone, with their offset; behind the last of a line the zone's name."""
    if zone == UTC or "Z" not in text:
        return text
    return "\n".join(_line(line, zone) for line in text.split("\n"))


def local_time(text: str, zone: str) -> str:
    """Return a text that is one time without the zone's name; any other text unchanged."""
    found = _TIME.fullmatch(text)
    return text if found is None or zone == UTC else _local(found, zone)


def _line(line: str, zone: str) -> str:
    name = "" if zone[0] in "+-" else f" ({zone})"
    for time in reversed([*_TIME.finditer(line)]):
        shown = _local(time, zone)
        if shown != time[0]:
            line = line[: time.start()] + shown + name + line[time.end() :]
            name = ""
    return line


def _local(found: "re.Match[str]", zone: str) -> str:
    """What the calendar of Python cannot have stays in UTC."""
    try:
        at = datetime.fromisoformat(found[1]).replace(tzinfo=UTC_TZ).astimezone(tzinfo_of(zone))
    except (ValueError, OverflowError):
        return found[0]
    shown = at.isoformat()
    return shown[:19] + found[2] + shown[19:]

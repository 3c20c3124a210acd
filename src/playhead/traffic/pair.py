"""Reads the envelope of a captured pair: time, id, tags, and values as text."""

import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from playhead.traffic.pair_path import canonical_uuid

Pair = Mapping[str, Any]
_INSTANT = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


def instant_ns(text: str) -> int | None:
    """Parse an RFC 3339 time into nanoseconds since 1970; None if it is not valid."""
    match = _INSTANT.fullmatch(text)
    if match is None:
        return None
    seconds = _seconds(f"{match[1]}T{match[2]}", match[4])
    if seconds is None:
        return None
    return seconds * 1_000_000_000 + int((match[3] or "").ljust(9, "0"))


@lru_cache(maxsize=256)
def _seconds(text: str, zone: str) -> int | None:
    zone = "+00:00" if zone in "Zz" else zone
    try:
        return round(datetime.fromisoformat(text + zone).timestamp())
    except (ValueError, OverflowError):
        return None


def time_ns(pair: Pair) -> int | None:
    """Return when the pair was captured, in nanoseconds since 1970."""
    text = pair.get("ts")
    return instant_ns(text) if isinstance(text, str) else None


def uuid_of(pair: Pair) -> str:
    """Return the canonical UUID; empty for a pair without one, as in old formats."""
    text = pair.get("uuid")
    return canonical_uuid(text) if isinstance(text, str) else ""


def tags_of(pair: Pair) -> Mapping[str, Any]:
    """Return the tags, which old formats call meta."""
    for name in ("tags", "meta"):
        found = pair.get(name)
        if isinstance(found, dict):
            return found
    return {}


def as_text(value: Any) -> str | None:
    """Return a scalar as text; None for a list or an object."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return None


def field(pair: Any, *names: str) -> Any:
    """Return the value at this path of names; None if a name is missing."""
    for name in names:
        if not isinstance(pair, dict):
            return None
        pair = pair.get(name)
    return pair

"""What is around the payload of every captured pair: time, id, tags, and values as texts."""

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
    """RFC 3339 with up to nanoseconds, as nanoseconds since 1970; None when it is no such thing."""
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
    """When the pair was captured."""
    text = pair.get("ts")
    return instant_ns(text) if isinstance(text, str) else None


def uuid_of(pair: Pair) -> str:
    """Canonical; empty where a pair has none, as in old forms."""
    text = pair.get("uuid")
    return canonical_uuid(text) if isinstance(text, str) else ""


def tags_of(pair: Pair) -> Mapping[str, Any]:
    """The tags, which old forms call meta."""
    for name in ("tags", "meta"):
        found = pair.get(name)
        if isinstance(found, dict):
            return found
    return {}


def as_text(value: Any) -> str | None:
    """A scalar as a text; None for what is none."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return None


def field(pair: Any, *names: str) -> Any:
    """What stands below these names; None where one of them is not there."""
    for name in names:
        if not isinstance(pair, dict):
            return None
        pair = pair.get(name)
    return pair

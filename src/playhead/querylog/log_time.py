"""Parses the timestamps of server logs: a local time and a time zone abbreviation."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from playhead.querylog.rows import NotARow
from playhead.querylog.text_shape import cached_if_short

_HOURS: Final = {
    "UTC": 0, "GMT": 0, "Z": 0, "UCT": 0, "WET": 0, "WEST": 1, "BST": 1, "CET": 1, "CEST": 2,
    "EET": 2, "EEST": 3, "MSK": 3, "SAST": 2, "CAT": 2, "WAT": 1, "EAT": 3, "PKT": 5, "WIB": 7,
    "HKT": 8, "WITA": 8, "AWST": 8, "JST": 9, "KST": 9, "WIT": 9, "AEST": 10, "AEDT": 11,
    "ChST": 10, "NZST": 12, "NZDT": 13, "SST": -11, "HST": -10, "HDT": -9, "AKST": -9, "AKDT": -8,
    "PST": -8, "PDT": -7, "MST": -7, "MDT": -6, "CDT": -5, "EST": -5, "EDT": -4, "AST": -4, "ADT": -3,
    "ACST": 9.5, "ACDT": 10.5, "NST": -3.5, "NDT": -2.5,
}  # fmt: skip
"""Hours east of Greenwich. Ambiguous abbreviations (IST, CST) are left out."""


_LONGEST: Final = 64
_EXPECTED: Final = "expected 2024-05-01 12:00:00.000 UTC"


@cached_if_short(64)
def time_us(text: str) -> int:
    """Return `2026-11-21 03:33:17.580 UTC` in µs since 1970; raises `NotARow`."""
    local, _, zone = text[19:].partition(" ")
    if len(text) > _LONGEST:  # No server writes it, and what others write is not to be kept.
        raise NotARow(f"{text[:40]!r} is not a log timestamp; {_EXPECTED}")
    if local and not (local[0] == "." and local[1:].isdecimal() and local.isascii()):
        raise NotARow(f"{text[:40]!r} is not a log timestamp; {_EXPECTED}")
    return _second(text[:19], zone) + (int(local[1:7].ljust(6, "0")) if local else 0)


@lru_cache(maxsize=4_096)
def _second(local: str, zone: str) -> int:
    try:
        at = datetime.strptime(local, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        raise NotARow(f"{local[:40]!r} is not a log timestamp; {_EXPECTED}") from None
    return (round(at.timestamp()) - _offset_s(zone)) * 1_000_000


def _offset_s(zone: str) -> int:
    hours = _HOURS.get(zone)
    if hours is not None:
        return round(hours * 3_600)
    sign, digits = zone[:1], zone[1:].replace(":", "")
    if sign not in ("+", "-") or not (digits.isascii() and digits.isdecimal()) or len(digits) > 6:
        raise NotARow(
            f"the time zone abbreviation {zone[:20]!r} is ambiguous; set log_timezone = 'UTC'"
        )
    padded = (digits if len(digits) % 2 == 0 else f"0{digits}").ljust(6, "0")
    seconds = int(padded[:2]) * 3_600 + int(padded[2:4]) * 60 + int(padded[4:])
    return -seconds if sign == "-" else seconds


def epoch_us(text: str) -> int:
    """Return `1525132800.123` in µs since 1970; raises `NotARow`."""
    seconds, _, fraction = text.partition(".")
    if not (f"{seconds}{fraction}".isascii() and f"{seconds}{fraction}".isdecimal() and seconds):
        raise NotARow(f"{text[:40]!r} is not a log timestamp; expected 1525132800.123")
    if len(seconds) > 12:
        raise NotARow(f"{text[:40]!r} is too far in the future")
    return int(seconds) * 1_000_000 + int(fraction[:6].ljust(6, "0"))

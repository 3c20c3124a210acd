"""Sizes in bytes, as users write them: `10GiB`, `500MB`, `1073741824`."""

import re
from typing import Final

from playhead.grammar.cursor import Cursor

FORMS: Final = "1073741824, 500MB, 10GiB; kB MB GB TB count by 1000, KiB MiB GiB TiB by 1024"
_UNITS: Final = {
    "": 1,
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)},
}
_SIZE: Final = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,9}))?\s*([A-Za-z]*)")


def parse_size_bytes(text: str, *, where: str = "the size") -> int:
    """Parse a size into whole bytes."""
    phrase = Cursor.of(text, where)
    found = _SIZE.fullmatch(phrase.text)
    if found is None:
        raise phrase.refuse("found no size", hint=f"write {FORMS}")
    whole, fraction, unit = found[1], found[2] or "", found[3]
    if unit.lower() not in _UNITS:
        raise phrase.refuse(
            f"{unit!r} is not a unit of bytes", at=found.start(3), hint=f"write {FORMS}"
        )
    scale: int = 10 ** len(fraction)
    unit_bytes: int = _UNITS[unit.lower()]
    count, rest = divmod(int(whole + fraction) * unit_bytes, scale)
    if rest:
        raise phrase.refuse("found a fraction of a byte, needed whole bytes")
    return count


def show_size(count: int) -> str:
    """Format a size with three digits and a binary unit."""
    size, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{count} B" if unit == "B" else f"{size:.3g} {unit}"

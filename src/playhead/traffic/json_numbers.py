"""Parses numbers in Protobuf's JSON form, and the error for values of an unknown shape."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

_NUMBER = re.compile(r"-?[0-9]{1,19}", re.ASCII)


class UnknownShape(ValueError):
    """A value of an unknown shape; the text describes it."""


def is_number(text: str) -> bool:
    """Return whether a text is a number, the JSON form of 64-bit integers."""
    return _NUMBER.fullmatch(text) is not None


def number(value: Any) -> int:
    """Return a number, which may be a string; an absent value means 0."""
    if value is None:
        return 0
    if type(value) is int:
        return value
    if isinstance(value, str) and is_number(value):
        return int(value)
    raise UnknownShape(f"found {type(value).__name__} {str(value)[:20]!r}, needed a number")


def one_of(found: Mapping[str, Any], names: Sequence[str]) -> Any:
    """Return the value of the first of these names that is present."""
    for name in names:
        if name in found:
            return found[name]
    return None

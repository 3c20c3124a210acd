"""Values of captured traffic as Protobuf writes them in JSON, and the error of what is none."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

_NUMBER = re.compile(r"-?[0-9]{1,19}", re.ASCII)


class UnknownShape(ValueError):
    """A shape that is not known; the text names it."""


def is_number(text: str) -> bool:
    """Whether a text is a number, as 64-bit ones are written."""
    return _NUMBER.fullmatch(text) is not None


def number(value: Any) -> int:
    """A number, also written as a text; absent means 0."""
    if value is None:
        return 0
    if type(value) is int:
        return value
    if isinstance(value, str) and is_number(value):
        return int(value)
    raise UnknownShape(f"found {type(value).__name__} {str(value)[:20]!r}, needed a number")


def one_of(found: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The value of the first of these names that is there."""
    for name in names:
        if name in found:
            return found[name]
    return None

"""Values that a column does not keep exactly: the server changes them silently, so they are
counted.

A number with more decimals than its column is rounded, as in SQL; of two fields with one name the last
one counts, and only `json` keeps both. Neither is an error.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from playhead.postgres.rows.column_layout import Field
from playhead.postgres.rows.text_format import Repeated
from playhead.postgres.table import Column

ROUNDED, REPEATED = "with_rounded_values", "with_repeated_fields"
# The server's unit is microseconds; Arrow never passes it a time with more digits.
_FINER_TIME = re.compile(r"[:,]\d\d[.,]\d{6}\d*[1-9]")
_TIMES = ("time", "timetz", "timestamp", "timestamptz")
_NANOSECONDS = 10**17


def may_alter(column: Column) -> bool:
    """Return whether the column may silently change some values."""
    kind = column.element or column.base
    return kind in _TIMES or kind == "jsonb" or (kind == "numeric" and column.base_modifier >= 4)


def alterations(
    document: Mapping[str, Any], fields: Iterable[Field], spelling: Mapping[str, str]
) -> Iterator[str]:
    """Return what happens to an object's values in these columns, if not everything is kept."""
    repeated = document.repeated if isinstance(document, Repeated) else ()
    for field in fields:
        name = spelling.get(field.name)
        if name is None:
            continue
        if name in repeated:
            yield REPEATED
        if may_alter(field.column):
            yield from _alteration(field.column, document[name])


def _alteration(column: Column, held: Any) -> Iterator[str]:
    kind = column.element or column.base
    if kind == "jsonb":
        if has_repeated(held):
            yield REPEATED
    elif any(_is_rounded(kind, column.base_modifier, each) for each in _leaves(held)):
        yield ROUNDED


def _is_rounded(kind: str, modifier: int, held: Any) -> bool:
    if kind == "numeric":
        return isinstance(held, str) and _decimals(held) > _scale(modifier)
    if isinstance(held, str):
        return _FINER_TIME.search(held) is not None
    return type(held) is int and abs(held) >= _NANOSECONDS and held % 1000 != 0


def has_repeated(held: Any) -> bool:
    """Return whether an object inside has two fields with one name."""
    left = [held]
    while left:
        each = left.pop()
        if isinstance(each, Repeated):
            return True
        left.extend(
            each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        )
    return False


def _leaves(held: Any) -> Iterator[Any]:
    """Return the elements of an array of any dimensions, or the value itself."""
    left = [held]
    while left:
        each = left.pop()
        if isinstance(each, list):
            left.extend(each)
        else:
            yield each


def _scale(modifier: int) -> int:
    """The server stores eleven bits, the first of which is a sign."""
    return (((modifier - 4) & 0x7FF) ^ 0x400) - 0x400


def _decimals(text: str) -> int:
    """Return the decimal places of a number; 0 for other texts."""
    try:
        _, digits, exponent = Decimal(text.strip()).as_tuple()
    except InvalidOperation:
        return 0
    if not isinstance(exponent, int) or not any(digits):
        return 0
    zeros = next(count for count, digit in enumerate(reversed(digits)) if digit)
    return -(exponent + zeros)

"""Values that a column does not keep exactly: the server changes them silently, so they are
counted.

A number with more decimals than its column, or a time with more of them, is rounded, as in SQL; so is a
number that is nearer to 0 than a floating-point column can be. A column
without a zone, a date or a time of day cuts what a text says of it. Of two fields with one name the last
one counts, and only `json` keeps both. An array of empty ones becomes an empty one. None of these is an error.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from struct import pack, unpack
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from playhead.json_objects import MOST_VALUES, REPEATED, Repeated, has_more_values, object_of
from playhead.postgres.rows import interval_decimals
from playhead.postgres.rows.column_layout import Field
from playhead.postgres.rows.column_types import FLOATS, JSONS, where_true
from playhead.postgres.rows.text_format import (
    ELEMENT_OF_TEXT,
    Number,
    becomes_zero,
    decimals_of_epoch,
)
from playhead.postgres.rows.whole_times import WHOLE
from playhead.postgres.table import Column

ROUNDED, CUT = "with_rounded_values", "with_cut_values"
_TIMES = ("time", "timetz", "timestamp", "timestamptz")
# The server's unit is microseconds; Arrow never passes it a time with more digits.
_MOST_DIGITS = 6
_FRACTION = re.compile(r"\d[.,](\d+)")
_PART_OF_JULIAN = re.compile(r"(?:JULIAN|J)\s*\d+\.(\d+)", re.IGNORECASE)
# What looks like a fraction in a date. A column without dates reads 2021.005 as 20:21 and five thousandths.
_DOTTED_DATE = re.compile(r"\b\d+\.\d+\.\d+\b|[a-z]{3}\.?\s*\d+,\d{4}\b", re.IGNORECASE)
_DAY_OF_YEAR = re.compile(r"(?<![\d:.])\d{4}\.\d{3}(?!\d)")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_BETWEEN_ELEMENTS = re.compile(r'[{},"]+')
# Ranges by the type of their bounds, which the server reads as it reads a value.
_BOUNDS = {
    f"{short}{kind}": whole
    for short, whole in (("date", "date"), ("ts", "timestamp"), ("tstz", "timestamptz"))
    for kind in ("range", "multirange")
}
_BOUNDS_OF_ARRAY = re.compile(r"^\s*(?:\[[-+\d:]+\])+\s*=\s*(?=\{)")
_BETWEEN_BOUNDS = re.compile(r'[][(){},"\\]+')
# The server refuses longer words of a time; it ignores repeated spaces and signs, and reads intervals of
# ISO 8601 of any length.
_LONGEST_TIME = 256
_REPEATED_SIGN = re.compile(r"([^0-9A-Za-z])\1+")
_ISO_INTERVAL = re.compile(r"[+-]?P", re.IGNORECASE)
_POSITION = r"\d{1,9}+(?:[A-Da-d*]++\d*+)?+"
_POSITIONS = re.compile(f":({_POSITION}(?:,{_POSITION})*+)")
_BEHIND_WEIGHT = re.compile(r"[A-Da-d*]\d")
# A quote inside a word is a letter of it. Without an end, a quoted word goes to the end of the text: each quote
# would otherwise be searched for its end in vain.
_QUOTED = re.compile(r"\\.'*+|(?<![^ \t\n\v\f\r])'(?:[^'\\]|\\.|'')*+(?:'|\\?\Z)", re.DOTALL)
_MOST_POSITIONS, _LAST_POSITION = 255, 16_383
_NO_AMOUNT = re.compile(r"[^\w'\"\\]*+")
_FLOAT = {"float4": "f", "float8": "d"}


def may_alter(column: Column) -> bool:
    """Return whether the column may silently change some values."""
    kind = column.element or column.base
    if kind in (*_TIMES, *_BOUNDS, *FLOATS, "date", "interval", "jsonb", "money", "tsvector"):
        return True
    return kind in ("numeric", "varchar") and column.base_modifier >= 4


def longest_text(column: Column) -> int | None:
    """Return the length at which a column cuts spaces off; None if it keeps them, or spaces count for nothing."""
    is_cut = column.base == "varchar" and column.base_modifier >= 4
    return column.base_modifier - 4 if is_cut else None


def too_long_rows(texts: Any, most: int) -> list[int]:
    """Return the rows whose text is longer; the server refuses those that do not end in spaces."""
    return where_true(pc.greater(pc.utf8_length(texts), most))


def unit_of_times(column: Column) -> int | None:
    """Return the unit of a column of times in microseconds; None if it keeps each of them."""
    digits = _digits(column.base_modifier)
    return (
        10 ** (_MOST_DIGITS - digits) if column.base in _TIMES and digits < _MOST_DIGITS else None
    )


def rounded_rows(times: Any, unit: int) -> list[int]:
    """Return the rows whose time is not a multiple of this many microseconds."""
    counted = pc.cast(times, pa.int64())
    return where_true(pc.not_equal(pc.multiply(pc.divide(counted, unit), unit), counted))


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
        if _loses_its_dimensions(field.column, document[name]):
            yield CUT


def alterations_of_text(column: Column, text: str) -> set[str]:
    """Return what happens to a text that the server itself reads: a whole value, or a key."""
    if column.base == "jsonb":
        return {REPEATED} if _is_repeated(text) else set()
    return set(_alteration(column, text)) if may_alter(column) else set()


def is_kept(column: Column, number: int) -> bool:
    """Return whether a column stores a whole number exactly."""
    if column.base in FLOATS:
        return unpack(_FLOAT[column.base], pack(_FLOAT[column.base], number)) == (number,)
    has_scale = column.base == "numeric" and may_alter(column)
    return not (has_scale and _is_rounded("numeric", column.base_modifier, number))


def _alteration(column: Column, held: Any) -> Iterator[str]:
    kind = column.element or column.base
    if kind == "jsonb":
        if has_repeated(held) or (column.element and _text_has_repeated(held)):
            yield REPEATED
        return
    leaves = [*_leaves(held)]
    if kind in FLOATS:  # The server itself refuses such a number in a text.
        if any(isinstance(each, Number) and becomes_zero(kind, each) for each in leaves):
            yield ROUNDED
        return
    if kind in _OF_TEXTS:
        texts = [text for each in leaves if isinstance(each, str) for text in _texts(column, each)]
        if any(_OF_TEXTS[kind](column, text) for text in texts):
            yield ROUNDED if kind == "money" else CUT
        return
    if kind in _BOUNDS:
        leaves = [part for each in leaves for part in _BETWEEN_BOUNDS.split(_elements(str(each)))]
        kind = f"{_BOUNDS[kind]} of a range"
    elif column.element:
        leaves = [part for each in leaves for part in _parts_of_text(each)]
    if kind != "numeric":
        leaves = [_squeezed(kind, each) if isinstance(each, str) else each for each in leaves]
    if any(_is_rounded(kind, column.base_modifier, each) for each in leaves):
        yield ROUNDED
    if kind in WHOLE and not all(WHOLE[kind](each) for each in leaves if isinstance(each, str)):
        yield CUT


def _squeezed(kind: str, text: str) -> str:
    """Return a text without repeated spaces and signs, or nothing if the server refuses it for its length.

    The patterns here take the square of the length, or its cube.
    """
    if len(text) <= _LONGEST_TIME:
        return text
    short = _REPEATED_SIGN.sub(r"\1", " ".join(text.split()))
    is_exact = kind == "interval" and _ISO_INTERVAL.match(short) is not None
    return short if len(short) <= _LONGEST_TIME or is_exact else ""


def _is_rounded(kind: str, modifier: int, held: Any) -> bool:
    if kind == "numeric":
        scale = _scale(modifier)
        if type(held) is int:  # Below 0 is a scale that keeps only hundreds, say.
            return scale < 0 and held % 10**-scale != 0
        return isinstance(held, str) and _decimals(held) > scale
    if kind.startswith("date"):
        return False
    if kind == "interval":  # What one with a modifier rounds, the server is asked.
        return isinstance(held, str) and interval_decimals.is_rounded(held)
    most = _digits(modifier)
    if isinstance(held, str):
        return _has_finer_part(held, most, has_date=kind not in ("time", "timetz"))
    return type(held) is int and held % 10 ** max(0, decimals_of_epoch(held) - most) != 0


def _has_finer_part(text: str, most: int, *, has_date: bool) -> bool:
    """Return whether a text for a time has a part finer than `most` decimals of a second."""
    for part_of_day in _PART_OF_JULIAN.findall(text):
        if not interval_decimals.is_whole(part_of_day, 86_400 * 10**most):
            return True
    text = _DOTTED_DATE.sub("", _PART_OF_JULIAN.sub("", text))
    text = _DAY_OF_YEAR.sub("", text) if has_date else text
    return any(each[most:].strip("0") for each in _FRACTION.findall(text))


def _text_has_repeated(held: Any) -> bool:
    """Return whether an array of JSON that is written as PostgreSQL's text has such an object inside."""
    if not isinstance(held, str) or not held.lstrip().startswith(("{", "[")):
        return False
    elements = ELEMENT_OF_TEXT.findall(held.partition("{")[2])
    return any(_is_repeated(_ESCAPED.sub(r"\1", quoted or plain)) for quoted, plain in elements)


def _is_repeated(text: str) -> bool:
    if has_more_values(text, MOST_VALUES):
        return True  # It may be; to find that out would fill the memory.
    try:
        return has_repeated(_PAIRS.decode(text))
    except (ValueError, RecursionError):  # NULL, or what the server refuses.
        return False


_PAIRS = json.JSONDecoder(parse_int=str, parse_float=str, object_pairs_hook=object_of)


def _parts_of_text(held: Any) -> Sequence[Any]:
    """Return the elements of an array that is written as PostgreSQL's text, or the value itself."""
    if not isinstance(held, str) or not held.lstrip().startswith(("{", "[")):
        return (held,)
    return _BETWEEN_ELEMENTS.split(_elements(held).replace("\\", ""))


def _elements(text: str) -> str:
    """Return the text of an array without its bounds, or any other text."""
    return _BOUNDS_OF_ARRAY.sub("", text, count=1)


def _loses_its_dimensions(column: Column, held: Any) -> bool:
    """Return whether this is an array of empty ones, which the server stores as `{}`."""
    is_array = isinstance(held, list) and column.element not in ("", *JSONS)
    return is_array and bool(held) and not any(True for _ in _leaves(held))


def _digits(modifier: int) -> int:
    return modifier if 0 <= modifier < _MOST_DIGITS else _MOST_DIGITS


def _texts(column: Column, text: str) -> Sequence[str]:
    """Return the elements of an array that is written as PostgreSQL's text, or the text itself."""
    if not column.element or isinstance(text, Number) or not text.lstrip().startswith(("{", "[")):
        return (text,)
    elements = ELEMENT_OF_TEXT.findall(text.partition("{")[2])
    return [_ESCAPED.sub(r"\1", quoted or plain.strip()) for quoted, plain in elements]


def _is_too_long(column: Column, text: str) -> bool:
    return len(text) > column.base_modifier - 4


def _is_rounded_money(column: Column, text: str) -> bool:
    if isinstance(text, Number):
        return _decimals(text) > column.money_digits
    # The server skips what separates thousands behind the point too, and takes a text without a digit for 0.
    _, point, behind = text.rpartition(column.decimal_point)
    decimals = re.sub(r"\D", "", behind).rstrip("0") if point else ""
    return _NO_AMOUNT.fullmatch(text) is not None or len(decimals) > column.money_digits


def _has_far_positions(_: Column, text: str) -> bool:
    """Return whether a word of a tsvector has positions that the server reduces to the highest possible one, or
    with digits that it ignores.
    """
    found = _POSITIONS.findall(_QUOTED.sub("w", text))
    if any(_BEHIND_WEIGHT.search(each) for each in found):
        return True
    places = [re.findall(r"\d+", each) for each in found]
    return any(len(of) > _MOST_POSITIONS or max(map(int, of)) > _LAST_POSITION for of in places)


_OF_TEXTS: Mapping[str, Callable[[Column, str], bool]] = {
    "varchar": _is_too_long,
    "money": _is_rounded_money,
    "tsvector": _has_far_positions,
}


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
        # The server takes 1e -3 too.
        _, digits, exponent = Decimal("".join(text.split())).as_tuple()
    except InvalidOperation:
        return 0
    if not isinstance(exponent, int) or not any(digits):
        return 0
    zeros = next(count for count, digit in enumerate(reversed(digits)) if digit)
    return -(exponent + zeros)

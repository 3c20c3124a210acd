"""Typed columns beside the raw value: the top-level fields of JSON objects, with types from a sample."""

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from math import isfinite
from typing import Any, NamedTuple

import pyarrow as pa

from playhead.account import Account
from playhead.json_objects import MOST_VALUES, has_more_values, object_of, repeats_one_of, texts_of
from playhead.printable import is_unicode
from playhead.records import Records

PREFIX = "value_"
_INT64 = 1 << 63

_UNFIT = (ValueError, OverflowError)

Columns = Mapping[str, str]
"""The type of each field: `int64`, `double`, `bool`, `string` or `json`."""


class Misfit(ValueError):
    """A value that its column cannot hold."""


def inferred(values: Iterable[bytes | None]) -> dict[str, str]:
    """Infer the types of the fields of JSON objects; a field with several types is `json`."""
    found: dict[str, str] = {}
    for value in values:
        try:
            fields = _object(value)
        except Misfit:
            continue
        for name, item in (fields or {}).items():
            if item is not None and is_unicode(name):
                found[name] = _both(found.get(name), _type_of(item))
    return dict(sorted(found.items()))


def repeating(values: Iterable[bytes | None], columns: Columns) -> int:
    """Return how many values have the field of a column twice."""
    found = 0
    for value in values:
        with suppress(Misfit):
            found += repeats_one_of(_object(value), columns)
    return found


def fields_of(columns: Columns) -> list[pa.Field]:
    """Return the columns as Arrow fields."""
    return [pa.field(PREFIX + name, _ARROW[type_]) for name, type_ in columns.items()]


def shown_fields(value: bytes | None) -> dict[str, Any]:
    """Return a value's fields, for people."""
    try:
        fields = _object(value)
    except Misfit:
        return {}
    return {PREFIX + name: item for name, item in (fields or {}).items()}


class Filled(NamedTuple):
    """The records whose values fit, with their columns."""

    records: Records
    arrays: list[pa.Array]
    repeated: int
    """How many values have the field of a column twice; the column has the last."""


def filled(account: Account, records: Records, columns: Columns) -> Filled:
    """Fill the columns with the values that fit; refuse the other records."""
    found = _filled(records, columns) or _filled(_fitting(account, records, columns), columns)
    if found is None:
        raise AssertionError("each value fits alone, but not all together")
    return found


def _fitting(account: Account, records: Records, columns: Columns) -> Records:
    kept = []
    for index, value in enumerate(records.readable):
        try:
            _check(value, columns)
        except Misfit as error:
            account.refuse(records.record(index), kind="value", reason=str(error))
        else:
            kept.append(index)
    return records.pick(kept)


def _filled(records: Records, columns: Columns) -> Filled | None:
    """Fill all columns at once; None if some value does not fit."""
    try:
        rows = [_fields(value, columns) for value in records.readable]
        each = columns.items()
        arrays = [_array([row.get(name) for row in rows], type_) for name, type_ in each]
    except _UNFIT:
        return None
    return Filled(records, arrays, sum(repeats_one_of(row, columns) for row in rows))


def _fields(value: bytes | None, columns: Columns) -> dict[str, Any]:
    """Return the fields of a value; those of `json` columns as they are written in it."""
    fields = _object(value) or {}
    own = [name for name in fields if columns.get(name) == "json" and fields[name] is not None]
    if own and value is not None:
        try:
            texts = dict(texts_of(value.decode()))
        except RecursionError as error:  # What could just be parsed as a part of the whole.
            raise Misfit("the value is not JSON") from error
        fields.update((name, texts[name]) for name in own)
    return fields


def _array(items: list[Any], type_: str) -> pa.Array:
    if not set(map(type, items)) <= {*_PYTHON[type_], type(None)}:
        raise Misfit("an item of another type")
    if type_ == "double":
        items = [None if item is None else float(item) for item in items]
    return pa.array(items, _ARROW[type_])


def _check(value: bytes | None, columns: Columns) -> None:
    fields = _fields(value, columns)
    for name, type_ in columns.items():
        try:
            _array([fields.get(name)], type_)
        except _UNFIT as error:
            raise Misfit(f"field {name!r} of the value: needed {_NEEDED[type_]}") from error


def _object(value: bytes | None) -> dict[str, Any] | None:
    if value is None:
        return None
    try:
        text = value.decode()
        if has_more_values(text, MOST_VALUES):
            raise Misfit(f"the value has more than {MOST_VALUES:,} values in it")
        document = _READER.decode(text)
    except (ValueError, RecursionError) as error:
        raise Misfit("the value is not JSON") from error
    if not isinstance(document, dict):
        raise Misfit("the value is JSON, but not an object")
    return document


class _Beyond(str):
    """The text of a number that a double makes infinite, or 0."""

    __slots__ = ()


def _number(text: str) -> float | _Beyond:
    number = float(text)
    is_held = isfinite(number) and (number != 0 or not _HAS_DIGIT.match(text))
    return number if is_held else _Beyond(text)


# A digit other than 0 before the exponent.
_HAS_DIGIT = re.compile(r"[-0.]*[1-9]")
_READER = json.JSONDecoder(parse_float=_number, object_pairs_hook=object_of)


def _type_of(item: Any) -> str:
    exact = {bool: "bool", int: "int64", float: "double", str: "string"}.get(type(item), "json")
    return "json" if exact == "int64" and not -_INT64 <= item < _INT64 else exact


def _both(before: str | None, now: str) -> str:
    if before is None or before == now:
        return now
    return "double" if {before, now} == {"int64", "double"} else "json"


_ARROW = {
    "int64": pa.int64(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "json": pa.string(),
}
# Exact types: to Python, True is an int.
_PYTHON: dict[str, tuple[type, ...]] = {
    "int64": (int,),
    "double": (int, float),
    "bool": (bool,),
    "string": (str,),
    "json": (str,),
}
_NEEDED = {
    "int64": "a whole number of 64 bits",
    "double": "a number that a double can hold",
    "bool": "true or false",
    "string": "a string of Unicode",
    "json": "JSON",
}

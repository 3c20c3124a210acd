"""Typed columns beside the raw value: the top-level fields of JSON objects, with types from a sample."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from playhead.account import Account
from playhead.printable import is_unicode
from playhead.records import Records

PREFIX = "value_"
_INT64 = 1 << 63

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


def filled(account: Account, records: Records, columns: Columns) -> tuple[Records, list[pa.Array]]:
    """Return the records whose values fit, with their columns; refuse the others."""
    arrays = _arrays(records.readable, columns)
    if arrays is not None:
        return records, arrays
    fitting = _fitting(account, records, columns)
    arrays = _arrays(fitting.readable, columns)
    if arrays is None:
        raise AssertionError("each value fits alone, but not all together")
    return fitting, arrays


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


def _arrays(values: list[bytes | None], columns: Columns) -> list[pa.Array] | None:
    """Return all columns at once; None if some value does not fit."""
    try:
        rows = [{} if value is None else json.loads(value.decode()) for value in values]
        if not set(map(type, rows)) <= {dict}:
            return None
        return [_array([row.get(name) for row in rows], type_) for name, type_ in columns.items()]
    except (ValueError, OverflowError, RecursionError):
        return None


def _array(items: list[Any], type_: str) -> pa.Array:
    allowed = _PYTHON[type_]
    if allowed is None:
        items = [None if item is None else json.dumps(item) for item in items]
    elif not set(map(type, items)) <= {*allowed, type(None)}:
        raise Misfit("an item of another type")
    elif type_ == "double":
        items = [None if item is None else float(item) for item in items]
    return pa.array(items, _ARROW[type_])


def _check(value: bytes | None, columns: Columns) -> None:
    fields = _object(value) or {}
    for name, type_ in columns.items():
        try:
            _array([fields.get(name)], type_)
        except (ValueError, OverflowError, RecursionError) as error:
            raise Misfit(f"field {name!r} of the value: needed {_NEEDED[type_]}") from error


def _object(value: bytes | None) -> dict[str, Any] | None:
    if value is None:
        return None
    try:
        document = json.loads(value.decode())
    except (ValueError, RecursionError) as error:
        raise Misfit("the value is not JSON") from error
    if not isinstance(document, dict):
        raise Misfit("the value is JSON, but not an object")
    return document


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
_PYTHON: dict[str, tuple[type, ...] | None] = {
    "int64": (int,),
    "double": (int, float),
    "bool": (bool,),
    "string": (str,),
    "json": None,
}
_NEEDED = {
    "int64": "a whole number of 64 bits",
    "double": "a number",
    "bool": "true or false",
    "string": "a string of Unicode",
    "json": "JSON that is not too deep",
}

"""Typed columns beside the raw value: the top-level fields of JSON objects, by types that a sample showed."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from playhead.account import Account
from playhead.records import Records

PREFIX = "value_"
_INT64 = 1 << 63

Columns = Mapping[str, str]
"""A field of the values, and its type: `int64`, `double`, `bool`, `string` or `json`."""


class Misfit(ValueError):
    """A value that its column cannot hold."""


def inferred(values: Iterable[bytes | None]) -> dict[str, str]:
    """The fields of those values that are JSON objects; a field that is not always of one type is `json`."""
    found: dict[str, str] = {}
    for value in values:
        try:
            fields = _object(value)
        except Misfit:
            continue
        for name, item in (fields or {}).items():
            if item is not None and _is_unicode(name):
                found[name] = _both(found.get(name), _type_of(item))
    return dict(sorted(found.items()))


def fields_of(columns: Columns) -> list[pa.Field]:
    """The columns as Arrow describes them."""
    return [pa.field(PREFIX + name, _ARROW[type_]) for name, type_ in columns.items()]


def shown_fields(value: bytes | None) -> dict[str, Any]:
    """What a value gives, for people to look at."""
    try:
        fields = _object(value)
    except Misfit:
        return {}
    return {PREFIX + name: item for name, item in (fields or {}).items()}


def filled(account: Account, records: Records, columns: Columns) -> tuple[Records, list[list[Any]]]:
    """The records whose values fit, and the columns' items; the others are refused."""
    casts = [(name, _CASTS[type_]) for name, type_ in columns.items()]
    rows, kept = [], []
    for index, value in enumerate(records.values):
        try:
            rows.append(_row(value, casts))
        except Misfit as error:
            account.refuse(records.record(index), kind="value", reason=str(error))
        else:
            kept.append(index)
    fitting = records if len(kept) == len(records) else records.pick(kept)
    return fitting, [list(column) for column in zip(*rows, strict=True)] if rows else []


def _row(value: bytes | None, casts: list[tuple[str, Callable[[Any], Any]]]) -> list[Any]:
    fields = _object(value)
    if fields is None:
        return [None] * len(casts)
    row = []
    for name, cast in casts:
        item = fields.get(name)
        try:
            row.append(None if item is None else cast(item))
        except (Misfit, OverflowError, UnicodeEncodeError) as error:
            raise Misfit(f"field {name!r} of the value: {error}") from error
    return row


def _object(value: bytes | None) -> dict[str, Any] | None:
    if value is None:
        return None
    try:
        document = json.loads(value.decode())
    except (ValueError, RecursionError) as error:
        raise Misfit("the value is not JSON") from error
    if not isinstance(document, dict):
        raise Misfit("the value is JSON, and not an object")
    return document


def _type_of(item: Any) -> str:
    exact = {bool: "bool", int: "int64", float: "double", str: "string"}.get(type(item), "json")
    return "json" if exact == "int64" and not -_INT64 <= item < _INT64 else exact


def _both(before: str | None, now: str) -> str:
    if before is None or before == now:
        return now
    return "double" if {before, now} == {"int64", "double"} else "json"


def _is_unicode(text: str) -> bool:
    return text.encode(errors="replace").decode() == text


def _int64(item: Any) -> int:
    if type(item) is not int or not -_INT64 <= item < _INT64:
        raise Misfit("needed a whole number of 64 bits")
    return item


def _double(item: Any) -> float:
    if type(item) not in (int, float):
        raise Misfit("needed a number")
    return float(item)


def _bool(item: Any) -> bool:
    if type(item) is not bool:
        raise Misfit("needed true or false")
    return item


def _string(item: Any) -> str:
    if type(item) is not str:
        raise Misfit("needed a string")
    item.encode()
    return item


_CASTS: dict[str, Callable[[Any], Any]] = {
    "int64": _int64,
    "double": _double,
    "bool": _bool,
    "string": _string,
    "json": json.dumps,
}
_ARROW = {
    "int64": pa.int64(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "json": pa.string(),
}

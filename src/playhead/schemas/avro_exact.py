"""Makes fastavro refuse what it would read as another value: indexes, integers and times outside their bounds.

fastavro takes the last symbol for -1, wraps times, rounds decimals, takes any byte but 0 for true, reads a
UUID from texts that are none, and keeps the last of two entries of a map with one key, or of two fields
with one name. The readers and lists here are part of the parsed schema, so that ordinary values need no second reading.
"""

import io
from collections.abc import Callable
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, Inexact
from functools import cache
from typing import Any, Final

import fastavro
from fastavro.read import LOGICAL_READERS

from playhead.schemas.plain_forms import uuid_of

DECIMAL: Final = "playhead-decimal"
TIME_MILLIS: Final = "playhead-time-millis"
TIME_MICROS: Final = "playhead-time-micros"
BOOLEAN: Final = "playhead-boolean"
UUID: Final = "playhead-uuid"
_INT: Final = "playhead-int"
MAP: Final = "playhead-map"
_OURS: Final = {
    "decimal": DECIMAL,
    "time-millis": TIME_MILLIS,
    "time-micros": TIME_MICROS,
    "uuid": UUID,
}
_PARSED: Final = "__fastavro_parsed"
_MARKS: Final = (_PARSED, "__named_schemas")
_CONTEXT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
# A scale of a billion would be written as that many zeros. No database has such decimals.
_MOST_SCALE, _MOST_DECIMAL_BYTES = 20_000, 20_000
_QUICK_BITS: Final = 4_096
# A power in the context without a bound of its digits would compute with all of them.
_EXACT: Final = Context(prec=8 * _MOST_DECIMAL_BYTES, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[Inexact])
_SECONDS_OF_DAY: Final = 86_400
_INT_BOUND: Final = 2**31
_BOOLEANS: Final = {b"\x00": False, b"\x01": True}
_PRIMITIVE: Final = {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
_COMPLEX: Final = {
    "record",
    "error",
    "request",
    "enum",
    "array",
    "map",
    "union",
    "error_union",
    "fixed",
}


class _Choices(list[Any]):
    """The types of a union, or the symbols of an enum, for an index that is not below 0.

    For an index below 0, fastavro asks for the length, and for nothing else. `refuses_below_zero`
    tests that the installed fastavro does.
    """

    def __len__(self) -> int:
        raise ValueError("the bytes do not fit the schema")

    def __bool__(self) -> bool:
        return True


@cache
def refuses_below_zero() -> bool:
    """Return whether unions and enums of a guarded schema refuse an index below 0."""
    for kind in (["null", "string"], {"type": "enum", "name": "E", "symbols": ["A", "B"]}):
        record = {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]}
        named: dict[str, Any] = {}
        schema = guard(fastavro.parse_schema(record, named_schemas=named), named)
        try:
            fastavro.schemaless_reader(io.BytesIO(b"\x01\x00"), schema, None)
        except ValueError:
            continue
        return False
    return True


def _read_decimal(data: bytes, schema: Any, _: Any = None) -> Decimal:
    if len(data) > _MOST_DECIMAL_BYTES:
        raise ValueError(
            f"a decimal of {len(data):,} bytes, needed at most {_MOST_DECIMAL_BYTES:,}"
        )
    unscaled = _as_decimal(int.from_bytes(data, "big", signed=True))
    return unscaled.scaleb(-schema.get("scale", 0), _CONTEXT)


def _as_decimal(number: int) -> Decimal:
    """Convert by halves: `Decimal` takes a time that grows with the square of the length, its product does not."""
    if number.bit_length() < _QUICK_BITS:
        return Decimal(number)
    half = number.bit_length() // 2
    high, low = _as_decimal(number >> half), _as_decimal(number & ((1 << half) - 1))
    return _EXACT.add(_EXACT.multiply(high, _EXACT.power(2, half)), low)


def _read_int(data: int, _: Any = None, __: Any = None) -> int:
    if -_INT_BOUND <= data < _INT_BOUND:
        return data
    raise ValueError(f"an int of {data}, needed at most 32 bits")


def _read_boolean(data: bytes, _: Any = None, __: Any = None) -> bool:
    if data in _BOOLEANS:
        return _BOOLEANS[data]
    raise ValueError(f"a boolean of byte {data[0]}, needed 0 or 1")


def _map_of(pairs: list[dict[str, Any]], _: Any = None, __: Any = None) -> dict[str, Any]:
    found = {pair["key"]: pair["value"] for pair in pairs}
    if len(found) < len(pairs):
        raise ValueError("a map has two entries with one key, and only one can be kept")
    return found


def _time_reader(original: Callable[..., Any], units: int) -> Callable[..., Any]:
    most = _SECONDS_OF_DAY * units

    def read(data: int, schema: Any, other: Any = None) -> Any:
        if 0 <= data < most:
            return original(data, schema, other)
        raise ValueError(f"a time of {data}, needed from 0 to {most - 1}")

    return read


for _base in ("bytes", "fixed"):
    LOGICAL_READERS[f"{_base}-{DECIMAL}"] = _read_decimal
LOGICAL_READERS[f"string-{UUID}"] = lambda data, *_: uuid_of(data)
LOGICAL_READERS[f"int-{_INT}"] = _read_int
LOGICAL_READERS[f"array-{MAP}"] = _map_of
LOGICAL_READERS[f"fixed-{BOOLEAN}"] = _read_boolean
LOGICAL_READERS[f"int-{TIME_MILLIS}"] = _time_reader(LOGICAL_READERS["int-time-millis"], 1000)
LOGICAL_READERS[f"long-{TIME_MICROS}"] = _time_reader(LOGICAL_READERS["long-time-micros"], 10**6)


def with_exact_types(node: Any) -> Any:
    """Return a schema's document with our decimals and times instead of fastavro's.

    Without fastavro's own marks too: it would take a schema with them as one that it has checked.
    """
    if isinstance(node, list):
        return [with_exact_types(each) for each in node]
    if not isinstance(node, dict):
        return node
    copy = {name: with_exact_types(each) for name, each in node.items() if name not in _MARKS}
    logical = node.get("logicalType")
    if not isinstance(logical, str):
        return copy
    if logical.startswith("playhead-"):
        del copy["logicalType"]  # Types within limits are ours; Avro ignores unknown ones.
    scale = node.get("scale", 0)
    if logical == "decimal" and not isinstance(scale, int):
        raise ValueError(f"invalid schema: a decimal's scale must be a whole number, not {scale}")
    if logical == "decimal" and scale > _MOST_SCALE:
        raise ValueError(f"the schema has a decimal of scale {scale}, needed at most {_MOST_SCALE}")
    if logical in _OURS and isinstance(scale, int) and scale >= 0:
        copy["logicalType"] = _OURS[logical]
    return copy


def is_final(schema: Any) -> bool:
    """Return whether fastavro uses a parsed schema unchanged: it parses all but records again."""
    return isinstance(schema, dict) and _PARSED in schema


def guard(schema: Any, named: dict[str, Any]) -> Any:
    """Return a parsed schema whose unions, enums, ints and booleans accept nothing outside their bounds.

    Changes its records, arrays, maps and enums in place, because `named` has the same ones. Without
    `is_final`, a schema stays unchanged.
    """
    if not is_final(schema):
        return schema
    waiting = [schema, *named.values()]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += [each for each in node]  # noqa: C416 - its length is not for the asking
        elif isinstance(node, dict) and id(node) not in seen:
            seen.add(id(node))
            waiting += _guard_inside(node, named)
    return _guarded(schema, named)


def referable(named: dict[str, Any]) -> dict[str, Any]:
    """Return the named types that a guarded schema refers to by their names.

    A schema may call a type of its own `int` or `record`. fastavro takes such a name for Avro's own type.
    """
    return {name: type_ for name, type_ in named.items() if name not in _PRIMITIVE | _COMPLEX}


def _guard_inside(node: dict[str, Any], named: dict[str, Any]) -> list[Any]:
    """Guard what a type consists of, and return these types."""
    kind = node["type"]
    if kind == "map":
        # An array of entries has the same bytes as their map, and keeps every entry.
        key, value = (
            {"name": "key", "type": "string"},
            {"name": "value", "type": node.pop("values")},
        )
        entry = {"type": "record", "name": MAP, "fields": [key, value]}
        node |= {"type": "array", "items": entry, "logicalType": MAP}
        kind = "array"
    if kind == "enum":
        node["symbols"] = _Choices(each for each in node["symbols"])
        return []
    if kind in ("record", "error"):
        places, name = node["fields"], "type"
        if len({place["name"] for place in places}) < len(places):
            raise ValueError(f"invalid schema: two fields of {node['name']} have one name")
    elif kind == "array":
        places, name = [node], "items"
    else:
        if kind == "fixed" and not (type(node["size"]) is int and node["size"] >= 0):
            # Beside an infinite size, what the rest of a value can become would not count.
            size = str(node["size"])[:20]
            raise ValueError(f"invalid schema: a fixed of {size} bytes, needed a whole number")
        return []
    for place in places:
        place[name] = _guarded(place[name], named)
    return [place[name] for place in places]


def _guarded(node: Any, named: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return _Choices(_guarded(each, named) for each in node)
    if isinstance(node, str) and node in _COMPLEX and node in named:
        return named[
            node
        ]  # By this name, fastavro would look for fields or items in the name itself.
    if node == "int":
        return {"type": "int", "logicalType": _INT}
    if node == "boolean" or (isinstance(node, dict) and node["type"] == "boolean"):
        # One byte both, and only the reader of a logical type sees the byte as it is.
        return {"type": "fixed", "name": BOOLEAN, "size": 1, "logicalType": BOOLEAN}
    if isinstance(node, dict) and node["type"] == "int" and not _is_bounded(node):
        return {**node, "logicalType": _INT}
    return node


def _is_bounded(node: dict[str, Any]) -> bool:
    return f"int-{node.get('logicalType')}" in LOGICAL_READERS

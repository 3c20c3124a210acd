"""How each type is sent: the type for Arrow's JSON reader, and its form in a binary COPY."""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from playhead.postgres.table import Column

Finish = Callable[[Any], tuple[Any, list[int]]]
"""Converts what the reader returned to what is copied, and returns the rows to check one by one."""

INTEGERS = ("int2", "int4", "int8")
FLOATS = ("float4", "float8")
TIMES = ("timestamp", "timestamptz")
# Types whose equal values have the same text.
_LOOKS_EQUAL = (
    *("bool", "int2", "int4", "int8", "text", "varchar", "bytea", "uuid"),
    *("date", "time", "timestamp", "timestamptz"),
)
TEXTS = ("text", "varchar", "bpchar", "name")
JSONS = ("json", "jsonb")

LONGEST_NAME = 63
"""The maximum bytes of a name; the server cuts longer ones silently."""
_DIGITS = 38
"""The maximum digits of a number in 128 bits."""
_YEAR_1_US = -62_135_596_800_000_000
_DATE = r"^(\d\d\d[1-9]|\d\d[1-9]\d|\d[1-9]\d\d|[1-9]\d\d\d)-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$"
_TIME = r"^([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?$"
_UUID = r"^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$"


@dataclass(frozen=True, slots=True)
class ColumnCodec:
    """The codec of one type; `read` is None if Arrow's reader reads it differently."""

    wire: Any
    read: Any = None
    finish: Finish | None = None
    pack: Callable[[Sequence[str | None]], Any] | None = None
    """Converts texts to what is copied, for a type that Arrow's reader does not read."""


def route_of(column: Column) -> ColumnCodec | None:
    """Return the codec of a column; None for a type that is sent as text for the server to parse."""
    if column.kind == "e":
        return ColumnCodec(pa.string(), pa.string())
    if column.base == "numeric":
        return _numeric(column.modifier)
    if column.element in _ELEMENTS and column.base_modifier == -1:
        element = _ELEMENTS[column.element]
        finish = _finite_elements if column.element in FLOATS else None
        return ColumnCodec(pa.list_(element), pa.list_(element), finish)
    return _ROUTES.get(column.base) if column.kind == "b" else None


def _numeric(modifier: int) -> ColumnCodec | None:
    """Only if the column fixes the scale: otherwise 1.50 and 1.5 are different texts."""
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
    if modifier < 4 or precision > 36 or scale > precision:
        return None
    decimal = pa.decimal128(_DIGITS, scale)
    if precision + scale <= _DIGITS:
        return ColumnCodec(decimal, decimal)
    return ColumnCodec(decimal, pa.decimal256(_DIGITS, scale), partial(_narrow, decimal))


def _narrow(decimal: Any, column: Any) -> tuple[Any, list[int]]:
    """Return the numbers in 128 bits, and the rows with one that does not fit.

    To append zeros up to the scale, the reader multiplies, and a product beyond 128 bits wraps around. It notices
    what then is less than the number itself; a column of few digits refuses all others.
    """
    limit = pa.scalar(
        Decimal(10) ** (_DIGITS - decimal.scale), pa.decimal256(_DIGITS + 1, decimal.scale)
    )
    odd = where_true(beyond := pc.greater_equal(pc.abs(column), limit))
    fitting = pc.if_else(beyond, pa.scalar(None, column.type), column) if odd else column
    return pc.cast(fitting, decimal), odd


def where_true(mask: Any) -> list[int]:
    """Return the rows for which the mask is true."""
    if not pc.any(mask).as_py():
        return []
    whole = mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask
    found: list[int] = pc.indices_nonzero(whole).to_pylist()
    return found


def _finite(column: Any) -> tuple[Any, list[int]]:
    """Return the rows in which a number became infinite, because it is too large for the type."""
    return column, where_true(pc.is_inf(column))


def _finite_elements(column: Any) -> tuple[Any, list[int]]:
    return column, _where_element(column, pc.is_inf)


def rows_with_zero(column: Any) -> list[int]:
    """Return the rows of floating-point numbers, or of lists of them, that contain a 0."""
    if pa.types.is_list(column.type):
        return _where_element(column, lambda elements: pc.equal(elements, 0.0))
    return where_true(pc.equal(column, 0.0))


def _where_element(column: Any, mask: Callable[[Any], Any]) -> list[int]:
    """Return the rows of lists with an element for which the mask is true."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    elements = where_true(mask(pc.list_flatten(whole)))
    if not elements:
        return []
    parents = pc.list_parent_indices(whole)
    return sorted({parents[i].as_py() for i in elements})


def _short(column: Any) -> tuple[Any, list[int]]:
    """Return the rows with a name that the server would cut."""
    return column, where_true(pc.greater(pc.binary_length(column), LONGEST_NAME))


def _from_year_1(column: Any) -> tuple[Any, list[int]]:
    """Return the rows with a year 0, which Arrow knows and the server does not."""
    return column, where_true(pc.less(pc.cast(column, pa.int64()), _YEAR_1_US))


def _like(column: Any, pattern: str) -> tuple[Any, list[int]]:
    """Return the column with null where a text does not match, and those rows."""
    fits = pc.match_substring_regex(column, pattern)
    odd = where_true(pc.invert(fits))
    return (pc.if_else(fits, column, None), odd) if odd else (column, odd)


def _dates(column: Any) -> tuple[Any, list[int]]:
    fitting, odd = _like(column, _DATE)
    try:
        return pc.cast(fitting, pa.date32()), odd
    except pa.ArrowInvalid:  # Such as the 31st of February; the Python decoder finds out which.
        return pa.nulls(len(column), pa.date32()), list(range(len(column)))


def _clock_times(column: Any) -> tuple[Any, list[int]]:
    fitting, odd = _like(column, _TIME)
    # Arrow casts texts to timestamps, but not to times of day.
    instants = pc.cast(pc.binary_join_element_wise("1970-01-01", fitting, "T"), pa.timestamp("us"))
    return pc.cast(pc.cast(instants, pa.int64()), pa.time64("us")), odd


def _uuids(column: Any) -> tuple[Any, list[int]]:
    fitting, odd = _like(column, _UUID)
    bare = pc.replace_substring(fitting, "-", "")
    whole = bare.combine_chunks() if isinstance(bare, pa.ChunkedArray) else bare
    raw = bytes.fromhex("".join(text or "0" * 32 for text in whole.to_pylist()))
    valid = pc.is_valid(whole)
    fixed = pa.Array.from_buffers(pa.binary(16), len(whole), [None, pa.py_buffer(raw)])
    return pc.if_else(valid, fixed, None).cast(pa.binary()), odd


def _base64(column: Any) -> tuple[Any, list[int]]:
    found: list[bytes | None] = []
    odd: list[int] = []
    for row, text in enumerate(column.to_pylist()):
        try:
            found.append(None if text is None else base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError):
            found.append(None)
            odd.append(row)
    return pa.array(found, pa.binary()), odd


def _jsonb(texts: Sequence[str | None]) -> Any:
    """The binary form is a version, 1, and the text."""
    return pa.array([None if t is None else b"\x01" + t.encode() for t in texts], pa.binary())


def _strings(texts: Sequence[str | None]) -> Any:
    return pa.array(texts, pa.string())


def _same(wire: Any, finish: Finish | None = None) -> ColumnCodec:
    return ColumnCodec(wire, wire, finish)


_ROUTES: Mapping[str, ColumnCodec] = {
    "bool": _same(pa.bool_()),
    "int2": _same(pa.int16()),
    "int4": _same(pa.int32()),
    "int8": _same(pa.int64()),
    "float4": _same(pa.float32(), _finite),
    "float8": _same(pa.float64(), _finite),
    "text": _same(pa.string()),
    "varchar": _same(pa.string()),
    "bpchar": _same(pa.string()),
    "name": _same(pa.string(), _short),
    "timestamp": _same(pa.timestamp("us"), _from_year_1),
    "timestamptz": _same(pa.timestamp("us", tz="UTC"), _from_year_1),
    "date": ColumnCodec(pa.date32(), pa.string(), _dates),
    "time": ColumnCodec(pa.time64("us"), pa.string(), _clock_times),
    "uuid": ColumnCodec(pa.binary(), pa.string(), _uuids),
    "bytea": ColumnCodec(pa.binary(), pa.string(), _base64),
    "json": ColumnCodec(pa.string(), pack=_strings),
    "jsonb": ColumnCodec(pa.binary(), pack=_jsonb),
}
_ELEMENTS: Mapping[str, Any] = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "text": pa.string(),
    "varchar": pa.string(),
}


def may_look_different(column: Column) -> bool:
    """Return whether equal values of the column may have different texts, such as 1.5 and 1.50."""
    return column.base not in _LOOKS_EQUAL or bool(column.collation)

"""Converts the records of one record set into columns; raises `UnknownShape` for unknown shapes."""

import base64
import marshal
from binascii import Error as NotBase64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain, islice
from operator import itemgetter, lt
from typing import Any, Final

from playhead.record import Headers, TimestampType
from playhead.traffic.aborted import sets_own_time
from playhead.traffic.json_numbers import UnknownShape, number, one_of
from playhead.traffic.record_sets import MOST_OFFSET, RecordSet

_PLAIN: Final = frozenset({"offsetDelta", "timestampDelta", "keyString", "valueString", "headers"})
Table = dict[str, Sequence[Any]]
_TEXTS: Final = frozenset({str, type(None)})
_MOST_MS = 1 << 62
_SHORT: Final = frozenset(range(1, 19))
"""Lengths of numbers that have no more than 64 bits."""
_MANY = 2
"""`itemgetter` returns no tuple for fewer names."""


@dataclass(slots=True)
class TrafficColumns:
    """Columns of equal length, in offset order; `offsets` are relative to the base of the record set."""

    offsets: list[int]
    timestamps_ms: list[int]
    timestamp_type: int
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Headers]


@dataclass(frozen=True, slots=True)
class Outline:
    """What an index needs of a record set, without its bytes."""

    first: int
    """Relative offsets, as in `TrafficColumns.offsets`."""
    last: int
    count: int
    least_ms: int
    most_ms: int
    mark: int
    """A hash of the records without their offsets and times; never 0."""


def outline_of(lot: RecordSet) -> Outline:
    """Return the outline of a record set; raises `UnknownShape` in the same cases as `columns_of`."""
    columns = columns_of(lot)
    offsets, times = columns.offsets, columns.timestamps_ms
    mark = _mark(columns.keys, columns.values, columns.headers)
    return Outline(offsets[0], offsets[-1], len(offsets), min(times), max(times), mark)


def _mark(*columns: list[bytes | None] | list[Headers]) -> int:
    # Version 2 of the format has no references, so that equal columns have equal bytes.
    held = sha256(marshal.dumps(columns, 2)).digest()
    return int.from_bytes(held[:7]) | 1 << 56


def columns_of(lot: RecordSet) -> TrafficColumns:
    """Return the records of a non-empty record set; raises `UnknownShape`."""
    rows = lot.rows
    table = _table(rows)
    if table is not None:
        offsets = _deltas(table, "offsetDelta", len(rows))
        keys = _texts(table, "keyString", len(rows))
        values = _texts(table, "valueString", len(rows))
        kind, times = _times(lot, _deltas(table, "timestampDelta", len(rows)))
        headers = _headers(table, len(rows))
    else:
        if not all(isinstance(row, dict) for row in rows):
            raise UnknownShape("a record is not an object")
        offsets = [_offset(lot, row) for row in rows]
        keys = [bytes_of(row, "key") for row in rows]
        values = [bytes_of(row, "value") for row in rows]
        kind, times = _times(lot, None)
        headers = [headers_of(row.get("headers")) for row in rows]
    if not _grows(offsets):
        columns = _sorted(offsets, times, keys, values, headers)
        offsets, times, keys, values, headers = columns
        if not _grows(offsets):
            raise UnknownShape("two records of one set have the same offset")
    _check_limits(lot, offsets)
    return TrafficColumns(offsets, times, kind, keys, values, headers)


def _sorted(offsets: list[int], *others: list[Any]) -> tuple[list[int], Any, Any, Any, Any]:
    order = sorted(range(len(offsets)), key=offsets.__getitem__)
    ordered = [offsets[index] for index in order]
    columns = [[each[index] for index in order] for each in others]
    return ordered, columns[0], columns[1], columns[2], columns[3]


def _table(rows: Sequence[Any]) -> Table | None:
    """Return the rows as columns if every record has the usual form; else None.

    A missing field is None. Records with equal fields are transposed in one step, because a step per record
    would be slow for millions of records.
    """
    if {*map(type, rows)} != {dict}:
        return None
    table = _transposed(rows)
    if table is None:
        names = {*chain.from_iterable(rows)}
        if not names <= _PLAIN:
            return None
        table = {name: [row.get(name) for row in rows] for name in names}
    texts = (table.get("keyString", ()), table.get("valueString", ()))
    return table if all(_TEXTS.issuperset(map(type, each)) for each in texts) else None


def _transposed(rows: Sequence[Any]) -> Table | None:
    """Return the columns of records with equal fields, at least two, all of the usual form; else None."""
    names = tuple(rows[0])
    if len(names) < _MANY or {*map(len, rows)} != {len(names)} or not _PLAIN.issuperset(names):
        return None
    try:
        return dict(zip(names, zip(*map(itemgetter(*names), rows), strict=True), strict=True))
    except KeyError:
        return None


def _texts(table: Table, name: str, count: int) -> list[bytes | None]:
    if name not in table:
        return [None] * count
    found = table[name]
    try:
        return [*map(str.encode, found)]  # without a step of Python per text
    except (TypeError, UnicodeEncodeError):  # a null, or half of a surrogate pair
        return [None if each is None else _encoded(each) for each in found]


def _deltas(table: Table, name: str, count: int) -> list[int]:
    if name not in table:
        return [0] * count
    found = table[name]
    kinds = {*map(type, found)}
    if kinds == {int}:
        return [*found]
    if kinds == {str} and _SHORT.issuperset(map(len, found)):
        joined = "".join(found)
        if joined.isascii() and joined.isdecimal():
            return [*map(int, found)]
    return [number(each) for each in found]


def _grows(offsets: Sequence[int]) -> bool:
    return bool(offsets) and all(map(lt, offsets, islice(offsets, 1, None)))


def _check_limits(lot: RecordSet, offsets: Sequence[int]) -> None:
    base = lot.base or 0
    if abs(base) > MOST_OFFSET or base + offsets[0] < 0 or base + offsets[-1] > MOST_OFFSET:
        raise UnknownShape(f"offset {base + offsets[0]} is not valid")


def _offset(lot: RecordSet, row: Mapping[str, Any]) -> int:
    if "offset" in row:
        return number(row["offset"]) - (lot.base or 0)
    return number(row.get("offsetDelta"))


def _times(lot: RecordSet, deltas: Sequence[int] | None) -> tuple[int, list[int]]:
    """Return the type of the timestamps, and the timestamp of each record."""
    set_, rows = lot.set, lot.rows
    if lot.append_ms >= 0 or sets_own_time(set_):
        at = lot.append_ms if lot.append_ms >= 0 else number(set_.get("maxTimestamp"))
        return TimestampType.LOG_APPEND_TIME.value, [_believable(at)] * len(rows)
    base = number(one_of(set_, ("baseTimestamp", "firstTimestamp")))
    if deltas is None:
        times = [
            number(row["timestamp"])
            if "timestamp" in row
            else base + number(row.get("timestampDelta"))
            for row in rows
        ]
    else:
        times = [base + each for each in deltas]
    _believable(min(times))
    _believable(max(times))
    return TimestampType.CREATE_TIME.value, times


def _believable(time_ms: int) -> int:
    if not -_MOST_MS < time_ms < _MOST_MS:
        raise UnknownShape(f"the time {time_ms} is not valid")
    return time_ms


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def bytes_of(row: Mapping[str, Any], part: str) -> bytes | None:
    """Return a key or value, from text or base64; an absent one is null."""
    text = row.get(f"{part}String")
    binary = one_of(row, (f"{part}Base64", f"{part}Bytes", part))
    if text is not None and binary is not None:
        raise UnknownShape(f"a record has its {part} twice")
    if text is not None:
        if not isinstance(text, str):
            raise UnknownShape(f"{part}String is not a string")
        return _encoded(text)
    if binary is None:
        return None
    return from_base64(binary, part)


def from_base64(found: Any, part: str) -> bytes:
    """Decode bytes in Protobuf's JSON form."""
    try:
        if isinstance(found, str):
            return base64.b64decode(found, validate=True)
    except (NotBase64, ValueError):
        pass
    raise UnknownShape(f"the {part} is neither a string in {part}String nor base64")


def _headers(table: Table, count: int) -> list[Headers]:
    if "headers" not in table:
        return [()] * count
    return [headers_of(each) for each in table["headers"]]


def headers_of(found: Any) -> Headers:
    """Return the headers, from a list of names and values or from a map."""
    if found is None:
        return ()
    if isinstance(found, dict):
        return tuple((name, _header_text(value)) for name, value in found.items())
    if not isinstance(found, list):
        raise UnknownShape("the headers are neither a list nor a map")
    return tuple(map(_header, found))


def _header(found: Any) -> tuple[str, bytes | None]:
    if not isinstance(found, dict):
        raise UnknownShape("a header is not an object")
    name = one_of(found, ("keyString", "key", "name"))
    if name is None:
        name = ""  # an empty name is left out in captured traffic
    if not isinstance(name, str):
        raise UnknownShape("the name of a header is not a string")
    return name, bytes_of(found, "value")


def _header_text(value: Any) -> bytes | None:
    if value is None or isinstance(value, str):
        return None if value is None else _encoded(value)
    raise UnknownShape("the value of a header in a map is not a string")

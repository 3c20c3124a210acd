"""The records of one lot, column by column; whatever is not understood is refused, never guessed."""

import base64
import operator
from binascii import Error as NotBase64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final

from playhead.record import Headers, TimestampType
from playhead.traffic.aborted import sets_own_time
from playhead.traffic.json_numbers import UnknownShape, number, one_of
from playhead.traffic.record_sets import MOST_OFFSET, RecordSet

_PLAIN: Final = frozenset({"offsetDelta", "timestampDelta", "keyString", "valueString", "headers"})
Table = dict[str, Sequence[Any]]
_TEXTS: Final = frozenset({str, type(None)})
_MOST_MS = 1 << 62
_DIGITS = 19


@dataclass(slots=True)
class TrafficColumns:
    """All of one length, in the order of their offsets; `offsets` count from the lot's base."""

    offsets: list[int]
    timestamps_ms: list[int]
    timestamp_type: int
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Headers]


@dataclass(frozen=True, slots=True)
class Outline:
    """What an index needs of a lot, without its bytes."""

    first: int
    """Like `TrafficColumns.offsets`."""
    last: int
    count: int
    least_ms: int
    most_ms: int


def outline_of(lot: RecordSet) -> Outline:
    """Raises `UnknownShape` where `columns_of` would."""
    table = _table(lot.rows)
    offsets = _deltas(table, "offsetDelta", len(lot.rows)) if table is not None else []
    if table is None or not _grows(offsets):
        columns = columns_of(lot)
        times, offsets = columns.timestamps_ms, columns.offsets
        return Outline(offsets[0], offsets[-1], len(offsets), min(times), max(times))
    _check_offsets(lot, offsets)
    _headers(table, len(offsets))
    _, times = _times(lot, _deltas(table, "timestampDelta", len(offsets)))
    return Outline(offsets[0], offsets[-1], len(offsets), min(times), max(times))


def columns_of(lot: RecordSet) -> TrafficColumns:
    """The records of a lot that has some; raises `UnknownShape`."""
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
            raise UnknownShape("a record that is no object")
        offsets = [_offset(lot, row) for row in rows]
        keys = [bytes_of(row, "key") for row in rows]
        values = [bytes_of(row, "value") for row in rows]
        kind, times = _times(lot, None)
        headers = [headers_of(row.get("headers")) for row in rows]
    if not _grows(offsets):
        columns = _sorted(offsets, times, keys, values, headers)
        offsets, times, keys, values, headers = columns
    _check_offsets(lot, offsets)
    return TrafficColumns(offsets, times, kind, keys, values, headers)


def _sorted(offsets: list[int], *others: list[Any]) -> tuple[list[int], Any, Any, Any, Any]:
    order = sorted(range(len(offsets)), key=offsets.__getitem__)
    ordered = [offsets[index] for index in order]
    columns = [[each[index] for index in order] for each in others]
    return ordered, columns[0], columns[1], columns[2], columns[3]


def _table(rows: Sequence[Any]) -> Table | None:
    """The rows column by column, if every record is of the form that almost all are of; else None.

    What a record does not have is None. Records with the same fields in the same order are turned over
    in one step: there are millions, and each step that is Python's own counts.
    """
    if {*map(type, rows)} != {dict}:
        return None
    shapes = {*map(tuple, rows)}
    names = {*chain.from_iterable(shapes)}
    if not names <= _PLAIN:
        return None
    if len(shapes) == 1:
        columns = zip(*map(dict.values, rows), strict=True)
        table: Table = dict(zip(*shapes, columns, strict=True))
    else:
        table = {name: [row.get(name) for row in rows] for name in names}
    is_text = all(
        _TEXTS.issuperset(map(type, table.get(name, ()))) for name in ("keyString", "valueString")
    )
    return table if is_text else None


def _texts(table: Table, name: str, count: int) -> list[bytes | None]:
    if name not in table:
        return [None] * count
    return [None if each is None else _encoded(each) for each in table[name]]


def _deltas(table: Table, name: str, count: int) -> list[int]:
    if name not in table:
        return [0] * count
    found = table[name]
    kinds = {*map(type, found)}
    if kinds == {int}:
        return [*found]
    if kinds == {str} and max(map(len, found)) < _DIGITS and all(found):
        joined = "".join(found)
        if joined.isascii() and joined.isdecimal():
            return [*map(int, found)]
    return [number(each) for each in found]


def _grows(offsets: Sequence[int]) -> bool:
    return bool(offsets) and all(map(operator.lt, offsets, islice(offsets, 1, None)))


def _check_offsets(lot: RecordSet, offsets: Sequence[int]) -> None:
    if not _grows(offsets):
        raise UnknownShape("two records of one set at one offset")
    base = lot.base or 0
    if base + offsets[0] < 0 or base + offsets[-1] > MOST_OFFSET:
        raise UnknownShape(f"offset {base + offsets[0]}")


def _offset(lot: RecordSet, row: Mapping[str, Any]) -> int:
    if "offset" in row:
        return number(row["offset"]) - (lot.base or 0)
    return number(row.get("offsetDelta"))


def _times(lot: RecordSet, deltas: Sequence[int] | None) -> tuple[int, list[int]]:
    """Each record's time, and who set it."""
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
        raise UnknownShape(f"a time {time_ms}")
    return time_ms


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def bytes_of(row: Mapping[str, Any], part: str) -> bytes | None:
    """A key or value: a text, or base64; absent means null."""
    text = row.get(f"{part}String")
    binary = one_of(row, (f"{part}Base64", f"{part}Bytes", part))
    if text is not None and binary is not None:
        raise UnknownShape(f"a record with its {part} twice")
    if text is not None:
        if not isinstance(text, str):
            raise UnknownShape(f"a {part}String that is no text")
        return _encoded(text)
    if binary is None:
        return None
    return from_base64(binary, part)


def from_base64(found: Any, part: str) -> bytes:
    """As Protobuf writes bytes in JSON."""
    try:
        if isinstance(found, str):
            return base64.b64decode(found, validate=True)
    except (NotBase64, ValueError):
        pass
    raise UnknownShape(f"a {part} that is neither a text under {part}String nor base64")


def _headers(table: Table, count: int) -> list[Headers]:
    if "headers" not in table:
        return [()] * count
    return [headers_of(each) for each in table["headers"]]


def headers_of(found: Any) -> Headers:
    """A list of names with values, or a map of them."""
    if found is None:
        return ()
    if isinstance(found, dict):
        return tuple((name, _header_text(value)) for name, value in found.items())
    if not isinstance(found, list):
        raise UnknownShape("headers that are neither a list nor a map")
    return tuple(map(_header, found))


def _header(found: Any) -> tuple[str, bytes | None]:
    if not isinstance(found, dict):
        raise UnknownShape("a header that is no object")
    name = one_of(found, ("keyString", "key", "name"))
    if name is None:
        name = ""  # the empty name is left out as what is empty is
    if not isinstance(name, str):
        raise UnknownShape("a header whose name is no text")
    return name, bytes_of(found, "value")


def _header_text(value: Any) -> bytes | None:
    if value is None or isinstance(value, str):
        return None if value is None else _encoded(value)
    raise UnknownShape("a header in a map whose value is no text")

"""Reads the CSV of an extract: rows of values, or rows of whole records."""

import base64
import csv
import json
from binascii import Error as NotBase64
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from typing import Any, BinaryIO, Final

from playhead.record import Headers, TimestampType
from playhead.source import TopicPartition
from playhead.traffic.catalog import Catalog, CatalogRow
from playhead.traffic.formats.numbered import Entry, Gathering, columns_from, topic_named
from playhead.traffic.json_numbers import UnknownShape
from playhead.traffic.pair import instant_ns
from playhead.traffic.record_columns import TrafficColumns
from playhead.traffic.record_sets import MOST_OFFSET
from playhead.traffic.snapshot import LONGEST, NoSnapshot, Snapshot, opened

UUID_COLUMN: Final = "RRPair UUID"
_WHOLE: Final = ("topic", "partition", "offset", "timestamp_ms", "value", "value_form")
_TIMES: Final = ("ts", "timestamp", "timestamp_ms")
_KEYS: Final = ("key", "keyString")
_NONE_MS: Final = -1
_MOST_COMMAS: Final = 4 << 20
"""The maximum in a row; those that are not quoted make a cell each, which takes fifty bytes."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of an extract by their meaning."""

    names: tuple[str, ...]
    value: int
    key: int | None
    time: int | None
    is_whole: bool
    unused: tuple[str, ...] = ()

    @classmethod
    def of(cls, names: Sequence[str]) -> "Layout | None":
        """Return the layout of a header; None if no column is a value."""
        last = [name.rpartition(".")[2] for name in names]
        if set(_WHOLE) <= set(names):
            key = names.index("key") if "key" in names and "key_form" in names else None
            return cls(tuple(names), names.index("value"), key, names.index("timestamp_ms"), True)
        time = next((i for i, name in enumerate(last) if name in _TIMES), None)
        key = next((i for i, name in enumerate(last) if name in _KEYS), None)
        roles = {time, key}
        roles |= {i for i, name in enumerate(names) if name == UUID_COLUMN or last[i] == "uuid"}
        values = [i for i in range(len(names)) if i not in roles]
        if not values:
            return None
        unused = tuple(names[i] for i in values[1:])
        return cls(tuple(names), values[0], key, time, False, unused)

    def cell(self, cells: Sequence[str], name: str) -> str:
        return cells[self.names.index(name)]

    def place(self, cells: Sequence[str]) -> tuple[TopicPartition, int]:
        """Return partition and offset of a row that is a whole record."""
        topic = self.cell(cells, "topic")
        numbers = [self.cell(cells, name) for name in ("partition", "offset")]
        if not topic or not all(n.isascii() and n.isdigit() and len(n) < 19 for n in numbers):
            raise UnknownShape("a row without topic, partition or offset")
        partition, offset = map(int, numbers)
        if partition > 9_999 or offset > MOST_OFFSET:
            raise UnknownShape(f"partition {partition} or offset {offset} is not valid")
        return (topic, partition), offset


def entry_of(layout: Layout, cells: Sequence[str], number: int) -> Entry:
    """Return the record of a row; raises `UnknownShape` if it is not a record."""
    if len(cells) != len(layout.names):
        raise UnknownShape(f"{len(cells)} cells; the header has {len(layout.names)}")
    if layout.is_whole:
        key = None if layout.key is None else _formed(layout, cells, "key")
        headers = _headers(layout.cell(cells, "headers")) if "headers" in layout.names else ()
        return number, _time(layout, cells), key, _formed(layout, cells, "value"), headers
    key = None if layout.key is None else _bytes(cells[layout.key])
    return number, _time(layout, cells), key, _bytes(cells[layout.value]), ()


def _bytes(cell: str) -> bytes:
    return cell.encode("utf-8", "surrogateescape")


def _formed(layout: Layout, cells: Sequence[str], name: str) -> bytes | None:
    form, cell = layout.cell(cells, f"{name}_form"), layout.cell(cells, name)
    if form == "null" and not cell:
        return None
    if form == "text":
        return _bytes(cell)
    if form == "base64":
        return _decoded(cell)
    raise UnknownShape(f"the {name}_form {form[:20]!r} is unknown")


def _decoded(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (NotBase64, ValueError, TypeError):
        raise UnknownShape("a cell marked as base64 is not valid base64") from None


def _headers(cell: str) -> Headers:
    try:
        found = json.loads(cell) if cell else []
        return tuple((str(name), _header(value)) for name, value in found)
    except (ValueError, TypeError, RecursionError):
        raise UnknownShape("the headers are not a list of names and values") from None


def _header(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, dict):
        return _decoded(value.get("base64"))
    return str(value).encode("utf-8", "surrogatepass")


def _time(layout: Layout, cells: Sequence[str]) -> int:
    if layout.time is None:
        return _NONE_MS
    cell = cells[layout.time]
    if cell.removeprefix("-").isdigit() and cell.isascii() and len(cell) < 17:
        return int(cell)
    found = instant_ns(cell)
    if found is None:
        raise UnknownShape(f"the time {cell[:40]!r} is not valid")
    return found // 1_000_000


# --- rows with their places


class _Rows:
    """Yields rows of cells, each with its line number and its range of bytes."""

    def __init__(self, file: BinaryIO, *, is_first: bool = True) -> None:
        self._file, self.at, self.line = file, 0, 0
        self._codec = "utf-8-sig" if is_first else "utf-8"
        self._begun_at = self._commas = 0

    def _next_line(self) -> str | None:
        """Return the next line; raise csv.Error for a row that would take much more memory than its bytes."""
        raw = self._file.readline(LONGEST)
        if not raw:
            return None
        self.at += len(raw)
        self.line += 1
        codec, self._codec = self._codec, "utf-8"
        self._commas += raw.count(b",")
        if self._commas > _MOST_COMMAS:
            raise csv.Error(f"a row of more than {_MOST_COMMAS:,} commas")
        if self.at - self._begun_at > LONGEST:
            raise csv.Error(f"a row of more than {LONGEST >> 20} MB")
        # Invalid UTF-8 is preserved.
        return raw.decode(codec, "surrogateescape")

    def __iter__(self) -> Iterator[tuple[int, int, list[str] | str]]:
        """Yield line number, first byte, and the cells or the reason why there are none."""
        csv.field_size_limit(LONGEST)
        # After an error, the reader begins a new row, and this iterator continues; a generator would end.
        reader = csv.reader(iter(self._next_line, None), strict=True)
        while True:
            self._begun_at, self._commas = self.at, 0
            line, start = self.line + 1, self.at
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as exc:
                yield line, start, f"not valid CSV: {exc}"
                continue
            if cells:
                yield line, start, cells


def scan(snapshot: Snapshot) -> Catalog:
    catalog = Catalog()
    name = snapshot.shown(0)
    rows = Gathering(catalog, (topic_named(snapshot.id), 0))
    layout: Layout | None = None
    number = 0
    with opened(snapshot.files[0]) as file:
        found = _Rows(file)
        for line, start, cells in found:
            if layout is None:
                layout = _layout(snapshot, cells)
                for unused in layout.unused:
                    catalog.trouble(f"column {unused!r} is not used", name, line)
                continue
            rows.begin(start, number)
            number += 1
            catalog.count("rows")
            try:
                if isinstance(cells, str):
                    raise UnknownShape(cells)
                _enter(layout, cells, rows, (number - 1, start, found.at))
            except UnknownShape as exc:
                catalog.count("unread")
                catalog.trouble(str(exc), name, line)
        rows.end()
    catalog.columns = layout.names if layout else ()
    return catalog


def _enter(layout: Layout, cells: Sequence[str], rows: Gathering, at: tuple[int, int, int]) -> None:
    number, start, stop = at
    entry = entry_of(layout, cells, number)
    if not layout.is_whole:
        rows.add(number, entry[1], stop)
        return
    place, offset = layout.place(cells)
    row = CatalogRow(0, start, stop - start, -1, offset, 0, 0, 1, entry[1], entry[1], -1, -1, 0)
    rows.catalog.add(place, row)
    rows.catalog.count("records")


def read_row(data: bytes, row: CatalogRow, catalog: Catalog) -> TrafficColumns:
    """Return the records of a row, by number."""
    layout = Layout.of(catalog.columns)
    if layout is None:
        raise UnknownShape("no column contains values")
    entries: list[Entry] = []
    for number, (_, _, cells) in enumerate(_Rows(BytesIO(data), is_first=row.start == 0)):
        # The header row has no number.
        at = number - (row.start == 0)
        if isinstance(cells, str) or at < 0:
            continue
        with suppress(UnknownShape):
            entries.append(entry_of(layout, cells, 0 if layout.is_whole else at))
    columns = columns_from(entries)
    if layout.time is None:
        columns.timestamp_type = TimestampType.NONE.value
    return columns


def has_times(names: Sequence[str]) -> bool:
    """Return whether a column contains the times of the records."""
    layout = Layout.of(names)
    return layout is not None and layout.time is not None


def _layout(snapshot: Snapshot, cells: list[str] | str) -> Layout:
    layout = None if isinstance(cells, str) else Layout.of(cells)
    if layout is None:
        reason = "its first line has no column of values"
        raise NoSnapshot(str(snapshot.files[0]), reason=reason)
    return layout

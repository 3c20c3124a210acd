"""Reads GoReplay files: the body of each HTTP request is a record."""

import re
from collections.abc import Iterator
from io import BytesIO
from typing import BinaryIO, Final, NamedTuple

from playhead.traffic.catalog import Catalog, CatalogRow
from playhead.traffic.formats.http import HttpRequest, parse_request
from playhead.traffic.formats.numbered import Entry, Gathering, columns_from, topic_named
from playhead.traffic.json_numbers import UnknownShape
from playhead.traffic.record_columns import TrafficColumns
from playhead.traffic.snapshot import LONGEST, NoSnapshot, Snapshot, opened

_END: Final = "🐵🙈🙉\n".encode()
_META = re.compile(rb"([123]) ([0-9A-Za-z]{1,64}) ([0-9]{1,19})(?: -?[0-9]{1,19})?\r?\n")
_REQUEST: Final = b"1"
_BLOCK: Final = 1 << 20


class Payload(NamedTuple):
    """One entry of a file; `reason` is set if the entry is not valid."""

    line: int
    start: int
    stop: int
    kind: bytes
    time_ns: int
    raw: bytes
    reason: str | None = None


def payloads(file: BinaryIO, at: int = 0) -> Iterator[Payload]:
    """Yield all entries; the last one may lack its separator if it is complete."""
    line, held = 1, bytearray()
    while True:
        size = _end_of_first(file, held, line)
        entry = bytes(memoryview(held)[:size])
        if not entry or entry.isspace():
            return
        yield _payload(line, at, entry)
        line, at = line + entry.count(b"\n"), at + size
        del held[:size]


def _end_of_first(file: BinaryIO, held: bytearray, line: int) -> int:
    """Return where the first entry in `held` ends, after reading as much as is needed for it."""
    seen = 0
    while True:
        if held.startswith(_END):
            return len(_END)
        # By blocks: a loop over short lines would take minutes for an entry of the maximum size.
        found = held.find(b"\n" + _END, seen)
        size = len(held) if found < 0 else found + 1 + len(_END)
        if size > LONGEST:
            raise UnknownShape(f"line {line}: an entry of more than {LONGEST >> 20} MB")
        if found >= 0:
            return size
        seen = max(0, size - len(_END))
        block = file.read(_BLOCK)
        if not block:
            return size
        held += block


def _payload(line: int, at: int, entry: bytes) -> Payload:
    stop = at + len(entry)
    first, newline, raw = entry.partition(b"\n")
    meta = _META.fullmatch(first + newline)
    if meta is None:
        return Payload(line, at, stop, b"", 0, b"", "the first line is not a GoReplay header")
    if raw.endswith(_END):
        raw = raw.removesuffix(_END).removesuffix(b"\n")
    return Payload(line, at, stop, meta[1], int(meta[3]), raw)


def scan(snapshot: Snapshot) -> Catalog:
    catalog = Catalog()
    rows = Gathering(catalog, (topic_named(snapshot.id), 0))
    number = 0
    with opened(snapshot.files[0]) as file:
        try:
            for each in payloads(file):
                rows.begin(each.start, number)
                number += _entered(catalog, rows, each, (number, snapshot.shown(0)))
        except UnknownShape as exc:
            raise NoSnapshot(str(snapshot.files[0]), reason=str(exc)) from exc
    rows.end()
    return catalog


def _entered(catalog: Catalog, rows: Gathering, each: Payload, at: tuple[int, str]) -> bool:
    """Return whether the entry is a request; only requests are numbered."""
    if each.reason is not None:
        catalog.count("unread")
        catalog.trouble(each.reason, at[1], each.line)
        return False
    if each.kind != _REQUEST:
        catalog.count("responses")
        return False
    _enter(catalog, rows, each, at)
    return True


def _enter(catalog: Catalog, rows: Gathering, each: Payload, at: tuple[int, str]) -> None:
    number, name = at
    catalog.count("requests")
    try:
        request = parse_request(each.raw)
    except UnknownShape as exc:
        catalog.count("unread")
        catalog.trouble(str(exc), name, each.line)
        return
    if request.body is None:
        catalog.count("bodiless")
    else:
        rows.add(number, each.time_ns // 1_000_000, each.stop)


def read_row(data: bytes, row: CatalogRow, catalog: Catalog) -> TrafficColumns:
    """Return the requests with a body, by number."""
    del row, catalog
    entries: list[Entry] = []
    number = -1
    for each in payloads(BytesIO(data)):
        if each.reason is not None or each.kind != _REQUEST:
            continue
        number += 1
        request = _request(each)
        if request is not None and request.body is not None:
            time_ms = each.time_ns // 1_000_000
            entries.append((number, time_ms, None, request.body, request.headers()))
    return columns_from(entries)


def _request(each: Payload) -> HttpRequest | None:
    try:
        return parse_request(each.raw)
    except UnknownShape:
        return None

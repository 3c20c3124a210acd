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


class Payload(NamedTuple):
    """One entry of a file; `reason` is set if the entry is not valid."""

    line: int
    start: int
    kind: bytes
    time_ns: int
    raw: bytes
    reason: str | None = None


def payloads(file: BinaryIO, at: int = 0) -> Iterator[Payload]:
    """Yield all entries; the last one may lack its separator if it is complete."""
    line = 1
    while True:
        first = file.readline(LONGEST)
        # A list of many short lines would take much more memory than a bytearray.
        rest = bytearray()
        lines, raw = int(bool(first)), first
        while raw and raw != _END:
            raw = file.readline(LONGEST)
            rest += raw
            lines += bool(raw)
            if len(first) + len(rest) > LONGEST:
                raise UnknownShape(f"line {line}: an entry of more than {LONGEST >> 20} MB")
        if not first.strip() and not rest.strip():
            return
        size = len(first) + len(rest)
        yield _payload(line, at, first, rest)
        line, at = line + lines, at + size


def _payload(line: int, at: int, first: bytes, rest: bytearray) -> Payload:
    meta = _META.fullmatch(first)
    if meta is None:
        return Payload(line, at, b"", 0, b"", "the first line is not a GoReplay header")
    if rest.endswith(_END):
        del rest[-len(_END) :]
        if rest.endswith(b"\n"):
            del rest[-1]
    return Payload(line, at, meta[1], int(meta[3]), bytes(rest))


def scan(snapshot: Snapshot) -> Catalog:
    catalog = Catalog()
    rows = Gathering(catalog, (topic_named(snapshot.id), 0))
    number = 0
    with opened(snapshot.files[0]) as file:
        try:
            for each in payloads(file):
                rows.begin(each.start, number)
                number += _entered(catalog, rows, each, (number, file.tell(), snapshot.shown(0)))
        except UnknownShape as exc:
            raise NoSnapshot(str(snapshot.files[0]), reason=str(exc)) from exc
    rows.end()
    return catalog


def _entered(catalog: Catalog, rows: Gathering, each: Payload, at: tuple[int, int, str]) -> bool:
    """Return whether the entry is a request; only requests are numbered."""
    if each.reason is not None:
        catalog.count("unread")
        catalog.trouble(each.reason, at[2], each.line)
        return False
    if each.kind != _REQUEST:
        catalog.count("responses")
        return False
    _enter(catalog, rows, each, at)
    return True


def _enter(catalog: Catalog, rows: Gathering, each: Payload, at: tuple[int, int, str]) -> None:
    number, stop, name = at
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
        rows.add(number, each.time_ns // 1_000_000, stop)


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

"""GoReplay files: the bodies of their HTTP requests are records."""

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
    """One entry of a file; `reason` says why it is none of GoReplay's."""

    line: int
    start: int
    kind: bytes
    time_ns: int
    raw: bytes
    reason: str | None = None


def payloads(file: BinaryIO, at: int = 0) -> Iterator[Payload]:
    """All entries. The last one counts without a separator behind it, if it is whole."""
    line = 1
    while True:
        first = file.readline(LONGEST)
        # Not a list of lines, which would take much more memory than an entry of many short ones.
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
        return Payload(line, at, b"", 0, b"", "a first line that GoReplay does not write")
    if rest.endswith(_END):
        del rest[-len(_END) :]
        if rest.endswith(b"\n"):
            del rest[-1]
    return Payload(line, at, meta[1], int(meta[3]), bytes(rest))


def scan(snapshot: Snapshot) -> Catalog:
    catalog = Catalog()
    rows = Gathering(catalog, (topic_named(snapshot.id), 0))
    number = stop = 0
    with opened(snapshot.files[0]) as file:
        try:
            for each in payloads(file):
                rows.begin(each.start, number)
                number += _entered(catalog, rows, each, (number, snapshot.shown(0)))
                stop = file.tell()
        except UnknownShape as exc:
            raise NoSnapshot(str(snapshot.files[0]), reason=str(exc)) from exc
    rows.end(stop)
    return catalog


def _entered(catalog: Catalog, rows: Gathering, each: Payload, at: tuple[int, str]) -> bool:
    """Whether it is a request, which has a number."""
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
        rows.add(number, each.time_ns // 1_000_000)


def read_row(data: bytes, row: CatalogRow, catalog: Catalog) -> TrafficColumns:
    """Its requests with a body, by their numbers."""
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

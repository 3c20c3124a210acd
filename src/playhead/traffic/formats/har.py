"""Reads HAR files: the body of each request is a record."""

import base64
from binascii import Error as NotBase64
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from playhead.traffic.catalog import Catalog, CatalogRow
from playhead.traffic.formats.http import HttpRequest
from playhead.traffic.formats.numbered import Entry, columns_from, topic_named
from playhead.traffic.json_documents import loaded
from playhead.traffic.json_numbers import UnknownShape
from playhead.traffic.pair import field, instant_ns
from playhead.traffic.record_columns import TrafficColumns
from playhead.traffic.snapshot import LONGEST, NoSnapshot, Snapshot, opened

_MOST_IN_FORM = 16 << 20
"""Letters; encoding them takes ten times as much memory."""


def scan(snapshot: Snapshot) -> Catalog:
    """Return a catalog with one row, because a HAR is one document."""
    with opened(snapshot.files[0]) as file:
        data = file.read(LONGEST + 1)
    catalog = Catalog()
    name = str(snapshot.files[0])
    if len(data) > LONGEST:
        raise NoSnapshot(name, reason=f"it is a document of more than {LONGEST >> 20} MB")
    try:
        entries = _entries(data)
    except (ValueError, RecursionError) as exc:
        why = exc if isinstance(exc, ValueError) else "the JSON is nested too deeply"
        raise NoSnapshot(name, reason=f"it cannot be read as a HAR: {why}") from exc
    found: list[Entry] = []
    for number, each in enumerate(entries):
        catalog.count("requests")
        try:
            entry = _record(number, each)
        except UnknownShape as exc:
            catalog.count("unread")
            catalog.trouble(f"entry {number}: {exc}", snapshot.shown(0), 1)
            continue
        if entry is None:
            catalog.count("bodiless")
        else:
            found.append(entry)
    if found:
        times = [each[1] for each in found]
        row = CatalogRow(
            0, 0, len(data), -1, 0, found[0][0], found[-1][0], len(found),
            min(times), max(times), -1, -1, 0,
        )  # fmt: skip
        catalog.add((topic_named(snapshot.id), 0), row)
        catalog.count("records", len(found))
    return catalog


def read_row(data: bytes, row: CatalogRow, catalog: Catalog) -> TrafficColumns:
    del row, catalog
    return columns_from([*_readable(_entries(data))])


def _readable(entries: list[Any]) -> Iterator[Entry]:
    for number, each in enumerate(entries):
        try:
            entry = _record(number, each)
        except UnknownShape:
            continue
        if entry is not None:
            yield entry


def _entries(data: bytes) -> list[Any]:
    document = loaded(data, "utf-8-sig")
    entries = field(document, "log", "entries")
    if isinstance(entries, list):
        return entries
    raise ValueError("it has no log with entries")


def _record(number: int, entry: Any) -> Entry | None:
    """Return the record of an entry; None for a request without a body."""
    request = field(entry, "request")
    if not isinstance(request, dict):
        raise UnknownShape("it has no request")
    written = field(entry, "startedDateTime")
    started_ns = instant_ns(written) if isinstance(written, str) else None
    if started_ns is None:
        raise UnknownShape(f"{str(written)[:40]!r} is not a time")
    body = _body(request.get("postData"))
    if body is None:
        return None
    kind = field(request, "postData", "mimeType")
    shown = HttpRequest(
        str(request.get("method", "")),
        str(request.get("url", "")),
        kind if isinstance(kind, str) else None,
        body,
    )
    try:
        headers = shown.headers()
    except UnicodeEncodeError as exc:  # JSON can contain an unpaired surrogate.
        raise UnknownShape(f"its request is not valid text: {exc.reason}") from exc
    return number, started_ns // 1_000_000, None, body, headers


def _body(posted: Any) -> bytes | None:
    if not isinstance(posted, dict):
        return None
    text = posted.get("text")
    if isinstance(text, str) and posted.get("encoding") == "base64":
        try:
            return base64.b64decode(text, validate=True)
        except (NotBase64, ValueError) as exc:
            raise UnknownShape("a body marked as base64 is not valid base64") from exc
    if isinstance(text, str) and text:
        return text.encode("utf-8", "surrogatepass")
    fields = posted.get("params")
    if not isinstance(fields, list) or not fields:
        return None
    pairs = [(str(field(each, "name") or ""), str(field(each, "value") or "")) for each in fields]
    if sum(len(name) + len(value) for name, value in pairs) > _MOST_IN_FORM:
        raise UnknownShape(f"a form of more than {_MOST_IN_FORM >> 20} million letters")
    return urlencode(pairs, errors="surrogatepass").encode()

"""Reads RRPairs: a scan finds the records of each Fetch and Produce, which are later read by position."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from playhead.traffic.aborted import is_control
from playhead.traffic.catalog import Catalog, CatalogRow
from playhead.traffic.filter.parse import TrafficFilter
from playhead.traffic.json_documents import Document, documents
from playhead.traffic.json_numbers import UnknownShape, one_of
from playhead.traffic.pair import Pair, field, time_ns
from playhead.traffic.record_columns import Outline, TrafficColumns, columns_of, outline_of
from playhead.traffic.record_sets import ROWS, RecordSet, lots_of, topic_id_of
from playhead.traffic.snapshot import Snapshot, opened
from playhead.traffic.unchanged import read_once

_RECORDS = re.compile(rb'"records"\s*:\s*\{')
# U+FFFD, the replacement for invalid UTF-8.
_REPLACED: Final = ("\ufffd".encode(), b"\\ufffd")
_ID = b'"topicId"'
_DECODER = json.JSONDecoder()
Where = tuple[str, int]
"""File name and line number."""


@dataclass(frozen=True, slots=True)
class Part:
    """A range of bytes of one file; starts and ends at the beginning of a line."""

    file: int
    start: int
    end: int | None


def scan(snapshot: Snapshot, part: Part, filter_: TrafficFilter | None) -> Catalog:
    """Return the catalog of a part; its line numbers count from the part's first line."""
    catalog, name = Catalog(), snapshot.shown(part.file)
    with opened(snapshot.files[part.file]) as file:
        file.seek(part.start)
        for each in documents(file, start=part.start, end=part.end):
            catalog.count("lines", each.lines)
            where = (name, each.line)
            if not isinstance(each, Document):
                if each.reason is not None:
                    catalog.count("unread")
                    catalog.trouble(each.reason, *where)
                continue
            catalog.count("pairs")
            if filter_ is None or filter_.matches(each.held):
                _enter(catalog, part.file, each, where)
            else:
                catalog.count("filtered")
                if _ID in each.raw:
                    _learn_names(catalog, each.held)
    return catalog


def _enter(catalog: Catalog, file: int, document: Document, where: Where) -> None:
    pair = document.held
    if "kafka" not in pair and pair.get("l7protocol") != "kafka":
        catalog.count("other")
        if pair.get("msgType", "rrpair") != "rrpair":
            catalog.trouble(f"msgType {str(pair['msgType'])[:20]!r}", *where)
        return
    catalog.count("kafka")
    if _ID in document.raw:
        _learn_names(catalog, pair)
    read = lots_of(pair)
    if read.aborted or read.refused:
        catalog.count("aborted", read.aborted)
        catalog.count("refused", read.refused)
    for reason in read.strange:
        catalog.count("strange")
        catalog.trouble(reason, *where)
    starts = _starts(document.raw) if read.lots else []
    if len(starts) != read.located or len({lot.is_produce for lot in read.lots}) > 1:
        starts = []  # the positions cannot be assigned
    for nth, lot in enumerate(read.lots):
        _enter_lot(catalog, (file, document, where), (nth, lot), starts)
    if read.lots and _has_replaced(document.raw):
        catalog.count("replaced")


def _has_replaced(raw: bytes) -> bool:
    return _REPLACED[1] in raw or (not raw.isascii() and _REPLACED[0] in raw)


def _starts(raw: bytes) -> list[int]:
    """Return the positions of the objects under the key `records`; quotes in JSON strings are escaped."""
    return [
        found.end() - 1
        for found in _RECORDS.finditer(raw)
        if not raw.startswith(b"\\", found.start() - 1)
    ]


def _enter_lot(
    catalog: Catalog,
    at: tuple[int, Document, Where],
    numbered: tuple[int, RecordSet],
    starts: list[int],
) -> None:
    file, document, where = at
    nth, lot = numbered
    if not lot.rows or is_control(lot.set):
        catalog.count("markers", len(lot.rows))
        return
    try:
        outline = outline_of(lot)
    except UnknownShape as exc:
        catalog.count("strange")
        catalog.trouble(str(exc), *where)
        return
    start, length = document.start, len(document.raw)
    if lot.located >= 0 and starts:
        first = starts[lot.located]
        end = starts[lot.located + 1] if lot.located + 1 < len(starts) else length
        start, length, nth = start + first, end - first, -1
    catalog.count("lots")
    catalog.count("records", outline.count)
    pair_ns = time_ns(document.held)
    pair_ms = -1 if pair_ns is None else pair_ns // 1_000_000
    row = _row((file, start, length, nth), lot, outline, pair_ms)
    catalog.add((lot.topic, lot.partition), row)


def _row(
    at: tuple[int, int, int, int], lot: RecordSet, outline: Outline, pair_ms: int
) -> CatalogRow:
    return CatalogRow(
        *at,
        -1 if lot.base is None else lot.base,
        outline.first,
        outline.last,
        outline.count,
        outline.least_ms,
        outline.most_ms,
        pair_ms,
        lot.append_ms,
        outline.mark,
    )


def _learn_names(catalog: Catalog, pair: Pair) -> None:
    """Add the topic names that a pair contains together with topic ids."""
    for side in ("request", "response"):
        body = field(pair, "kafka", side)
        for found in body.values() if isinstance(body, dict) else ():
            topics = field(found, "topics")
            for topic in topics if isinstance(topics, list) else ():
                _learn(catalog, topic)


def _learn(catalog: Catalog, topic: Any) -> None:
    if not isinstance(topic, Mapping) or "topicId" not in topic:
        return
    name = topic.get("name")
    try:
        id_ = topic_id_of(topic)
    except UnknownShape:
        return
    if id_ is not None and isinstance(name, str) and name:
        catalog.names[id_] = name


# --- reading by position


def read_row(data: bytes, row: CatalogRow, catalog: Catalog) -> TrafficColumns:
    """Return the records of a row from its bytes."""
    del catalog
    if row.nth < 0:
        set_, _ = _DECODER.raw_decode(data.decode())
        return columns_of(
            RecordSet("", 0, set_, one_of(set_, ROWS), False, _base(row), row.append_ms)
        )
    return columns_of(replace(_lots_in(data)[row.nth], base=_base(row)))


@lru_cache(maxsize=1)
def _lots_in(data: bytes) -> list[RecordSet]:
    """Return the record sets of a pair, which is parsed once for all of them."""
    pair, _ = _DECODER.raw_decode(data.decode("utf-8-sig").lstrip())
    return lots_of(pair).lots


def _base(row: CatalogRow) -> int | None:
    return None if row.base < 0 else row.base


def pairs(snapshot: Snapshot) -> Iterator[tuple[str, Document | str]]:
    """Yield every pair with its place, or the reason why a line is not a pair.

    Raises CaptureChanged after a file that was written meanwhile: one that was cut between two lines would look whole.
    """
    for index, path in enumerate(snapshot.files):
        with opened(path) as file, read_once(snapshot, file.fileno()):
            for each in documents(file):
                where = f"{snapshot.shown(index)}:{each.line}"
                if isinstance(each, Document):
                    yield where, each
                elif each.reason is not None:
                    yield where, each.reason

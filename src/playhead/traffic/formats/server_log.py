"""Reads logs of a PostgreSQL server: each row is a record, in the topic of its database."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from glob import glob, has_magic
from io import BytesIO
from itertools import chain, takewhile
from pathlib import Path
from typing import BinaryIO, Final

from playhead.host import paths
from playhead.querylog.cutting import LogForm, cutter_of, rows_of, sentence_of
from playhead.querylog.located import LocatedRow, headers_of, located, place_of, topic_of
from playhead.querylog.stderr_prefix import KNOWN_PREFIXES, prefix_among
from playhead.traffic.catalog import Catalog, CatalogRow
from playhead.traffic.formats.numbered import Entry, Gathering, columns_from
from playhead.traffic.record_columns import TrafficColumns
from playhead.traffic.snapshot import NoSnapshot, Snapshot, kept_inside, of_file, opened

_AT_ONCE: Final = 1 << 20
_BEGINNING: Final = 1 << 16
_TOPICS: Final = "log:"
"""Prefix of topic numbers among the catalog's names."""
_ENDINGS: Final = {"csvlog": (".csv",), "jsonlog": (".json",), "stderr": (".log",)}
_PATTERN: Final = re.compile(r"[*?[]")


def find_logs(form: LogForm, name: str) -> Snapshot:
    """Return the files of a log, sorted by the time of their first row: one file, a folder, or a pattern."""
    path = paths.at_home(name).absolute()
    folder = path
    if path.is_file():
        found = [*of_file(path).files]
        folder = found[0].parent
    elif path.is_dir():
        endings = tuple(e for ending in _ENDINGS[form] for e in (ending, f"{ending}.gz"))
        found = [each for each in path.iterdir() if each.name.endswith(endings)]
    else:
        # Path.glob does not accept an absolute pattern.
        found = [*map(Path, glob(str(path)))] if _PATTERN.search(name) else []  # noqa: PTH207
        folder = Path(*takewhile(lambda part: not has_magic(part), path.parts[:-1]))
    found = [each for each in found if each.is_file() and each.stat().st_size]
    found = kept_inside(name, folder, found)
    if not found:
        raise NoSnapshot(name, reason=f"no {form} file found at {path}")
    ordered = sorted(found, key=lambda file: (_first_us(form, file), file.name))
    return Snapshot(path.name, tuple(ordered))


def _first_us(form: LogForm, file: Path) -> int:
    """Return the time of its first row that has one."""
    with opened(file) as content:
        rows = _rows(form, BytesIO(content.read(_BEGINNING)))
        return next((row.time_us for row in rows if row.reason is None), 0)


@dataclass(slots=True)
class _Topic:
    """Number of rows of a topic so far."""

    number: int
    """The topic's number."""
    rows: int = 0
    gathering: Gathering | None = None
    """The rows of the current file."""


def scan(form: LogForm, snapshot: Snapshot) -> Catalog:
    """Return the catalog: the positions of the rows of each database."""
    catalog = Catalog()
    topics: dict[str, _Topic] = {}
    for index in range(len(snapshot.files)):
        with opened(snapshot.files[index]) as file:
            for row in _rows(form, file):
                if row.reason is not None:
                    catalog.count("unread")
                    catalog.trouble(row.reason, snapshot.shown(index), row.line)
                name = topic_of(row.database)
                if name not in topics:
                    topics[name] = _Topic(len(topics))
                    catalog.names[f"{_TOPICS}{topics[name].number}"] = name
                _add(catalog, (name, index), topics[name], row)
        for topic in topics.values():
            if topic.gathering is not None:
                topic.gathering.end()
                topic.gathering = None
    return catalog


def _add(catalog: Catalog, at: tuple[str, int], topic: _Topic, row: LocatedRow) -> None:
    name, file = at
    if topic.gathering is None:
        # -1 differs from every number, so the first row begins a new group.
        topic.gathering = Gathering(catalog, (name, 0), -1, file, topic.number)
    time_ms = row.time_us // 1_000
    if row.is_too_long:
        topic.gathering.add_sentence(topic.rows, time_ms, row.start, row.length)
    else:
        topic.gathering.begin(row.start, topic.rows)
        topic.gathering.add(topic.rows, time_ms, row.start + row.length)
    topic.rows += 1


def read_row(form: LogForm, data: bytes, row: CatalogRow, catalog: Catalog) -> TrafficColumns:
    """Return the rows of one topic in these bytes."""
    if not row.length:
        headers = headers_of(place_of(row.file, row.start))
        return columns_from([(0, row.least_ms, None, sentence_of(row.mark), headers)])
    topic = catalog.names[f"{_TOPICS}{row.nth}"]
    entries: list[Entry] = []
    # The first row may have no time of its own, but that of a row before these bytes.
    for each in _rows(form, BytesIO(data), (row.least_ms + row.mark) * 1_000):
        if topic_of(each.database) == topic:
            headers = headers_of(place_of(row.file, row.start + each.start))
            time_ms = each.time_us // 1_000
            entries.append((len(entries), time_ms, each.session, each.value, headers))
    return columns_from(entries[: row.records])


def _rows(form: LogForm, file: BinaryIO, time_us: int = 0) -> Iterator[LocatedRow]:
    beginning = file.read(_AT_ONCE)
    prefix = prefix_among(KNOWN_PREFIXES, beginning[:_BEGINNING]) if form == "stderr" else None
    parts = chain([beginning], iter(partial(file.read, _AT_ONCE), b""))
    return located(rows_of(parts, cutter_of(form, prefix)), prefix=prefix, time_us=time_us)

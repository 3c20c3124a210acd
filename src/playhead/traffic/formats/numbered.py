"""Rows of captures whose records are numbered from 0: GoReplay, HAR, extracts, logs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from playhead.record import Headers, TimestampType
from playhead.source import TopicPartition
from playhead.traffic.catalog import Catalog, CatalogRow
from playhead.traffic.record_columns import TrafficColumns

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)
_MOST_RECORDS: Final = 1_000
_MOST_BYTES: Final = 1 << 20
Entry = tuple[int, int, bytes | None, bytes | None, Headers]
"""Number, time, key, value, headers."""


def topic_named(id_: str) -> str:
    """Return the topic name for a file name."""
    name = _NOT_IN_A_NAME.sub("-", id_).strip("-")[:200]
    return name if name.strip(".") else "capture"


def columns_from(entries: Sequence[Entry]) -> TrafficColumns:
    return TrafficColumns(
        [each[0] for each in entries],
        [each[1] for each in entries],
        TimestampType.CREATE_TIME.value,
        [each[2] for each in entries],
        [each[3] for each in entries],
        [each[4] for each in entries],
    )


@dataclass(slots=True)
class Gathering:
    """Groups records of a file into rows; a row is read as a whole, from its first record to its last.

    What lies between two records of one topic can be larger than any memory, and is then in no row.
    """

    catalog: Catalog
    place: TopicPartition
    base: int = 0
    file: int = 0
    nth: int = -1
    _numbers: list[int] = field(default_factory=list)
    _times: list[int] = field(default_factory=list)
    _start: int = 0
    _stop: int = 0

    def begin(self, start: int, number: int) -> None:
        """Begin an entry at this byte with this number; ends a full row first."""
        if len(self._numbers) >= _MOST_RECORDS or start - self._start >= _MOST_BYTES:
            self.end()
        if not self._numbers:
            self._start, self.base = start, number

    def add(self, number: int, time_ms: int, stop: int) -> None:
        """Count the current entry, which ends at this byte, as a record."""
        self._numbers.append(number - self.base)
        self._times.append(time_ms)
        self._stop = stop

    def add_sentence(self, number: int, time_ms: int, start: int, length: int) -> None:
        """Count an entry as a record that is not read from the file again, because it is too long."""
        self.end()
        row = CatalogRow(
            self.file, start, 0, self.nth, number, 0, 0, 1, time_ms, time_ms, -1, -1, length
        )
        self.catalog.add(self.place, row)
        self.catalog.count("records")

    def end(self) -> None:
        """End the row at its last record."""
        if not self._numbers:
            return
        numbers, times, least = self._numbers, self._times, min(self._times)
        row = CatalogRow(
            self.file, self._start, self._stop - self._start, self.nth, self.base,
            numbers[0], numbers[-1], len(numbers), least, max(times), -1, -1, times[0] - least,
        )  # fmt: skip
        self.catalog.add(self.place, row)
        self.catalog.count("records", len(numbers))
        self._numbers, self._times = [], []

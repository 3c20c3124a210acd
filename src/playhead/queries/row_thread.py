"""Reads the rows of a growing topic in a separate thread, in the order in which the server wrote them.

A shipper writes one transaction after the other. When a row can be read in one partition, the rows of earlier
transactions can be read in all others, and the rows of its own transaction a moment later. So a row is returned
when it was already present at the previous poll, and all earlier rows have been merged.
"""

import heapq
import queue
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final, Self

from playhead.errors import PlayheadError, Unavailable
from playhead.queries.log import Row, rows_of
from playhead.record import Slice
from playhead.records import Records
from playhead.source import Bounds, Growing, Reader, Source, TopicPartition, rejecting

_LOOK_EVERY_S: Final = 0.4
_RETRY_S: Final = 1.0
_ENDS_WITHIN_S: Final = 5.0
"""A thread that waits for a broker longer than this ends with the process."""
_MOST_ROWS: Final = 500
_MOST_WAITING: Final = 8


class LogGotShorter(PlayheadError):
    """The topic ends before the offset that was read: it was replaced, or it lost records."""

    def __init__(self, place: TopicPartition, *, read_to: int, end: int) -> None:
        self.place, self.read_to, self.end = place, read_to, end
        super().__init__(
            f"{place[0]}:{place[1]} was read up to offset {read_to:,}, and ends at {end:,} now: the topic "
            "was created again, or lost records",
            hint="ship the log again, then use another --id",
        )


@dataclass(frozen=True, slots=True)
class Arrived:
    """The next rows of the log."""

    rows: list[Row]
    starts: Mapping[TopicPartition, int]
    """The first requested offset of each partition."""
    positions: Mapping[TopicPartition, int]
    """For each partition, the offset up to which its rows have been returned."""
    is_end: bool
    """Whether these were all rows that could be read."""
    away: str = ""
    """Why the source could not be read; empty if it could."""


@dataclass(slots=True)
class _Stream:
    """The rows of one partition, from a position on."""

    place: TopicPartition
    reader: Reader
    position: int
    """The offset before which all rows have been returned."""
    _asked_to: int
    """The offset up to which records were requested."""
    _rows: deque[Row] = field(default_factory=deque)
    _runs: Iterator[Records] = field(default_factory=lambda: iter(()))

    def head(self, end: int) -> Row | None:
        """Return the next row before this offset."""
        while not self._rows:
            records = next(self._runs, None)
            if records is not None:
                self._rows.extend(rows_of(records))
                continue
            self.position = self._asked_to
            if self._asked_to >= end:
                return None
            self._runs = self.reader.read(Slice(*self.place, self._asked_to, end))
            self._asked_to = end
        return self._rows[0]

    def pop(self) -> Row:
        row = self._rows.popleft()
        self.position = row.offset + 1
        return row


class RowThread:
    """The reading thread; `take` never waits."""

    def __init__(self, source: Source, starts: Mapping[TopicPartition, int]) -> None:
        self._source = source
        self._starts = dict(starts)
        self._positions = dict(starts)
        self._waiting: queue.Queue[Arrived | BaseException] = queue.Queue(_MOST_WAITING)
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rows", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed.set()
        self._thread.join(_ENDS_WITHIN_S)

    def take(self) -> Arrived | None:
        """Return the next rows, if there are any; raise the error that ended the thread."""
        try:
            found = self._waiting.get_nowait()
        except queue.Empty:
            return None
        if isinstance(found, BaseException):
            raise found
        return found

    # --- in its thread

    def _run(self) -> None:
        try:
            while not self._is_closed.is_set():
                try:
                    self._follow()
                except Unavailable as exc:
                    self._put(self._arrived([], self._positions, away=str(exc)))
                    self._is_closed.wait(_RETRY_S)
        except BaseException as exc:  # noqa: BLE001  raised again by `take`
            self._put(exc)

    def _follow(self) -> None:
        assert isinstance(self._source, Growing)  # noqa: S101  other sources are refused in the plan
        with self._source.watched() as look, ExitStack() as stack:
            streams: dict[TopicPartition, _Stream] = {}
            before = dict(self._positions)
            while not self._is_closed.is_set():
                found = look()
                for place, bounds in found.items():
                    if place not in streams:
                        self._starts.setdefault(place, bounds.earliest)
                        start = self._positions.setdefault(place, bounds.earliest)
                        reader = stack.enter_context(rejecting(self._source))
                        streams[place] = _Stream(place, reader, start, start)
                ends = self._ends(found)
                # One partition needs no second poll, because its offsets are in order.
                self._pass_on(streams, before if len(ends) > 1 else ends, ends)
                before = ends
                self._is_closed.wait(_LOOK_EVERY_S)

    def _ends(self, found: Mapping[TopicPartition, Bounds]) -> dict[TopicPartition, int]:
        for place, position in self._positions.items():
            end = found[place].stable_end if place in found else 0
            if end < position:
                raise LogGotShorter(place, read_to=position, end=end)
        return {place: bounds.stable_end for place, bounds in found.items()}

    def _pass_on(
        self,
        streams: Mapping[TopicPartition, _Stream],
        sure: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> None:
        """Merge the partitions, and return rows while rows from before the previous poll are left."""
        heads = [row for place, each in streams.items() if (row := each.head(ends[place]))]
        heapq.heapify(heads)
        left = {row.partition for row in heads if row.offset < sure.get(row.partition, 0)}
        rows: list[Row] = []
        while left and not self._is_closed.is_set():
            row = heapq.heappop(heads)
            stream = streams[row.partition]
            rows.append(stream.pop())
            following = stream.head(ends[row.partition])
            if following is not None:
                heapq.heappush(heads, following)
            if following is None or following.offset >= sure.get(row.partition, 0):
                left.discard(row.partition)
            if len(rows) >= _MOST_ROWS:
                self._hand_over(rows, streams, is_end=False)
                rows = []
        self._hand_over(rows, streams, is_end=not heads)

    def _hand_over(
        self, rows: list[Row], streams: Mapping[TopicPartition, _Stream], *, is_end: bool
    ) -> None:
        positions = {place: each.position for place, each in streams.items()}
        if self._put(self._arrived(rows, positions, is_end=is_end)):
            self._positions.update(positions)

    def _arrived(
        self,
        rows: list[Row],
        positions: Mapping[TopicPartition, int],
        *,
        is_end: bool = False,
        away: str = "",
    ) -> Arrived:
        return Arrived(rows, dict(self._starts), dict(positions), is_end, away)

    def _put(self, found: Arrived | BaseException) -> bool:
        """Wait for space in the queue; return whether the item was put."""
        while not self._is_closed.is_set():
            try:
                self._waiting.put(found, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

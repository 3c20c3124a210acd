"""Adds the rows of a growing log to a tape, and decides which statements can be played.

The log is late: a COMMIT is written after its locks are released, a duration after the end of its statement. So a
statement is numbered, and can be played, when the log has been read for a second beyond its row. If not all
statements have durations, a statement without a known end counts as ended when the log has been read for a second
beyond its beginning.
"""

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from playhead.queries.log import Log, Row
from playhead.queries.player import Player
from playhead.queries.row_thread import RowThread
from playhead.queries.tape import TapeWriter
from playhead.querylog.statement import Statement
from playhead.source import TopicPartition

_BEYOND_US: Final = 1_000_000
_LONGEST_US: Final = 60_000_000
"""Time limit to wait for the end of a statement in a log with durations."""
_BEYOND_NS: Final = 3_000_000_000
"""Like `_BEYOND_US`, but in the time of this machine, because the source's clock may have been set back."""
_ROWS_AT_ONCE: Final = 100
_MOST_AHEAD: Final = 50_000
"""Number of statements without an outcome at which reading pauses."""
_LOOK_EVERY_NS: Final = 50_000_000


@dataclass(slots=True)
class Following:
    """The log of a following run, between the reading thread and the player."""

    log: Log
    writer: TapeWriter
    player: Player
    thread: RowThread
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    """For each partition, the first and the end offset of its rows on the tape."""
    away: str = ""
    """Why the log cannot be read at the moment; empty if it can."""
    _rows: deque[Row] = field(default_factory=deque)
    _read: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The positions after the rows that wait here."""
    _is_end: bool = False
    _known: deque[tuple[int, int, int]] = field(default_factory=deque)
    """Samples of rows: when they were written, when they were read, and the number of rows up to them."""
    _noted: int = 0
    _sealed_to: int = 0
    _last_row_ns: int = 0
    _heard_ns: int = 0
    """When the thread last returned rows, or reported that there are none."""
    _looked_ns: int = 0

    def take(self) -> None:
        """Read some of the new rows; pass the statements that can be played to the player."""
        self._refill()
        now = time.monotonic_ns()
        if not self._rows and now - self._looked_ns < _LOOK_EVERY_NS:
            return
        self._looked_ns = now
        statements: list[Statement] = []
        for _ in range(min(_ROWS_AT_ONCE, len(self._rows))):
            row = self._rows.popleft()
            statements += self.log.take(row)
            self.positions[row.partition] = row.offset + 1
            self._last_row_ns = now
        if not self._rows:
            self.positions.update(self._read)
        self._note_time(now)
        log_us = self._log_us()
        wait_us = _LONGEST_US if self.log.reader.ends_are_logged else _BEYOND_US
        statements += self.log.reader.release(log_us - wait_us)
        self._add(statements)
        self.player.extend(self.writer.tape.numbers.seal(self._horizon(log_us)))

    @property
    def has_rows(self) -> bool:
        """Whether more rows can be read at once."""
        return bool(self._rows) and self.player.settling.left <= _MOST_AHEAD

    def _refill(self) -> None:
        if self._rows or self.player.settling.left > _MOST_AHEAD:
            return
        found = self.thread.take()
        if found is not None:
            self._rows.extend(found.rows)
            self._heard_ns = time.monotonic_ns()
            self.starts, self._read = found.starts, found.positions
            self._is_end, self.away = found.is_end, found.away

    def _log_us(self) -> int:
        """Return the time up to which the log is known; it advances without rows too if no more can be read."""
        if self._rows or not self._is_end:
            return self.log.time_us
        return self.log.time_us + max(0, self._heard_ns - self._last_row_ns) // 1_000

    def _note_time(self, now: int) -> None:
        if len(self.log) > self._noted:
            self._noted = len(self.log)
            self._known.append((self.log.time_us, now, len(self.log)))

    def _horizon(self, log_us: int) -> int:
        """Return the place before which no further statement becomes ready."""
        while self._known:
            written_us, read_ns, rows = self._known[0]
            if written_us >= log_us - _BEYOND_US and read_ns >= self._heard_ns - _BEYOND_NS:
                break
            self._known.popleft()
            self._sealed_to = rows
        held = None if self.log.reader.ends_are_logged else self.log.reader.first_held()
        return self._sealed_to if held is None else min(self._sealed_to, held)

    def _add(self, statements: list[Statement]) -> None:
        settling = self.player.settling
        # A row can show the end of an earlier act whose rows are counted already.
        counted, last = settling.known_to, len(self.log) - 1
        self.writer.add(
            (each if each.place >= counted else each._replace(place=last) for each in statements),
            read_to=last,
        )
        held = self.log.reader.first_held()
        settling.grow(len(self.log) if held is None else min(len(self.log), held))

"""Which rows of each session were read: what is missing, what came again, and what is of another session."""

import re
from array import array
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

from playhead.querylog.counts import RowOutcome
from playhead.querylog.rows import LogRow

_MOST_GAPS: Final = 256
_MOST_REMEMBERED: Final = 65_536
"""Sessions that have ended, whose rows are recognised when a shipper sends them again."""
_MOST_CHECKS, _CHECKS_LEFT = 1_024, 256
"""How many of its last rows are known by a checksum, while it is open and afterwards."""
_HEX: Final = re.compile("[0-9a-f]{1,15}")


@dataclass(slots=True)
class Lines:
    """Which line numbers of a session were read."""

    last: int
    first: int = 0
    """The first that was read."""
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Missing ones, `[from, to)`; of very many only the latest."""
    first_us: int = 0
    last_us: int = 0
    """The times of the first and the latest row."""
    checks: "array[int]" = field(default_factory=lambda: array("I"))
    """A checksum of each of the last rows, to know them when they come again; 0 for a missing one."""

    def is_missing(self, line: int) -> bool:
        return any(start <= line < end for start, end in self.gaps)

    def found(self, line: int) -> None:
        """Take a line out of the gap it was missing in."""
        left = []
        for start, end in self.gaps:
            if start <= line < end:
                left += [each for each in ((start, line), (line + 1, end)) if each[0] < each[1]]
            else:
                left.append((start, end))
        self.gaps = left[-_MOST_GAPS:]

    def take(self, row: LogRow) -> int:
        """Go on to a new row, and return how many are missing before it."""
        line = row.line or 0
        lost = line - self.last - 1
        if lost > 0:
            self.gaps = [*self.gaps, (self.last + 1, line)][-_MOST_GAPS:]
            self.checks.extend([0] * min(lost, _MOST_CHECKS))
        self.checks.append(_check(row))
        if len(self.checks) >= 2 * _MOST_CHECKS:
            self.shorten(_MOST_CHECKS)
        self.last = line
        self.first_us = self.first_us or row.time_us
        self.last_us = max(self.last_us, row.time_us)
        return max(0, lost)

    def shorten(self, count: int) -> None:
        """Keep only the last checksums."""
        del self.checks[:-count]

    def again(self, row: LogRow) -> RowOutcome | None:
        """Return what a row is whose line was reached before; None if its line is a new one."""
        line = row.line or 0
        if line > self.last:
            return None
        if self.is_missing(line):
            self.found(line)
            return RowOutcome.LATE
        back = self.last - line
        check = self.checks[-1 - back] if back < len(self.checks) else 0
        is_other = (
            check != _check(row) if check else not self.first_us <= row.time_us <= self.last_us
        )
        return RowOutcome.OTHER_SESSION if is_other else RowOutcome.DUPLICATE


def _check(row: LogRow) -> int:
    text = f"{row.time_us} {row.severity} {row.message}"
    return crc32(text.encode("utf-8", "surrogateescape")) or 1


@dataclass(slots=True)
class Beginnings:
    """Which rows of sessions that began within the log are missing in front of the first one that is there."""

    _first_us: int | None = None
    """The time of the log's first row."""
    _has_first_lines: bool = False
    """The topic of a database lacks the first row of each connection, if connections are logged."""

    def missing_before(self, row: LogRow) -> int:
        """Return how many rows are missing before the first one of a session."""
        if self._first_us is None:
            self._first_us = row.time_us
        self._has_first_lines |= row.line == 1
        began, has_time, _ = row.session.partition(".")
        if row.line is None or not has_time or not _HEX.fullmatch(began):
            return 0
        if int(began, 16) * 1_000_000 <= self._first_us:
            return 0
        return max(0, row.line - (1 if self._has_first_lines else 2))


class Remembered:
    """The lines of sessions that are not open: those that ended, and processes that are no clients."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, Lines] = OrderedDict()

    def __getitem__(self, session: str) -> Lines | None:
        return self._lines.get(session)

    def keep(self, session: str, lines: Lines) -> None:
        lines.shorten(_CHECKS_LEFT)
        self._lines[session] = lines
        self._lines.move_to_end(session)
        while len(self._lines) > _MOST_REMEMBERED:
            self._lines.popitem(last=False)

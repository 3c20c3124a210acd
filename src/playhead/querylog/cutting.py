"""Splits the bytes of a growing log into rows; every byte belongs to a row, damaged ones included."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from playhead.querylog.stderr_prefix import Prefix, prefix_of

LogForm = Literal["csvlog", "jsonlog", "stderr"]
# Possessive quantifiers: backtracking would take memory for every byte.
_QUOTED: Final = rb'(?:[^"]++|"")*+'
_TEXT: Final = rb'(?:"' + _QUOTED + rb'"|)'
CSV_ADDRESS: Final = re.compile(
    rb"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})? [A-Za-z0-9+:-]{1,8}),"
    + _TEXT
    + rb',(?:"('
    + _QUOTED
    + rb')"|),\d*,'
    + _TEXT
    + rb",([0-9a-f]+\.[0-9a-f]+),"
)
"""Time, user, database, process, client, session: the beginning of a row of a csvlog."""
_CSV_BEGINS: Final = re.compile(
    rb"(?=" + _QUOTED + rb'"[^",\r\n])'
    + CSV_ADDRESS.pattern
    + rb"\d+,"
    + _TEXT
    + rb',[^,"]*,[^,"]*,\d*,[A-Z0-9]+,[0-9A-Z]{5},"(?:[^"]|""")'
)  # fmt: skip
"""A row up to its text, which cannot be the rest of a quoted text, whatever its author wrote.

There, the first quote that is not doubled is the last one, and a comma or the end of the line follows.
"""
_LINES_TOLD_BY: Final = 100
LONGEST_ROW: Final = 1 << 26
"""Longest row in bytes; a longer one is not kept, because a file without line ends must not fill the memory."""


class LongRow(bytes):
    """Replaces a row that is too long with a sentence that no reader parses as a row.

    The first part of the row would be unsafe, because the author of its text can make it look like another row.
    """

    length: int
    lines: int

    def __new__(cls, length: int, lines: int) -> "LongRow":
        it = super().__new__(cls, sentence_of(length) + b"\n")
        it.length, it.lines = length, lines
        return it


def sentence_of(length: int) -> bytes:
    """Return the value that replaces a row of so many bytes."""
    return b"(a row of %d bytes, which is too long)" % length


@dataclass(slots=True)
class RowCutter:
    """Splits received bytes into rows, and keeps the incomplete row."""

    begins: Callable[[bytes], bool | None]
    """Returns whether a line begins a row; None if it certainly does, even inside quotes."""
    has_quotes: bool = False
    ends_late: bool = False
    """Whether a row is known to be complete only when the next one begins."""
    longest: int = LONGEST_ROW
    _rows: list[bytes] = field(default_factory=list)
    _open: bytearray = field(default_factory=bytearray)
    """The incomplete row, without dropped bytes."""
    _line_at: int = 0
    """Start of the incomplete line in the row."""
    _is_quoted: bool = False
    _dropped: int = 0
    """Dropped bytes of a row that is too long."""
    _dropped_lines: int = 0
    _is_mid_line: bool = False
    """Whether the beginning of the line was dropped."""

    @property
    def held_bytes(self) -> int:
        """Number of bytes of the incomplete row."""
        return self._dropped + len(self._open)

    @property
    def kept_bytes(self) -> int:
        """Number of bytes of the incomplete row that are in memory."""
        return len(self._open)

    def take(self, data: bytes) -> list[bytes]:
        """Return the rows that these bytes complete, each with its line end."""
        lines = data.split(b"\n")
        last = lines.pop()
        has_quotes, rows = self.has_quotes, self._rows
        for line in lines:
            if has_quotes and not (self._open or self._dropped or line.count(b'"') & 1):
                # Almost every line of a csvlog: a whole row. A call for each would cost more than the rest.
                rows.append(line + b"\n")
            else:
                self._line(line + b"\n")
        self._open += last
        self._drop_if_long()
        return self._taken()

    def end(self) -> list[bytes]:
        """Return the last row, if only the next row would show that it is complete."""
        if self.ends_late and self._line_at == len(self._open) and not self._is_mid_line:
            self._close()
        return self._taken()

    def rest(self) -> bytes:
        """Return and forget the incomplete row."""
        self._close()
        self._is_quoted = self._is_mid_line = False
        return next(iter(self._taken()), b"")

    def _taken(self) -> list[bytes]:
        rows, self._rows = self._rows, []
        return rows

    def _line(self, line: bytes) -> None:
        if self._line_at < len(self._open):
            line = bytes(self._open[self._line_at :]) + line
            del self._open[self._line_at :]
        is_whole = not self._is_mid_line
        self._is_mid_line = False
        if self.has_quotes:
            self._quoted(line, is_whole=is_whole)
        elif self.ends_late:
            if is_whole and self.begins(line) is not False:
                self._close()
            self._add(line)
        elif self._dropped:
            self._add(line)
            self._close()
        else:
            self._rows.append(line)

    def _quoted(self, line: bytes, *, is_whole: bool) -> None:
        if self._is_quoted and is_whole and self.begins(line) is None:
            # A row that was never completed: the server died, or the disk was full.
            self._is_quoted = False
            self._close()
        if line.count(b'"') % 2:
            self._is_quoted = not self._is_quoted
        self._add(line)
        if not self._is_quoted:
            self._close()

    def _add(self, line: bytes) -> None:
        self._open += line
        self._line_at = len(self._open)
        self._drop_if_long()

    def _drop_if_long(self) -> None:
        if self.held_bytes < self.longest:
            return
        if self._line_at < len(self._open):
            self._is_mid_line = True
            if self.has_quotes and self._open.count(b'"', self._line_at) % 2:
                self._is_quoted = not self._is_quoted
        self._dropped += len(self._open)
        self._dropped_lines += self._open.count(b"\n")
        self._open.clear()
        self._line_at = 0

    def _close(self) -> None:
        if self._dropped:
            lines = self._dropped_lines + self._open.count(b"\n")
            self._rows.append(LongRow(self.held_bytes, lines))
        elif self._open:
            self._rows.append(bytes(self._open))
        self._open.clear()
        self._line_at = self._dropped = self._dropped_lines = 0


def cutter_of(form: LogForm, prefix: str | None = None) -> RowCutter:
    """Return a new cutter; `prefix` is the log_line_prefix of a stderr log."""
    if form == "csvlog":
        return RowCutter(lambda line: None if _CSV_BEGINS.match(line) else False, has_quotes=True)
    if form == "jsonlog" or prefix is None:
        return RowCutter(lambda _: True)
    return RowCutter(_row_begins(prefix_of(prefix)), ends_late=True)


def _row_begins(prefix: Prefix) -> Callable[[bytes], bool]:
    """Return a function that tells whether a line begins a row; a line without a known form is its own row."""

    def begins(line: bytes) -> bool:
        if line.startswith(b"\t"):
            return False
        return prefix.more.match(line.decode("utf-8", "replace")) is None

    return begins


def form_of(beginning: bytes) -> LogForm:
    """Return a log's format, by its first lines; the very first ones may be the rest of a row."""
    for line in beginning.split(b"\n", _LINES_TOLD_BY)[:_LINES_TOLD_BY]:
        if line.startswith(b"{"):
            return "jsonlog"
        if CSV_ADDRESS.match(line):
            return "csvlog"
    return "stderr"


def rows_of(parts: Iterator[bytes], cutter: RowCutter) -> Iterator[bytes]:
    """Yield all rows of a complete log, including an incomplete last row."""
    for part in parts:
        yield from cutter.take(part)
    yield from cutter.end()
    rest = cutter.rest()
    if rest:
        yield rest

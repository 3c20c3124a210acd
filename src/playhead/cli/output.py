"""The output of commands: data in the requested form to stdout, everything else to stderr."""

import csv
import io
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import RLock
from typing import Any, TextIO

from playhead import secrets
from playhead.cli.tables import table_text
from playhead.grammar.local_time import local_time, local_times
from playhead.printable import indented, json_text, one_line, printable

Row = Mapping[str, Any]
_PLAIN_EVERY_S = 2.0
_SAME_AGAIN_AFTER_S = 15.0
_BAR_CELLS, _LEAST_BAR_CELLS = 20, 5
# What progress tells has these between its parts; "1,000" is one part.
_BETWEEN_PARTS = re.compile("  |, ")


class ReaderGone(Exception):
    """The reader of our stdout has closed it; a socket's broken pipe is a different error."""


@dataclass(frozen=True, slots=True)
class Output:
    """The output of one command."""

    form: str = "table"
    quiet: bool = False
    verbosity: int = 0
    progress_form: str = "auto"
    zone: str = "UTC"
    """In which people see times; data for programs has them in UTC."""

    def emit(
        self, document: Mapping[str, Any], rows: Sequence[Row], *, optional: Sequence[str] = ()
    ) -> None:
        """Print data: the whole document as JSON, or its rows in the other formats.

        A terminal that is too narrow for a table gets it without the `optional` columns.
        """
        if self.form == "json":
            _write(_json(document, indent=2))
        elif self.form == "jsonl":
            for row in rows:
                _write(_json(row))
        elif self.form == "csv" and rows:
            self.text(shown_csv(_csv_rows(rows)).removesuffix("\n"))
        elif self.form == "table":
            _write_table(rows, self.zone, optional)

    def text(self, text: str) -> None:
        """Print data that is a text, such as shell exports: unchanged except on a terminal."""
        _write((printable(text) if sys.stdout.isatty() else text) + "\n")

    def say(self, text: str, *, is_data: bool = False) -> None:
        """Print a line for people to stderr; times in records' own data are left as they are."""
        if not self.quiet:
            tell(text if is_data else local_times(text, self.zone))

    def say_while_heard(self, text: str) -> None:
        """Print a line, if its reader is still there: what the command does must not end with it."""
        with suppress(BrokenPipeError):
            self.say(text)

    def progress(self, what: str) -> "Progress":
        form = "none" if self.quiet else self.progress_form
        if form == "auto":
            form = "line" if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" else "plain"
        return Progress(what, form)


class Progress:
    """Reports progress: one updated line on a terminal, lines or JSON elsewhere."""

    def __init__(self, what: str, form: str, now: Callable[[], float] = time.monotonic) -> None:
        self._what, self._form, self._now = what, form, now
        self._last = -_PLAIN_EVERY_S
        self._told: int | None = None

    def __call__(self, step: str, done: int, total: int) -> None:
        is_last = done >= total
        if self._form == "line":
            text = f"{_share(done, total)}  {_mb(done)} of {_mb(total)}  {step}"
            self._line(done, total, text)
        elif self._form != "none" and (is_last or self._now() - self._last >= _PLAIN_EVERY_S):
            self._last = self._now()
            if self._form == "json":
                tell(json.dumps({"what": self._what, "step": step, "done": done, "total": total}))
            else:
                tell(f"{self._what}: {_share(done, total)} of {_mb(total)}")

    def count(self, step: str, done: int, total: int) -> None:
        """Report progress in offsets instead of bytes."""
        is_last = done >= total
        text = f"{_share(done, total)}  {done:,} of {total:,} offsets  {step}"
        if self._form == "line":
            self._line(done, total, text)
        elif self._form != "none" and self._is_time(done, is_last):
            self._last, self._told = self._now(), done
            if self._form == "json":
                tell(json.dumps({"what": self._what, "step": step, "done": done, "total": total}))
            else:
                tell(f"{self._what}: {text}")

    def _is_time(self, done: int, is_last: bool) -> bool:
        """Return whether a report is due; repeated lines come less often than new ones."""
        if done == self._told:
            return self._now() - self._last >= _SAME_AGAIN_AFTER_S
        return is_last or self._now() - self._last >= _PLAIN_EVERY_S

    def _line(self, done: int, total: int, text: str) -> None:
        import shutil

        head, width = one_line(f"{self._what}: "), shutil.get_terminal_size().columns - 1
        text = _fitted(one_line(text), width - len(head))
        cells = min(_BAR_CELLS, width - len(f"{head}{text} "))
        bar = f"{_bar(done, total, cells)} " if cells >= _LEAST_BAR_CELLS else ""
        _drawn.draw(f"{head}{bar}{text}"[:width])

    def close(self) -> None:
        """End the terminal's line."""
        _drawn.erase()


class _DrawnLine:
    """The line of a terminal that is drawn again and again; other text takes its place."""

    def __init__(self) -> None:
        self._width = 0
        self._stream: TextIO = sys.stderr
        self._lock = RLock()

    def draw(self, text: str) -> None:
        with self._lock:
            width = self._width if self._stream is sys.stderr else 0
            self._stream, self._width = sys.stderr, len(text)
            sys.stderr.write("\r" + text.ljust(width))
            sys.stderr.flush()

    def erase(self) -> None:
        with self._lock:
            if self._stream is sys.stderr and self._width:
                sys.stderr.write("\r" + " " * self._width + "\r")
                sys.stderr.flush()
            self._width = 0

    def say(self, text: str) -> None:
        """Write a text that stays; threads of a run do so while the line is drawn."""
        with self._lock:
            self.erase()
            sys.stderr.write(text)
            sys.stderr.flush()


_drawn = _DrawnLine()


def spoken(text: str) -> str:
    """Return a sentence that is safe to print: without secrets and control characters."""
    return indented(secrets.redact(text))


def tell(text: str) -> None:
    """Print a line to stderr; further lines of the text are indented."""
    prompt(text + "\n")


def prompt(text: str) -> None:
    """Print a prompt; the answer follows on the same line."""
    end = "\n" if text.endswith("\n") else ""
    _drawn.say(spoken(text.removesuffix("\n")) + end)


def write_records(records: Iterable[bytes]) -> None:
    """Write records to stdout: unchanged in a pipe or a file, as safe text on a terminal.

    There the lines after a line break of a record are indented.
    """
    if sys.stdout.isatty():
        records = (_shown(each.decode("utf-8", "backslashreplace")).encode() for each in records)
    write_answer(b"".join(records))


def write_text(text: str) -> None:
    """Write a text as UTF-8 to stdout, whatever its encoding is; as safe text on a terminal."""
    write_answer((printable(text) if sys.stdout.isatty() else text).encode())


def _shown(record: str) -> str:
    text = record.rstrip("\n")
    return indented(text) + record[len(text) :]


def write_answer(data: bytes) -> None:
    """What a command has printed elsewhere, for this stdout, as it is."""
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError as exc:
        raise ReaderGone from exc


def colour_is_wanted() -> bool:
    """Return whether to use colours: only on a terminal, and never with NO_COLOR."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and _term() != "dumb"


def _term() -> str:
    return os.environ.get("TERM", "")


def _share(done: int, total: int) -> str:
    return f"{100 * min(done, total) // max(total, 1):3d} %"


def _fitted(text: str, width: int) -> str:
    """Return the text without the last parts that the width has no room for, so that no word is cut."""
    ends = [found.start() for found in _BETWEEN_PARTS.finditer(text) if found.start() <= width]
    return text if len(text) <= width else text[: max(ends, default=0) or width]


def _bar(done: int, total: int, width: int) -> str:
    """Return a progress bar; of characters that every terminal has, if it is not one of UTF-8."""
    is_unicode = (sys.stderr.encoding or "").lower().replace("-", "") == "utf8"
    full, empty = ("█", "░") if is_unicode else ("#", ".")
    cells = width * min(done, total) // max(total, 1)
    return full * cells + empty * (width - cells)


def _mb(count: int) -> str:
    return f"{count / 1e6:.1f} MB"


def _write(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError as exc:
        raise ReaderGone from exc


def _json(document: Mapping[str, Any], indent: int | None = None) -> str:
    # JSON can escape everything, for an encoding of stdout that lacks characters.
    is_unicode = (sys.stdout.encoding or "utf-8").lower().replace("-", "") == "utf8"
    text = json.dumps(document, indent=indent, default=str, ensure_ascii=not is_unicode)
    return json_text(text) + "\n"


def _columns(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(key for row in rows for key in row))


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value)
    return str(value)


class _EndedByLf(io.StringIO):
    """Ends rows in LF; the writer must believe in CR LF, because it quotes only its own row ends."""

    def write(self, row: str, /) -> int:
        return super().write(row.removesuffix("\r\n") + "\n")


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV; cells with commas, quotes, CR or LF are quoted."""
    text = _EndedByLf(newline="")
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    # A lone surrogate, which JSON can contain and UTF-8 cannot.
    return text.getvalue().encode("utf-8", "backslashreplace").decode()


def shown_csv(rows: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV for stdout; on a terminal, lines after a line break in a cell are indented."""
    if not sys.stdout.isatty():
        return csv_text(rows)
    return "".join(_shown(csv_text([row])) for row in rows)


def _csv_rows(rows: Sequence[Row]) -> Iterator[list[str]]:
    columns = _columns(rows)
    yield columns
    yield from ([_cell(row.get(column)) for column in columns] for row in rows)


def _write_table(rows: Sequence[Row], zone: str = "UTC", optional: Sequence[str] = ()) -> None:
    columns = _columns(rows)
    cells = [
        [one_line(local_time(_cell(row.get(column)), zone)) for column in columns] for row in rows
    ]
    heads, less = ([_head(column) for column in names] for names in (columns, optional))
    _write(table_text(heads, cells, is_coloured=colour_is_wanted(), optional=less))


def _head(column: str) -> str:
    return one_line(column.upper().replace("_", "-"))

"""What goes where: data to stdout in the form that was asked for, everything else to stderr."""

import csv
import io
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from playhead import secrets

FORMATS = ("table", "json", "jsonl", "csv")
PROGRESS = ("auto", "plain", "json", "none")
Row = Mapping[str, Any]
_PLAIN_EVERY_S = 2.0
_SAME_AGAIN_AFTER_S = 15.0
_UNFOLDED = 1 << 20  # columns: nothing is folded in a pipe


class ReaderGone(Exception):
    """Whoever read our stdout has read enough; a socket's broken pipe is something else."""


@dataclass(frozen=True, slots=True)
class Output:
    """One invocation's way of speaking."""

    form: str = "table"
    quiet: bool = False
    verbosity: int = 0
    progress_form: str = "auto"

    def emit(self, document: Mapping[str, Any], rows: Sequence[Row]) -> None:
        """Data: the whole document as JSON, or its rows in the other forms."""
        if self.form == "json":
            _write(json.dumps(document, indent=2, default=str, ensure_ascii=False) + "\n")
        elif self.form == "jsonl":
            for row in rows:
                _write(json.dumps(row, default=str, ensure_ascii=False) + "\n")
        elif self.form == "csv":
            _write_csv(rows)
        else:
            _write_table(rows)

    def text(self, text: str) -> None:
        """Data that is a text in itself, such as shell exports."""
        _write(text + "\n")

    def say(self, text: str) -> None:
        """Talk for a person; nothing that a script would want."""
        if not self.quiet:
            tell(text)

    def progress(self, what: str) -> "Progress":
        form = "none" if self.quiet else self.progress_form
        if form == "auto":
            form = "line" if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" else "plain"
        return Progress(what, form)


class Progress:
    """How far something is: one moving line on a terminal, lines or JSON elsewhere."""

    def __init__(self, what: str, form: str, now: Callable[[], float] = time.monotonic) -> None:
        self._what, self._form, self._now = what, form, now
        self._last = -_PLAIN_EVERY_S
        self._width = 0
        self._told: int | None = None

    def __call__(self, step: str, done: int, total: int) -> None:
        is_last = done >= total
        if self._form == "line":
            self._line(f"{self._what}: {_share(done, total)}  {_mb(done)} of {_mb(total)}  {step}")
        elif self._form != "none" and (is_last or self._now() - self._last >= _PLAIN_EVERY_S):
            self._last = self._now()
            if self._form == "json":
                tell(json.dumps({"what": self._what, "step": step, "done": done, "total": total}))
            else:
                tell(f"{self._what}: {_share(done, total)} of {_mb(total)}")

    def count(self, step: str, done: int, total: int) -> None:
        """As the call, with plain numbers where that has bytes."""
        is_last = done >= total
        text = f"{self._what}: {_share(done, total)}  {done:,} of {total:,} offsets  {step}"
        if self._form == "line":
            self._line(text)
        elif self._form != "none" and self._is_time(done, is_last):
            self._last, self._told = self._now(), done
            if self._form == "json":
                tell(json.dumps({"what": self._what, "step": step, "done": done, "total": total}))
            else:
                tell(text)

    def _is_time(self, done: int, is_last: bool) -> bool:
        """A line that says the same again is worth less than one that says something new."""
        if done == self._told:
            return self._now() - self._last >= _SAME_AGAIN_AFTER_S
        return is_last or self._now() - self._last >= _PLAIN_EVERY_S

    def _line(self, text: str) -> None:
        import shutil

        text = text[: shutil.get_terminal_size().columns - 1]
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = len(text)

    def close(self) -> None:
        """Leave the terminal's line free for what comes next."""
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()


def tell(text: str) -> None:
    """A line on stderr, with secrets redacted."""
    sys.stderr.write(secrets.redact(text) + "\n")
    sys.stderr.flush()


def colour_is_wanted() -> bool:
    """Colours only on a terminal, and never against NO_COLOR."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and _term() != "dumb"


def _term() -> str:
    return os.environ.get("TERM", "")


def _share(done: int, total: int) -> str:
    return f"{100 * min(done, total) // max(total, 1):3d} %"


def _mb(count: int) -> str:
    return f"{count / 1e6:.1f} MB"


def _write(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError as exc:
        raise ReaderGone from exc


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


def _write_csv(rows: Sequence[Row]) -> None:
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    columns = _columns(rows)
    writer.writerow(columns)
    writer.writerows([_cell(row.get(column)) for column in columns] for row in rows)
    _write(lines.getvalue())


def _write_table(rows: Sequence[Row]) -> None:
    columns = _columns(rows)
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    heads = [column.upper().replace("_", "-") for column in columns]
    if not columns:
        _write("\n")
    elif not sys.stdout.isatty() and not colour_is_wanted() and _is_simple(cells):
        _write(_plain_table([heads, *cells]))
    else:
        _write_rich_table(heads, cells)


def _is_simple(cells: Sequence[Sequence[str]]) -> bool:
    """Whether every character is one column wide, so that no table library is needed to line them up."""
    return all(cell.isascii() and cell.isprintable() for row in cells for cell in row)


def _plain_table(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        + "\n"
        for line in lines
    )


def _write_rich_table(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in cells:
        table.add_row(*(Text(cell, _STYLES.get(cell, "")) for cell in row))
    console = Console(
        file=sys.stdout,
        width=None if sys.stdout.isatty() else _UNFOLDED,
        no_color=not colour_is_wanted(),
        highlight=False,
    )
    with console.capture() as captured:
        console.print(table)
    _write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


_STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}

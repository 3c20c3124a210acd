"""Lays tables out for people: no cell is ever folded, or a number would look like two."""

import shutil
import sys
from collections.abc import Sequence

_LEAST_NAME = 3
_BETWEEN = 2
_STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}

Lines = Sequence[Sequence[str]]


def table_text(heads: Sequence[str], cells: Lines, *, is_coloured: bool) -> str:
    """The table as it fits the terminal; in a pipe as wide as it is."""
    if not heads:
        return ""
    if sys.stdout.isatty():
        fitting = fitted(heads, cells, shutil.get_terminal_size().columns)
        if fitting is None:
            return upright(*without_zeros(heads, cells))
        heads, cells = fitting
    elif not is_coloured and _is_simple(cells):
        return _plain([heads, *cells])
    return _rich(heads, cells, is_coloured=is_coloured)


def fitted(heads: Sequence[str], cells: Lines, columns: int) -> tuple[Sequence[str], Lines] | None:
    """Return the table without columns of zeros, with shorter names if needed; None if it is still too wide."""
    widths = _widths(cells, len(heads))
    if _total(heads, widths) <= columns:
        return heads, cells
    heads, cells = without_zeros(heads, cells)
    widths = _widths(cells, len(heads))
    names = [*heads]
    while _total(names, widths) > columns:
        room = [
            _width(name) - max(each, _LEAST_NAME) for name, each in zip(names, widths, strict=True)
        ]
        most = max(room, default=0)
        if most <= 0:
            return None
        at = room.index(most)
        names[at] = _shorter(heads[at], _width(names[at]) - 1)
    return names, cells


def without_zeros(heads: Sequence[str], cells: Lines) -> tuple[Sequence[str], Lines]:
    """Leave out the columns in which every row has 0 or nothing; the first one stays."""
    kept = [
        at for at in range(len(heads)) if not at or any(row[at] not in ("", "0") for row in cells)
    ]
    return [heads[at] for at in kept], [[row[at] for at in kept] for row in cells]


def upright(heads: Sequence[str], cells: Lines) -> str:
    """Each row as lines of `name: value`, with an empty line between rows."""
    rows = (
        "".join(f"{head}: {cell}".rstrip() + "\n" for head, cell in zip(heads, row, strict=True))
        for row in cells
    )
    return "\n".join(rows)


def _shorter(name: str, width: int) -> str:
    return name[: width - 1] + "…"


def _total(heads: Sequence[str], widths: Sequence[int]) -> int:
    wide = [max(_width(head), width) for head, width in zip(heads, widths, strict=True)]
    return sum(wide) + _BETWEEN * (len(wide) - 1)


def _widths(cells: Lines, count: int) -> list[int]:
    return [max((_width(row[at]) for row in cells), default=0) for at in range(count)]


def _width(text: str) -> int:
    """How many columns of a terminal it takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _is_simple(cells: Lines) -> bool:
    """Return whether every character is one column wide, so that no table library is needed."""
    return all(cell.isascii() and cell.isprintable() for row in cells for cell in row)


def _plain(lines: Lines) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        + "\n"
        for line in lines
    )


def _rich(heads: Sequence[str], cells: Lines, *, is_coloured: bool) -> str:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _BETWEEN, 0, 0))
    for head in heads:
        table.add_column(Text(head), overflow="fold")  # as a text: brackets would be its markup
    for row in cells:
        table.add_row(*(Text(cell, _STYLES.get(cell, "")) for cell in row))
    # What is wider than the terminal stands upright, so that nothing is left to fold.
    wide = _total(heads, _widths(cells, len(heads))) + _BETWEEN
    console = Console(file=sys.stdout, width=wide, no_color=not is_coloured, highlight=False)
    with console.capture() as captured:
        console.print(table)
    return "".join(line.rstrip() + "\n" for line in captured.get().splitlines())

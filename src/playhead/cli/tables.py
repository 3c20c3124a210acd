"""Lays tables out for people: names may be folded, but no cell ever is, or a number would look like two."""

import re
import shutil
import sys
from collections.abc import Sequence

_LONG_WORD = 6
_BETWEEN = 2
_STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}

Lines = Sequence[Sequence[str]]


def table_text(
    heads: Sequence[str], cells: Lines, *, is_coloured: bool, optional: Sequence[str] = ()
) -> str:
    """The table as it fits the terminal; in a pipe as wide as it is."""
    if not heads:
        return ""
    if sys.stdout.isatty():
        fitting = fitted(heads, cells, shutil.get_terminal_size().columns, optional)
        if fitting is None:
            return upright(*without_zeros(heads, cells))
        heads, cells = fitting
    elif not is_coloured and _is_simple(cells):
        return _plain([heads, *cells])
    return _rich(heads, cells, is_coloured=is_coloured)


def fitted(
    heads: Sequence[str], cells: Lines, columns: int, optional: Sequence[str] = ()
) -> tuple[Sequence[str], Lines] | None:
    """Return the table in these columns; None if it is still too wide.

    Columns of zeros go first; then names are folded at their hyphens; then the optional columns go, one by
    one; then long words of names are divided.
    """
    if _total(heads, _widths(cells, len(heads))) <= columns:
        return heads, cells
    heads, cells = without_zeros(heads, cells)
    for divided, name in ((False, ""), *((False, name) for name in optional), (True, "")):
        kept = [at for at, head in enumerate(heads) if head != name]
        heads, cells = _picked(heads, cells, kept)
        widths = _widths(cells, len(heads))
        names = _folded_to_fit(heads, widths, columns, is_divided=divided)
        if names is not None:
            return names, cells
    return None


def _folded_to_fit(
    heads: Sequence[str], widths: Sequence[int], columns: int, *, is_divided: bool
) -> Sequence[str] | None:
    names = [*heads]
    while _total(names, widths) > columns:
        room = [
            _width(name) - max(width, _least(head, is_divided=is_divided))
            for head, name, width in zip(heads, names, widths, strict=True)
        ]
        most = max(room, default=0)
        if most <= 0:
            return None
        at = room.index(most)
        names[at] = _folded(heads[at], _width(names[at]) - 1)
    return names


def _least(head: str, *, is_divided: bool) -> int:
    """The least width of a name."""
    return max(
        -(-len(word) // 2) if is_divided and len(word) >= _LONG_WORD else len(word)
        for word in _words(head)
    )


def _words(head: str) -> list[str]:
    return re.findall("[^-]+-?|-", head)


def _folded(head: str, width: int) -> str:
    """Fold a name at its hyphens, and a word that is longer than the width in two halves."""
    lines = [""]
    for word in _words(head):
        size = len(word) if len(word) <= width else -(-len(word) // 2)
        for piece in (word[:size], word[size:]):
            if piece and len(lines[-1] + piece) <= width and size == len(word):
                lines[-1] += piece
            elif piece:
                lines.append(piece)
    return "\n".join(filter(None, lines))


def without_zeros(heads: Sequence[str], cells: Lines) -> tuple[Sequence[str], Lines]:
    """Leave out the columns in which every row has 0 or nothing; the first one stays."""
    kept = [
        at for at in range(len(heads)) if not at or any(row[at] not in ("", "0") for row in cells)
    ]
    return _picked(heads, cells, kept)


def _picked(heads: Sequence[str], cells: Lines, kept: Sequence[int]) -> tuple[list[str], Lines]:
    return [heads[at] for at in kept], [[row[at] for at in kept] for row in cells]


def upright(heads: Sequence[str], cells: Lines) -> str:
    """Each row as lines of `name: value`, with an empty line between rows."""
    rows = (
        "".join(f"{head}: {cell}".rstrip() + "\n" for head, cell in zip(heads, row, strict=True))
        for row in cells
    )
    return "\n".join(rows)


def _total(heads: Sequence[str], widths: Sequence[int]) -> int:
    wide = [max(_width(head), width) for head, width in zip(heads, widths, strict=True)]
    return sum(wide) + _BETWEEN * (len(wide) - 1)


def _widths(cells: Lines, count: int) -> list[int]:
    return [max((_width(row[at]) for row in cells), default=0) for at in range(count)]


def _width(text: str) -> int:
    """How many columns of a terminal it takes; a name may have several lines."""
    if "\n" in text:
        return max(map(_width, text.split("\n")))
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
        table.add_column(
            Text(head), overflow="fold", vertical="bottom"
        )  # as a text: brackets would be its markup
    for row in cells:
        table.add_row(*(Text(cell, _STYLES.get(cell, "")) for cell in row))
    # What is wider than the terminal stands upright, so that nothing is left to fold.
    wide = _total(heads, _widths(cells, len(heads))) + _BETWEEN
    console = Console(file=sys.stdout, width=wide, no_color=not is_coloured, highlight=False)
    with console.capture() as captured:
        console.print(table)
    return "".join(line.rstrip() + "\n" for line in captured.get().splitlines())

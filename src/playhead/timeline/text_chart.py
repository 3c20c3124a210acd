"""Draws a timeline in characters: time from left to right, the count as the height of columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from playhead.grammar.zone import UTC
from playhead.timeline.timeline import Bucket, labels

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_HATCHED = "░"
_RED, _PLAIN = "\x1b[31m", "\x1b[0m"
_LEAST_WIDTH, _LEAST_COLUMNS = 24, 8
_MARGIN = 14


@dataclass(frozen=True, slots=True)
class ChartSize:
    """The size of a chart, and the characters that can be used."""

    width: int = 80
    height: int = 8
    has_blocks: bool = True
    """Whether block characters can be used; otherwise `#` and `.` replace them."""
    has_colour: bool = False

    @property
    def columns(self) -> int:
        """How many columns fit beside any scale."""
        return max(_LEAST_COLUMNS, self.width - _MARGIN)


def histogram(
    buckets: Sequence[Bucket], paper: ChartSize | None = None, zone: str = UTC
) -> list[str]:
    """Return the lines of the chart: columns with a scale, the axis, and times of the zone below it.

    Missing records are hatched on top of the others, so that both together are the topic.
    """
    paper = paper or ChartSize()
    most = max(each.offsets for each in buckets)
    scale = f"{most:,}"
    columns = max(_LEAST_COLUMNS, max(paper.width, _LEAST_WIDTH) - len(scale) - 2)
    drawn = fitted(buckets, columns)
    wide = max(1, columns // len(drawn))
    top = max(each.offsets for each in drawn)
    scale = f"{top:,}".rjust(len(scale))
    cells = [_column(each, top, paper) for each in drawn]
    lines = []
    for row in reversed(range(paper.height)):
        margin = scale if row == paper.height - 1 else " " * len(scale)
        bars = "".join(_coloured(column[row] * wide, paper) for column in cells)
        lines.append(f"{margin} {_mark(paper, '│', '|')}{bars}".rstrip())
    axis = _mark(paper, "└", "+") + _mark(paper, "─", "-") * (wide * len(drawn))
    lines.append(f"{'0'.rjust(len(scale))} {axis}")
    lines.append(" " * (len(scale) + 2) + _times(drawn, wide * len(drawn), zone))
    return lines


def legend(missing: int, where: str, paper: ChartSize | None = None) -> str:
    """Return the legend for the hatching."""
    paper = paper or ChartSize()
    return f"{_coloured(_mark(paper, _HATCHED, '.') * 2, paper)} {missing:,} not in {where}"


def fitted(buckets: Sequence[Bucket], columns: int) -> list[Bucket]:
    """Merge neighbouring buckets into at most `columns` of equal length."""
    each_of = -(-len(buckets) // columns)
    starts = [*range(0, len(buckets), each_of), len(buckets)]
    return [
        Bucket(
            buckets[start].from_ms,
            buckets[end - 1].to_ms,
            sum(each.offsets for each in buckets[start:end]),
            sum(each.missing for each in buckets[start:end]),
        )
        for start, end in pairwise(starts)
    ]


def _column(bucket: Bucket, most: int, paper: ChartSize) -> list[str]:
    """Return the cells of a column, the lowest first."""
    missing = min(bucket.missing, bucket.offsets)
    whole = _eighths(bucket.offsets, most, paper.height)
    there = _eighths(bucket.offsets - missing, most, paper.height)
    cells = []
    for row in range(paper.height):
        filled = min(max(there - 8 * row, 0), 8)
        is_hatched = missing > 0 and filled < 8 and whole > 8 * row
        if is_hatched and (filled == 0 or there == whole):
            cells.append(_mark(paper, _HATCHED, "."))
        else:
            cells.append(_EIGHTHS[filled] if paper.has_blocks else "#" if filled >= 4 else " ")
    if not paper.has_blocks and whole and cells[0] == " ":
        cells[0] = "#"  # Even a small count is visible.
    return _with_some_hatching(cells, missing, paper)


def _with_some_hatching(cells: list[str], missing: int, paper: ChartSize) -> list[str]:
    """Hatch the highest visible cell if any record is missing."""
    mark = _mark(paper, _HATCHED, ".")
    if missing and mark not in cells:
        top = max((row for row, cell in enumerate(cells) if cell != " "), default=0)
        cells[top] = mark
    return cells


def _eighths(count: int, most: int, height: int) -> int:
    """Return the height in eighths of a cell; at least one if the count is not 0."""
    if count <= 0 or most <= 0:
        return 0
    return max(1, round(count * height * 8 / most))


def _coloured(text: str, paper: ChartSize) -> str:
    is_missing = text[:1] in (_HATCHED, ".")
    return f"{_RED}{text}{_PLAIN}" if is_missing and paper.has_colour else text


def _mark(paper: ChartSize, block: str, plain: str) -> str:
    return block if paper.has_blocks else plain


def _times(buckets: Sequence[Bucket], width: int, zone: str) -> str:
    """Return as many times as fit below the columns, including the first start and the last end."""
    first, last = buckets[0].from_ms, buckets[-1].to_ms
    longest = max(map(len, labels([first, last], zone)))
    count = max(1, min(5, width // (longest + 4)))
    instants = [first + (last - first) * index // count for index in range(count + 1)]
    line = ""
    for index, text in enumerate(labels(instants, zone)):
        at = width * index // count
        start = min(max(at - (len(text) // 2 if 0 < index < count else 0), 0), width - len(text))
        if index == count:
            start = width - len(text)
        if start >= len(line) + bool(line):
            line = line.ljust(start) + text
    return line

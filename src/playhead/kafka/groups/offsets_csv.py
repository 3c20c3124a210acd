"""The CSV format of Kafka's own tool: `topic,partition,offset`, or with the group first."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from playhead.errors import UsageError
from playhead.host import named_files
from playhead.source import TopicPartition

ByGroup = Mapping[str, Mapping[TopicPartition, int]]
# Kafka's writer quotes longer values without checking them.
_QUOTED_OVER = 24
_LEAST, _MOST = -(2**63), 2**63 - 1
_MOST_DIGITS = 19
_FORM = "needed topic,partition,offset, or group,topic,partition,offset"


class BadOffsetsFile(UsageError):
    """An invalid line of an offsets file."""

    def __init__(self, file: str, line: int, *, reason: str) -> None:
        self.file, self.line, self.reason = file, line, reason
        super().__init__(f"{file}, line {line}: {reason}", hint=f"{_FORM}; there is no header")


class NoPlanInFile(UsageError):
    """The file has no offsets for the group."""

    def __init__(self, file: str, group: str, *, found: Sequence[str]) -> None:
        self.file, self.group = file, group
        shown = ", ".join(found[:5]) + (" and others" if len(found) > 5 else "")
        super().__init__(
            f"{file} has no offsets for group {group}; it has some for {shown or 'no group'}"
        )


def write(offsets: ByGroup, *, with_group: bool) -> str:
    """Return the lines in the order of group, topic and partition."""
    rows = [
        (*((group,) if with_group else ()), topic, partition, offset)
        for group in sorted(offsets)
        for (topic, partition), offset in sorted(offsets[group].items())
    ]
    return "".join(",".join(map(_cell, row)) + "\n" for row in rows)


def _cell(value: str | int) -> str:
    if isinstance(value, int):
        return str(value)
    is_plain = len(value) <= _QUOTED_OVER and all(c > "," and c != "\\" for c in value)
    return value if is_plain else '"' + value.replace('"', '""') + '"'


def read_file(file: Path, groups: Sequence[str]) -> ByGroup:
    """Read a file's offsets by group; a file without groups belongs to the one named group."""
    try:
        text = named_files.text_of(file, encoding="utf-8-sig")
    except OSError as exc:
        raise UsageError(f"cannot read {file}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise UsageError(f"{file} is not UTF-8 text: {exc.reason}") from exc
    return read(text, groups, where=str(file))


def read(text: str, groups: Sequence[str], *, where: str) -> ByGroup:
    """Parse a text of such lines."""
    found: dict[str, dict[TopicPartition, int]] = {}
    lines: dict[tuple[str, TopicPartition], int] = {}
    columns = 0
    for line, cells in _rows(text, where):
        columns = columns or _columns(cells, groups, where, line)
        if len(cells) != columns:
            shown = f"found {len(cells)} values, but the first line has {columns}"
            raise BadOffsetsFile(where, line, reason=shown)
        group = cells[0] if columns == 4 else groups[0]
        place = _text(cells[-3], "topic", where, line), _partition(cells[-2], where, line)
        if (earlier := lines.get((group, place))) is not None:
            reason = f"{place[0]}:{place[1]} of group {group} is already in line {earlier}"
            raise BadOffsetsFile(where, line, reason=reason)
        lines[group, place] = line
        offset = _number(cells[-1], "an offset", where, line)
        found.setdefault(_text(group, "group", where, line), {})[place] = offset
    if not found:
        raise UsageError(f"{where} is empty", hint=_FORM)
    return found


def _rows(text: str, where: str) -> Iterable[tuple[int, list[str]]]:
    """Yield number and values of every line that is not empty."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                # A group's name may begin with a space; nothing else may.
                yield reader.line_num, [*cells[:-3], *(cell.strip() for cell in cells[-3:])]
    except csv.Error as exc:
        raise BadOffsetsFile(where, reader.line_num, reason=str(exc)) from exc


def _columns(cells: Sequence[str], groups: Sequence[str], where: str, line: int) -> int:
    if len(cells) == 3 and len(groups) != 1:
        reason = "it has no group column, and the command does not name exactly one group"
        raise BadOffsetsFile(where, line, reason=reason)
    if len(cells) not in (3, 4):
        raise BadOffsetsFile(where, line, reason=f"found {len(cells)} values")
    return len(cells)


def _text(cell: str, name: str, where: str, line: int) -> str:
    if not cell:
        raise BadOffsetsFile(where, line, reason=f"the {name} is empty")
    return cell


def _partition(cell: str, where: str, line: int) -> int:
    number = _number(cell, "a partition", where, line)
    if not 0 <= number < 2**31:
        raise BadOffsetsFile(where, line, reason=f"{cell:.60} is not a partition number")
    return number


def _number(cell: str, needed: str, where: str, line: int) -> int:
    digits = cell.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise BadOffsetsFile(where, line, reason=f"found {cell!r:.60}, needed {needed}")
    if len(digits) > _MOST_DIGITS or not _LEAST <= int(cell) <= _MOST:
        raise BadOffsetsFile(where, line, reason=f"{cell:.60} is too large for {needed}")
    return int(cell)

"""Follows the logs that match a pattern, in order, while files are created, grow, and are renamed or truncated."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from glob import glob, has_magic
from io import FileIO
from itertools import chain, takewhile
from operator import attrgetter
from os.path import realpath
from pathlib import Path
from threading import Event
from typing import Final, NamedTuple

from playhead.host.folder_tree import folders_below
from playhead.host.folders import open_plain
from playhead.queries.log_file import ContentChanged, LogFile, UnreadableFile, open_log
from playhead.querylog.cutting import LONGEST_ROW
from playhead.querylog.located import LocatedRow

_MOST_OPEN: Final = 64
"""Number of files that are kept open, so that their rest can be read after a rename or deletion."""
_BEGINNING: Final = 1 << 16
_MOST_KEPT: Final = 4 * LONGEST_ROW
"""Most bytes of incomplete rows of all logs together; a server writes to one log after the other."""
_LEAST_ROOM: Final = _BEGINNING
"""Room for the incomplete row of each log, whatever the others keep: as much as its beginning takes."""
_JUST_NOW_S: Final = 2.0
_ANY_FOLDERS: Final = "**"


class KeptLog(NamedTuple):
    """The state of a log from an earlier run: its number, and the position after its last shipped row."""

    sequence: int
    position: int
    tail: str = ""
    """A digest of the bytes before the position; empty where it is unknown."""


Step = list[tuple[LogFile, list[LocatedRow]]]


@dataclass(slots=True)
class LogFolder:
    """All logs of one pattern. Rows are returned in the order of the logs, so that each session's order is kept."""

    pattern: str
    prefixes: tuple[str, ...]
    kept: Mapping[str, KeptLog]
    say: Callable[[str], None]
    stopping: Event = field(default_factory=Event)
    logs: list[LogFile] = field(default_factory=list)
    """The logs, in order."""
    unknown: set[Path] = field(default_factory=set)
    """Non-empty files without a row that can be parsed."""
    unreadable: dict[Path, UnreadableFile] = field(default_factory=dict)
    maybe_lost: int = 0
    """Logs that were truncated or deleted, and may not have been read to their end."""
    _known: dict[str, LogFile] = field(default_factory=dict)
    _stamps: dict[Path, tuple[int, ...]] = field(default_factory=dict)
    """The state of each file at the last scan."""
    _keeping: list[LogFile] = field(default_factory=list)
    """The logs whose incomplete rows were in memory after their last read."""

    @property
    def _folder(self) -> Path:
        """The folder that contains all files of the pattern."""
        parts = Path(self.pattern).parts[:-1]
        return Path(*takewhile(lambda part: not has_magic(part), parts))

    def look(self) -> None:
        """Scan for new and changed files."""
        new = []
        for path in _matching(Path(self.pattern)):
            log = self._opened(path)
            if log is None:
                continue
            known = self._known.get(log.identity)
            if known is not None:
                _take(known, log)
                continue
            new.append(log)
            if len(new) > _MOST_OPEN:
                log.close()
        for log in sorted(new, key=attrgetter("time_us", "path")):
            if log.identity in self._known:  # A copy of another new file.
                log.close()
            else:
                self._add(log)
        self._close_the_oldest()

    def _opened(self, path: Path) -> LogFile | None:
        try:
            state = path.stat()
        except OSError:
            return None
        stamp = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)
        if self._stamps.get(path) == stamp or not path.is_file():
            return None
        try:
            log = open_log(path, self.prefixes, self._folder)
        except UnreadableFile as exc:
            if path not in self.unreadable:
                self.say(f"{exc}")
            self.unreadable[path] = exc
            return None
        self.unreadable.pop(path, None)
        self._stamps[path] = stamp
        if log is not None:
            self.unknown.discard(path)
        elif path not in self.unknown and _has_a_line(path):
            self.say(f"{path} contains no row of a log that can be parsed yet")
            self.unknown.add(path)
        return log

    def _add(self, log: LogFile) -> None:
        taken = [each.sequence for each in self.kept.values()]
        taken += [each.sequence for each in self.logs]
        before = self.kept.get(log.identity) or KeptLog(max(taken, default=-1) + 1, 0)
        log.sequence = before.sequence
        log.go_to(before.position if self._has_grown_only(log, before) else 0)
        self._known[log.identity] = log
        self.logs.append(log)
        self.logs.sort(key=attrgetter("sequence"))

    def _has_grown_only(self, log: LogFile, before: KeptLog) -> bool:
        """Return whether the last shipped bytes are still before the position.

        An older copy begins with the same row, and a server that continues in it writes other rows over the
        position: the rows of the copy are repeated, so that none of the others is lost.
        """
        # A copy that is shorter may be one beside the log itself, which the next scan finds.
        is_long_enough = log.size() >= before.position
        now = log.tail_at(before.position) if before.tail and is_long_enough else ""
        if now in ("", before.tail):
            return True
        self.say(
            f"{log.path} has other content before byte {before.position:,}, up to which it was shipped: an older "
            "copy of it was restored, or it was rewritten. It is shipped again from its beginning"
        )
        return False

    def _close_the_oldest(self) -> None:
        opened = [log for log in self.logs if log.stream is not None]
        for log in opened[:-_MOST_OPEN]:
            if log.is_done or not (log.unread_bytes() or log.is_packed):
                log.close()
                log.is_done = True

    def step(self) -> Step:
        """Return the next rows of the first log that has some, after new rows of earlier logs."""
        for index, log in enumerate(self.logs):
            rows = self._rows_of(log)
            if rows:
                # A server writes to one log after the other, so earlier logs are complete up to these rows.
                return [*self._rest_of(self.logs[:index]), (log, rows)]
            if self.stopping.is_set() and self._has_more(log):
                break  # What it still has is before the rows of later logs.
        return []

    def _rest_of(self, logs: list[LogFile]) -> Step:
        found: Step = []
        for log in logs:
            while log.unread_bytes() and (rows := self._rows_of(log)):
                found.append((log, rows))
        return found

    def _rows_of(self, log: LogFile) -> list[LocatedRow]:
        if log.is_done or log.is_gone or (log.stream is None and not self._reopened(log)):
            return []
        try:
            log.keep_at_most(self._room_for(log))
            rows = log.read()
            # A row may be longer than one read. A small file, packed or with holes, can last hours without a row.
            while not rows and self._has_more(log) and not self.stopping.is_set():
                rows = log.read()
            return rows
        except ContentChanged:
            self._gone(log)
            return []
        finally:
            if log.kept_bytes:
                self._keeping.append(log)

    def _has_more(self, log: LogFile) -> bool:
        return not log.is_done and (log.is_packed or bool(log.unread_bytes()))

    def _room_for(self, log: LogFile) -> int:
        """Return how long the log's incomplete row may become: many files would fill the memory together."""
        self._keeping = [each for each in self._keeping if each.kept_bytes and each is not log]
        others = sum(each.kept_bytes for each in self._keeping)
        return max(_LEAST_ROOM, min(LONGEST_ROW, _MOST_KEPT - others))

    def _reopened(self, log: LogFile) -> bool:
        self._close_the_oldest()
        again = open_log(log.path, self.prefixes, self._folder)
        if again is not None and again.identity == log.identity:
            log.move_to(again)
            return True
        if again is not None:
            again.close()
        self._gone(log)
        return False

    def _gone(self, log: LogFile) -> None:
        """Handle a log whose file contains another log now. Another file may contain it, such as an earlier copy."""
        if log.held_bytes or log.stream is None or log.is_fresh(_JUST_NOW_S):
            self.maybe_lost += 1
            self.say(
                f"{log.path} was truncated or replaced while it was read: rows after byte "
                f"{log.position:,} of the earlier log are lost, unless another file contains them"
            )
        log.close()
        log.is_gone = True
        self._stamps.clear()

    def is_settling(self) -> bool:
        """Return whether a log may have a complete row as soon as it has not grown for a moment."""
        return any(log.held_bytes and not log.is_quiet() for log in self.logs)

    def go_back(self, positions: Mapping[str, KeptLog]) -> None:
        """Reset each log to the position of the last committed transaction."""
        for log in self.logs:
            kept = positions.get(log.identity, KeptLog(log.sequence, 0))
            if log.is_gone and kept.position < log.position:
                self.maybe_lost += 1
                self.say(
                    f"{log.path} was truncated or replaced before its rows up to byte {log.position:,} were shipped"
                )
            log.go_to(kept.position)

    def close(self) -> None:
        for log in self.logs:
            log.close()


def _matching(pattern: Path) -> Iterator[Path]:
    """Yield the paths that match; `**` means any number of folders."""
    top, *names = pattern.parts
    yield from map(Path, _found(top, names))


def _found(folder: str, names: Sequence[str]) -> Iterable[str]:
    """Return the paths below a folder that match these names."""
    if _ANY_FOLDERS not in names:
        # With the whole path, glob calls itself for each level.
        inside = glob("/".join(names), root_dir=folder)  # noqa: PTH207
        return [str(Path(folder, each)) for each in inside]
    at = names.index(_ANY_FOLDERS)
    tops = _found(folder, names[:at]) if at else [folder]
    inner = (each for top in tops for each in folders_below(top, by_links=True))
    return dict.fromkeys(
        chain.from_iterable(_found(each, names[at + 1 :] or "*") for each in inner)
    )


def _take(known: LogFile, log: LogFile) -> None:
    """Handle a file with a known log: it has grown, was renamed, or is a copy."""
    if known.stream is None and (log.is_packed or log.size() >= known.position):
        known.move_to(log)
        return
    if known.is_in(log):
        known.path = log.path
    log.close()


def _has_a_line(path: Path) -> bool:
    """Return whether the file contains a complete line; an incomplete first line is not reported."""
    try:
        with FileIO(open_plain(realpath(path), os.O_RDONLY), "rb") as file:
            return file.read(_BEGINNING).find(b"\n") >= 0
    except OSError:
        return False

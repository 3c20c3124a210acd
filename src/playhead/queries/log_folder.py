"""The logs that a pattern matches, in their order, while files come, grow, are renamed and are truncated."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from glob import glob
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from playhead.queries.log_file import ContentChanged, LogFile, UnreadableFile, open_log
from playhead.querylog.located import LocatedRow

_MOST_OPEN: Final = 64
"""Files that are kept open, so that their rest can be read when they are renamed or deleted."""
_BEGINNING: Final = 1 << 16
_JUST_NOW_S: Final = 2.0


class KeptLog(NamedTuple):
    """What an earlier run has left of a log: its number, and behind which byte it stopped."""

    sequence: int
    position: int


Step = list[tuple[LogFile, list[LocatedRow]]]


@dataclass(slots=True)
class LogFolder:
    """All logs of one pattern. Rows come in the order of the logs, so that those of a session stay in theirs."""

    pattern: str
    prefixes: tuple[str, ...]
    kept: Mapping[str, KeptLog]
    say: Callable[[str], None]
    logs: list[LogFile] = field(default_factory=list)
    """In their order."""
    unknown: set[Path] = field(default_factory=set)
    """Files that are not empty, and have no row that is understood."""
    unreadable: dict[Path, UnreadableFile] = field(default_factory=dict)
    maybe_lost: int = 0
    """Logs that were truncated or deleted before it was sure that they were read to their end."""
    _known: dict[str, LogFile] = field(default_factory=dict)
    _stamps: dict[Path, tuple[int, ...]] = field(default_factory=dict)
    """What each file was like when it was looked at."""

    def look(self) -> None:
        """Find files that are new or have changed."""
        new = []
        # Not Path.glob, which wants a pattern without a root.
        for path in map(Path, glob(self.pattern, recursive=True)):  # noqa: PTH207
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
            if log.identity in self._known:  # A copy of another new one.
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
            log = open_log(path, self.prefixes)
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
            self.say(f"{path} has no row of a log that is understood yet")
            self.unknown.add(path)
        return log

    def _add(self, log: LogFile) -> None:
        taken = [each.sequence for each in self.kept.values()]
        taken += [each.sequence for each in self.logs]
        before = self.kept.get(log.identity) or KeptLog(max(taken, default=-1) + 1, 0)
        log.sequence = before.sequence
        log.go_to(before.position)
        self._known[log.identity] = log
        self.logs.append(log)
        self.logs.sort(key=attrgetter("sequence"))

    def _close_the_oldest(self) -> None:
        opened = [log for log in self.logs if log.stream is not None]
        for log in opened[:-_MOST_OPEN]:
            if log.is_done or not (log.unread_bytes() or log.is_packed):
                log.close()
                log.is_done = True

    def step(self) -> Step:
        """Return the next rows of the first log that has some, behind what is new in the logs before it."""
        for index, log in enumerate(self.logs):
            rows = self._rows_of(log)
            if rows:
                # A server writes to one log after the other: what it wrote before these rows is there now.
                return [*self._rest_of(self.logs[:index]), (log, rows)]
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
            rows = log.read()
            # A row may be longer than what is read at once.
            while not rows and (log.unread_bytes() or (log.is_packed and not log.is_done)):
                rows = log.read()
            return rows
        except ContentChanged:
            self._gone(log)
            return []

    def _reopened(self, log: LogFile) -> bool:
        self._close_the_oldest()
        again = open_log(log.path, self.prefixes)
        if again is not None and again.identity == log.identity:
            log.move_to(again)
            return True
        if again is not None:
            again.close()
        self._gone(log)
        return False

    def _gone(self, log: LogFile) -> None:
        """Its file has another log now. Another file may have it: a copy that was made before."""
        if log.held_bytes or log.stream is None or log.is_fresh(_JUST_NOW_S):
            self.maybe_lost += 1
            self.say(
                f"{log.path} was truncated or replaced while it was read: rows behind byte "
                f"{log.position:,} of the log before are lost, unless another file has them"
            )
        log.close()
        log.is_gone = True
        self._stamps.clear()

    def is_settling(self) -> bool:
        """Whether a log may have a row that is complete, as soon as it has been quiet for a moment."""
        return any(log.held_bytes and not log.is_quiet() for log in self.logs)

    def go_back(self, positions: Mapping[str, KeptLog]) -> None:
        """Go back to where a transaction has left each log."""
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


def _take(known: LogFile, log: LogFile) -> None:
    """A file with a log that is known: it has grown, or was renamed, or is a copy."""
    if known.stream is None and (log.is_packed or log.size() >= known.position):
        known.move_to(log)
        return
    if known.is_in(log):
        known.path = log.path
    log.close()


def _has_a_line(path: Path) -> bool:
    """Whether something complete is in it; what has just begun is no trouble."""
    try:
        with path.open("rb") as file:
            return file.read(_BEGINNING).find(b"\n") >= 0
    except OSError:
        return False

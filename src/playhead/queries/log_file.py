"""One log file that grows: read from where an earlier process stopped, and recognised by its first row."""

import gzip
import hashlib
import os
import time
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import BinaryIO, Final, cast

from playhead.errors import PlayheadError
from playhead.querylog.cutting import RowCutter, cutter_of, form_of
from playhead.querylog.located import LocatedRow, located
from playhead.querylog.stderr_prefix import prefix_among

_BEGINNING: Final = 1 << 16
_AT_ONCE: Final = 1 << 20
_QUIET_S: Final = 0.25
"""A server writes a row of stderr in one piece: what follows after this time is the next row."""
_GZIP: Final = b"\x1f\x8b"


class UnreadableFile(PlayheadError):
    """A log file that cannot be read."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(
            f"{path} cannot be read: {reason}",
            hint="a server's logs belong to its user; log_file_mode = 0640 lets its group read them",
        )


class ContentChanged(Exception):
    """The file has another log now: it was truncated, or something was put in its place."""


@dataclass(slots=True)
class LogFile:
    """A log, and the file that has it now. `position` is behind the last row that was given out."""

    path: Path
    beginning: bytes
    """Up to the end of its first row that is understood."""
    stream: BinaryIO | None
    """None while it is closed."""
    is_packed: bool
    prefix: str
    sequence: int = -1
    """Its number among the logs, in their order."""
    position: int = 0
    time_us: int = 0
    is_done: bool = False
    """It was read to its end, and its file has not changed since."""
    is_gone: bool = False
    """No file has it any more."""
    _cutter: RowCutter = field(init=False)
    _grew_at: float = 0.0

    def __post_init__(self) -> None:
        self.go_to(self.position)

    @property
    def identity(self) -> str:
        """What it is known by, whatever the name and the inode of its file are."""
        return hashlib.sha256(self.beginning).hexdigest()[:32]

    @property
    def held_bytes(self) -> int:
        """Bytes of a row that is not complete."""
        return self._cutter.held_bytes

    def go_to(self, position: int) -> None:
        """Go on at this byte, where a row begins."""
        self.position, self.is_done = position, False
        self._cutter = cutter_of(form_of(self.beginning), self.prefix)

    def move_to(self, other: "LogFile") -> None:
        """Go on in another file with the same log."""
        self.close()
        self.path, self.stream, self.is_packed = other.path, other.stream, other.is_packed
        self.is_gone = False
        self.go_to(self.position)

    def is_in(self, other: "LogFile") -> bool:
        """Whether both are open in the same file."""
        return self._inode() == other._inode() is not None

    def _inode(self) -> tuple[int, int] | None:
        if self.stream is None:
            return None
        state = os.fstat(self.stream.fileno())
        return state.st_dev, state.st_ino

    def size(self) -> int:
        """How many bytes its file has, which is packed or not; 0 while it is closed."""
        return 0 if self.stream is None else os.fstat(self.stream.fileno()).st_size

    def unread_bytes(self) -> int:
        """How many bytes follow; of a packed file this is not known."""
        return 0 if self.is_packed else max(0, self.size() - self._read_to())

    def _read_to(self) -> int:
        return self.position + self._cutter.held_bytes

    def is_fresh(self, within_s: float) -> bool:
        """Whether it grew a moment ago."""
        return time.monotonic() - self._grew_at < within_s

    def is_quiet(self) -> bool:
        """Whether nothing has come for so long that a row of stderr is complete."""
        return not self.is_fresh(_QUIET_S)

    def read(self) -> list[LocatedRow]:
        """Return rows that are complete and were not read; raises `ContentChanged`."""
        data = self._unpacked() if self.is_packed else self._bytes()
        if data:
            self._grew_at = time.monotonic()
            return self._located(self._cutter.take(data))
        self.is_done = self.is_packed
        return self._located(self._cutter.end()) if self.is_done or self.is_quiet() else []

    def _located(self, rows: Iterable[bytes]) -> list[LocatedRow]:
        found = [*located(rows, self.position, prefix=self.prefix, time_us=self.time_us)]
        if found:
            self.position = found[-1].start + found[-1].length
            self.time_us = found[-1].time_us
        return found

    def _bytes(self) -> bytes:
        number = cast(BinaryIO, self.stream).fileno()
        data = os.pread(number, _AT_ONCE, self._read_to())
        # Looked at after the reading: bytes of another log are never there before its beginning.
        is_same = os.pread(number, len(self.beginning), 0) == self.beginning
        if not is_same or self.size() < self._read_to():
            raise ContentChanged
        return data

    def _unpacked(self) -> bytes:
        stream = cast(BinaryIO, self.stream)
        try:
            if stream.tell() != self._read_to():
                stream.seek(self._read_to())
            return stream.read(_AT_ONCE)
        except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
            raise UnreadableFile(self.path, f"its gzip is broken: {exc}") from None

    def close(self) -> None:
        if self.stream is not None:
            self.stream.close()
            self.stream = None


def open_log(path: Path, prefixes: tuple[str, ...]) -> LogFile | None:
    """Open a log; None if there is no file, or no row yet by which the log would be known again."""
    try:
        plain = path.open("rb", buffering=0)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise UnreadableFile(path, exc.strerror or str(exc)) from None
    is_packed = plain.read(2) == _GZIP
    plain.seek(0)
    stream = cast(BinaryIO, _unpacking(plain) if is_packed else plain)
    try:
        found = stream.read(_BEGINNING)
    except (OSError, EOFError, zlib.error) as exc:
        stream.close()
        raise UnreadableFile(path, str(exc)) from None
    prefix = prefix_among(prefixes, found)
    first = _first_row(found, prefix)
    if first is None:
        stream.close()
        return None
    beginning = found[: first.start + first.length]
    return LogFile(path, beginning, stream, is_packed, prefix, time_us=first.time_us)


def _unpacking(plain: FileIO) -> gzip.GzipFile:
    packed = gzip.GzipFile(fileobj=plain)
    # So that closing it closes the file.
    packed.myfileobj = plain
    return packed


def _first_row(found: bytes, prefix: str) -> LocatedRow | None:
    cutter = cutter_of(form_of(found), prefix)
    rows = located([*cutter.take(found), *cutter.end()], prefix=prefix)
    return next((row for row in rows if row.reason is None), None)

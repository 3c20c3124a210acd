"""Reads one growing log file from the position of an earlier process, and recognises it by its first row."""

import errno
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
from playhead.host.folders import open_plain, opened
from playhead.host.own_links import opened_by_own_links
from playhead.host.packed_files import unpacked
from playhead.querylog.cutting import LONGEST_ROW, RowCutter, cutter_of, form_of
from playhead.querylog.located import LocatedRow, located
from playhead.querylog.stderr_prefix import prefix_among

_BEGINNING: Final = 1 << 16
_AT_ONCE: Final = 1 << 20
_TAIL: Final = 256
_QUIET_S: Final = 0.25
"""A server writes a row of stderr at once: bytes after this time belong to the next row."""
_GZIP: Final = b"\x1f\x8b"
_REPLACED: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL, errno.ENXIO)
"""There is no regular file, or another thing has replaced it meanwhile."""


class UnreadableFile(PlayheadError):
    """A log file that cannot be read."""

    def __init__(self, path: Path, reason: str, *, hint: str | None = None) -> None:
        self.path, self.reason = path, reason
        super().__init__(
            f"{path} cannot be read: {reason}",
            hint=hint or "let the server's group read its logs: set log_file_mode = 0640",
        )


class ContentChanged(Exception):
    """The file contains another log now: it was truncated or replaced."""


@dataclass(slots=True)
class LogFile:
    """A log, and the file that contains it. `position` is the byte after the last returned row."""

    path: Path
    beginning: bytes
    """The bytes up to the end of its first row that can be parsed, or the first ones of these."""
    stream: BinaryIO | None
    """None while it is closed."""
    is_packed: bool
    prefix: str
    sequence: int = -1
    """Its number in the order of the logs."""
    position: int = 0
    time_us: int = 0
    is_done: bool = False
    """Whether it was read to its end, and its file has not changed since."""
    is_gone: bool = False
    """Whether no file contains it any more."""
    _cutter: RowCutter = field(init=False)
    _grew_at: float = 0.0

    def __post_init__(self) -> None:
        self.go_to(self.position)

    @property
    def identity(self) -> str:
        """The identity of the log, independent of the name and inode of its file."""
        return hashlib.sha256(self.beginning).hexdigest()[:32]

    @property
    def held_bytes(self) -> int:
        """Number of bytes of the incomplete row."""
        return self._cutter.held_bytes

    @property
    def kept_bytes(self) -> int:
        """Number of bytes of the incomplete row that are in memory."""
        return self._cutter.kept_bytes

    def tail_at(self, position: int) -> str:
        """Return a digest of the last bytes before a position; empty where they cannot be read at once."""
        if self.is_packed or self.stream is None:
            return ""
        start = max(0, position - _TAIL)
        tail = os.pread(self.stream.fileno(), position - start, start)
        return hashlib.sha256(tail).hexdigest()[:32]

    def go_to(self, position: int) -> None:
        """Continue at this byte, the beginning of a row."""
        self.position, self.is_done = position, False
        self._cutter = cutter_of(form_of(self.beginning), self.prefix)

    def move_to(self, other: "LogFile") -> None:
        """Continue in another file with the same log."""
        self.close()
        self.path, self.stream, self.is_packed = other.path, other.stream, other.is_packed
        self.is_gone = False
        self.go_to(self.position)

    def is_in(self, other: "LogFile") -> bool:
        """Return whether both have the same file open."""
        return self._inode() == other._inode() is not None

    def _inode(self) -> tuple[int, int] | None:
        if self.stream is None:
            return None
        state = os.fstat(self.stream.fileno())
        return state.st_dev, state.st_ino

    def size(self) -> int:
        """Return the size of its file, compressed or not; 0 while it is closed."""
        return 0 if self.stream is None else os.fstat(self.stream.fileno()).st_size

    def unread_bytes(self) -> int:
        """Return how many bytes are unread; 0 for a compressed file, where this is unknown."""
        return 0 if self.is_packed else max(0, self.size() - self._read_to())

    def _read_to(self) -> int:
        return self.position + self._cutter.held_bytes

    def is_fresh(self, within_s: float) -> bool:
        """Return whether it grew within this time."""
        return time.monotonic() - self._grew_at < within_s

    def is_quiet(self) -> bool:
        """Return whether it has not grown for long enough that a row of stderr is complete."""
        return not self.is_fresh(_QUIET_S)

    def keep_at_most(self, room: int) -> None:
        """Let the incomplete row become at most this long."""
        self._cutter.longest = room

    def read(self) -> list[LocatedRow]:
        """Return complete rows that were not read yet; raises `ContentChanged`."""
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
        # Checked after reading: the bytes of another log are never present before its beginning.
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
            raise UnreadableFile(self.path, f"its gzip data is damaged: {exc}") from None

    def close(self) -> None:
        if self.stream is not None:
            self.stream.close()
            self.stream = None


def open_log(path: Path, prefixes: tuple[str, ...], folder: Path) -> LogFile | None:
    """Open a log in this folder; None if there is no file, or no row yet by which it could be recognised."""
    plain = _opened(path, folder)
    if plain is None:
        return None
    is_packed = plain.read(2) == _GZIP
    plain.seek(0)
    stream = cast(BinaryIO, unpacked(plain) if is_packed else plain)
    found, most = b"", _BEGINNING
    while True:
        try:
            found += stream.read(most - len(found))
        except (OSError, EOFError, zlib.error) as exc:
            stream.close()
            raise UnreadableFile(path, str(exc)) from None
        prefix = prefix_among(prefixes, found[:_BEGINNING])
        first = _first_row(found, prefix)
        if first is not None:
            beginning = found[: min(first.start + first.length, _BEGINNING)]
            return LogFile(path, beginning, stream, is_packed, prefix, time_us=first.time_us)
        if len(found) < most or most >= LONGEST_ROW or _has_row(found, prefix):
            stream.close()
            return None
        most = min(8 * most, LONGEST_ROW)  # A statement can be long, and the first of its log.


def _opened(path: Path, folder: Path) -> FileIO | None:
    """Open a regular file; None if there is none.

    The server's user may write to the folder. A link there must not make a shipper with more rights read
    a file elsewhere. So the path is resolved first, and then opened name by name without following links:
    whatever replaces a name meanwhile leads nowhere. The folder itself may be below one of that user.
    """
    try:
        real, inside = path.resolve(strict=True), folder.resolve(strict=True)
        if not real.is_relative_to(inside):
            raise UnreadableFile(
                path, f"it is a link out of {folder}", hint=f"name the file itself: {real}"
            )
        below = str(real.parent.relative_to(inside))
        with opened_by_own_links(folder) as top, opened(top, below) as parent:
            return FileIO(open_plain(real.name, os.O_RDONLY, folder=parent), "rb")
    except RuntimeError:  # links in a circle
        return None
    except OSError as exc:
        if exc.errno in _REPLACED:  # the next look decides
            return None
        hint = f"name the folder itself: {inside}" if exc.filename == str(folder) else None
        raise UnreadableFile(path, exc.strerror or str(exc), hint=hint) from None


def _first_row(found: bytes, prefix: str) -> LocatedRow | None:
    cutter = cutter_of(form_of(found), prefix)
    rows = located([*cutter.take(found), *cutter.end()], prefix=prefix)
    return next((row for row in rows if row.reason is None), None)


def _has_row(found: bytes, prefix: str) -> bool:
    """Return whether something ends as a row does, whether or not it can be parsed."""
    return next(iter(cutter_of(form_of(found), prefix).take(found)), None) is not None

"""Writes a snapshot: a folder with `raw.jsonl`, one pair per line, and the full files before it."""

import fnmatch
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from playhead.errors import PlayheadError, Refused
from playhead.host import private_files
from playhead.host.faults import abort_point
from playhead.host.folders import move, open_plain
from playhead.host.own_links import opened_by_own_links

CURRENT: Final = "raw.jsonl"
_AT_ONCE_BYTES: Final = 1 << 20


class SnapshotThere(Refused):
    """The folder contains captured traffic already."""

    def __init__(self, folder: Path, *, found: str) -> None:
        self.folder, self.found = folder, found
        super().__init__(
            f"{folder} contains captured traffic already: {found}",
            hint="choose an empty or new folder with --out",
        )


class SnapshotNotWritten(PlayheadError):
    """A write to the snapshot failed."""

    def __init__(self, path: Path, *, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(
            f"{path} cannot be written: {reason}",
            hint="earlier lines are complete; free disk space, then capture into another folder",
        )


@dataclass(frozen=True, slots=True)
class Rotation:
    """Size and age at which a file is full; None means never."""

    bytes: int | None = None
    seconds: float | None = None


def claim(folder: Path) -> None:
    """Create the folder; raises `SnapshotThere` if it contains captured traffic."""
    try:
        if not folder.is_dir():
            private_files.folder(folder)
        with opened_by_own_links(folder) as handle:
            found = sorted(fnmatch.filter(os.listdir(handle), "raw*.jsonl"))  # noqa: PTH208
    except OSError as exc:
        raise SnapshotNotWritten(folder, reason=exc.strerror or str(exc)) from exc
    if found:
        raise SnapshotThere(folder, found=found[0])


class Snapshot:
    """Appends lines; a full file is renamed to a number after an fsync."""

    def __init__(
        self, folder: Path, rotation: Rotation, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder, self._rotation, self._now = folder, rotation, now
        self._held = bytearray()
        self._file: int | None = None
        # A handle of the folder, because its path may be replaced later.
        self._handle: int | None = None
        self._begun = 0.0
        self._size = 0
        self._held_lines = 0
        self.files = 0
        self.written_bytes = self.written_lines = 0
        """Bytes that were written; bytes in the buffer are not counted."""

    def write(self, line: bytes) -> None:
        """Append a line; it may stay in the buffer until `flush`."""
        size = self._size + len(self._held)
        most = self._rotation.bytes
        if most is not None and size and size + len(line) > most:
            self.rotate()
        self._held += line
        self._held_lines += 1
        if len(self._held) >= _AT_ONCE_BYTES:
            self.flush()

    def write_in_parts(self, parts: Callable[[], Iterable[bytes]]) -> None:
        """Append a large line, which goes to the file part by part; with a size to rotate at it is measured first."""
        self.flush()
        most = self._rotation.bytes
        if most is not None and self._size and self._size + sum(map(len, parts())) > most:
            self.rotate()
        try:
            self._append(parts(), 1)
        except OSError as exc:
            raise self._translated(exc) from exc

    def tick(self) -> None:
        """Call at intervals: fsync the file, and rotate it if it is old enough."""
        self.flush()
        seconds = self._rotation.seconds
        if seconds is not None and self._size and self._now() - self._begun >= seconds:
            self.rotate()

    def flush(self) -> None:
        """Write the buffer to the file, so that it survives the end of this process."""
        if not self._held:
            return
        try:
            self._put()
        except OSError as exc:
            raise self._translated(exc) from exc

    def _put(self) -> None:
        with memoryview(self._held) as held:
            self._append([held], self._held_lines)
        self._held_lines = 0
        self._held.clear()

    def _append(self, parts: Iterable[bytes | memoryview], lines: int) -> None:
        if self._file is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
            if self._handle is None:
                with opened_by_own_links(self._folder) as handle:
                    self._handle = os.dup(handle)
            self._file = open_plain(CURRENT, flags, folder=self._handle)
            self._begun, self.files = self._now(), self.files + 1
        size = 0
        try:
            for part in parts:
                size += len(part)
                left = memoryview(part)
                while left:
                    left = left[os.write(self._file, left) :]
        except BaseException:
            # A full disk may have accepted a part: cut the incomplete last line off.
            os.ftruncate(self._file, self._size)
            raise
        abort_point("capture.written")
        self._size += size
        self.written_bytes += size
        self.written_lines += lines

    def rotate(self) -> None:
        """End this file; the next line begins a new one."""
        self.flush()
        if self._file is None:
            return
        try:
            self._end()
            abort_point("capture.full")
            move(CURRENT, f"raw-{self.files:06d}.jsonl", self._handle, self._handle)
            abort_point("capture.numbered")
            if self._handle is not None:
                os.fsync(self._handle)
        except OSError as exc:
            raise self._translated(exc) from exc

    def close(self) -> None:
        """Write and fsync all lines; the last file keeps its name."""
        self.flush()
        try:
            self._end()
        except OSError as exc:
            raise self._translated(exc) from exc
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _end(self) -> None:
        if self._file is not None:
            os.fsync(self._file)
            os.close(self._file)
            self._file, self._size = None, 0

    def _translated(self, exc: OSError) -> SnapshotNotWritten:
        return SnapshotNotWritten(self._folder / CURRENT, reason=exc.strerror or str(exc))

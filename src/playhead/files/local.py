"""Files in a folder of this machine: written aside, made durable, then renamed into their place."""

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from playhead.files.store import Piece, Stored
from playhead.files.trouble import AccessDenied, LinkInside, NoRoom, StoreFailed
from playhead.target import InUse

# Begins with a dot, so that nobody who reads the folder takes it for data.
_ASIDE = ".aside"
_LOCK, _HOLD = ".lock", ".hold"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)


@dataclass(frozen=True, slots=True)
class LocalStore:
    """A folder; the root itself may be a link, nothing inside it may."""

    root: Path

    @property
    def identity(self) -> str:
        return str(self.root.resolve())

    def read(self, path: str, /) -> bytes | None:
        place = self._inside(path)
        with _translated(place):
            try:
                return place.read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def read_all(self, paths: Sequence[str], /) -> Sequence[bytes | None]:
        return [self.read(path) for path in paths]

    def publish(
        self, path: str, pieces: Sequence[Piece], /, aside: Callable[[], None] = lambda: None
    ) -> None:
        place = self._inside(path)
        beside = place.with_name(f".{place.name}{_ASIDE}")
        with _translated(place, sum(map(len, pieces))):
            _make_folders(place.parent)
            try:
                _write_durably(beside, pieces)
                aside()
                beside.replace(place)
            except BaseException:
                with suppress(OSError):
                    beside.unlink()
                raise
            _sync_folder(place.parent)

    def files(self, folder: str, /) -> Iterable[Stored]:
        top = self._inside(folder)
        with _translated(top):
            return list(_walk(top, folder))

    def folders(self, folder: str, /) -> Sequence[str]:
        top = self._inside(folder)
        with _translated(top):
            try:
                with os.scandir(top) as found:
                    return sorted(f"{folder}/{each.name}" for each in found if each.is_dir())
            except (FileNotFoundError, NotADirectoryError):
                return ()

    @contextmanager
    def alone(self, folder: str, /, *others: str) -> Iterator[None]:
        with self._lock(folder, _LOCK) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for each in (folder, *others):
                self._clear(each)
            yield

    @contextmanager
    def held(self, replay_id: str, folder: str, /) -> Iterator[None]:
        with self._lock(folder, _HOLD) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InUse(replay_id, where=f"it holds {lock.name}") from error
            yield

    def look(self) -> tuple[bool, int | None]:
        there = self.root.exists()
        if there and not self.root.is_dir():
            raise StoreFailed(str(self.root), reason="it is a file, and a folder is needed")
        nearest = next(each for each in (self.root, *self.root.parents) if each.exists())
        if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
            raise AccessDenied(str(self.root), reason=f"{nearest} cannot be written to")
        return there, shutil.disk_usage(nearest).free

    def _lock(self, folder: str, name: str) -> IO[bytes]:
        place = self._inside(f"{folder}/{name}")
        with _translated(place):
            _make_folders(place.parent)
            return place.open("ab")

    def _clear(self, folder: str) -> None:
        place = self._inside(folder)
        with _translated(place):
            for left in place.glob(f".*{_ASIDE}"):
                left.unlink()

    def _inside(self, path: str) -> Path:
        root = self.root.resolve()
        place = root / path
        if place.resolve() != place:
            raise LinkInside(str(place))
        return place


def _walk(top: Path, folder: str) -> Iterator[Stored]:
    try:
        with os.scandir(top) as found:
            inside = sorted(found, key=lambda each: each.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for each in inside:
        path = f"{folder}/{each.name}" if folder else each.name
        if each.is_symlink():
            raise LinkInside(each.path)
        if each.is_dir():
            yield from _walk(Path(each.path), path)
        elif not each.name.startswith("."):
            with suppress(FileNotFoundError):
                yield Stored(path, each.stat().st_size)


def _write_durably(place: Path, pieces: Sequence[Piece]) -> None:
    # Exclusively: whatever was put there meanwhile, a link above all, is not written through.
    with place.open("xb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def _make_folders(folder: Path) -> None:
    """Make it with its parents, each durable in the one above."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        _sync_folder(each.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _translated(place: Path, size: int = 0) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in _FULL:
            raise NoRoom(str(place), size=size, reason=reason) from error
        if error.errno in _DENIED:
            raise AccessDenied(str(place), reason=reason) from error
        raise StoreFailed(str(place), reason=reason) from error

"""Files in a folder of this machine: written aside, made durable, then renamed into their place."""

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from playhead.clock import SystemClock, wait_until
from playhead.files.store import Piece
from playhead.files.trouble import AccessDenied, LinkInside, NoRoom, StoreFailed, StoreUnavailable
from playhead.target import InUse

# Begins with a dot, so that nobody who reads the folder takes it for data.
_ASIDE = ".aside"
_LOCK, _HOLD = ".lock", ".hold"
# A writer that was stopped, and not killed, would have the others wait for ever.
_PATIENCE_S, _AGAIN_S = 60.0, 0.02
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)


@dataclass(frozen=True, slots=True)
class LocalStore:
    """A folder; the root itself may be a link, nothing inside it may."""

    root: Path

    @property
    def identity(self) -> str:
        return str(self.root.resolve())

    @property
    def excludes(self) -> bool:
        return True

    def read(self, path: str, /) -> bytes | None:
        return _read(self._inside(path))

    def read_all(self, paths: Sequence[str], /) -> Sequence[bytes | None]:
        folders = {path.rpartition("/")[0] for path in paths}
        checked = {folder: self._inside(folder) for folder in folders}
        split = (path.rpartition("/") for path in paths)
        return [_read(checked[folder] / name) for folder, _, name in split]

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

    def remove(self, path: str, /) -> None:
        place = self._inside(path)
        with _translated(place):
            place.unlink(missing_ok=True)
            _sync_folder(place.parent)

    def files(self, folder: str, /) -> Sequence[str]:
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
            free = wait_until(
                lambda: _taken(lock), deadline_s=_PATIENCE_S, clock=SystemClock(), every_s=_AGAIN_S
            )
            if not free:
                raise StoreUnavailable(
                    lock.name, reason=f"another writer has it for {_PATIENCE_S:g} s"
                )
            for each in (folder, *others):
                self._clear(each)
            yield

    @contextmanager
    def held(self, replay_id: str, folder: str, /) -> Iterator[None]:
        with self._lock(folder, _HOLD) as lock:
            if not _taken(lock):
                raise InUse(replay_id, where=f"it holds {lock.name}")
            yield

    def look(self) -> tuple[bool, int | None]:
        with _translated(self.root):
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


def _taken(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(place: Path) -> bytes | None:
    with _translated(place):
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW)
        except (FileNotFoundError, NotADirectoryError):
            return None
        with os.fdopen(descriptor, "rb") as file:
            return file.read()


def _walk(top: Path, folder: str) -> Iterator[str]:
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
            yield path


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
        if error.errno == errno.ELOOP:
            raise LinkInside(str(place)) from error
        if error.errno in _FULL:
            raise NoRoom(str(place), size=size, reason=reason) from error
        if error.errno in _DENIED:
            raise AccessDenied(str(place), reason=reason) from error
        raise StoreFailed(str(place), reason=reason) from error

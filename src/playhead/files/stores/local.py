"""Files in a local folder: written under a temporary name, synced, then renamed."""

import errno
import fnmatch
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from playhead.files.errors import AccessDenied, LinkInside, NoRoom, StoreFailed, StoreUnavailable
from playhead.files.stores.store import MOST_SMALL_BYTES, Piece, expect_size
from playhead.host import file_lock
from playhead.host.clock import wait_until
from playhead.host.folders import make_durably, move, open_plain, opened, refuse_link
from playhead.host.own_links import opened_by_own_links, real_path
from playhead.target import InUse

# A leading dot hides it from programs that read the folder as data.
_ASIDE = ".aside"
_LOCK, _HOLD = ".lock", ".hold"
# A stopped writer that was not killed would make the others wait forever.
_PATIENCE_S, _AGAIN_S = 60.0, 0.02
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Never for everyone, whatever the umask is; a group may share an archive, and others must not lock
# it.
_FILES, _FOLDERS, _LOCKS = 0o664, 0o775, 0o660
# Ours are five below the root. Python calls itself for each level, and each is kept open.
_DEEPEST = 200
_ABSENT = (FileNotFoundError, NotADirectoryError)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_make = partial(make_durably, mode=_FOLDERS)


@dataclass(frozen=True, slots=True)
class LocalStore:
    """A folder; the root may be a link, but nothing inside it may."""

    root: Path

    @property
    def identity(self) -> str:
        return os.path.realpath(self.root)

    @property
    def excludes(self) -> bool:
        return True

    def read(self, path: str, /, most: int = MOST_SMALL_BYTES) -> bytes | None:
        return self._read_all([path], most)[0]

    def read_all(self, paths: Sequence[str], /) -> Sequence[bytes | None]:
        return self._read_all(paths, MOST_SMALL_BYTES)

    def _read_all(self, paths: Sequence[str], most: int) -> Sequence[bytes | None]:
        by_folder: dict[str, list[str]] = {}
        for path in paths:
            folder, _, name = path.rpartition("/")
            by_folder.setdefault(folder, []).append(name)
        found: dict[str, bytes | None] = {}
        for folder, names in by_folder.items():
            with self._if_there(folder), opened(self.root, folder) as handle:
                for name in names:
                    found[f"{folder}/{name}"] = self._read(folder, name, handle, most)
        return [found.get(path if "/" in path else f"/{path}") for path in paths]

    def publish(
        self, path: str, pieces: Sequence[Piece], /, aside: Callable[[], None] = lambda: None
    ) -> None:
        folder, _, name = path.rpartition("/")
        beside = f".{name}{_ASIDE}"
        with _translated(self.root / path, sum(map(len, pieces))), self._made(folder) as handle:
            refuse_link(name, handle)
            try:
                _write_durably(beside, handle, pieces)
                aside()
                move(beside, name, handle, handle)
            except BaseException:
                with suppress(OSError):
                    os.unlink(beside, dir_fd=handle)
                raise
            os.fsync(handle)

    def remove(self, path: str, /) -> None:
        folder, _, name = path.rpartition("/")
        with self._if_there(folder), self._own(folder) as handle:
            refuse_link(name, handle)
            os.unlink(name, dir_fd=handle)
            os.fsync(handle)

    def files(self, folder: str, /) -> Sequence[str]:
        found: list[str] = []
        with self._if_there(folder), opened(self.root, folder) as handle:
            found += [path for path, _ in _walk(handle, folder)]
        return found

    def sizes(self, folder: str, /) -> Mapping[str, int]:
        found: dict[str, int] = {}
        with self._if_there(folder), opened(self.root, folder) as handle:
            for path, each in _walk(handle, folder):
                with suppress(FileNotFoundError):
                    found[path] = each.stat(follow_symlinks=False).st_size
        return found

    def settle(self, folders: Sequence[str], /) -> None:
        with suppress(PermissionError, *_ABSENT), opened(self.root.parent) as handle:
            _sync(handle)
        for folder in folders:
            with self._if_there(folder):
                above = (
                    "/".join(folder.split("/")[:depth]) for depth in range(folder.count("/") + 1)
                )
                for each in above:
                    with opened(self.root, each) as handle:
                        _sync(handle)
                with opened(self.root, folder) as handle:
                    _sync_below(handle)

    def folders(self, folder: str, /) -> Sequence[str]:
        found: list[str] = []
        with (
            self._if_there(folder),
            opened(self.root, folder) as handle,
            os.scandir(handle) as inside,
        ):
            found += sorted(f"{folder}/{each.name}" for each in inside if each.is_dir())
        return found

    @contextmanager
    def alone(self, folder: str, /, *others: str) -> Iterator[None]:
        with self._lock(folder, _LOCK) as lock:
            free = wait_until(
                lambda: file_lock.take(lock), deadline_s=_PATIENCE_S, every_s=_AGAIN_S
            )
            if not free:
                raise StoreUnavailable(
                    str(self.root / folder),
                    reason=f"another writer has locked it for {_PATIENCE_S:g} s",
                )
            for each in (folder, *others):
                self._clear(each)
            yield

    @contextmanager
    def held(self, replay_id: str, folder: str, /) -> Iterator[None]:
        with self._lock(folder, _HOLD) as lock:
            if not file_lock.take(lock):
                raise InUse(replay_id, where=f"it holds {self.root / folder / _HOLD}")
            yield

    def look(self) -> tuple[bool, int | None]:
        with _translated(self.root):
            there = self.root.exists()
            if there and not self.root.is_dir():
                raise StoreFailed(str(self.root), reason="it is a file, and a folder is needed")
            nearest = next(each for each in (self.root, *self.root.parents) if each.exists())
            if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
                raise AccessDenied(str(self.root), reason=f"{nearest} cannot be written to")
            real_path(self.root)  # Nothing would be written through the link of another user.
            return there, shutil.disk_usage(nearest).free

    @contextmanager
    def _lock(self, folder: str, name: str) -> Iterator[IO[bytes]]:
        place = self.root / folder / name
        with _translated(place), self._made(folder) as handle:
            lock = open_plain(name, os.O_RDWR | os.O_CREAT, _LOCKS, folder=handle)
        with os.fdopen(lock, "rb+", buffering=0) as opened_lock:
            yield opened_lock

    def _clear(self, folder: str) -> None:
        with self._if_there(folder), self._own(folder) as handle:
            for left in fnmatch.filter(os.listdir(handle), f".*{_ASIDE}"):  # noqa: PTH208
                os.unlink(left, dir_fd=handle)

    @contextmanager
    def _own(self, folder: str) -> Iterator[int]:
        """Open a folder in which to write: another user's link in the root's place must not choose it."""
        with opened_by_own_links(self.root) as top, opened(top, folder) as handle:
            yield handle

    @contextmanager
    def _if_there(self, folder: str) -> Iterator[None]:
        """Leave the block where the folder, or something in it, is missing."""
        with _translated(self.root / folder), suppress(*_ABSENT):
            yield

    @contextmanager
    def _made(self, folder: str) -> Iterator[int]:
        with (
            opened_by_own_links(self.root, make=_make) as top,
            opened(top, folder, make=_make) as handle,
        ):
            yield handle

    def _read(self, folder: str, name: str, handle: int, most: int) -> bytes | None:
        place = self.root / folder / name
        with (
            _translated(place),
            suppress(*_ABSENT),
            os.fdopen(open_plain(name, os.O_RDONLY, folder=handle), "rb") as file,
        ):
            size = os.fstat(file.fileno()).st_size
            expect_size(str(place), size, most)
            return file.read(size)
        return None


def _walk(top: int, folder: str) -> Iterator[tuple[str, "os.DirEntry[str]"]]:
    _expect_shallow(folder.count("/"), folder)
    with os.scandir(top) as found:
        inside = sorted(found, key=lambda each: each.name)
    for each in inside:
        path = f"{folder}/{each.name}" if folder else each.name
        if each.is_symlink():
            raise LinkInside(path)
        if each.is_dir(follow_symlinks=False):
            with opened(top, each.name) as below:
                yield from _walk(below, path)
        elif not each.name.startswith("."):
            yield path, each


def _expect_shallow(depth: int, where: str) -> None:
    if depth > _DEEPEST:
        raise StoreFailed(where, reason=f"folders are nested more than {_DEEPEST} deep")


def _sync_below(top: int, depth: int = 0) -> None:
    with os.scandir(top) as found:
        inside = [each.name for each in found if each.is_dir(follow_symlinks=False)]
    for each in inside:
        with opened(top, each) as below:
            _expect_shallow(depth, each)
            _sync_below(below, depth + 1)
    _sync(top)


def _sync(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as error:
        # A reader need not be able to write, nor does every file system sync folders.
        if error.errno not in (errno.EINVAL, errno.EROFS, errno.ENOTSUP):
            raise


def _write_durably(name: str, handle: int, pieces: Sequence[Piece]) -> None:
    # Exclusively, so that nothing that another process put there, such as a link, is written
    # through.
    with os.fdopen(
        open_plain(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILES, folder=handle), "wb"
    ) as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


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

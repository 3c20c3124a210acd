"""A model of the disk that an archive lies on: files that appear whole, locks, leftovers, and power that fails."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import playhead.files.archive
from playhead.files.errors import StoreUnavailable
from playhead.files.stores.store import MOST_SMALL_BYTES
from playhead.target import InUse
from simulation.scheduler import Process, Scheduler

_PATIENCE_S = 60.0


@dataclass
class Disk:
    """All files of one machine, by their paths; what is not durable yet may be gone when the power fails."""

    scheduler: Scheduler
    files: dict[str, bytes] = field(default_factory=dict)
    leftovers: set[str] = field(default_factory=set)
    """Folders in which somebody died while a file was written aside."""
    made: set[str] = field(default_factory=set)
    """Folders; they stay when their last file is removed."""
    unavailable: int = 0
    _unsafe: list[tuple[str, bytes | None]] = field(default_factory=list)
    """What was changed and is not durable, with what was there before."""
    _locks: dict[str, Process] = field(default_factory=dict)

    def call(self) -> None:
        """Something is asked of it; now and then it does not answer."""
        one = self.scheduler
        one.point()
        if one.choices.happens(self.unavailable):
            raise StoreUnavailable("/archive", reason="an input/output error, for the moment")

    def change(self, path: str, data: bytes | None) -> None:
        """In one step, and durable a little later, unless its writer is dead by then."""
        self._unsafe.append((path, self.files.get(path)))
        self._put(path, data)
        self.scheduler.point()
        # A folder is made durable as a whole, with what a dead writer has left to be.
        folder = path.rpartition("/")[0]
        self._unsafe = [each for each in self._unsafe if each[0].rpartition("/")[0] != folder]

    def settle(self, folders: Sequence[str]) -> None:
        """These folders, and those below, are made durable."""
        self.call()
        below = tuple(f"{each}/" for each in folders)
        self._unsafe = [each for each in self._unsafe if not each[0].startswith(below)]

    def fail(self) -> None:
        """The power fails: of what was not durable some is lost."""
        for path, data in reversed(self._unsafe):
            if self.scheduler.choices.below(2) == 1:
                self._put(path, data)
        self._unsafe.clear()

    def try_lock(self, path: str) -> bool:
        task = self.scheduler.current
        assert task is not None
        holder = self._locks.get(path)
        if holder is not None and not holder.is_dead:
            return False
        self._locks[path] = task.process
        return True

    def unlock(self, path: str) -> None:
        self._locks.pop(path, None)

    def is_locked(self, path: str) -> bool:
        holder = self._locks.get(path)
        return holder is not None and not holder.is_dead

    def _put(self, path: str, data: bytes | None) -> None:
        if data is None:
            self.files.pop(path, None)
        else:
            self.files[path] = data


class Store:
    """A folder of the disk, with the interface of `playhead.files.stores.store.Store`."""

    excludes = True

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk, self.identity = disk, root

    def _path(self, path: str) -> str:
        return f"{self.identity}/{path}"

    def read(self, path: str, /, most: int = MOST_SMALL_BYTES) -> bytes | None:
        self._disk.call()
        return self._disk.files.get(self._path(path))

    def read_all(self, paths: Sequence[str], /) -> Sequence[bytes | None]:
        self._disk.call()
        return [self._disk.files.get(self._path(path)) for path in paths]

    def publish(
        self, path: str, pieces: Sequence[Any], /, aside: Callable[[], None] = lambda: None
    ) -> None:
        disk, folder = self._disk, self._path(path).rpartition("/")[0]
        self._make(folder)
        disk.leftovers.add(folder)
        disk.call()
        aside()
        disk.leftovers.discard(folder)
        disk.change(self._path(path), b"".join(pieces))

    def remove(self, path: str, /) -> None:
        self._disk.call()
        self._disk.change(self._path(path), None)

    def files(self, folder: str, /) -> Sequence[str]:
        self._disk.call()
        return sorted(self._below(folder))

    def sizes(self, folder: str, /) -> Mapping[str, int]:
        return {path: len(self._disk.files[self._path(path)]) for path in self.files(folder)}

    def settle(self, folders: Sequence[str], /) -> None:
        self._disk.settle([self._path(each) for each in folders])

    def folders(self, folder: str, /) -> Sequence[str]:
        self._disk.call()
        above, start = self._path(folder), len(self.identity) + 1
        inside = (each for each in self._disk.made if each.rpartition("/")[0] == above)
        return sorted(each[start:] for each in inside)

    def _make(self, folder: str) -> None:
        while folder != self.identity:
            self._disk.made.add(folder)
            folder = folder.rpartition("/")[0]

    def _below(self, folder: str) -> list[str]:
        start = len(self.identity) + 1
        prefix = self._path(folder) + "/" if folder else self._path("")
        return [path[start:] for path in self._disk.files if path.startswith(prefix)]

    @contextmanager
    def alone(self, folder: str, /, *others: str) -> Iterator[None]:
        disk, lock = self._disk, self._path(f"{folder}/.lock")
        disk.call()
        self._make(self._path(folder))
        if not disk.try_lock(lock):
            disk.scheduler.wait(lambda: not disk.is_locked(lock), _PATIENCE_S)
            if not disk.try_lock(lock):
                raise StoreUnavailable(lock, reason="another writer has locked it")
        try:
            disk.leftovers -= {self._path(each) for each in (folder, *others)}
            yield
        finally:
            disk.unlock(lock)

    @contextmanager
    def held(self, replay_id: str, folder: str, /) -> Iterator[None]:
        lock = self._path(f"{folder}/.hold")
        self._disk.call()
        self._make(self._path(folder))
        if not self._disk.try_lock(lock):
            raise InUse(replay_id, where=f"it holds {lock}")
        try:
            yield
        finally:
            self._disk.unlock(lock)

    def look(self) -> tuple[bool, int | None]:
        self._disk.call()
        return any(path.startswith(self._path("")) for path in self._disk.files), 1 << 40


def use(disk: Disk) -> None:
    """Have archives lie on this disk."""
    description: Any = playhead.files.archive
    description.LocalStore = lambda root: Store(disk, str(root))

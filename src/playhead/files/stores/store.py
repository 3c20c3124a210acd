"""The contract of every store for an archive's files."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from playhead.files.errors import Damaged

Piece = bytes | memoryview

MOST_BYTES = 1 << 30
"""The most of a data file, which is of one slice: 64 MiB and a record."""
MOST_SMALL_BYTES = 16 << 20
"""The most of any other file; others can write them, and each is read whole."""

_AT_ONCE = 32


def expect_size(where: str, size: int, most: int) -> None:
    """Refuse a file that is larger than any that was written there."""
    if size > most:
        raise Damaged(where, reason=f"it has {size:,} bytes, needed at most {most:,}")


def _nothing() -> None:
    return None


class Store(Protocol):
    """Files below one root, by paths with slashes; each appears completely or not at all."""

    @property
    def identity(self) -> str:
        """The root's unique name, however it was written."""
        ...

    @property
    def excludes(self) -> bool:
        """Whether `alone` and `held` really exclude others."""
        ...

    def read(self, path: str, /, most: int = MOST_SMALL_BYTES) -> bytes | None:
        """Return the whole file, refused if it has more bytes than `most`; None if it does not exist."""
        ...

    def publish(
        self, path: str, pieces: Sequence[Piece], /, aside: Callable[[], None] = _nothing
    ) -> None:
        """Create or replace the file in one step; call `aside` just before that step."""
        ...

    def remove(self, path: str, /) -> None:
        """Delete the file if it exists."""
        ...

    def files(self, folder: str, /) -> Sequence[str]:
        """Return the paths of all files below a folder of the root; none if the folder does not exist."""
        ...

    def sizes(self, folder: str, /) -> Mapping[str, int]:
        """Like `files`, with the bytes that each file has."""
        ...

    def settle(self, folders: Sequence[str], /) -> None:
        """Make durable what is visible in these folders and below: its writer may have died before that."""
        ...

    def folders(self, folder: str, /) -> Sequence[str]:
        """Return the folders directly in a folder; none if it does not exist."""
        ...

    def read_all(self, paths: Sequence[str], /) -> Sequence[bytes | None]:
        """Like `read`, for many small files."""
        ...

    def alone(self, folder: str, /, *others: str) -> AbstractContextManager[None]:
        """Exclude other writers of this folder, if the store can.

        Removes what dead writers left there and in the other folders. Only an exclusive writer
        publishes.
        """
        ...

    def held(self, replay_id: str, folder: str, /) -> AbstractContextManager[None]:
        """Keep other runs of the replay out with `InUse`, if the store can."""
        ...

    def look(self) -> tuple[bool, int | None]:
        """Return whether the root exists, and the free bytes; refuse one that cannot be written."""
        ...


def read_each(store: Store, paths: Sequence[str]) -> Iterator[bytes | None]:
    """Yield many small files, with few of them in memory: others can write any number of large ones."""
    for start in range(0, len(paths), _AT_ONCE):
        yield from store.read_all(paths[start : start + _AT_ONCE])

"""Where an archive's files are: what every kind of place for them can do."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

Piece = bytes | memoryview


def _nothing() -> None:
    return None


class Store(Protocol):
    """Files below one root, by paths with slashes; each of them appears whole or not at all."""

    @property
    def identity(self) -> str:
        """The root's one name, whatever way it was written."""
        ...

    @property
    def excludes(self) -> bool:
        """Whether `alone` and `held` really keep others out."""
        ...

    def read(self, path: str, /) -> bytes | None:
        """The whole file; None when there is none."""
        ...

    def publish(
        self, path: str, pieces: Sequence[Piece], /, aside: Callable[[], None] = _nothing
    ) -> None:
        """Make the file appear, or replace it, in one step; `aside` is called just before that step."""
        ...

    def remove(self, path: str, /) -> None:
        """Let the file be gone; none is no harm."""
        ...

    def files(self, folder: str, /) -> Sequence[str]:
        """The paths of all files below a folder of the root, however deep; none when there is no such folder."""
        ...

    def folders(self, folder: str, /) -> Sequence[str]:
        """The folders that lie in a folder; none when there is no such folder."""
        ...

    def read_all(self, paths: Sequence[str], /) -> Sequence[bytes | None]:
        """As `read`, for many small files."""
        ...

    def alone(self, folder: str, /, *others: str) -> AbstractContextManager[None]:
        """Keep other writers of this folder waiting, where the system can.

        Clears what writers that died have left there, and in the other folders. Only one who is alone
        publishes.
        """
        ...

    def held(self, replay_id: str, folder: str, /) -> AbstractContextManager[None]:
        """Keep other runs of the replay out with `InUse`, where the system can."""
        ...

    def look(self) -> tuple[bool, int | None]:
        """Whether the root is there, and how many bytes are free; refuses what cannot be written to."""
        ...

"""One machine: a disk in memory, and on it the product's own notes of its live pipelines."""

from types import SimpleNamespace
from typing import Any

import playhead.replay.journal
import playhead.replay.pipelines
from playhead.replay.pipelines import Pipelines
from simulation import product, threads


class Folder:
    """A place on a disk that takes a file as a whole or not at all; as much of a path as is asked of it."""

    def __init__(self, files: dict[str, str], name: str = "") -> None:
        self._files, self._name = files, name

    def __truediv__(self, name: str) -> "Folder":
        return Folder(self._files, f"{self._name}/{name}")

    def __str__(self) -> str:
        return self._name

    @property
    def name(self) -> str:
        return self._name.rpartition("/")[2]

    def absolute(self) -> "Folder":
        return self

    def as_uri(self) -> "Folder":
        return self

    def read_text(self, encoding: str = "utf-8") -> str:
        try:
            return self._files[self._name]
        except KeyError as exc:
            raise FileNotFoundError(self._name) from exc

    def write(self, text: str) -> None:
        """Whoever dies before has written nothing."""
        threads.scheduler().point()
        self._files[self._name] = text

    def iterdir(self) -> list["Folder"]:
        below = f"{self._name}/"
        names = {each[len(below) :].partition("/")[0] for each in self._files if below in each}
        if not names:
            raise FileNotFoundError(self._name)
        return [self / each for each in sorted(names)]

    def clear(self) -> None:
        """All that lies in it."""
        for each in [each for each in self._files if each.startswith(f"{self._name}/")]:
            del self._files[each]


class Machine(Pipelines):
    """The product's own notes, on a disk of that machine."""

    def __init__(self) -> None:
        super().__init__(Folder({}, "state"))  # type: ignore[arg-type]
        self.journal = product.Journal()


def wire() -> None:
    """Once for this process: files are written to the disks of the simulation."""
    pipelines: Any = playhead.replay.pipelines
    journal: Any = playhead.replay.journal
    pipelines.write_whole = lambda file, text: file.write(text)
    pipelines.private_files = SimpleNamespace(folder_in=lambda path, *_: path)
    journal.private_files = SimpleNamespace(touch=lambda file: file.touch())

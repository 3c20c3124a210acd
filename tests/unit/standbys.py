"""Standbys between two archives, run in this thread without an engine; as a program, a watcher of them."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from playhead import Standby
from playhead.config.context import configure
from playhead.files.target import FilesTarget
from playhead.ledger import Entry
from playhead.proof import Proof
from playhead.record import Slice
from playhead.replay.api import Planned
from playhead.replay.engine import Engine
from playhead.request import Request
from playhead.standby.create import make
from playhead.standby.folder_watch import Watch
from playhead.standby.store import Standbys
from playhead.task.job import Job
from tests.fix_archives import commit, everything, record, writing
from tests.unit.replaying import play_all

COUNT = 6


class NoEngine(Engine):
    """Plays jobs where it stands."""

    slots = 2
    is_there = True

    def warm(self) -> None:
        pass

    def paced_slots(self) -> int:
        return 2

    def cancel(self) -> None:
        pass

    def run_job(self, job: Job) -> list[Mapping[str, Any]]:
        return play_all(job)


def played(planned: Planned) -> Proof:
    planned.engine = NoEngine(planned.configuration)
    return planned.run()


class Room:
    """A folder with a tape, a place for copies of it, and one where files are dropped."""

    def __init__(self, root: Path) -> None:
        self.tape, self.copy, self.folder = root / "tape", root / "copy", root / "dropped"
        self.folder.mkdir(exist_ok=True)

    def record(self) -> None:
        """A tape of one partition: a record for each second."""
        with writing(FilesTarget(str(self.tape), "json"), "tape") as writer:
            kept = [record(offset, ms=1_000 * offset) for offset in range(COUNT)]
            commit(writer, Slice("t", 0, 0, COUNT), kept)

    def request(self, **changes: Any) -> Request:
        return Request(**{"source": f"json:{self.tape}", "target": f"json:{self.copy}", **changes})

    def standby(self, name: str = "laps", **changes: Any) -> Standby:
        made = make(name, self.request(**changes), configure({}))
        Standbys().add(made)
        return made

    def drop(self, name: str, text: str) -> Path:
        """Written aside and renamed in, as those who drop files do."""
        aside = self.folder / f".{name}"
        aside.write_text(text, encoding="utf-8")
        return aside.rename(self.folder / name)

    def watch(self, **changes: Any) -> list[Mapping[str, Any]]:
        """Takes what is there; gives the outcomes."""
        told: list[Mapping[str, Any]] = []
        Watch(self.folder, **{"play": played, "tell": told.append, **changes}).run(once=True)
        return told

    def offsets(self) -> list[int]:
        return [each.offset for each in everything(str(self.copy), "json")]

    def entries(self, replay_id: str) -> list[Entry]:
        return list(FilesTarget(str(self.copy), "json").entries(replay_id))

    def names(self, place: str = ".") -> list[str]:
        return sorted(file.name for file in (self.folder / place).glob("[!.]*") if file.is_file())


def furnished(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    """A room with a tape in it, for a user with nothing configured."""
    for name in ("CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(folder / name.lower()))
    monkeypatch.chdir(folder)
    room = Room(folder)
    room.record()
    return room


if __name__ == "__main__":
    Room(Path(sys.argv[1])).watch()

"""`playhead resume` as a person meets it: it goes on where the replay was begun, and nowhere else."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from playhead.cli.app import main
from playhead.cli.replay import run_replay
from playhead.replay import api
from playhead.replay.api import Planned
from playhead.replay.journal import Journal
from tests.unit.standbys import NoEngine, Room, furnished

WORDS = ("replay", "json:tape", "json:copy", "--offsets", "t:0:0-2", "--id", "laps", "--yes")


@pytest.fixture(autouse=True)
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    monkeypatch.setattr(api, "_engine", lambda configuration, *_: NoEngine(configuration))
    return furnished(tmp_path, monkeypatch)


def dies(planned: Planned, **_: Any) -> None:
    planned.journal.keep(planned.plan, planned.servers)
    raise KeyboardInterrupt


def begun(monkeypatch: pytest.MonkeyPatch, *more: str) -> None:
    """A replay whose process is gone before the first slice."""
    with monkeypatch.context() as patch:
        patch.setattr(run_replay.Planned, "run", dies)
        assert code_of(*WORDS, *more) == 130


def code_of(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(words))
    return int(end.value.code or 0)


def test_it_goes_on_in_the_same_folder_wherever_one_stands(room, tmp_path, monkeypatch):
    begun(monkeypatch)
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(room.tape, elsewhere / "tape")
    monkeypatch.chdir(elsewhere)
    assert code_of("resume", "laps", "--yes") == 0
    assert room.offsets() == [0, 1]
    assert [each.name for each in elsewhere.iterdir()] == ["tape"]


def test_it_has_the_servers_that_the_environment_named_then(room, monkeypatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    monkeypatch.setenv("DATABASE_URL", "postgresql://somebody:secret@127.0.0.1:1/there")
    begun(monkeypatch, "--timezone", "Europe/Berlin")
    assert Journal().get("laps").servers == {
        "bootstrap_servers": "127.0.0.1:1",
        "timezone": "Europe/Berlin",
    }
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:2")
    told: list[str] = []
    monkeypatch.setattr(
        run_replay.api,
        "planned",
        lambda _, configuration, **__: (
            told.append(configuration.get("bootstrap_servers")) or exit()
        ),
    )
    code_of("resume", "laps", "--yes")
    assert told == ["127.0.0.1:1"]


def test_one_that_is_done_asks_nothing_before_it_says_so(room, monkeypatch, capsys):
    begun(monkeypatch)
    assert code_of("resume", "laps") == 6, "something is left, and nobody said yes"
    assert code_of("resume", "laps", "--yes") == 0
    capsys.readouterr()
    assert code_of("resume", "laps") == 0
    assert "proved: 2 offsets" in capsys.readouterr().err

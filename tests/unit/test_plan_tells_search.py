"""Each command that plans says that the plan searches for records for which an expression raises."""

import pytest

from playhead.cli.app import main
from playhead.errors import UsageError
from playhead.replay import api
from tests.unit.standbys import NoEngine, Room, furnished


class Searches(NoEngine):
    """Searches for such records, and then ends the plan."""

    def check(self) -> None:
        self._raising.say_search()
        raise UsageError("that was the search")


@pytest.fixture(autouse=True)
def room(tmp_path, monkeypatch) -> Room:
    monkeypatch.setattr(api, "_engine", lambda configuration, *_: Searches(configuration))
    return furnished(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "words",
    [
        ("replay", "json:tape", "json:copy", "--dry-run"),
        ("verify", "json:tape", "json:copy"),
        ("live", "kafka:laps", "kafka:copy", "--name", "laps", "--dry-run"),
    ],
)
def test_it_is_said(words: tuple[str, ...], room, monkeypatch, capsys) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    with pytest.raises(SystemExit):
        main(list(words))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith("for some records: searching for them")
    assert "that was the search" in lines[1]

"""What a context refuses is refused where the writing begins, whatever face leads there."""

from pathlib import Path
from typing import Any

import pytest

from playhead import Replay, files
from playhead.consent import NotNamed, ReadOnly, need_consent
from playhead.context import Configuration, configure
from playhead.groups.plan import GroupPlan
from playhead.kafka.groups_change import Desk
from playhead.live.running import Runner
from playhead.live.wish import Wish
from playhead.pipelines import Pipelines
from playhead.replay import api
from playhead.replay.api import Planned
from playhead.request import Request
from tests.unit.standbys import NoEngine, Room, furnished
from tests.unit.test_consent import configuration


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    monkeypatch.setattr(api, "_engine", lambda configuration, *_: NoEngine(configuration))
    return furnished(tmp_path, monkeypatch)


def planned(room: Room, guard: str) -> Planned:
    ends = files(str(room.tape), form="json"), files(str(room.copy), form="json")
    return Replay(*ends).plan(guarded(room, guard), replay_id="laps")


def guarded(room: Room, guard: str) -> Configuration:
    file = room.tape.parent / "config" / "playhead" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"[contexts.home]\n{guard} = true\n")
    return configure({}, context="home")


def test_a_replay_from_python_heeds_read_only(room):
    asked = planned(room, "read_only")
    for consent in (None, str(room.copy)):
        with pytest.raises(ReadOnly, match="replay into") as caught:
            asked.run(consent=consent)
        assert caught.value.exit_code == 6
    assert room.offsets() == []
    assert not room.copy.exists()
    assert asked.journal.get("laps") is None


def test_a_replay_from_python_names_its_target_in_production(room):
    asked = planned(room, "production")
    for consent in (None, "", "another"):
        with pytest.raises(NotNamed, match="needs the target's name") as caught:
            asked.run(consent=consent)
        assert caught.value.exit_code == 6
    assert not room.copy.exists()
    assert asked.run(consent=str(room.copy)).adds_up


def test_resumed_from_the_ledger_it_is_guarded_too(room):
    asked = planned(room, "production")
    asked.run(consent=str(room.copy))
    target = files(str(room.copy), form="json")
    with pytest.raises(NotNamed):
        api.resumed("laps", target, configure({}, context="home")).run()


def test_a_pipeline_from_python_is_guarded(tmp_path):
    request = Request(source="kafka:laps", target="postgres:laps")
    for guard, refusal in (("read_only", ReadOnly), ("production", NotNamed)):
        where = configuration(**{guard: "true"})
        plan: Any = type("Plan", (), {"request": request})
        runner = Runner(
            Wish(name="laps", request=request, group="g"),
            Planned(plan, where, NoEngine(where)),
            Pipelines(tmp_path),
            print,
        )
        with pytest.raises(refusal, match="write into"):
            runner.run()


@pytest.mark.parametrize("deed", ["write", "delete", "undo"])
def test_groups_are_guarded(deed, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    plan = GroupPlan("grafana", "reset to the start", True, ())

    def done(where: Configuration, *consents: str) -> None:
        nowhere: Any = None
        desk = Desk(nowhere, where, nowhere or _Connection())
        desk.consents.update(consents)
        act = getattr(desk, deed)
        act(plan, nowhere) if deed == "undo" else act(plan)

    with pytest.raises(ReadOnly, match="group grafana was not done"):
        done(configuration(read_only="true"), "grafana")
    for consents in ((), ("another",)):
        with pytest.raises(NotNamed):
            done(configuration(production="true"), *consents)
    assert not list(tmp_path.rglob("*"))


class _Connection:
    """One that is never used."""


def test_without_guards_nobody_is_asked():
    need_consent("writing", "laps", configuration(), None)
    need_consent("writing", "laps", configuration(production="true"), "laps")

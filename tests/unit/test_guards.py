"""What a context refuses is refused where the writing begins, whatever face leads there."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import playhead
from playhead import Replay, files
from playhead.config.context import Configuration, configure
from playhead.config.guards import Consent, Guard, NotNamed, Question, ReadOnly, need_consent
from playhead.config.saved_servers import configuration_of
from playhead.errors import Refused
from playhead.ingest.loop import Ingest
from playhead.kafka.admin import topics
from playhead.kafka.admin.topics import Alteration, NewShape
from playhead.kafka.admin.trim import Trim, carry_out
from playhead.kafka.groups.changes import GroupAdmin
from playhead.kafka.groups.plan import GroupPlan
from playhead.kafka.produce.sender import Sender
from playhead.kafka.write.row_shipping import RowShipper
from playhead.live.pipeline_spec import PipelineSpec
from playhead.live.runner import Runner
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


class _Nothing:
    """What an act would write to; a guarded one leaves it alone."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} of it was looked for")


NOTHING: Any = _Nothing()
PLAN = GroupPlan("laps", "reset to the start", True, ())
LISTENER: Any = SimpleNamespace(address="udp://127.0.0.1:1")
OUTLET: Any = SimpleNamespace(topic="laps")
REQUEST = Request(source="kafka:tape", target="kafka:laps")


def groups(where: Configuration, consent: Consent) -> GroupAdmin:
    return GroupAdmin(NOTHING, where, NOTHING, consent=consent)


def a_plan(where: Configuration, *, is_endless: bool = False) -> Planned:
    plan: Any = SimpleNamespace(request=REQUEST, digest=lambda: "")
    made = Planned(plan, where, NoEngine(where), NOTHING, is_endless=is_endless)
    made.copies_again = True  # or a ledger would be asked first who has copied the same
    return made


def play(where: Configuration, consent: Consent) -> None:
    wish = PipelineSpec(name="laps", request=REQUEST, group="g")
    Runner(wish, a_plan(where, is_endless=True), NOTHING, print).run(consent=consent)


Act = Callable[[Configuration, Consent], object]
ACTS: dict[str, Act] = {
    "replay": lambda where, consent: a_plan(where).run(consent=consent),
    "live": play,
    "produce": lambda where, consent: Sender(NOTHING, "laps", Guard(where, consent)),
    "ingest": lambda where, consent: Ingest(LISTENER, NOTHING, OUTLET, Guard(where, consent)),
    "queries ship": lambda where, consent: RowShipper(
        NOTHING, "log", Guard(where, consent), "laps", "pg_raw", NOTHING, 1
    ),
    "topics create": lambda where, consent: topics.create(
        NOTHING, NewShape("laps"), Guard(where, consent)
    ),
    "topics alter": lambda where, consent: topics.alter(
        NOTHING, Alteration("laps", 3), NOTHING, Guard(where, consent)
    ),
    "topics delete": lambda where, consent: topics.delete(NOTHING, "laps", Guard(where, consent)),
    "topics trim": lambda where, consent: carry_out(
        NOTHING, [Trim("laps", 0, 0, 5, 9)], Guard(where, consent)
    ),
    "groups reset": lambda where, consent: groups(where, consent).write(PLAN),
    "groups delete": lambda where, consent: groups(where, consent).delete(PLAN),
    "groups undo": lambda where, consent: groups(where, consent).undo(PLAN, NOTHING),
}


@pytest.fixture(params=ACTS)
def act(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Act]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    yield ACTS[request.param]
    assert not list(tmp_path.rglob("*"))


def never(question: Question) -> bool:
    raise AssertionError("nobody is asked where it is refused anyhow")


@pytest.mark.parametrize("consent", [None, "laps", never])
def test_no_act_writes_in_a_read_only_context(act, consent):
    with pytest.raises(ReadOnly, match="is read-only") as caught:
        act(configuration(read_only="true", production="true"), consent)
    assert caught.value.exit_code == 6


@pytest.mark.parametrize("consent", [None, "", "another", lambda _: True])
def test_no_act_writes_in_production_without_the_targets_name(act, consent):
    with pytest.raises(NotNamed, match="needs the target's name 'laps'") as caught:
        act(configuration(production="true"), consent)
    assert caught.value.exit_code == 6


@pytest.mark.parametrize("production", ["true", "false"])
def test_no_act_writes_when_the_answer_is_no(act, production):
    shown: list[Question] = []

    def no(question: Question) -> bool:
        shown.append(question)
        return False

    with pytest.raises(Refused, match="the answer was not yes"):
        act(configuration(production=production), no)
    (question,) = shown
    assert (question.target, question.needs_name) == ("laps", production == "true")
    assert "laps" in question.action


@pytest.mark.parametrize("consent", ["laps", lambda question: question.target])
def test_every_act_begins_when_the_name_is_given(act, consent):
    try:
        act(configuration(production="true"), consent)
    except (AssertionError, AttributeError, TypeError):
        return  # it has begun, and there is nothing to write to
    assert act is ACTS["ingest"]


def test_several_targets_are_agreed_to_at_once():
    shown: list[str] = []

    def named(question: Question) -> str:
        shown.append(question.target)
        return question.target

    guard = Guard(configuration(production="true"), named)
    guard.agree("writing the offsets of a, b", "a", "b")
    guard.need("reset of group a", "a")
    guard.need("reset of group b", "b")
    assert shown == ["a, b"]
    guard.need("reset of group c", "c")
    assert shown == ["a, b", "c"]


def test_without_guards_nobody_is_asked():
    need_consent("writing", "laps", configuration(), None)
    need_consent("writing", "laps", configuration(production="true"), "laps")


def test_a_replay_from_python_keeps_its_servers(room):
    file = room.tape.parent / "config" / "playhead" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("[contexts.home]\ntimezone = 'UTC'\n")
    ends = files(str(room.tape), form="json"), files(str(room.copy), form="json")
    where = configure({"timezone": "Europe/Vienna"}, context="home")
    asked = Replay(*ends).plan(where, replay_id="laps")
    asked.run()
    servers = asked.journal.find("laps").servers
    assert servers == {"context": "home", "timezone": "Europe/Vienna"}
    assert configuration_of(servers).get("timezone") == "Europe/Vienna"


def test_a_consent_is_to_the_plan_that_was_shown(room):
    asked = planned(room, "production")
    asked.agree(str(room.copy))
    other = replace(asked.plan, replay_id="other")
    asked.plan = other
    with pytest.raises(NotNamed):
        asked.run()
    assert not room.copy.exists()


def test_source_and_target_are_made_once(room, monkeypatch):
    made: list[Request] = []
    real = api.ends

    def counted(request: Request, *more: Any, **options: Any) -> Any:
        made.append(request)
        return real(request, *more, **options)

    monkeypatch.setattr(api, "ends", counted)
    ends = files(str(room.tape), form="json"), files(str(room.copy), form="json")
    asked = Replay(*ends).plan(replay_id="laps")
    assert asked.run().adds_up
    assert asked.verify().agrees
    assert len(made) == 1


def test_nothing_below_the_command_line_speaks_of_it():
    """Python and other faces raise the same errors, and have no command line."""
    root = Path(playhead.__file__).parent
    spoken = [
        f"{file.relative_to(root)}:{node.lineno}"
        for file in root.rglob("*.py")
        if file.relative_to(root).parts[0] != "cli"
        for node in said_in(ast.parse(file.read_text()))
        if "command line" in node.value and "AWS command line" not in node.value
    ]
    assert not spoken


def said_in(tree: ast.AST) -> Iterator[Any]:
    """Every text of a module but its docstrings."""
    for node in ast.walk(tree):
        texts = [] if isinstance(node, ast.Expr) else ast.iter_child_nodes(node)
        for child in texts:
            if isinstance(child, ast.Constant) and isinstance(child.value, str):
                yield child

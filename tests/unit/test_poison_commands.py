"""Every command of the tree, every parameter that takes a text, all the poison: no fault, no control."""

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from playhead.errors import PlayheadError
from playhead.kafka.admin import clients
from playhead.replay.journal import Journal
from playhead.sandbox import Sandbox
from playhead.spark import session
from tests import poison
from tests.fix_torture import SEED
from tests.poison.commands import LINES, Spot, commands, run_on_terminal, spots, wrong_in
from tests.unit.replaying import partition_plan, plan_of
from tests.unit.standbys import Room

# A path that a test running as root must not give to what writes.
NOT_TO_WRITE = {"path-parent", "path-absolute", "path-tilde"}
WRITES = {"--dir", "--folder", "--out", "--picture", "--plan", "target"}
ALL = list(spots())
TEXTS = [each for each in poison.names() if each.can_be_argument]


class NobodyThere(PlayheadError):
    """Stands for all servers and engines of these tests."""


def nobody(*_: Any, **__: Any) -> Any:
    raise NobodyThere("nobody is there")


def client_of(make: Callable[..., Any]) -> Callable[..., Any]:
    """The client library judges the settings, and nobody answers it."""

    def made(settings: dict[str, Any], **more: Any) -> Any:
        make({**settings, "bootstrap.servers": ""}, **more)
        return nobody()

    return made


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """A command in this process, on a terminal, where nobody is there; its exit code, and all it shows."""
    for name in ("STATE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    servers = {"KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:9", "EDITOR": "true", "VISUAL": "true"}
    servers |= {"DATABASE_URL": "postgresql://127.0.0.1:9/db"}
    for name, value in servers.items():
        monkeypatch.setenv(name, value)
    for name in ("make_admin", "make_consumer", "make_producer"):
        monkeypatch.setattr(clients, name, client_of(getattr(clients, name)))
    monkeypatch.setattr(session, "session", nobody)
    for name in ("up", "running"):
        monkeypatch.setattr(Sandbox, name, nobody)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Journal().keep(plan_of(partition_plan(0, 9), replay_id="laps"), {})
    room = Room(tmp_path)
    room.record()
    room.standby()
    assert run_on_terminal(["context", "add", "there", "-b", "127.0.0.1:9"])[0] == 0

    return run_on_terminal


def may_be_given(spot: Spot, each: poison.PoisonName) -> bool:
    return not (spot.name in WRITES and each.label in NOT_TO_WRITE)


def faults(shown: Any, pairs: Iterable[tuple[Spot, poison.PoisonName]]) -> list[str]:
    found = []
    for spot, each in pairs:
        code, said = shown(spot.words(each.text))
        if wrong := wrong_in(code, said):
            found.append(f"{spot}: {each.label}: exit {code}, {wrong}: {said[:300]}")
    return found


def test_every_command_has_a_line():
    assert {words for words, _ in commands()} == LINES.keys()


def test_every_parameter_that_takes_a_text_has_a_place():
    for words, command in commands():
        flags = {each.name for each in command.params if getattr(each, "is_flag", False)}
        assert len({(each.name, each.position) for each in ALL if each.command == words}) == len(
            command.params
        ) - len(flags)


@pytest.mark.slow  # every parameter of every command
def test_a_seeded_sample_of_poison_in_every_parameter(shown):
    draw = random.Random(SEED)
    usual = [each for each in TEXTS if len(each.text) < 10_000]
    given = [
        (spot, draw.choice([each for each in usual if may_be_given(spot, each)])) for spot in ALL
    ]
    assert not faults(shown, given)


def test_a_retention_that_nobody_counts_to(shown):
    for command in ("create", "alter"):
        words = ["topics", command, "laps", "--dry-run", "--set", "retention.ms=" + "9" * 5_000]
        assert not wrong_in(*shown(words))


@pytest.mark.torture
@pytest.mark.parametrize("command", sorted(LINES))
def test_all_poison_in_every_parameter(shown, command):
    given = [
        (spot, each)
        for spot in ALL
        for each in TEXTS
        if spot.command == command and may_be_given(spot, each)
    ]
    assert not faults(shown, given)

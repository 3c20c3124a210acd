"""A live pipeline as a command: stopped, killed at any step, and its servers with it; each record is there once."""

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import playhead
from playhead.host.faults import abort_points
from playhead.sandbox import Sandbox
from tests.fix_commands import Playhead
from tests.fix_live import Show
from tests.fix_replay import ended
from tests.fix_torture import SEED
from tests.sandbox.test_replay_faults import bounce_broker, bounce_database
from tests.sandbox.test_replay_kill import engine, worker

MakeShow = Callable[..., Show]
POINTS = abort_points(Path(playhead.__file__).parent)
AREAS = {
    "postgres": (
        "live.",
        "postgres.begun",
        "postgres.direct.",
        "postgres.closed",
        "postgres.ledger.",
        "tables.terms_",
    ),
    "staged": ("postgres.stage.", "postgres.ledger."),
    "kafka": ("kafka.", "live."),
}
# Without a group in its transactions, and without what only a target that is away makes it pass.
NOT_PASSED = ("kafka.group_moved", "live.given_up")
CASES = [
    (kind, point)
    for kind, areas in AREAS.items()
    for point in sorted(POINTS)
    if point.startswith(areas) and point not in NOT_PASSED
]
# Passed once in a start.
TERMS = ("tables.terms_looked", "tables.terms_written", "tables.terms_committed")
ONCE = ("live.prepared", "live.marked", "live.started", *TERMS)
ONCE += ("kafka.terms_looked", "kafka.terms_sent", "kafka.terms_committed")
SAMPLE = [random.Random(f"{SEED} live").choice(CASES)]
COUNT = 200


def test_started_stopped_and_asked_how_it_is(show: MakeShow, playhead: Playhead) -> None:
    it = show("postgres")
    it.feed(0, 100)
    command = it.start()
    it.has(command, 100)
    status = json.loads(
        playhead("live", "--status", it.replay_id, "-o", "json", **it.environment()).stdout
    )
    assert (status["state"], status["lag"], status["lag_s"]) == ("running", 0, 0.0)
    assert status["group"] == f"playhead.live.{it.replay_id}"
    again = playhead(
        "live",
        f"kafka:{it.topic}",
        it.end.text,
        "--name",
        it.replay_id,
        "--yes",
        **it.environment(),
    )
    assert again.returncode == 6
    assert "is already running" in again.stderr
    stopped = playhead("live", "--stop", it.replay_id, **it.environment())
    assert stopped.returncode == 0, stopped.stderr
    done = ended(command)
    assert done.code == 0, done.err
    assert json.loads(done.out)["records"] == 100
    assert "Traceback" not in done.err
    it.feed(100, 130)
    said = playhead("live", "--status", it.replay_id, "-o", "json", **it.environment())
    status = json.loads(said.stdout)
    assert (status["state"], status["lag"]) == ("stopped", 30)
    assert status["lag_s"] > 0
    command = it.start()
    it.has(command, 130)
    done = it.stopped(command)
    assert done.code == 0, done.err
    assert "continuing from the ledger" in done.err
    it.are_gone()


@pytest.mark.parametrize(("kind", "point"), SAMPLE)
def test_killed_at_a_point(show: MakeShow, kind: str, point: str) -> None:
    killed_at(show(kind), point)


@pytest.mark.torture
@pytest.mark.parametrize(("kind", "point"), [each for each in CASES if each not in SAMPLE])
def test_killed_at_any_point(show: MakeShow, kind: str, point: str) -> None:
    killed_at(show(kind), point)


def killed_at(it: Show, point: str) -> None:
    """A worker that dies is replaced while the pipeline runs; a driver that dies is started again."""
    command = it.start(PLAYHEAD_ABORT_AT=point if point in ONCE else f"{point}#4")
    it.feed_along(command, 0, COUNT)
    is_drivers = point.startswith("live.round") or point in ONCE
    if is_drivers or command.poll() is not None:
        assert ended(command).code == -signal.SIGKILL
        it.are_gone()
        command = it.start()
    it.has(command, COUNT)
    done = it.stopped(command)
    assert done.code == 0, done.err
    assert "Traceback" not in done.err
    it.are_gone()


@pytest.mark.torture
@pytest.mark.parametrize("kind", ["postgres", "staged", "kafka"])
@pytest.mark.parametrize("victim", ["worker", "engine", "driver", "all"])
def test_somebody_dies_in_the_middle(show: MakeShow, kind: str, victim: str) -> None:
    it = show(kind)
    command = it.start()
    it.feed_along(command, 0, COUNT // 2)
    assert command.poll() is None, f"it has ended: {ended(command).err}"
    it.feed(COUNT // 2, COUNT)
    if victim == "all":
        it.kill()
    elif victim == "driver":
        command.kill()
    else:
        os.kill((engine if victim == "engine" else worker)(it), signal.SIGKILL)
    if victim in ("all", "driver"):
        assert ended(command).code == -signal.SIGKILL
        it.are_gone()
        command = it.start()
    it.has(command, COUNT)
    it.feed(COUNT, COUNT + 20)
    it.has(command, COUNT + 20)
    assert it.stopped(command).code == 0
    it.are_gone()


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(12))
def test_random_outages_and_the_table_is_the_topic(
    show: MakeShow, running_sandbox: Sandbox, seed: int
) -> None:
    """The story, a dozen times: whatever is away, and whenever, the table equals the topic in the end."""
    chance = random.Random(f"{SEED} outages {seed}")
    it = show(chance.choice(["postgres", "staged"]))
    command = it.start()
    at = 20
    it.feed_along(command, 0, at)
    for _ in range(3):
        for _ in range(chance.randint(3, 10)):
            it.feed(at, at + 20)
            at += 20
            time.sleep(chance.random() / 2)
        assert command.poll() is None, f"it has ended: {ended(command).err}"
        command = befallen(it, command, running_sandbox, chance)
    it.feed(at, at + 50)
    it.has(command, at + 50)
    done = it.stopped(command)
    assert done.code == 0, done.err
    it.are_gone()


def befallen(
    it: Show, command: "subprocess.Popen[str]", sandbox: Sandbox, chance: random.Random
) -> "subprocess.Popen[str]":
    what = chance.choice(["database", "database", "broker", "driver"])
    if what == "driver":
        command.kill()
        ended(command)
        it.are_gone()
        return it.start()
    (bounce_broker if what == "broker" else bounce_database)(sandbox)
    return command

"""Killed at any step, a replay in the warm engine goes on by one retry, and everything is there once."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.fix_replay import LONG_TAPE, end_of, ended, new_name, within
from tests.fix_torture import SEED
from tests.sandbox.test_replay_kill import CASES, ONCE, STRAY
from tests.sandbox.test_replay_warm import Warm, user

__all__ = ["user"]

# A stray file is met by a resumed run only, which has an engine of its own.
WARM_CASES = [
    (kind, point)
    for kind, point in CASES
    if kind in ("kafka", "postgres", "parquet") and point not in STRAY
]
SAMPLE = random.Random(f"{SEED} warm").choice(WARM_CASES)
RETRIES = ("the warm engine has ended; the command continues", "continuing from the ledger")


@contextmanager
def armed_engine(it: Warm, spec: str) -> Iterator[None]:
    """An engine whose forks and workers have the point; a command has it never in its environment."""
    environment = os.environ | it.environment() | {"PLAYHEAD_ABORT_AT": spec}
    command = [sys.executable, "-m", "playhead.cli.warm_engine", "600000", "--at-once"]
    with (it.home / "log").open("wb") as log:
        engine = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        shown = ("engine", "status")
        within(lambda: ended(it.start(*shown)).code == 0, seconds=120, what="the engine answers")
        yield
        assert engine.poll() is None, "the death of a command or a worker ended the engine"
    finally:
        engine.kill()
        engine.wait()


def is_retried(it: Warm, kind: str, point: str) -> None:
    spec = point if point.startswith(ONCE) else f"{point}#2"
    end = end_of(it.deck, kind, it.home)
    with armed_engine(it, spec):
        done = ended(it.replay(end, new_name("killed")))
        assert done.code == 0, done.err
        assert sum(done.err.count(each) for each in RETRIES) >= 1, f"nobody died: {done.err}"
        assert "Traceback" not in done.err
        proof = json.loads(done.out)
        assert proof["adds_up"], proof["verdict"]
        assert proof["totals"]["written"] == LONG_TAPE
        assert end.numbers() == [*range(LONG_TAPE)]


def test_a_kill_costs_one_retry_and_no_data(user: Warm) -> None:
    is_retried(user, *SAMPLE)


@pytest.mark.torture
@pytest.mark.parametrize(("kind", "point"), [each for each in WARM_CASES if each != SAMPLE])
def test_a_kill_anywhere_costs_one_retry_and_no_data(user: Warm, kind: str, point: str) -> None:
    is_retried(user, kind, point)

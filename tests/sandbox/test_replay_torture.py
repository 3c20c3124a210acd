"""100,000 records while everything that takes part is bounced, after Kafka's own test of transactions."""

import os
import random
import signal
from collections.abc import Callable

import pytest

from playhead.sandbox import Sandbox
from tests.fix_replay import Deck, Performance, ended, within
from tests.fix_torture import SEED
from tests.sandbox.test_replay_faults import bounce_broker, bounce_database
from tests.sandbox.test_replay_kill import engine, worker

Perform = Callable[..., Performance]
COUNT = 100_000
BOUNCED_AT = (0.2, 0.35, 0.5, 0.65, 0.8)


@pytest.fixture(scope="module")
def great_tape(servers: Deck) -> str:
    return servers.laps(COUNT, 4, "great")


@pytest.mark.torture
@pytest.mark.parametrize("kind", ["kafka", "staged", "parquet"])
def test_whatever_is_bounced_there_is_one_copy_of_each(
    perform: Perform, great_tape: str, running_sandbox: Sandbox, kind: str
) -> None:
    it = perform(kind, great_tape, COUNT, slice_records=1_000)
    chance = random.Random(f"{SEED} {kind}")
    faults = ["broker", "driver", "worker", "engine", "database" if kind == "staged" else "broker"]
    chance.shuffle(faults)
    command = it.start("--pace", "1500/s")
    met = 0
    for part, fault in zip(BOUNCED_AT, faults, strict=True):
        it.comes_to(part, seconds=150, command=command)
        if command.poll() is not None:
            break
        met += 1
        if fault == "driver":
            command.kill()
            assert ended(command).code == -signal.SIGKILL
            it.are_gone()
            command = it.resume()
        elif fault in ("broker", "database"):
            (bounce_broker if fault == "broker" else bounce_database)(running_sandbox)
        else:
            os.kill((engine if fault == "engine" else worker)(it), signal.SIGKILL)
    found = ended(command, seconds=400)
    assert found.code == 0, f"{faults}: {found.err}"
    # A slow machine takes so long over a fault that the rest may be over by then; most it has to meet.
    assert met >= 3, faults
    proof = it.finish()
    assert proof["adds_up"], faults
    within(lambda: not it.processes(), seconds=30, what="nothing is left running")

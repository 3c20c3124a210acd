"""An engine that hangs or has no memory left: the command says so and ends, and nothing of it stays."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from tests.fix_engine import logs_of
from tests.fix_live import Show
from tests.fix_replay import LONG_TAPE, Ended, Performance, ended, within
from tests.sandbox.test_replay_kill import engine

Perform = Callable[..., Performance]
MakeShow = Callable[..., Show]
# Ten thousand million steps.
ENDLESS = (
    "aggregate(sequence(1, 100000), 0L, (a, x) -> a + "
    "aggregate(sequence(1, 100000), 0L, (b, y) -> b + y)) > 0"
)
ENDS_WITHIN_S = 10.0
STOPS_WITHIN_S = 15.0
ENDINGS = [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")]


def too_much(when: str) -> str:
    """More of every record's text than the heap can hold, for some of them; true all the same."""
    return f"CASE WHEN {when} THEN length(repeat(value, 20000000)) > 0 ELSE true END"


def plans(command: "subprocess.Popen[str]") -> None:
    """Wait until the engine has been given settings that only a transform needs."""

    def is_told() -> bool:
        assert command.poll() is None, command.communicate()[1]
        return any("escapedStringLiterals" in log.read_text() for log in logs_of(command.pid))

    within(is_told, seconds=60, what="the engine plans")


def signalled(command: "subprocess.Popen[str]", number: signal.Signals) -> tuple[Ended, float]:
    """How it ends, and how soon."""
    began = time.monotonic()
    command.send_signal(number)
    done = ended(command, seconds=60)
    return done, time.monotonic() - began


def ends_in_planning(
    it: Performance, ending: tuple[signal.Signals, int, str], *, hangs: bool
) -> None:
    number, code, said = ending
    command = it.start("--where", ENDLESS)
    plans(command)
    if hangs:
        os.kill(engine(it), signal.SIGSTOP)
    done, took_s = signalled(command, number)
    assert (done.code, done.err.strip().splitlines()[-1]) == (code, said), done.err
    assert "Traceback" not in done.err
    assert took_s < ENDS_WITHIN_S
    it.are_gone(seconds=10)


def test_sigterm_ends_a_planning_whose_engine_hangs(perform: Perform, long_tape: str) -> None:
    ends_in_planning(perform("kafka", long_tape, LONG_TAPE), ENDINGS[0], hangs=True)


@pytest.mark.torture
@pytest.mark.parametrize(
    ("ending", "hangs"), [(ENDINGS[0], False), (ENDINGS[1], False), (ENDINGS[1], True)]
)
def test_a_signal_ends_a_planning(
    perform: Perform, long_tape: str, ending: tuple[signal.Signals, int, str], hangs: bool
) -> None:
    ends_in_planning(perform("kafka", long_tape, LONG_TAPE), ending, hangs=hangs)


@pytest.mark.torture
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_replay_whose_engine_hangs_stops_and_can_be_resumed(
    perform: Perform, long_tape: str, number: signal.Signals
) -> None:
    it = perform("postgres", long_tape, LONG_TAPE, slice_records=50)
    command = it.start("--where", "true", "--pace", "400/s")
    it.comes_to(0.1)
    os.kill(engine(it), signal.SIGSTOP)
    done, took_s = signalled(command, number)
    assert done.code == 5, done.err
    assert took_s < STOPS_WITHIN_S
    it.are_gone(seconds=10)
    it.finish()


@pytest.mark.torture
def test_a_pipeline_whose_engine_hangs_stops(show: MakeShow) -> None:
    it = show("postgres")
    it.feed(0, 40)
    command = it.start()
    it.has(command, 40)
    os.kill(engine(it), signal.SIGSTOP)
    it.feed(40, 60)
    done, took_s = signalled(command, signal.SIGTERM)
    assert done.code == 0, done.err
    assert took_s < STOPS_WITHIN_S
    it.are_gone(seconds=10)
    command = it.start()
    it.has(command, 60)
    assert it.stopped(command).code == 0


def test_an_engine_out_of_memory_while_planning_is_said(perform: Perform, long_tape: str) -> None:
    it = perform("postgres", long_tape, LONG_TAPE)
    done = ended(it.start("--where", too_much("offset < 10"), "--spark-memory", "512m"))
    is_said(done)
    it.are_gone(seconds=10)
    assert it.end.numbers() == []


@pytest.mark.torture
def test_an_engine_out_of_memory_in_a_run_is_said(perform: Perform, long_tape: str) -> None:
    it = perform("postgres", long_tape, LONG_TAPE, slice_records=50)
    where = too_much("offset BETWEEN 700 AND 800")
    done = ended(it.start("--where", where, "--spark-memory", "512m"))
    is_said(done)
    it.are_gone(seconds=10)
    so_far = it.end.numbers()
    assert len(so_far) < LONG_TAPE
    assert len(so_far) == len(set(so_far))


@pytest.mark.torture
def test_a_pipeline_whose_engine_runs_out_of_memory_again_and_again_fails(show: MakeShow) -> None:
    it = show("postgres")
    it.feed(0, 40)
    where = too_much("value:seq::int = 50")
    command = it.start("--where", where, "--spark-memory", "512m")
    it.has(command, 40)
    it.feed(40, 60)
    is_said(ended(command, seconds=400))
    it.are_gone(seconds=10)
    # With memory for it, it goes on where it was.
    command = it.start("--where", "true")
    it.has(command, 60)
    assert it.stopped(command).code == 0


@pytest.mark.torture
def test_records_larger_than_the_heap_together_pass_through_a_transform(
    perform: Perform, show: MakeShow
) -> None:
    it, pipeline = perform("postgres", "", 0), show("postgres")
    topic = it.deck.topic("large", 1)
    write_large(it, topic)
    it.topic, it.count = topic, LARGE
    command = it.start("--where", "length(value) > 0", "--spark-memory", "512m")
    done = ended(command, seconds=400)
    assert done.code == 0, done.err
    it.is_whole(json.loads(done.out))
    pipeline.topic = topic
    command = pipeline.start("--where", "length(value) > 0", "--spark-memory", "512m")
    pipeline.has(command, LARGE)
    assert pipeline.stopped(command).code == 0


@pytest.mark.torture
@pytest.mark.parametrize("where", [(), ("--where", "length(value) > 0")])
def test_a_pipeline_rejects_a_record_for_which_the_engine_has_no_memory(
    show: MakeShow, where: tuple[str, ...]
) -> None:
    """Ten kilobytes in the topic, and 300 MB as a record; Spark's reader has no limit."""
    it = show("postgres")
    it.feed(0, 40)
    command = it.start("--on-error", "skip", *where)
    it.has(command, 40)
    settings = {"compression.type": "zstd", "message.max.bytes": 400_000_000}
    writer = Producer(it.deck.connection.for_librdkafka("producer") | settings)
    writer.produce(it.topic, bytes(300 << 20), partition=0)
    assert writer.flush(60) == 0
    it.feed(40, 60)
    it.has(command, 60)
    done = it.stopped(command)
    assert done.code == 0, done.err
    assert "the next round is read without Spark" in done.err
    # It continues with Spark.
    command = it.start("--on-error", "skip", *where)
    it.feed(60, 80)
    it.has(command, 80)
    done = it.stopped(command)
    assert (done.code, "without Spark" in done.err) == (0, False)


LARGE = 640


def write_large(it: Performance, topic: str) -> None:
    from dataclasses import replace

    from tests.fix_replay import lap

    pad = "x" * 900_000
    for start in range(0, LARGE, 20):
        laps = [lap(n, topic, 1) for n in range(start, start + 20)]
        it.deck.write(
            [
                replace(
                    each, value=json.dumps({**json.loads(each.value or b""), "pad": pad}).encode()
                )
                for each in laps
            ]
        )


def is_said(done: Ended) -> None:
    assert done.code == 1, done.err
    assert "the engine ran out of memory; it has 512m" in done.err
    assert "--spark-memory" in done.err
    assert "Traceback" not in done.err

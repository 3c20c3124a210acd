"""Killed at any step, a replay goes on from its ledger, and in the end everything is there once."""

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import playhead
from playhead.host.faults import abort_points
from tests.fix_replay import LONG_TAPE, Performance, ended, has_stopped, parent_of, within
from tests.fix_torture import SEED

Perform = Callable[..., Performance]
POINTS = abort_points(Path(playhead.__file__).parent)
AREAS = {
    "kafka": ("kafka.", "job.", "run."),
    "postgres": (
        "postgres.begun",
        "postgres.direct.",
        "postgres.closed",
        "postgres.ledger.",
        "tables.terms_",
        "job.",
        "run.",
    ),
    "staged": ("postgres.begun", "postgres.stage.", "postgres.closed", "postgres.ledger.", "job."),
    "apart": ("postgres.apart.", "postgres.ledger."),
    "parquet": ("files.", "job.", "run."),
}
CASES = [
    (kind, point)
    for kind, areas in AREAS.items()
    for point in sorted(POINTS)
    if point.startswith(areas)
]
STRAY = ("files.before_stray", "files.stray_removed")
TERMS = ("tables.terms_", "kafka.terms_", "files.before_terms", "files.terms_")
ONCE = ("run.", "files.before_a", "files.archive_made", "files.about_written", *STRAY, *TERMS)
OF_THE_DRIVER = ("run.", *TERMS)
# Each system has a case in the sample, whatever the seed. Without an engine its writer is killed at every
# point: test_files_kill, test_kafka_target_faults, test_postgres_faults.
SYSTEMS = (("kafka",), ("postgres", "staged", "apart"), ("parquet",))
SAMPLE = [
    random.Random(f"{SEED} {kinds[0]}").choice([each for each in CASES if each[0] in kinds])
    for kinds in SYSTEMS
]


def test_no_point_of_a_replay_is_left_out() -> None:
    passed = {point for _, point in CASES}
    areas = ("kafka.", "postgres.", "tables.terms_", "files.", "job.", "run.")
    elsewhere = {each for each in POINTS if each.startswith("postgres.latest.")}
    assert {point for point in POINTS if point.startswith(areas)} == passed | elsewhere


@pytest.mark.parametrize(("kind", "point"), SAMPLE)
def test_killed_with_all_that_it_had_started(
    perform: Perform, long_tape: str, kind: str, point: str
) -> None:
    all_die(perform(kind, long_tape, LONG_TAPE), point)


@pytest.mark.torture
@pytest.mark.parametrize(("kind", "point"), [each for each in CASES if each not in SAMPLE])
def test_killed_with_all_that_it_had_started_anywhere(
    perform: Perform, long_tape: str, kind: str, point: str
) -> None:
    all_die(perform(kind, long_tape, LONG_TAPE), point)


def all_die(it: Performance, point: str) -> None:
    """Whoever comes to the point stops there; and then driver, engine and workers die together."""
    resumes = point in STRAY
    if resumes:
        # Only a run with other slices finds a file that nobody knows of.
        stop_and_kill(it, "files.data_published#2")
        it.slice_records = 70
    stop_and_kill(it, point if point.startswith(ONCE) else f"{point}#2", resumes=resumes)
    so_far = it.end.numbers()
    assert len(so_far) == len(set(so_far))
    it.finish()


def stop_and_kill(it: Performance, spec: str, *, resumes: bool = False) -> None:
    begin = it.resume if resumes else it.start
    command = begin(PLAYHEAD_ABORT_AT=f"{spec}=stop")
    try:
        within(
            lambda: any(has_stopped(pid) for pid in it.processes()) or command.poll() is not None,
            seconds=60,
            what=f"a process stops at {spec}",
        )
        assert command.poll() is None, f"{spec} was not passed: {command.communicate()[1]}"
    finally:
        it.kill()
    assert ended(command).code == -signal.SIGKILL


# Whoever dies there has done nothing, and whoever comes after it as little: it needs an end of the deaths.
WITHOUT_PROGRESS = ("files.before_stray",)


@pytest.mark.torture
@pytest.mark.parametrize(("kind", "point"), [c for c in CASES if c[1] not in WITHOUT_PROGRESS])
def test_one_process_dies(perform: Perform, long_tape: str, kind: str, point: str) -> None:
    """A lost worker the driver survives, and goes on by itself; a lost driver takes the rest along."""
    it = perform(kind, long_tape, LONG_TAPE, slice_records=250)
    if point in STRAY:
        stop_and_kill(it, "files.data_published#2")
        it.slice_records = 170
    begin = it.resume if point in STRAY else it.start
    # By the third passing something was committed; a slice that is staged begins three times, though.
    passing = 4 if (kind, point) == ("staged", "postgres.begun") else 3
    spec = point if point.startswith(ONCE) else f"{point}#{passing}"
    first = ended(begin(PLAYHEAD_ABORT_AT=spec))
    if first.code != -signal.SIGKILL:
        assert not point.startswith(OF_THE_DRIVER), f"{point} was not passed: {first.err}"
        assert first.code == 0, first.err
        assert "continuing from the ledger" in first.err, f"nobody has died at {point}: {first.err}"
        assert "Traceback" not in first.err
        assert "at org.apache.spark" not in first.err
        assert it.end.numbers() == [*range(LONG_TAPE)]
    it.are_gone()
    it.finish()


# --- without a point: in the middle of things


def engine(it: Performance) -> int:
    """The one there is, or that is about to be there: who has just been resumed is still planning."""
    return _first(it, lambda pid, text: "java" in text.split(" ", 1)[0], "an engine")


def worker(it: Performance) -> int:
    """One that the workers' daemon has forked, or will have."""
    return _first(it, lambda pid, text: _of_python(text) and _forked(it, pid), "a worker")


def _of_python(text: str) -> bool:
    return "pyspark" in text and "java" not in text


def _forked(it: Performance, pid: int) -> bool:
    return _of_python(it.processes().get(parent_of(pid), ""))


def _first(it: Performance, wanted: Callable[[int, str], bool], what: str) -> int:
    found: list[int] = []

    def looks() -> bool:
        found.extend(pid for pid, text in sorted(it.processes().items()) if wanted(pid, text))
        return bool(found)

    within(looks, seconds=60, what=f"{what} is there")
    return found[0]


@pytest.mark.torture
@pytest.mark.parametrize("seconds", [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 5])
def test_an_engine_is_killed_soon_after_its_start(
    perform: Perform, long_tape: str, seconds: float
) -> None:
    """Before it answers, before its session is there, or before its first job."""
    it = perform("parquet", long_tape, LONG_TAPE, slice_records=250)
    command = it.start()
    victim = engine(it)
    time.sleep(seconds)
    with suppress(ProcessLookupError):
        os.kill(victim, signal.SIGKILL)
    found = ended(command)
    assert found.code == 0, found.err
    assert "Traceback" not in found.err
    assert it.end.numbers() == [*range(LONG_TAPE)]
    it.are_gone()
    it.finish()


def daemon(it: Performance) -> int:
    return parent_of(worker(it))


@pytest.mark.parametrize(
    ("kind", "victim"),
    [
        ("kafka", engine),
        ("staged", worker),
        *(
            pytest.param(kind, victim, marks=pytest.mark.torture)
            for kind in AREAS
            for victim in (engine, worker, daemon)
            if (kind, victim) not in (("kafka", engine), ("staged", worker))
        ),
    ],
)
def test_what_the_driver_needs_dies_in_the_middle(
    perform: Perform, long_tape: str, kind: str, victim: Callable[[Performance], int]
) -> None:
    it = perform(kind, long_tape, LONG_TAPE, slice_records=20)
    command = it.start("--pace", "400/s")
    it.comes_to(0.2)
    os.kill(victim(it), signal.SIGKILL)
    first = ended(command)
    assert first.code == 0, first.err
    # Workers that are at work outlive their daemon, and the next one gets a new daemon.
    assert ("continuing from the ledger" in first.err) == (victim is not daemon)
    assert "Traceback" not in first.err
    assert "at org.apache.spark" not in first.err
    assert it.end.numbers() == [*range(LONG_TAPE)]
    it.finish()


@pytest.mark.torture
@pytest.mark.parametrize("kind", AREAS)
def test_the_driver_dies_again_and_again(perform: Perform, long_tape: str, kind: str) -> None:
    it = perform(kind, long_tape, LONG_TAPE, slice_records=20)
    command = it.start("--pace", "200/s")
    for part in (0.2, 0.4, 0.6, 0.8):
        it.comes_to(part)
        command.kill()
        assert ended(command).code == -signal.SIGKILL
        it.are_gone()
        command = it.resume()
    first = ended(command)
    assert first.code == 0, first.err
    it.finish()


def test_nothing_of_a_killed_driver_stays(perform: Perform, long_tape: str) -> None:
    """Engine and workers notice that their driver has gone, also while they wait for a slow pace."""
    it = perform("parquet", long_tape, LONG_TAPE, slice_records=20)
    command = it.start("--pace", "20/s")
    it.comes_to(0.01)
    worker(it)
    command.kill()
    assert ended(command).code == -signal.SIGKILL
    it.are_gone()

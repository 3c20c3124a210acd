"""The warm engine as commands meet it: what runs in it is proved, and no kill of anything costs or doubles a row."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from playhead.errors import EXIT_STOPPED
from tests.fix_environment import processes_that_mention
from tests.fix_replay import LONG_TAPE, SMALL_SLICES, Deck, End, end_of, ended, new_name, within

PACE = ("--pace", "400/s")


@dataclass
class Warm:
    """A user with a warm engine of his own."""

    deck: Deck
    topic: str
    home: Path
    start_playhead: Callable[..., "subprocess.Popen[str]"]
    switch: str = "on"

    def start(self, *words: str) -> "subprocess.Popen[str]":
        return self.start_playhead(*words, **self.environment())

    def run(self, *words: str) -> Any:
        """What a command prints as JSON."""
        done = ended(self.start(*words, "-o", "json"))
        assert done.code == 0, done.err
        return json.loads(done.out)

    def environment(self) -> dict[str, str]:
        return {
            "XDG_STATE_HOME": str(self.home / "state"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "PLAYHEAD_CONTEXT": "here",
            "PLAYHEAD_WARM": self.switch,
            SMALL_SLICES: "50",
        }

    def engine(self) -> dict[str, Any]:
        """What the engine says of itself."""
        found: dict[str, Any] = self.run("engine", "status")
        return found

    def end(self) -> End:
        return end_of(self.deck, "postgres", self.home)

    def replay(self, end: End, replay_id: str, *more: str) -> "subprocess.Popen[str]":
        words = ("replay", f"kafka:{self.topic}", end.text, "--yes", "--id", replay_id)
        return self.start(*words, *more, "-o", "json")

    def processes(self) -> dict[int, str]:
        return processes_that_mention(str(self.home))


def settings(folder: Path, deck: Deck, **more: str) -> None:
    """The user's own file: the password is in it, and not in the environment."""
    (folder / "config" / "playhead").mkdir(parents=True, exist_ok=True)
    known = deck.environment()
    said = {
        "bootstrap_servers": known["KAFKA_BOOTSTRAP_SERVERS"],
        "database": known["DATABASE_URL"],
    } | more
    lines = [f"{name} = {json.dumps(value)}" for name, value in said.items()]
    file = folder / "config" / "playhead" / "config.toml"
    file.write_text("\n".join(["[contexts.here]", *lines, ""]))
    file.chmod(0o600)


@pytest.fixture
def user(
    servers: Deck,
    schema: str,
    long_tape: str,
    tmp_path: Path,
    start_playhead: Callable[..., "subprocess.Popen[str]"],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Warm]:
    """Without an engine yet."""
    # An engine runs no command whose Java has other options.
    monkeypatch.delenv("JDK_JAVA_OPTIONS")
    deck = replace(servers, schema=schema)
    settings(tmp_path, deck)
    it = Warm(deck, long_tape, tmp_path, start_playhead)
    yield it

    def are_gone() -> bool:
        # Again and again: a command that was still starting may have begun an engine meanwhile.
        left = it.processes()
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left

    within(are_gone, seconds=20, what="its processes are gone")


@pytest.fixture
def warm(user: Warm) -> Warm:
    user.run("engine", "start")
    return user


def comes_to(end: End, records: int) -> None:
    within(lambda: len(end.numbers()) >= records, seconds=60, what=f"{records} records are there")


def is_whole(end: End) -> bool:
    return end.numbers() == [*range(LONG_TAPE)]


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(each) for each in found.split()]


def test_a_replay_in_it_is_proved_and_ctrl_c_leaves_it_for_the_resume(warm: Warm) -> None:
    before, end, run = warm.engine(), warm.end(), new_name("gentle")
    command = warm.replay(end, run, *PACE)
    comes_to(end, 100)
    command.send_signal(signal.SIGINT)
    stopped = ended(command, seconds=30)
    assert stopped.code == EXIT_STOPPED, stopped.err
    assert f"playhead resume {run}" in stopped.err
    so_far = end.numbers()
    assert 0 < len(so_far) < LONG_TAPE
    time.sleep(1)
    assert end.numbers() == so_far, "nothing is written after the command has ended"
    proof = warm.run("resume", run, "--yes")
    assert proof["adds_up"]
    assert is_whole(end)
    after = warm.engine()
    assert (after["pid"], after["started"]) == (before["pid"], before["started"])
    assert after["commands"] >= before["commands"] + 2


def test_a_client_that_is_killed_leaves_a_run_that_can_be_resumed(warm: Warm) -> None:
    end, run = warm.end(), new_name("gone")
    command = warm.replay(end, run, *PACE)
    comes_to(end, 100)
    command.kill()
    ended(command)

    def has_stopped() -> bool:
        found = warm.run("runs", run)
        return bool(found["state"] != "running")

    within(has_stopped, seconds=40, what="the run of the killed client stops")
    assert 0 < len(end.numbers()) < LONG_TAPE
    assert warm.run("resume", run, "--yes")["adds_up"]
    assert is_whole(end)


@pytest.mark.torture(one_of=3)
@pytest.mark.parametrize("what", ["jvm", "keeper", "process"])
@pytest.mark.parametrize("records", [1, 600, pytest.param(1_500, marks=pytest.mark.torture)])
def test_a_killed_engine_costs_one_retry_and_no_data(warm: Warm, what: str, records: int) -> None:
    keeper = warm.engine()["pid"]
    processes = {
        pid: Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0]
        for pid in children(keeper)
    }
    [jvm] = [pid for pid, name in processes.items() if name.endswith(b"java")]
    end, run = warm.end(), new_name("killed")
    command = warm.replay(end, run, *PACE)
    comes_to(end, records)
    waiting = [pid for pid in children(keeper) if pid != jvm]
    for pid in {"jvm": [jvm], "keeper": [keeper], "process": waiting}[what]:
        os.kill(pid, signal.SIGKILL)
    done = ended(command)
    assert done.code == 0, done.err
    assert "the warm engine has ended; the command continues without it" in done.err
    proof = json.loads(done.out)
    assert proof["adds_up"]
    assert proof["totals"]["written"] == LONG_TAPE
    assert is_whole(end)


def test_stopping_one_of_two_leaves_the_other(warm: Warm) -> None:
    ends = [warm.end(), warm.end()]
    runs = [new_name("both"), new_name("both")]
    commands = [warm.replay(end, run, *PACE) for end, run in zip(ends, runs, strict=True)]
    for end in ends:
        comes_to(end, 1)
    assert warm.engine()["commands"] >= 2
    commands[0].send_signal(signal.SIGINT)
    assert ended(commands[0], seconds=30).code == EXIT_STOPPED
    other = ended(commands[1])
    assert other.code == 0, other.err
    assert "without the warm engine" not in other.err
    assert is_whole(ends[1])
    assert len(ends[0].numbers()) < LONG_TAPE
    assert warm.run("resume", runs[0], "--yes")["adds_up"]
    assert is_whole(ends[0])


def test_an_engine_that_is_told_to_stop_ends_after_the_commands_that_run(warm: Warm) -> None:
    end = warm.end()
    keeper = warm.engine()["pid"]
    command = warm.replay(end, new_name("last"), *PACE)
    comes_to(end, 100)
    # Its process waits for the next command: that is the one which hears of the end.
    within(lambda: len(children(keeper)) >= 3, seconds=20, what="another process waits")
    stop = warm.start("engine", "stop")
    done = ended(command)
    assert done.code == 0, done.err
    assert "starting the engine" not in done.err
    assert "without it" not in done.err
    assert json.loads(done.out)["adds_up"]
    assert is_whole(end)
    assert ended(stop).code == 0
    within(lambda: not warm.processes(), seconds=30, what="the engine has ended")


def test_a_first_command_leaves_one_for_the_next(user: Warm) -> None:
    settings(user.home, user.deck, engine_idle="2m")
    it = replace(user, switch="")  # as if it were not set
    end = it.end()
    first = ended(it.replay(end, new_name("first")))
    assert first.code == 0, first.err
    assert "an engine starts for your next commands, and ends after 2m without one" in first.err
    assert is_whole(end)
    # It starts with the lowest priority, which may take minutes beside other work.
    status = ended(it.start("engine", "status"))
    assert status.code == 0 or "an engine is starting (process" in status.err, status.err
    assert ended(it.start("engine", "stop")).code == 0
    within(lambda: not it.processes(), seconds=60, what="it has ended")


def _sessions(jvm: int) -> int:
    """How many sessions the JVM keeps when it has collected its garbage."""
    command = Path(f"/proc/{jvm}/exe").resolve().with_name("jcmd")
    if not command.exists():
        pytest.skip("this Java has no jcmd")
    told = subprocess.run(
        [command, str(jvm), "GC.class_histogram"], capture_output=True, text=True, check=True
    ).stdout
    rows = (line.split() for line in told.splitlines())
    name = "org.apache.spark.sql.classic.SparkSession"
    return sum(int(row[1]) for row in rows if row[3:4] == [name])


def test_the_jvm_keeps_nothing_of_commands_that_are_over(warm: Warm) -> None:
    keeper = warm.engine()["pid"]
    [jvm] = [
        pid
        for pid in children(keeper)
        if Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0].endswith(b"java")
    ]

    def one_more() -> None:
        done = ended(warm.replay(warm.end(), new_name("over")))
        assert done.code == 0, done.err

    one_more()
    before = _sessions(jvm)
    for _ in range(4):
        one_more()
    # One is of the process that waits for the next command, and one is not yet collected.
    assert _sessions(jvm) <= before + 1


def test_it_ends_when_it_is_idle_and_leaves_nothing(
    servers: Deck, tmp_path: Path, start_playhead: Callable[..., "subprocess.Popen[str]"]
) -> None:
    settings(tmp_path, servers, engine_idle="3s")
    it = Warm(servers, "", tmp_path, start_playhead)
    assert it.run("engine", "start")["ends_after_s"] == 3
    assert it.processes()
    within(lambda: not it.processes(), seconds=30, what="the idle engine ends")
    done = ended(it.start("engine", "status"))
    assert (done.code, "no engine runs" in done.err) == (1, True)


@pytest.mark.parametrize("delay_s", [0.0, 1.5])
def test_an_engine_that_starts_is_shown_and_stopped_with_its_jvm(
    servers: Deck,
    tmp_path: Path,
    start_playhead: Callable[..., "subprocess.Popen[str]"],
    delay_s: float,
) -> None:
    settings(tmp_path, servers)
    it = Warm(servers, "", tmp_path, start_playhead)
    command = it.start("engine", "start")
    has_jvm = lambda: any("SparkSubmit" in each for each in it.processes().values())  # noqa: E731
    within(has_jvm, seconds=60, what="its JVM is there")
    time.sleep(delay_s)
    status = ended(it.start("engine", "status"))
    assert (status.code, "an engine is starting (process" in status.err) == (1, True), status.err
    stopped = ended(it.start("engine", "stop"))
    assert (stopped.code, "the engine has ended" in stopped.err) == (0, True), stopped.err
    waiting = ended(command)
    assert waiting.code != 0
    assert "the engine has ended while it was starting" in waiting.err
    within(lambda: not it.processes(), seconds=15, what="nothing of it is left")


def test_an_engine_with_other_variables_is_left_alone(warm: Warm) -> None:
    before = warm.engine()
    environment = warm.environment() | {"TMPDIR": str(warm.home)}
    command = warm.start_playhead("gaps", f"kafka:{warm.topic}", "postgres:absent", **environment)
    done = ended(command)
    assert "it differs from the engine in TMPDIR (`playhead engine stop`" in done.err
    assert warm.engine()["pid"] == before["pid"]

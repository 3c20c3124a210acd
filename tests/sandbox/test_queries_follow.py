"""`queries replay --follow`: a server's day is played on another while it happens, whatever is killed."""

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from playhead.config.kafka_connection import KafkaConnection
from playhead.sandbox import Endpoints
from tests.busy_day import expect_equal, make_base, play_day, rows_of
from tests.fix_commands import COMMAND
from tests.fix_topics import wait_for_topic
from tests.postgres_pair import DURATIONS, STARTS, Postgres, started

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def base() -> Iterator[Postgres]:
    with tempfile.TemporaryDirectory(prefix="playhead-queries-") as name:
        yield make_base(Postgres(Path(name) / "base"))


@pytest.fixture
def start(own_environment: None, sandbox: Endpoints) -> Iterator[Start]:
    """Starts a command of `playhead queries`; those that still run in the end are killed."""
    running: list[subprocess.Popen[str]] = []

    def start(*words: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [*COMMAND, "queries", *words, "-b", sandbox.bootstrap_servers, "-o", "json"],
            env=os.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


class Followed:
    """A source whose log is shipped, a target, and what follows."""

    def __init__(self, base: Postgres, name: str, settings: dict[str, str], start: Start) -> None:
        folder = base.folder.parent
        self.name, self._start = name, start
        self.source = base.copy_to(folder / f"{name}-source", settings)
        self.target = base.copy_to(folder / f"{name}-target")

    def ship(self, kafka: KafkaConnection) -> None:
        """Begin to ship, and wait until the topic is there."""
        words = ("--name", self.name, "--partitions", "3")
        self._start("ship", str(self.source.log), f"kafka:{self.name}_{{db}}", *words)
        self.source.sql("SELECT 1")
        wait_for_topic(kafka, f"{self.name}_app")

    def follow(self) -> "subprocess.Popen[str]":
        words = ("--to", self.target.url, "--follow", "--id", self.name, "-y")
        return self._start("replay", f"kafka:{self.name}_app", *words)

    def wait_until_equal(self, within_s: float = 90.0) -> None:
        rows, until = rows_of(self.source), time.monotonic() + within_s
        while rows_of(self.target) != rows and time.monotonic() < until:
            time.sleep(0.3)
        expect_equal(self.target, rows)


def stopped(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """The report; nothing diverged, but for a VACUUM during which it was killed: nobody knows whether it ended."""
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=60)
    assert out, said
    report: dict[str, Any] = json.loads(out)
    assert report["divergences"] == report["outcomes"].get("in_doubt", 0) <= 4, said
    assert report["is_equal"] == (report["divergences"] == 0), said
    assert process.returncode == (0 if report["is_equal"] else 4), said
    assert "continue with: playhead queries replay --id" in said
    return report


@pytest.mark.parametrize("settings", [DURATIONS, STARTS], ids=["durations", "starts"])
def test_a_day_is_followed_through_kills(
    base: Postgres,
    start: Start,
    kafka: KafkaConnection,
    request: pytest.FixtureRequest,
    settings: dict[str, str],
) -> None:
    followed = Followed(base, f"follow_{request.node.callspec.id}_{os.getpid()}", settings, start)
    with started(followed.source, followed.target):
        followed.ship(kafka)
        process = followed.follow()
        day = threading.Thread(target=play_day, args=(followed.source,))
        day.start()
        for _ in range(3):
            time.sleep(4)
            process.kill()
            process.wait()
            process = followed.follow()
        day.join()
        # The last one has begun when it has played this.
        followed.source.sql("INSERT INTO moves VALUES (98, 'after the kills', 1)")
        followed.wait_until_equal()
        report = stopped(process)
        assert report["proof"]["totals"]["missing"] == 0
        # Nothing is played twice, and the run goes on where it was.
        followed.source.sql("INSERT INTO moves VALUES (99, 'later', 1)")
        process = followed.follow()
        followed.wait_until_equal()
        stopped(process)

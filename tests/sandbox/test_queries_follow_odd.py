"""What can go wrong while a log is followed: open transactions, locks, crashes of both servers, topics that go."""

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from playhead.config.kafka_connection import KafkaConnection
from playhead.testing import LinkProxy
from tests.fix_commands import COMMAND, Playhead, RunBytes
from tests.fix_topics import wait_for_topic
from tests.postgres_pair import DURATIONS, Postgres, started
from tests.query_days import Client, Day

T = "SELECT * FROM t ORDER BY id"
WITHIN_S = 60.0


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Postgres, Postgres]]:
    with tempfile.TemporaryDirectory(prefix="playhead-queries-") as name:
        base = Postgres(Path(name) / "base")
        base.make()
        source = base.copy_to(Path(name) / "source", DURATIONS)
        target = base.copy_to(Path(name) / "target")
        with started(source, target):
            yield source, target


class Following:
    """A day whose log is shipped while it happens, and the commands that ship and follow it."""

    def __init__(self, day: Day, kafka: KafkaConnection) -> None:
        self.day, self.topic, self.kafka = day, f"pg_raw_{day.name}", kafka
        self._running: list[subprocess.Popen[str]] = []

    def ship(self) -> None:
        words = ("--name", self.day.name, "--partitions", "2")
        self._start("ship", str(self.day.source.log), "kafka:pg_raw_{db}", *words)

    def follow(self, servers: str | None = None) -> None:
        """Begin to follow, as soon as the topic is there."""
        wait_for_topic(self.kafka, self.topic)
        words = self.day.words("--follow", log=f"kafka:{self.topic}")[1:]
        self.process = self._start(*words, servers=servers)

    def _start(self, *words: str, servers: str | None = None) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [*COMMAND, "queries", *words, "-b", servers or self.kafka.bootstrap_servers],
            env=os.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        self._running.append(process)
        return process

    def until_same(self, query: str = T) -> None:
        until = time.monotonic() + WITHIN_S
        expected = self.day.on(self.day.source, query)
        while (found := self._on_target(query)) != expected:
            assert self.process.poll() is None, self.process.communicate()[1]
            if time.monotonic() > until:
                self.process.send_signal(signal.SIGINT)
                said = self.process.communicate(timeout=WITHIN_S)[1]
                pytest.fail(f"found {found}, expected {expected}; {said}")
            time.sleep(0.2)

    def until(self, query: str) -> None:
        """Wait until the target has such a row."""
        until = time.monotonic() + WITHIN_S
        while not self.day.on(self.day.target, query):
            assert time.monotonic() < until, query
            time.sleep(0.1)

    def _on_target(self, query: str) -> object:
        there = self.day.on(self.day.target, "SELECT FROM pg_class WHERE relname = 't'")
        return self.day.on(self.day.target, query) if there else "no table"

    def stop(self, *, code: int = 0) -> dict[str, Any]:
        self.process.send_signal(signal.SIGINT)
        out, said = self.process.communicate(timeout=WITHIN_S)
        assert self.process.returncode == code, said
        return dict(json.loads(out))

    def said(self, *, code: int) -> str:
        """What it said when it ended by itself."""
        _, said = self.process.communicate(timeout=WITHIN_S)
        assert self.process.returncode == code, said
        return said

    def end(self) -> None:
        for process in self._running:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def following(
    own_environment: None,
    servers: tuple[Postgres, Postgres],
    playhead: Playhead,
    tmp_path: Path,
    kafka: KafkaConnection,
) -> Iterator[Following]:
    name = f"day_{uuid.uuid4().hex[:8]}"
    for server in servers:
        server.sql(f"CREATE DATABASE {name}")
    day = Day(*servers, name, tmp_path, playhead)
    found = Following(day, kafka)
    try:
        found.ship()
        day.on(day.source, "SELECT 'the log begins'")
        found.follow()
        table = "CREATE TABLE t (id int PRIMARY KEY, n bigint)"
        day.on(day.source, table, "INSERT INTO t VALUES (1, 1), (2, 1)")
        yield found
    finally:
        found.end()
        for server in servers:
            server.sql(f"DROP DATABASE {name} WITH (FORCE)")


def test_an_open_transaction_sees_what_it_saw_on_the_source(following: Following) -> None:
    """It reads before others write, and ends long after them."""
    with following.day.client() as reader, following.day.client() as writer:
        reader.run("BEGIN", "INSERT INTO t SELECT 10, sum(n) FROM t")
        for _ in range(3):
            time.sleep(1)
            writer.run("UPDATE t SET n = n + 1 WHERE id < 3")
        time.sleep(3)
        reader.run("COMMIT")
        writer.run("UPDATE t SET n = n + 100 WHERE id = 10")
        following.until_same()
    report = following.stop()
    assert report["is_equal"], report


def test_what_waited_for_a_lock_comes_after_it(following: Following) -> None:
    with following.day.client() as first, following.day.client() as second:
        for _ in range(2):
            first.run("BEGIN", "UPDATE t SET n = n * 31 + 1 WHERE id = 1")
            change = "UPDATE t SET n = n * 31 + 2 WHERE id = 1"
            waiting = threading.Thread(target=second.run, args=(change,))
            waiting.start()
            time.sleep(4)
            first.run("UPDATE t SET n = n * 31 + 3 WHERE id = 1", "COMMIT")
            waiting.join()
        following.until_same()
    assert following.stop()["is_equal"]


def test_a_transaction_whose_end_cannot_be_played_is_withdrawn(following: Following) -> None:
    day = following.day
    with day.client() as client:
        client.run("BEGIN", "INSERT INTO t VALUES (5, 5)")
        time.sleep(3)
        client.run("COPY (SELECT 1) TO '/dev/null'; COMMIT", "INSERT INTO t VALUES (6, 6)")
    following.until_same("SELECT * FROM t WHERE id <> 5 ORDER BY id")
    report = following.stop(code=4)
    assert day.on(day.source, "SELECT n FROM t WHERE id = 5")
    assert not day.on(day.target, "SELECT n FROM t WHERE id = 5")
    assert report["outcomes"]["not_replayable"] >= 2


def test_a_target_that_crashes_is_waited_for(following: Following) -> None:
    day = following.day
    with day.client() as client:
        for number in range(10, 40):
            client.run(f"INSERT INTO t VALUES ({number}, {number})")
            if number == 20:
                following.until_same("SELECT * FROM t WHERE id < 15 ORDER BY id")
                day.target.crash()
            if number == 30:
                day.target.start()
    following.until_same()
    assert following.stop()["is_equal"]


def test_the_transactions_of_a_source_that_crashed_end(following: Following) -> None:
    day = following.day
    lost = Client(day.url(day.source))
    lost.run("BEGIN", "UPDATE t SET n = 1000 WHERE id = 1")
    time.sleep(3)
    day.source.crash()
    day.source.start()
    with day.client() as client:
        client.run("UPDATE t SET n = n + 1 WHERE id = 1")
        following.until_same()
    assert following.stop()["is_equal"]


def test_a_broker_that_is_away_is_waited_for(
    following: Following, linked_kafka: KafkaConnection, broker_link: LinkProxy
) -> None:
    day = following.day
    with day.client() as client:
        following.until_same()
        following.stop()
        following.follow(linked_kafka.bootstrap_servers)
        client.run("INSERT INTO t VALUES (30, 1)")
        following.until_same()
        broker_link.cut()
        client.run("INSERT INTO t VALUES (31, 1)")
        time.sleep(5)
        assert not day.same(T)
        broker_link.restore()
        client.run("INSERT INTO t VALUES (32, 1)")
        following.until_same()
    assert following.stop()["is_equal"]


def test_a_topic_that_goes_ends_the_run(following: Following, on_sandbox: RunBytes) -> None:
    with following.day.client() as client:
        client.run("INSERT INTO t VALUES (7, 7)")
        following.until_same()
    on_sandbox("topics", "delete", following.topic, "--yes")
    assert following.topic in following.said(code=1)


def test_a_transaction_that_blocks_only_here_gives_way(following: Following) -> None:
    """It locks a row that the source does not have, and nothing is known of what it does next."""
    day = following.day
    with day.client() as first, day.client() as second:
        following.until_same()
        day.on(day.target, "INSERT INTO t VALUES (77, 0)")
        first.run("BEGIN", "DELETE FROM t WHERE id = 77")
        following.until("SELECT FROM pg_stat_activity WHERE xact_start < now() AND query ~ '^DEL'")
        second.run("INSERT INTO t VALUES (77, 1)", "INSERT INTO t VALUES (78, 1)")
        following.until_same("SELECT id FROM t ORDER BY id")
        # The ledger does not have the INSERT yet: the transaction before it is open.
        report = following.stop(code=4)
        assert report["overtaken"] == 1
        assert report["outcomes"]["unexpected_error"] == 1
        first.run("COMMIT")
        following.follow()
        second.run("INSERT INTO t VALUES (79, 1)")
        following.until("SELECT FROM t WHERE id = 79")
    assert following.stop(code=4)["outcomes"]["unexpected_error"] == 1

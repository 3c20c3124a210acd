"""The pace that a server holds is found, whichever way the limit breaks, and no statement is played twice."""

import csv
import json
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from tests.fix_commands import Playhead
from tests.postgres_pair import DURATIONS, Postgres, started

STATEMENTS = 1_200
NOTES_IT = "INSERT INTO calls VALUES (n)"
SLEEPS = f"{NOTES_IT}; SELECT 1 FROM pg_sleep(0.01)"
ONE_AT_A_TIME = f"{NOTES_IT}; SELECT pg_advisory_xact_lock(7); SELECT 1 FROM pg_sleep(0.01)"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="playhead-queries-") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def base(folder: Path) -> Postgres:
    server = Postgres(folder / "base")
    server.make()
    with started(server):
        server.sql("CREATE TABLE calls (n int)")
        server.sql(work(NOTES_IT + "; SELECT 1"))
    return server


def work(body: str) -> str:
    return f"CREATE OR REPLACE FUNCTION work(n int) RETURNS int LANGUAGE sql AS '{body}'"


@pytest.fixture
def target(base: Postgres, folder: Path) -> Iterator[Postgres]:
    server = base.copy_to(folder / f"target-{uuid.uuid4().hex[:8]}")
    with started(server):
        yield server
    shutil.rmtree(server.folder)


@pytest.fixture(scope="module")
def recorded(base: Postgres, folder: Path) -> Path:
    """A log in which 40 sessions took turns."""
    source = base.copy_to(folder / "source", DURATIONS)
    with started(source):
        clients = [psycopg.connect(source.url, autocommit=True) for _ in range(40)]
        for n in range(STATEMENTS):
            clients[n % len(clients)].execute(f"SELECT work({n})".encode())
        for client in clients:
            client.close()
    return source.log


def at_rate(log: Path, file: Path, per_second: float) -> Path:
    """Give the statements of a log other times: so many in each second."""
    time = datetime(2024, 5, 1, tzinfo=UTC)
    with log.open(newline="") as old, file.open("w", newline="") as new:
        writer = csv.writer(new)
        for row in csv.reader(old):
            time += timedelta(seconds=1 / per_second if "work(" in row[13] else 0)
            writer.writerow(
                [f"{time:%Y-%m-%d %H:%M:%S}.{time.microsecond // 1000:03} UTC", *row[1:]]
            )
    return file


def words_of(log: Path, target: Postgres, until: str) -> list[str]:
    words = ["queries", "capacity", f"csvlog:{log}", "--to", target.url, "--until", until]
    return [*words, "--step", "1s", "--databases", "app", "-y", "-o", "json"]


def expect_once(target: Postgres) -> None:
    """No statement was played twice, and the log was played from its beginning."""
    [(count, different, last)] = target.sql("SELECT count(*), count(DISTINCT n), max(n) FROM calls")
    assert count == different
    assert last < count + 100


def test_the_limit_of_a_latency_is_found(
    recorded: Path, target: Postgres, playhead: Playhead, tmp_path: Path
) -> None:
    target.sql(work(ONE_AT_A_TIME))
    log = at_rate(recorded, tmp_path / "log.csv", 25)
    done = playhead(*words_of(log, target, "p99 > 150ms"))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert not found["has_log_ended"]
    assert 25 <= found["statements_per_second"] <= 120
    broken = [each["broke"] for each in found["stretches"] if each["broke"]]
    assert any(reason.startswith("p99 was") for reason in broken)
    assert all(each["failed"] == 0 for each in found["stretches"])
    expect_once(target)


def test_a_pace_that_is_not_kept_breaks_the_limit(
    base: Postgres, target: Postgres, playhead: Playhead, tmp_path: Path, folder: Path
) -> None:
    source = base.copy_to(folder / "source-of-one", DURATIONS)
    with started(source), psycopg.connect(source.url, autocommit=True) as client:
        for n in range(STATEMENTS):
            client.execute(f"SELECT work({n})".encode())
    target.sql(work(SLEEPS))
    log = at_rate(source.log, tmp_path / "log.csv", 20)
    done = playhead(*words_of(log, target, "p99 > 1m"))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    # One session sends nothing while it waits for 10 ms, so more than 100 in a second are not possible.
    assert 20 <= found["statements_per_second"] <= 100
    broken = [each["broke"] for each in found["stretches"] if each["broke"]]
    assert broken
    assert all("could not be sent in time" in reason for reason in broken)
    expect_once(target)


def test_if_the_log_ends_first_it_is_said(
    recorded: Path, target: Postgres, playhead: Playhead, tmp_path: Path
) -> None:
    log = at_rate(recorded, tmp_path / "log.csv", 100)
    done = playhead(*words_of(log, target, "p99 > 1m"))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["has_log_ended"]
    assert found["broke"] is None
    assert found["verdict"].startswith("at least ")
    expect_once(target)


def test_if_no_pace_holds_none_is_named(
    recorded: Path, target: Postgres, playhead: Playhead, tmp_path: Path
) -> None:
    target.sql(work(SLEEPS))
    log = at_rate(recorded, tmp_path / "log.csv", 200)
    done = playhead(*words_of(log, target, "p99 > 5ms"))
    assert done.returncode == 4, done.stderr
    found = json.loads(done.stdout)
    assert found["held"] is None
    assert [each["pace"] for each in found["stretches"]] == ["1x", "0.5x", "0.25x", "0.125x"]
    assert found["verdict"].startswith("NO PACE HELD: 0.125x broke the limit")
    expect_once(target)


def test_a_limit_that_cannot_be_measured_is_refused(target: Postgres, playhead: Playhead) -> None:
    for until in ("p99 > 2x", "divergences > 0", "p99 < 50ms"):
        done = playhead(*words_of(Path("/nowhere"), target, until))
        assert done.returncode == 2
        assert "--until" in done.stderr

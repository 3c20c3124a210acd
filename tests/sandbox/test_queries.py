"""A day of one server, played on another that began with the same files: the same rows, also after kills."""

import json
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import Any

import psycopg
import pytest

import playhead
from playhead.config.context import configure
from playhead.host.faults import abort_points
from playhead.postgres.replay_server import PostgresServer
from playhead.queries.query_rules import QueryRules
from playhead.queries.replay import plan_queries
from playhead.request import Request
from tests.busy_day import Rows, expect_equal, make_base, recorded_day
from tests.fix_commands import Playhead
from tests.fix_replay import within
from tests.postgres_pair import DURATIONS, STARTS, Postgres, started

POINTS = sorted(
    name for name in abort_points(Path(playhead.__file__).parent) if name.startswith("queries.")
)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that the user of the servers may enter: pytest closes its own for each run beside this one."""
    with tempfile.TemporaryDirectory(prefix="playhead-queries-") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def base(folder: Path) -> Postgres:
    return make_base(Postgres(folder / "base"))


@pytest.fixture(scope="module", params=["durations", "starts"])
def recorded(request: pytest.FixtureRequest, base: Postgres, folder: Path) -> tuple[Path, Rows]:
    settings = DURATIONS if request.param == "durations" else STARTS
    return recorded_day(base, folder / f"source-{request.param}", settings)


@pytest.fixture
def target(base: Postgres, folder: Path) -> Iterator[Postgres]:
    server = base.copy_to(folder / f"target-{uuid.uuid4().hex[:8]}")
    with started(server):
        yield server
    shutil.rmtree(server.folder)


def words_of(log: Path, target: Postgres, *more: str) -> list[str]:
    to = [
        "--to",
        target.url,
        "--databases",
        "app",
        "--id",
        target.folder.name,
        "-y",
        "-o",
        "json",
    ]
    return ["queries", "replay", f"csvlog:{log}", *to, *more]


def test_the_tables_are_equal_row_for_row(
    recorded: tuple[Path, Rows], target: Postgres, playhead: Playhead, tmp_path: Path
) -> None:
    log, rows = recorded
    page = tmp_path / "report.html"
    done = playhead(*words_of(log, target, "--report", str(page)))
    assert done.returncode == 0, done.stderr
    expect_equal(target, rows)
    report = json.loads(done.stdout)
    assert report["divergences"] == 0
    assert report["is_equal"]
    assert (
        sum(report["outcomes"].values()) - report["outcomes"].get("commits", 0)
        == report["statements"]
    )
    assert target.sql("SELECT count(*) FROM playhead_ledger.marks") == [(0,)]
    assert "<svg" in page.read_text()
    assert "it's" not in page.read_text()
    again = playhead(*words_of(log, target))
    assert again.returncode == 0, again.stderr
    expect_equal(target, rows)


def test_a_run_plays_what_its_plan_has_read(
    recorded: tuple[Path, Rows], target: Postgres, tmp_path: Path
) -> None:
    log, rows = Path(shutil.copy(recorded[0], tmp_path / "day.csv")), recorded[1]
    request = Request(source=f"csvlog:{log}", target="postgres:app")
    rules = QueryRules(databases=("app",))
    made, _ = plan_queries(
        request, rules, PostgresServer(target.url), configure({}), replay_id=target.folder.name
    )
    log.unlink()
    assert made.run(consent=lambda _: True).is_equal
    expect_equal(target, rows)


@pytest.mark.torture(one_of=3)
@pytest.mark.parametrize("point", [f"{name}{at}" for name in POINTS for at in ("", "#99")])
def test_killed_and_resumed_it_is_equal(
    recorded: tuple[Path, Rows], target: Postgres, playhead: Playhead, tmp_path: Path, point: str
) -> None:
    log, rows = recorded
    killed = playhead(*words_of(log, target), PLAYHEAD_ABORT_AT=point)
    if killed.returncode == 0:
        pytest.skip("the run does not pass this point so often")
    done = playhead(*words_of(log, target))
    assert done.returncode == 0, done.stderr
    expect_equal(target, rows)


def test_the_server_is_killed_while_it_plays(
    recorded: tuple[Path, Rows], target: Postgres, start_playhead: Any, tmp_path: Path
) -> None:
    log, rows = recorded
    run = start_playhead(*words_of(log, target))
    for _ in range(600):
        with suppress(psycopg.Error):
            if target.sql("SELECT count(*) FROM pgbench_history")[0][0] > 20:
                break
        time.sleep(0.05)
    target.crash()
    target.start()
    stdout, stderr = run.communicate(timeout=120)
    report = json.loads(stdout)
    in_doubt = report["outcomes"].get("in_doubt", 0)
    assert run.returncode == (0 if in_doubt == 0 else 4), stderr
    assert report["reconnected"] > 0
    expect_equal(target, rows)


def test_a_request_to_cancel_hits_no_later_statement(
    base: Postgres, folder: Path, target: Postgres, start_playhead: Any
) -> None:
    """The server is slow to take the request, and what was to be canceled has ended by itself."""
    source = base.copy_to(folder / "source-canceled", DURATIONS)
    with started(source), psycopg.connect(source.url, autocommit=True) as client:
        client.execute("SELECT pg_sleep(2) AS first")
        Timer(0.3, client.cancel).start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            client.execute("SELECT pg_sleep(1.5) AS canceled")
        client.execute("SELECT pg_sleep(2) AS last")
    with psycopg.connect(target.url, autocommit=True) as watch:

        def runs(name: str) -> bool:
            words = (
                "SELECT FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()"
            )
            return watch.execute(f"{words} AND query LIKE '%% AS {name}%%'".encode()).rowcount > 0

        run = start_playhead(*words_of(source.log, target))
        within(lambda: runs("first"), seconds=60, what="it plays")
        with target.frozen():
            within(lambda: runs("canceled"), seconds=20, what="it plays what is to be canceled")
            within(lambda: not runs("canceled"), seconds=20, what="that has ended by itself")
            time.sleep(0.5)
        stdout, stderr = run.communicate(timeout=120)
    outcomes = json.loads(stdout)["outcomes"]
    assert outcomes["expected_error"] == 1, stderr
    assert "unexpected_error" not in outcomes, stderr

"""A log that is played on two servers: what they answered otherwise is named, and nothing else."""

import json
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.fix_commands import Playhead
from tests.postgres_pair import DURATIONS, Postgres, started

UNSTEADY = {
    "SELECT clock_timestamp()": "rows",
    "SELECT g FROM generate_series(?, ?) g WHERE random() < ?": "number of rows",
}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="playhead-queries-") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def base(folder: Path) -> Postgres:
    server = Postgres(folder / "base")
    server.make()
    with started(server):
        server.sql("CREATE TABLE stock (id int PRIMARY KEY, n int, note text)")
        server.sql("INSERT INTO stock SELECT i, i, 'as it was' FROM generate_series(1, 50) i")
        server.sql("CREATE FUNCTION pause() RETURNS int LANGUAGE sql AS 'SELECT 1'")
    return server


@pytest.fixture(scope="module")
def log(base: Postgres, folder: Path) -> Path:
    """A day of two applications: one whose answers depend on the data alone, and one with clocks."""
    source = base.copy_to(folder / "source", DURATIONS)
    with started(source):
        with psycopg.connect(source.url, autocommit=True, application_name="shop") as client:
            shop(client)
        with psycopg.connect(source.url, autocommit=True, application_name="clock") as client:
            client.execute("SELECT clock_timestamp()")
            client.execute("SELECT g FROM generate_series(1, 4000) g WHERE random() < 0.5")
    return source.log


def shop(client: "psycopg.Connection[Any]") -> None:
    client.execute("SELECT * FROM stock")
    client.execute("SELECT id, n FROM stock WHERE n > 45; SELECT count(*) FROM stock")
    for at in range(8):
        client.execute("UPDATE stock SET n = n + 1 WHERE id = %s", (at,), prepare=at > 3)
        client.execute("SELECT n FROM stock WHERE id = %s", (at,), prepare=at > 3)
    with suppress(psycopg.Error):
        client.execute("INSERT INTO stock VALUES (1, 1, 'twice')")
    with client.cursor().copy("COPY stock TO STDOUT") as rows:
        assert sum(1 for _ in rows) == 50
    many = "COPY (SELECT g, repeat('x', 90) FROM generate_series(1, 20000) g) TO STDOUT"
    with client.cursor().copy(many) as rows:
        assert sum(1 for _ in rows) == 20_000
    for _ in range(10):
        client.execute("SELECT pause()")
    client.execute("SET statement_timeout = '30ms'")
    with suppress(psycopg.Error):
        client.execute("SELECT pg_sleep(0.5)")


@pytest.fixture
def pair(base: Postgres, folder: Path) -> Iterator[tuple[Postgres, Postgres]]:
    made = [base.copy_to(folder / f"target-{uuid.uuid4().hex[:8]}") for _ in range(2)]
    one, other = made
    with started(one, other):
        yield one, other
    for server in made:
        shutil.rmtree(server.folder)


def words_of(log: Path, target: Postgres, beside: Postgres, *more: str) -> list[str]:
    named = ["--to", target.url, "--beside", beside.url, "--id", target.folder.name]
    words = ["queries", "replay", f"csvlog:{log}", *named, "--databases", "app"]
    return [*words, "-y", "-o", "json", *more]


def differences_of(report: dict[str, Any]) -> dict[str, str]:
    return {each["query"]: each["what"] for each in report["beside"]["differences"]}


def test_only_what_clocks_and_random_numbers_say_differs(
    log: Path, pair: tuple[Postgres, Postgres], playhead: Playhead, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    done = playhead(*words_of(log, *pair, "--report", str(page), "--fail-if", "divergences > 2"))
    assert done.returncode == 4, done.stderr
    report = json.loads(done.stdout)
    assert differences_of(report) == UNSTEADY
    assert report["divergences"] == 2
    assert report["beside"]["canceled"] == 1
    assert report["beside"]["unknown"] == 0
    assert "check    divergences > 2: not so" in done.stderr
    assert "2 DIFFER from the server of --beside" in done.stderr
    assert "beside in orange" in page.read_text()
    assert {"then_p95_us", "beside_p95_us", "now_p95_us"} <= report["queries"][0].keys()
    tables = [server.sql("SELECT * FROM stock ORDER BY id") for server in pair]
    assert tables[0] == tables[1]


def test_equal_servers_are_equal(
    log: Path, pair: tuple[Postgres, Postgres], playhead: Playhead
) -> None:
    done = playhead(*words_of(log, *pair, "--applications", "shop"))
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["beside"]["differing"] == 0
    assert report["beside"]["compared"] > 30
    assert report["is_equal"]


def test_each_kind_of_difference_is_named_by_its_query(
    log: Path, pair: tuple[Postgres, Postgres], playhead: Playhead
) -> None:
    target, beside = pair
    target.sql("UPDATE stock SET n = 900 WHERE id = 3")
    target.sql("DELETE FROM stock WHERE id = 20")
    beside.sql("ALTER TABLE stock DROP CONSTRAINT stock_pkey")
    done = playhead(*words_of(log, *pair, "--applications", "shop", "--fail-if", "divergences > 0"))
    assert done.returncode == 4, done.stderr
    report = json.loads(done.stdout)
    assert differences_of(report) == {
        "SELECT * FROM stock": "number of rows",
        "SELECT id, n FROM stock WHERE n > ?; SELECT count(*) FROM stock": "number of rows",
        "SELECT n FROM stock WHERE id = $1": "rows",
        "INSERT INTO stock VALUES (?, ?, ?)": "SQLSTATE",
        "COPY stock TO STDOUT": "number of rows",
    }
    [failed] = [each for each in report["beside"]["differences"] if each["what"] == "SQLSTATE"]
    assert (failed["beside"], failed["target"]) == ("no error", "23505")
    assert report["beside"]["outcomes"]["error_missing"] == 1
    assert report["divergences"] == 5
    assert "check    divergences > 0: true" in done.stderr


def test_the_latency_is_compared_with_that_of_the_server_beside(
    log: Path, pair: tuple[Postgres, Postgres], playhead: Playhead
) -> None:
    target, beside = pair
    target.sql(
        "CREATE OR REPLACE FUNCTION pause() RETURNS int LANGUAGE sql AS "
        "'SELECT 1 FROM pg_sleep(0.2)'"
    )
    checks = ("--fail-if", "p95 > 1.2x", "--fail-if", "p95 < 1.2x", "--applications", "shop")
    done = playhead(*words_of(log, target, beside, *checks))
    assert done.returncode == 4
    assert "check    p95 > 1.2x: true" in done.stderr
    assert "check    p95 < 1.2x: not so" in done.stderr
    slowest = json.loads(done.stdout)["queries"][0]
    assert slowest["query"] == "SELECT pause()"
    assert slowest["slower"] > 2


def test_one_server_is_not_compared_with_itself(
    log: Path, pair: tuple[Postgres, Postgres], playhead: Playhead
) -> None:
    target, beside = pair
    same = playhead(*words_of(log, target, target))
    assert same.returncode == 6
    assert "same database of the same server" in same.stderr
    again = playhead(*words_of(log, target, beside, "--dry-run"))
    assert again.returncode == 0, again.stderr
    assert target.sql("SELECT to_regclass('playhead_ledger.marks')") == [(None,)]


@pytest.mark.parametrize("point", ["queries.answered#40", "queries.before_last_entries#2"])
def test_what_an_interrupted_run_played_is_not_called_the_same(
    log: Path, pair: tuple[Postgres, Postgres], playhead: Playhead, point: str
) -> None:
    words = words_of(log, *pair, "--applications", "shop")
    playhead(*words, PLAYHEAD_ABORT_AT=point)
    without = [word for word in words if word not in ("--beside", pair[1].url)]
    refused = playhead(*without)
    assert refused.returncode == 2
    assert "was planned with --beside; give it again" in refused.stderr
    done = playhead(*words)
    assert done.returncode == 4, done.stderr
    report = json.loads(done.stdout)
    assert report["verdict"].startswith("INCOMPLETE")
    assert report["beside"]["unknown"] > 0
    assert report["divergences"] == 0
    tables = [server.sql("SELECT * FROM stock ORDER BY id") for server in pair]
    assert tables[0] == tables[1]

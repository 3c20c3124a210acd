"""The plans of what became slower are in the report, without values unless they are asked for."""

import json
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.fix_commands import Playhead
from tests.postgres_pair import DURATIONS, Postgres, started

SLOW = "SELECT pause() FROM people WHERE name = 'Marie Curie'"
BOUND = "SELECT pause() + 0 FROM people WHERE name = %s"
CHANGES = "UPDATE counted SET n = n + 1 WHERE pause() = 1"
SEVERAL = "SELECT pause(); SELECT pause()"


def pause(seconds: float) -> str:
    body = f"SELECT 1 FROM pg_sleep({seconds})"
    return f"CREATE OR REPLACE FUNCTION pause() RETURNS int LANGUAGE sql AS '{body}'"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="playhead-queries-") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def base(folder: Path) -> Postgres:
    server = Postgres(folder / "base")
    server.make()
    with started(server):
        server.sql("CREATE TABLE people (name text)")
        server.sql("INSERT INTO people VALUES ('Marie Curie'), ('Lise Meitner')")
        server.sql("CREATE INDEX by_name ON people (name)")
        server.sql("CREATE TABLE counted (n int)")
        server.sql("INSERT INTO counted VALUES (0)")
        server.sql(pause(0))
    return server


@pytest.fixture(scope="module")
def log(base: Postgres, folder: Path) -> Path:
    source = base.copy_to(folder / "source", DURATIONS)
    with started(source), psycopg.connect(source.url, autocommit=True) as client:
        for _ in range(6):
            client.execute(SLOW.encode())
            client.execute(BOUND.encode(), ("Lise Meitner",))
            client.execute(CHANGES.encode())
            client.execute(SEVERAL.encode())
    return source.log


@pytest.fixture
def pair(base: Postgres, folder: Path) -> Iterator[tuple[Postgres, Postgres]]:
    """A slow target without an index, and a server beside it that is as the source was."""
    made = [base.copy_to(folder / f"target-{uuid.uuid4().hex[:8]}") for _ in range(2)]
    target, beside = made
    with started(target, beside):
        target.sql(pause(0.2))
        target.sql("DROP INDEX by_name")
        beside.sql("ALTER DATABASE app SET enable_seqscan = off")
        yield target, beside
    for server in made:
        shutil.rmtree(server.folder)


def played(
    playhead: Playhead, log: Path, pair: tuple[Postgres, Postgres], *more: str
) -> tuple[dict[str, dict[str, Any]], str]:
    """Return the plans of the report, and all that was printed."""
    target, beside = pair
    named = ["--to", target.url, "--beside", beside.url, "--databases", "app"]
    done = playhead("queries", "replay", f"csvlog:{log}", *named, "-y", "-o", "json", *more)
    assert done.returncode == 0, done.stderr
    plans = json.loads(done.stdout)["plans"]
    return {each["query"]: each for each in plans}, done.stdout + done.stderr


def test_a_plan_shows_no_values(
    log: Path, pair: tuple[Postgres, Postgres], playhead: Playhead, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    plans, printed = played(playhead, log, pair, "--report", str(page))
    slow = plans["SELECT pause() FROM people WHERE name = ?"]
    assert "Seq Scan on people" in slow["target"]
    assert "by_name" in slow["beside"]
    assert "name = $1" in slow["target"]
    bound = plans["SELECT pause() + ? FROM people WHERE name = $1"]
    assert "name = $1" in bound["target"]
    changes = plans["UPDATE counted SET n = n + ? WHERE pause() = ?"]
    assert changes["target"].startswith("Update on counted")
    assert [server.sql("SELECT n FROM counted") for server in pair] == [[(6,)], [(6,)]]
    assert plans["SELECT pause(); SELECT pause()"]["target"].startswith(
        "not explained: the text is not"
    )
    for text in (printed, page.read_text()):
        assert "Seq Scan on people" in text
        assert "Curie" not in text
        assert "Meitner" not in text


def test_with_literals_the_plan_is_that_of_the_values(
    log: Path, pair: tuple[Postgres, Postgres], playhead: Playhead
) -> None:
    plans, _ = played(playhead, log, pair, "--literals")
    assert "Marie Curie" in plans["SELECT pause() FROM people WHERE name = ?"]["target"]
    bound = plans["SELECT pause() + ? FROM people WHERE name = $1"]
    assert "Lise Meitner" in bound["target"]
    assert "Lise Meitner" in bound["beside"]
    assert plans["SELECT pause(); SELECT pause()"]["target"].startswith(
        "not explained: the text is not"
    )

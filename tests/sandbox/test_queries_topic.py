"""A log in a topic, on a real broker: played from it, and refused where the topic is no longer what was planned."""

import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from playhead.sandbox import Endpoints
from tests.fix_commands import Playhead, RunBytes
from tests.postgres_pair import DURATIONS, Postgres, started
from tests.query_days import Day

ROWS = "SELECT * FROM t ORDER BY 1, 2"
KILLED = "queries.answered#3"


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Postgres, Postgres]]:
    with tempfile.TemporaryDirectory(prefix="playhead-queries-") as name:
        base = Postgres(Path(name) / "base")
        base.make()
        source = base.copy_to(Path(name) / "source", DURATIONS)
        target = base.copy_to(Path(name) / "target")
        with started(source, target):
            yield source, target


class Shipped:
    """A day of three sessions, and the topic that its log was shipped into."""

    def __init__(self, day: Day, sandbox: Endpoints, on_sandbox: RunBytes) -> None:
        self.day, self.topic = day, f"pg_raw_{day.name}"
        self.brokers, self._on_sandbox = sandbox.bootstrap_servers, on_sandbox
        for who in range(3):
            with day.client() as one:
                for n in range(4):
                    one.run(f"INSERT INTO t VALUES ({who}, 'row {n}')")
        self._log = day.log()
        self.ship("first")

    def ship(self, name: str) -> None:
        words = ("queries", "ship", str(self._log), "kafka:pg_raw_{db}", "--once", "--name")
        self._on_sandbox(*words, f"{self.topic}-{name}", "--partitions", "1")

    def replay(self, *more: str, code: int, **environment: str) -> str:
        """Play it; what the command said."""
        words = ("-b", self.brokers, *more)
        done = self.day.replay(*words, log=f"kafka:{self.topic}", **environment)
        assert done.code == code, done.said
        return done.said

    def kill_a_run(self) -> None:
        words = self.day.words("-b", self.brokers, log=f"kafka:{self.topic}")
        done = self.day.playhead(*words, PLAYHEAD_ABORT_AT=KILLED)
        assert done.returncode not in (0, 1, 2, 3, 4, 5), done.stderr

    def delete(self) -> None:
        self._on_sandbox("topics", "delete", self.topic, "--yes")

    def trim(self, to: int) -> None:
        self._on_sandbox("topics", "trim", "--offsets", f"0:-{to}", self.topic, "--yes")


@pytest.fixture
def shipped(
    servers: tuple[Postgres, Postgres],
    playhead: Playhead,
    tmp_path: Path,
    sandbox: Endpoints,
    on_sandbox: RunBytes,
) -> Iterator[Shipped]:
    name = f"day_{uuid.uuid4().hex[:8]}"
    for server in servers:
        server.sql(f"CREATE DATABASE {name}")
    day = Day(*servers, name, tmp_path, playhead)
    day.before("CREATE TABLE t (a int, b text)")
    yield Shipped(day, sandbox, on_sandbox)
    for server in servers:
        server.sql(f"DROP DATABASE {name} WITH (FORCE)")


def test_the_form_of_the_older_tool_with_two_brokers(shipped: Shipped) -> None:
    day = shipped.day
    words = ["queries", "replay", "-t", shipped.topic, "-d", day.name, "-u", "app"]
    words += ["-H", "127.0.0.1", "-P", str(day.target.port), "-m", "60000", "-i", "30", "-y"]
    words.append("--no-follow")
    # The last one is dead: it must not be the only one.
    done = day.playhead(*words, "-a", "1525132800", "-b", shipped.brokers, "-b", "127.0.0.1:9")
    assert done.returncode == 0, done.stderr
    assert day.same(ROWS)
    assert len(day.on(day.target, ROWS)) == 12


def test_a_topic_that_was_made_again_is_refused_by_a_resume(shipped: Shipped) -> None:
    shipped.kill_a_run()
    before = shipped.day.on(shipped.day.target, ROWS)
    shipped.delete()
    assert "it is gone" in shipped.replay(code=1)
    # The same rows at the same offsets, but of another topic.
    shipped.ship("second")
    assert f"topic {shipped.topic} is not the planned one" in shipped.replay(code=1)
    assert shipped.day.on(shipped.day.target, ROWS) == before


def test_a_topic_that_was_trimmed_below_the_span_is_refused_by_a_resume(shipped: Shipped) -> None:
    shipped.kill_a_run()
    shipped.trim(6)
    said = shipped.replay(code=1)
    assert "the log has changed since the plan was made" in said


def test_a_plan_says_which_rows_were_deleted_before(shipped: Shipped) -> None:
    assert "were deleted from the topic" not in shipped.replay("--dry-run", code=0)
    shipped.trim(6)
    said = shipped.replay("--dry-run", code=0)
    assert f"deleted from the topic and are not played: {shipped.topic}:0 before 6" in said
    said = shipped.replay("--dry-run", "--last", "1h", code=0)
    assert f"deleted from the topic and are not played: {shipped.topic}:0 before 6" in said

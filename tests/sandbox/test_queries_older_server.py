"""A day of Debian's PostgreSQL 15, played on another of it that began with the same files."""

import json
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.debian import NoPackages, unpacked

from playhead.host.runtimes import PostgresPrograms
from playhead.sandbox import Endpoints
from tests.busy_day import expect_equal, make_base, recorded_day
from tests.fix_commands import Playhead, RunBytes
from tests.postgres_pair import DURATIONS, STARTS, Postgres, started


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="playhead-queries-") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def base(folder: Path) -> Postgres:
    try:
        files = unpacked("postgresql-15")
    except NoPackages as exc:
        pytest.skip(f"PostgreSQL 15 cannot be had: {exc}")
    folder_of_programs = files / "usr/lib/postgresql/15/bin"
    programs = PostgresPrograms(files, (files / "usr",), folder_of_programs, "PostgreSQL 15")
    return make_base(Postgres(folder / "base", programs=programs))


@pytest.mark.parametrize(
    ("settings", "is_shipped"),
    [(DURATIONS, False), (STARTS, False), (DURATIONS, True)],
    ids=["durations", "starts", "shipped"],
)
def test_the_tables_are_equal_row_for_row(
    base: Postgres,
    folder: Path,
    playhead: Playhead,
    sandbox: Endpoints,
    on_sandbox: RunBytes,
    request: pytest.FixtureRequest,
    settings: dict[str, str],
    is_shipped: bool,
) -> None:
    name = request.node.callspec.id
    log, rows = recorded_day(base, folder / f"source-{name}", settings)
    target = base.copy_to(folder / f"target-{name}")
    played = f"csvlog:{log}"
    if is_shipped:
        pattern = f"older_{uuid.uuid4().hex[:8]}_{{db}}"
        on_sandbox(
            "queries", "ship", str(log), f"kafka:{pattern}", "--once", "--name", pattern[:14]
        )
        played = f"kafka:{pattern.format(db='app')}"
    with started(target):
        words = ["queries", "replay", played, "--to", target.url, "--databases", "app"]
        words += ["-b", sandbox.bootstrap_servers] if is_shipped else []
        words += ["--id", target.folder.name, "-y", "-o", "json"]
        assert target.sql("SHOW server_version_num")[0][0].startswith("15")
        killed = playhead(*words, PLAYHEAD_ABORT_AT="queries.answered#99")
        assert killed.returncode != 0
        done = playhead(*words)
        assert done.returncode == 0, done.stderr
        expect_equal(target, rows)
    report = json.loads(done.stdout)
    assert report["is_equal"]
    assert report["divergences"] == 0

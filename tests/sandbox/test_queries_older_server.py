"""A day of Debian's PostgreSQL 15, played on another of it that began with the same files."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.debian import NoPackages, unpacked

from playhead.host.runtimes import PostgresPrograms
from tests.busy_day import expect_equal, make_base, recorded_day
from tests.fix_commands import Playhead
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


@pytest.mark.parametrize("settings", [DURATIONS, STARTS], ids=["durations", "starts"])
def test_the_tables_are_equal_row_for_row(
    base: Postgres,
    folder: Path,
    playhead: Playhead,
    request: pytest.FixtureRequest,
    settings: dict[str, str],
) -> None:
    name = request.node.callspec.id
    log, rows = recorded_day(base, folder / f"source-{name}", settings)
    target = base.copy_to(folder / f"target-{name}")
    with started(target):
        words = ["queries", "replay", f"csvlog:{log}", "--to", target.url, "--databases", "app"]
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

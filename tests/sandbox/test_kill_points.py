"""Killed at any step of coming up, a sandbox leaves nothing that the next `up` cannot put right."""

import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

import playhead
from playhead.config.kafka_connection import KafkaConnection
from playhead.host.faults import abort_points
from playhead.kafka.admin.client import Admin
from playhead.sandbox import Sandbox
from tests.fix_environment import processes_that_mention

POINTS = sorted(
    name for name in abort_points(Path(playhead.__file__).parent) if name.startswith("sandbox.")
)
UP = "import sys; from pathlib import Path; from playhead.sandbox import Sandbox; Sandbox(Path(sys.argv[1])).up()"


def test_there_are_points_to_die_at() -> None:
    assert len(POINTS) >= 6


@pytest.mark.torture
@pytest.mark.parametrize("point", POINTS)
def test_killed_at(point: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAYHEAD_ABORT_AT", point)
    dead = subprocess.run(
        [sys.executable, "-c", UP, str(folder)], capture_output=True, text=True, timeout=120
    )
    monkeypatch.delenv("PLAYHEAD_ABORT_AT")
    assert dead.returncode == -9, f"it died at {point}: {dead.stderr}"
    endpoints = Sandbox(folder).up()
    with Admin(KafkaConnection(endpoints.bootstrap_servers)) as admin:
        assert admin.create_topic("after", partitions=1)
    with psycopg.connect(endpoints.database_url) as connection:
        assert connection.execute("SELECT 1").fetchall() == [(1,)]
    servers = [c for c in processes_that_mention(str(folder)).values() if "kafka.Kafka" in c]
    assert len(servers) == 1, "a server that was started before the kill is known, or gone"
    Sandbox(folder).down()
    assert processes_that_mention(str(folder)) == {}

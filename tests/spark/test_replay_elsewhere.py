"""Replays whose tasks run on a standalone cluster of two workers, and through Spark Connect."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from playhead.sandbox.folder import free_port
from tests.fix_cluster import spark_connect
from tests.fix_environment import processes_that_mention
from tests.fix_replay import LONG_TAPE, Performance, ended, parent_of

Perform = Callable[..., Performance]
TRANSFORM = (
    "--where",
    "value:seq >= 0 AND partition < 9",
    "--select",
    "value:seq AS seq, value:car AS car",
)


@pytest.fixture
def small_executors(tmp_path: Path) -> dict[str, str]:
    """As a cluster's own settings say: the fixture's workers have 600 MB to give."""
    (tmp_path / "spark-defaults.conf").write_text("spark.executor.memory 512m\n")
    return {"SPARK_CONF_DIR": str(tmp_path)}


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        pytest.param("kafka", (), marks=pytest.mark.torture),
        ("staged", TRANSFORM),
        pytest.param("postgres", ("--pace", "800/s"), marks=pytest.mark.torture),
        pytest.param("parquet", (), marks=pytest.mark.torture),
        pytest.param("kafka", TRANSFORM, marks=pytest.mark.torture),
    ],
)
def test_on_a_cluster_of_two_workers(
    perform: Perform,
    long_tape: str,
    cluster: str,
    small_executors: dict[str, str],
    kind: str,
    more: tuple[str, ...],
) -> None:
    it = perform(kind, long_tape, LONG_TAPE)
    done = ended(it.start("--master", cluster, *more, **small_executors))
    assert done.code == 0, done.err
    it.is_whole(json.loads(done.out))


@pytest.mark.torture
@pytest.mark.parametrize("kind", ["kafka", "staged"])
def test_a_worker_of_the_cluster_dies_in_the_middle(
    perform: Perform, long_tape: str, cluster: str, small_executors: dict[str, str], kind: str
) -> None:
    """Spark starts the task again by itself; the ledger keeps it from writing twice."""
    it = perform(kind, long_tape, LONG_TAPE, slice_records=20)
    command = it.start("--master", cluster, "--pace", "400/s", **small_executors)
    it.comes_to(0.2)
    daemons = {
        pid
        for pid, text in processes_that_mention("pyspark.daemon").items()
        if "java" not in text and "work-" in str(Path(f"/proc/{pid}/cwd").readlink())
    }
    os.kill(next(pid for pid in sorted(daemons) if parent_of(pid) in daemons), signal.SIGKILL)
    done = ended(command)
    assert done.code == 0, done.err
    it.is_whole(json.loads(done.out))


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("staged", TRANSFORM),
        pytest.param("kafka", (), marks=pytest.mark.torture),
        pytest.param("postgres", ("--pace", "800/s"), marks=pytest.mark.torture),
    ],
)
def test_through_spark_connect(
    perform: Perform, long_tape: str, connect_server: str, kind: str, more: tuple[str, ...]
) -> None:
    it = perform(kind, long_tape, LONG_TAPE)
    done = ended(it.start("--spark-remote", connect_server, *more))
    assert done.code == 0, done.err
    assert "Warning" not in done.err
    it.is_whole(json.loads(done.out))


@pytest.mark.torture
@pytest.mark.parametrize("ends", [subprocess.Popen.kill, subprocess.Popen.terminate])
def test_a_spark_connect_server_ends_and_is_started_again(
    perform: Perform,
    long_tape: str,
    java_home: Path,
    servers_folder: Path,
    ends: "Callable[[subprocess.Popen[bytes]], None]",
) -> None:
    """The next one knows neither the session nor the job."""
    it = perform("kafka", long_tape, LONG_TAPE, slice_records=20)
    port = free_port()
    with spark_connect(port, java_home, servers_folder) as first:
        command = it.start("--spark-remote", f"sc://127.0.0.1:{port}", "--pace", "200/s")
        it.comes_to(0.2)
        ends(first)
    with spark_connect(port, java_home, servers_folder):
        done = ended(command)
    assert done.code == 0, done.err
    assert "the engine lost its cluster" in done.err
    assert "Traceback" not in done.err
    it.is_whole(json.loads(done.out))


@pytest.mark.torture
@pytest.mark.parametrize("where", ["cluster", "connect_server"])
def test_ctrl_c_reaches_tasks_elsewhere(
    perform: Perform,
    long_tape: str,
    small_executors: dict[str, str],
    where: str,
    request: pytest.FixtureRequest,
) -> None:
    """They do not see the stop file, so that their job is cancelled; what is committed counts."""
    address = request.getfixturevalue(where)
    option = "--master" if where == "cluster" else "--spark-remote"
    it = perform("kafka", long_tape, LONG_TAPE, slice_records=20)
    command = it.start(option, address, "--pace", "200/s", **small_executors)
    it.comes_to(0.05)
    command.send_signal(signal.SIGINT)
    found = ended(command, seconds=60)
    assert found.code == 5, found.err
    assert f"playhead resume {it.replay_id}" in found.err
    assert "Traceback" not in found.err
    it.finish(**small_executors)

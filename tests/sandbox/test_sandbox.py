"""A sandbox comes up, is found, goes down, and survives what happens to it."""

import json
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import SandboxError
from playhead.kafka.admin.client import Admin
from playhead.sandbox import Endpoints, Sandbox
from playhead.sandbox import folder as ground
from playhead.testing.kafka_writer import Writer
from tests.fix_environment import processes_that_mention

WITHIN_S = 30.0


@pytest.fixture(scope="module")
def used() -> Iterator[Sandbox]:
    """A sandbox that has been up before and is down: several tests do to it what happens to one in its life."""
    with tempfile.TemporaryDirectory(prefix="playhead-box-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)  # the servers' user has to enter it
        sandbox = Sandbox(Path(name) / "box")
        sandbox.up()
        sandbox.down()
        yield sandbox
        sandbox.down()


@pytest.fixture
def down(used: Sandbox) -> Iterator[Sandbox]:
    """The used sandbox; it is down again after the test."""
    yield used
    used.down()


def write(endpoints: Endpoints, topic: str, values: list[bytes]) -> None:
    connection = KafkaConnection(endpoints.bootstrap_servers)
    with Admin(connection) as admin:
        admin.create_topic(topic, partitions=1)
    with Writer(connection) as writer:
        for value in values:
            writer.write(topic, key=None, value=value, timestamp_ms=1_000)


def read(endpoints: Endpoints, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": endpoints.bootstrap_servers, "group.id": "t", "log_level": 0}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    deadline = time.monotonic() + WITHIN_S
    while len(values) < count and time.monotonic() < deadline:
        values += [found.value() for found in consumer.consume(count, 0.5) if not found.error()]
    consumer.close()
    return values


def execute(endpoints: Endpoints, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(endpoints.database_url, autocommit=True) as connection:
        cursor = connection.execute(statement)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []


def eventually_none_mention(folder: Path) -> None:
    deadline = time.monotonic() + WITHIN_S
    while (left := processes_that_mention(str(folder))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


def test_what_was_written_is_there_after_down_and_up(down: Sandbox) -> None:
    first = down.up()
    write(first, "kept", [b"a", b"b"])
    execute(first, "CREATE TABLE kept AS SELECT 42 AS answer")
    assert down.down() == ["the Kafka broker", "PostgreSQL"]
    assert processes_that_mention(str(first.directory)) == {}
    second = down.up()
    assert second == first, "addresses stay while nobody takes them"
    assert read(second, "kept", 2) == [b"a", b"b"]
    assert execute(second, "SELECT answer FROM kept") == [(42,)]


def test_fresh_forgets_everything(folder: Path) -> None:
    sandbox = Sandbox(folder)
    write(sandbox.up(), "gone", [b"a"])
    endpoints = sandbox.up(fresh=True)
    with Admin(KafkaConnection(endpoints.bootstrap_servers)) as admin:
        assert "gone" not in admin.cluster().topics


def test_a_killed_broker_comes_back_with_its_data(down: Sandbox) -> None:
    sandbox = down
    write(sandbox.up(), "before", [b"before the kill"])
    before = sandbox.status()
    assert before.broker_pid is not None
    os.kill(before.broker_pid, signal.SIGKILL)
    deadline = time.monotonic() + WITHIN_S
    while sandbox.status().broker_pid is not None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not sandbox.status().is_up
    endpoints = sandbox.up()
    after = sandbox.status()
    assert after.database_pid == before.database_pid, "what still runs is left alone"
    assert after.broker_pid not in (None, before.broker_pid)
    assert read(endpoints, "before", 1) == [b"before the kill"]


def test_a_database_killed_with_all_its_processes_comes_back_with_its_data(down: Sandbox) -> None:
    sandbox = down
    execute(sandbox.up(), "CREATE TABLE before AS SELECT 42 AS answer")
    pid = sandbox.status().database_pid
    assert pid is not None
    os.kill(pid, signal.SIGQUIT)  # PostgreSQL's immediate shutdown
    deadline = time.monotonic() + WITHIN_S
    while sandbox.status().database_pid is not None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert execute(sandbox.up(), "SELECT answer FROM before") == [(42,)]


def test_two_at_once_give_one_sandbox(folder: Path) -> None:
    found: list[Endpoints] = []
    said: list[str] = []
    both = [
        threading.Thread(target=lambda: found.append(Sandbox(folder).up(say=said.append)))
        for _ in range(2)
    ]
    for one in both:
        one.start()
    for one in both:
        one.join(WITHIN_S * 3)
    assert len(found) == 2
    assert found[0] == found[1]
    assert any("waiting" in line for line in said)
    servers = [c for c in processes_that_mention(str(folder)).values() if "kafka.Kafka" in c]
    assert len(servers) == 1


def test_half_made_data_folders_are_set_aside_and_said(folder: Path) -> None:
    sandbox = Sandbox(folder)
    sandbox.up()
    sandbox.down()
    (folder / "kafka" / "data" / "meta.properties").write_text("version=1\n")
    (folder / "postgres" / "data" / "PG_VERSION").unlink()
    left = [folder / server / "data.17.new" for server in ("kafka", "postgres")]
    for unfinished in left:
        unfinished.mkdir()
    said: list[str] = []
    sandbox.up(say=said.append)
    damaged = folder / "kafka" / "data.broken-1" / "meta.properties"
    assert damaged.read_text() == "version=1\n"
    assert (folder / "postgres" / "data.broken-1").exists()
    assert sum("data.broken-1" in line for line in said) == 2
    assert not any(unfinished.exists() for unfinished in left)


def test_a_port_that_is_taken_between_runs_is_replaced(down: Sandbox) -> None:
    first = down.up()
    down.down()
    port = int(first.bootstrap_servers.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)):
        second = down.up()
    assert second.bootstrap_servers != first.bootstrap_servers
    assert second.database_url == first.database_url


def test_ports_that_are_taken_between_choice_and_use_are_replaced(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
    ):
        taken = [one.getsockname()[1], two.getsockname()[1]]
        choices = iter([taken[0], ground.free_port(), taken[1]])
        real = ground.free_port
        monkeypatch.setattr(ground, "free_port", lambda: next(choices, None) or real())
        # As if they had been free when they were looked at, and once only.
        looks = {port: iter([True]) for port in taken}
        is_free = ground.is_free
        monkeypatch.setattr(
            ground,
            "is_free",
            lambda port: next(looks[port], False) if port in looks else is_free(port),
        )
        said: list[str] = []
        endpoints = Sandbox(folder).up(say=said.append)
    assert any("lost a port" in line for line in said)
    assert not any(f":{port}" in endpoints.bootstrap_servers for port in taken)
    assert not any(f":{port}/" in endpoints.database_url for port in taken)
    assert execute(endpoints, "SELECT 1") == [(1,)]


def test_a_stale_postmaster_file_whose_pid_is_somebody_else_does_not_block(down: Sandbox) -> None:
    folder = down.directory
    lock = folder / "postgres" / "data" / "postmaster.pid"
    lock.write_text(f"{os.getpid()}\n{folder}\n0\n5432\n\n127.0.0.1\n")
    shutil.chown(lock, "nobody" if os.geteuid() == 0 else None, -1 if os.geteuid() else "nogroup")
    assert execute(down.up(), "SELECT 1") == [(1,)]


def test_a_path_of_more_than_a_hundred_characters_with_odd_ones_in_it(folder: Path) -> None:
    deep = folder / ("a folder, with spaces & ünïcödé " + "x" * 40) / ("y" * 60)
    try:
        endpoints = Sandbox(deep).up()
        write(endpoints, "deep", [b"a"])
        assert read(endpoints, "deep", 1) == [b"a"]
        assert execute(endpoints, "SELECT 1") == [(1,)]
    finally:
        Sandbox(deep).down()


def test_a_folder_that_cannot_be_written_is_said_plainly() -> None:
    with pytest.raises(SandboxError) as caught:
        Sandbox(Path("/proc/playhead")).up()
    assert "cannot write to /proc/playhead" in caught.value.message
    assert "--dir" in (caught.value.hint or "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's servers run as somebody else")
def test_a_folder_that_the_servers_user_cannot_enter_is_said_plainly(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(SandboxError) as caught:
        Sandbox(closed / "box").up()
    assert "cannot enter" in caught.value.message
    assert "chmod o+x" in (caught.value.hint or "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give servers away")
def test_no_server_runs_as_root(running_sandbox: Sandbox) -> None:
    status = running_sandbox.status()
    for pid in (status.broker_pid, status.database_pid):
        assert Path(f"/proc/{pid}").stat().st_uid != 0


def test_servers_listen_on_loopback_only(running_sandbox: Sandbox) -> None:
    status = running_sandbox.status()
    listening = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                listening.add((fields[9], fields[1].partition(":")[0]))
    own = _socket_inodes(status.broker_pid) | _socket_inodes(status.database_pid)
    addresses = {address for inode, address in listening if inode in own}
    loopback = {"0100007F", "0000000000000000FFFF00000100007F"}
    assert addresses, "the servers listen somewhere"
    assert addresses <= loopback


def _socket_inodes(pid: int | None) -> set[str]:
    links = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            links.add(str(link.readlink()))
    return {link[8:-1] for link in links if link.startswith("socket:")}


def test_the_broker_leaves_nothing_in_the_temporary_folder(running_sandbox: Sandbox) -> None:
    client = {"bootstrap.servers": running_sandbox.endpoints().bootstrap_servers, "log_level": 0}
    topic = NewTopic("packed-by-broker", 1, config={"compression.type": "lz4"})
    admin = AdminClient(client)
    admin.create_topics([topic])["packed-by-broker"].result(WITHIN_S)
    producer = Producer(client)
    producer.produce("packed-by-broker", b"x" * 1_000)
    assert producer.flush(WITHIN_S) == 0
    mapped = Path(f"/proc/{running_sandbox.status().broker_pid}/maps").read_text().splitlines()
    unpacked = {each.split()[-1] for each in mapped if "liblz4" in each}
    assert len(unpacked) == 1
    assert unpacked.pop().startswith(str(running_sandbox.directory))


def test_the_database_logs_to_csvlog_and_allows_logical_replication(sandbox: Endpoints) -> None:
    rows = execute(
        sandbox,
        "SELECT name, setting FROM pg_settings WHERE name IN "
        "('log_destination', 'wal_level', 'logging_collector', 'fsync') ORDER BY name",
    )
    assert dict(rows) == {
        "fsync": "on",
        "log_destination": "csvlog",
        "logging_collector": "on",
        "wal_level": "logical",
    }
    assert list((sandbox.directory / "postgres" / "log").glob("*.csv"))


def test_when_its_owner_is_killed_the_guard_stops_the_servers(folder: Path) -> None:
    import subprocess
    import sys

    program = (
        "import sys, time\nfrom pathlib import Path\nfrom playhead.sandbox import Sandbox\n"
        "with Sandbox(Path(sys.argv[1])).running():\n    print('up', flush=True)\n    time.sleep(600)\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == "up\n"
    owner.kill()
    owner.wait()
    owner.stdout.close()
    eventually_none_mention(folder)
    assert not (folder / "context.toml").exists()


def test_the_memory_file_can_be_torn(folder: Path) -> None:
    sandbox = Sandbox(folder)
    write(sandbox.up(), "t", [b"a"])
    sandbox.down()
    (folder / "sandbox.json").write_text(json.dumps({"cluster_id": "x"})[:7])
    said: list[str] = []
    endpoints = sandbox.up(say=said.append)
    assert execute(endpoints, "SELECT 1") == [(1,)]
    assert sum("lost sandbox.json" in line for line in said) == 2
    assert (folder / "kafka" / "data.broken-1" / "t-0").exists(), "nobody's data are deleted"

"""Every door of a running sandbox, capture and ingest: on loopback, and what a stranger gets there."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from playhead.sandbox import Endpoints, Sandbox

_LISTENING, _UDP_OPEN = "0A", "07"
_LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def doors(*pids: int) -> dict[str, set[str]]:
    """Where processes and their children listen: addresses as the kernel writes them, by protocol."""
    inodes = {inode for pid in pids for each in (pid, *children(pid)) for inode in sockets(each)}
    found: dict[str, set[str]] = {}
    for table, state in (
        ("tcp", _LISTENING),
        ("tcp6", _LISTENING),
        ("udp", _UDP_OPEN),
        ("udp6", _UDP_OPEN),
    ):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            # A UDP socket with a peer is one that speaks to it alone.
            if words[3] == state and words[9] in inodes and words[2].endswith(":0000"):
                found.setdefault(table[:3], set()).add(words[1].partition(":")[0])
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        words = line.split()
        if words[6] in inodes and len(words) > 7:
            found.setdefault("unix", set()).add(words[7])
    return found


def children(pid: int) -> Iterator[int]:
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            yield int(status.parent.name)
            yield from children(int(status.parent.name))


def sockets(pid: int) -> Iterator[str]:
    try:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            found = re.fullmatch(r"socket:\[(\d+)\]", str(link.readlink()))
            if found:
                yield found[1]
    except FileNotFoundError:
        return


@pytest.fixture
def needs_proc() -> None:
    if not Path("/proc/net/tcp").exists():
        pytest.skip("SECURITY TEST NOT RUN: it needs Linux's /proc")


def test_a_sandbox_listens_on_loopback_alone(needs_proc, running_sandbox: Sandbox) -> None:
    status = running_sandbox.status()
    assert status.broker_pid is not None
    assert status.database_pid is not None
    broker, database = doors(status.broker_pid), doors(status.database_pid)
    assert set(broker) == {"tcp"}
    assert broker["tcp"] <= _LOOPBACK
    assert database["tcp"] <= _LOOPBACK
    assert "unix" not in database, "a socket's folder would be a second door"


@pytest.mark.parametrize("user", ["playhead", "postgres", "nobody", "root"])
@pytest.mark.parametrize("password", ["", "playhead", "postgres"])
def test_the_sandboxs_database_refuses_a_stranger(
    sandbox: Endpoints, user: str, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSFILE", "/nowhere")
    place = sandbox.database_url.rpartition("@")[2]
    for database in ("playhead", "postgres", "template1"):
        url = f"postgresql://{user}@{place.partition('/')[0]}/{database}"
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url, password=password or None, connect_timeout=5).close()


def test_every_way_into_the_sandboxs_database_asks_for_a_password(sandbox: Endpoints) -> None:
    with psycopg.connect(sandbox.database_url) as connection:
        rules = connection.execute("SELECT DISTINCT auth_method FROM pg_hba_file_rules").fetchall()
    assert rules == [("scram-sha-256",)]


def test_a_capture_listens_on_loopback_alone(needs_proc, start_capture) -> None:
    running = start_capture()
    found = doors(running.process.pid)
    assert set(found) == {"tcp"}
    assert found["tcp"] <= _LOOPBACK


def test_ingest_listens_on_loopback_alone(needs_proc, start_ingest, topic) -> None:
    running = start_ingest(topic)
    found = doors(running.process.pid)
    assert set(found) == {"udp"}
    assert found["udp"] <= _LOOPBACK


def test_the_doors_of_a_process_are_seen(needs_proc) -> None:
    """The look itself: one door that is open to everybody, and one that is not."""
    import os

    with socket.create_server(("0.0.0.0", 0)), socket.create_server(("127.0.0.1", 0)):  # noqa: S104
        assert {"00000000", "0100007F"} <= doors(os.getpid())["tcp"]

"""A server that has libpq hash for hours: connecting ends in time, and signals end a command."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from tests.hashing_server import HashingServer

START = """
import sys, time
from playhead.postgres import explain, query_link, server, session
server._CONNECT_WITHIN_S = 2
query_link._CONNECT_WITHIN_S = 4  # for each step
began = time.monotonic()
def connect(opening):
    with opening:
        pass
def connect_without_waiting():
    link = query_link.QueryLink(query_link.address_of(url, major=18))
    try:
        while not link.go_on_connecting():
            time.sleep(0.01)
    finally:
        link.close()
url = sys.argv[1]
try:
    WAY
except Exception as exc:
    print(type(exc).__name__, round(time.monotonic() - began), exc, flush=True)
"""
WAYS = [
    "connect(server.connect(url))",
    "connect(explain.open_explainer(url))",
    "connect(session.open_session(url, grant=''))",
    "connect(session.open_copy_session(url, grant=''))",
    "connect_without_waiting()",
]


@pytest.fixture
def hashing() -> Iterator[HashingServer]:
    with HashingServer() as server:
        yield server


def python(*words: str) -> "subprocess.Popen[str]":
    """A process of its own, with which what was left behind ends."""
    out = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", *words], stdout=out, stderr=out, text=True)


def ended(process: "subprocess.Popen[str]") -> tuple[str, str]:
    try:
        return process.communicate(timeout=30)
    finally:
        process.kill()


@pytest.mark.slow  # the hashing goes on until the time is over
@pytest.mark.parametrize("way", WAYS)
def test_connecting_ends_in_time(hashing: HashingServer, way: str) -> None:
    out, err = ended(python(START.replace("WAY", way), hashing.url))
    error, took_s, reason = out.split(" ", 2)
    assert (error, int(took_s) in range(4, 8)) in {
        ("DatabaseUnavailable", True),
        ("LinkLost", True),
    }
    assert "connecting" in reason
    assert "did not end within 4 s" in reason
    assert "password" not in out + err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_a_command_that_connects(
    hashing: HashingServer,
    start_playhead: Callable[..., "subprocess.Popen[str]"],
    number: signal.Signals,
    code: int,
) -> None:
    command = start_playhead("doctor", DATABASE_URL=hashing.url)
    assert hashing.has_asked.wait(30)
    began = time.monotonic()
    command.send_signal(number)
    ended(command)
    assert command.returncode == code
    assert time.monotonic() - began < 5

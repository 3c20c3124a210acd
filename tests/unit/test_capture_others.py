"""What one client, or one broker, says cannot stop the others that the capture proxy serves."""

# ruff: noqa: F811  the fixture is used by its name

import contextlib
import os
import re
import signal
import struct
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import playhead.capture.proxy
import playhead.capture.relay
from playhead.capture import unanswered
from playhead.capture.address_rewrite import rewritten
from playhead.capture.frames import framed
from playhead.capture.protocol import (
    API_VERSIONS,
    FETCH,
    METADATA,
    as_varint,
)
from playhead.unpacking import Malformed
from tests.fix_commands import COMMAND
from tests.kafka_bytes import set_of
from tests.unit.test_capture_proxy import (  # noqa: F401  the fixture is used by its name
    WITHIN_S,
    asked,
    bench,
    made_up_answers,
    metadata_of,
    produce_frame,
    until,
)

FIND_COORDINATOR = 10


@pytest.mark.parametrize("count", [1, 12])
def test_requests_that_nobody_answers_stop_nobody_for_long(bench, monkeypatch, count):
    """Small ones cost more than their bytes; a few large ones hold everybody back until they end."""
    monkeypatch.setattr(playhead.capture.proxy, "_LOOK_EVERY_S", 0.2)
    monkeypatch.setattr(unanswered, "MOST_S", 0.2)
    monkeypatch.setattr(unanswered, "BRIEF_S", 0.1)
    broker = bench.broker(
        lambda api, *said: None if api == API_VERSIONS else made_up_answers(api, *said)
    )
    proxy = bench.proxy(broker, memory_bytes=8 << 20)
    asking = asked(API_VERSIONS, 0)
    padded = framed(asking[4:] + bytes(900_000)) if count == 12 else asking
    for _ in range(count):
        silent = bench.client(proxy.doors.port)
        silent.link.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            silent.link.send(padded if count == 12 else asking * 20_000)
    until(lambda: proxy.tap.most_held_bytes > 600_000)
    other = bench.client(proxy.doors.port)
    assert other.ask(asked(12, 4)) == made_up_answers(12, 4, 7, b"")
    counts, _ = bench.ended(proxy)
    assert counts.most_held_bytes < 12 << 20
    assert counts.pairs <= 1_001, "no more than so many are passed on without an answer"


def test_answers_now_and_then_do_not_let_a_burst_of_long_polls_hold_the_others(bench, monkeypatch):
    monkeypatch.setattr(playhead.capture.proxy, "_LOOK_EVERY_S", 0.2)
    monkeypatch.setattr(unanswered, "MOST_S", 2.0, raising=False)
    monkeypatch.setattr(unanswered, "BRIEF_S", 0.1, raising=False)
    ended = threading.Event()

    def slowly(api: int, *said: Any) -> bytes:
        if api == FETCH:
            ended.wait(0.15)  # faster than anybody looks: the oldest request is another each time
        return made_up_answers(api, *said)

    broker = bench.broker(slowly)
    proxy = bench.proxy(broker, memory_bytes=1 << 20)
    large = produce_frame(-1, set_of(bytes(300_000)))
    for _ in range(6):
        bench.client(proxy.doors.port).link.sendall(asked(FETCH, 12) * 400 + large)
    until(lambda: proxy.is_holding)
    other = bench.client(proxy.doors.port)
    assert other.ask(asked(12, 4)) == made_up_answers(12, 4, 7, b""), "polls took 60 s"
    ended.set()
    counts, _ = bench.ended(proxy)
    assert any("unanswered requests fill the memory" in each for each in counts.troubles)


class _Polling:
    """A connection whose requests have no answer."""

    def __init__(self, unanswered_bytes: int) -> None:
        self.unanswered_bytes = unanswered_bytes

    def give_up(self, why: str) -> None:
        self.unanswered_bytes = 0


def test_who_fills_the_memory_again_and_again_holds_the_others_for_less_each_time():
    now_s = 0.0
    watch = unanswered.UnansweredWatch(1_000, clock=lambda: now_s)
    held, small = [], _Polling(10)
    for _ in range(20):
        watch.hold(True)
        large, begun_s = _Polling(900), now_s
        while large.unanswered_bytes:
            now_s += 1.0
            watch.look([small, large])
        held.append(now_s - begun_s)
        watch.hold(False)
        now_s += 1.0
        watch.look([])
    assert held[:4] == [20.0, 10.0, 5.0, 3.0]
    assert max(held[5:]) == 1.0
    assert small.unanswered_bytes == 10, "only who fills the memory is closed"


def test_a_slow_recorder_closes_nobody_and_brief_holds_do_not_add_up():
    now_s = 0.0
    watch = unanswered.UnansweredWatch(1_000, clock=lambda: now_s)
    small, large = _Polling(400), _Polling(900)
    watch.hold(True)
    for _ in range(100):
        now_s += 1.0
        watch.look([small])
    for _ in range(100):
        watch.hold(True)
        now_s += 0.9
        watch.look([large])
    assert (small.unanswered_bytes, large.unanswered_bytes) == (400, 900)


def test_holds_that_each_end_in_time_add_up():
    now_s = 0.0
    watch = unanswered.UnansweredWatch(1_000, clock=lambda: now_s)
    large = _Polling(900)
    while large.unanswered_bytes and now_s < 600:
        watch.hold(True)
        for _ in range(9):
            now_s += 1.0
            watch.look([large])
        watch.hold(False)
        now_s += 0.5
        watch.look([large])
    assert now_s < 30


def test_what_waited_for_answers_is_passed_on_when_they_come(bench):
    answers = threading.Event()

    def late(*said: Any) -> bytes:
        assert answers.wait(WITHIN_S)
        return made_up_answers(*said)

    broker = bench.broker(late)
    proxy = bench.proxy(broker)
    client = bench.client(proxy.doors.port)
    numbers = range(5_000)
    threading.Thread(
        target=client.link.sendall, args=(b"".join(asked(12, 4, n) for n in numbers),), daemon=True
    ).start()
    until(lambda: proxy.tap.held_bytes >= 640_000)
    answers.set()
    assert all(client.read() == made_up_answers(12, 4, n, b"") for n in numbers)
    counts, _ = bench.ended(proxy)
    assert (counts.written, counts.lost) == (5_000, 0)


@pytest.mark.parametrize("version", [0, 3])
def test_nobody_waits_for_a_million_apis_of_a_broker(bench, version):
    count = as_varint(1_000_001) if version else struct.pack(">i", 1_000_000)
    entry = struct.pack(">hhh", 999, 0, 1) + (b"\0" if version else b"")
    answer = framed(struct.pack(">ih", 7, 0) + count + entry * 1_000_000)
    broker = bench.broker(
        lambda api, *said: answer if api == API_VERSIONS else made_up_answers(api, *said)
    )
    proxy = bench.proxy(broker)
    assert bench.client(proxy.doors.port).ask(asked(API_VERSIONS, version)) == b""
    other = bench.client(proxy.doors.port)
    assert other.ask(asked(12, 4)) == made_up_answers(12, 4, 7, b"")
    counts, _ = bench.ended(proxy)
    assert any("1,000,000 APIs" in each for each in counts.troubles)


def test_nobody_waits_for_a_million_coordinators_of_another(bench):
    """A client may ask for as many as it likes in one request."""
    one = b"\2k" + struct.pack(">i", 1) + b"\x0a127.0.0.1" + struct.pack(">ih", 9092, 0) + b"\1\0"
    body = b"\0" + struct.pack(">i", 0) + as_varint(1_000_001) + one * 1_000_000 + b"\0"

    def answer(api: int, version: int, correlation: int, frame: bytes) -> bytes:
        if api == FIND_COORDINATOR:
            return framed(struct.pack(">i", correlation) + body)
        return made_up_answers(api, version, correlation, frame)

    broker = bench.broker(answer)
    proxy = bench.proxy(broker)
    many, other = bench.client(proxy.doors.port), bench.client(proxy.doors.port)
    many.link.sendall(asked(FIND_COORDINATOR, 4))
    while not any("more than 100,000 addresses" in each for each in proxy.counts().troubles):
        began = time.monotonic()
        assert other.ask(asked(12, 4))
        assert time.monotonic() - began < 1


def test_a_fetch_with_very_many_brokers_is_not_parsed_where_the_others_are_served(
    bench, monkeypatch
):
    """Those without a host are no addresses, but each of them takes time."""
    ends: list[str] = []

    def noted(*said: Any) -> bytes:
        found = rewritten(*said)
        ends.append(threading.current_thread().name)
        return found

    monkeypatch.setattr(playhead.capture.relay, "rewritten", noted)
    count = 100_000
    nodes = as_varint(count + 1) + (struct.pack(">i", 1) + b"\1" + bytes(6)) * count
    tagged = b"\1\0" + as_varint(len(nodes)) + nodes
    answer = framed(struct.pack(">i", 7) + bytes(11) + b"\1" + tagged)
    broker = bench.broker(
        lambda api, *said: answer if api == FETCH else made_up_answers(api, *said)
    )
    proxy = bench.proxy(broker)
    assert bench.client(proxy.doors.port).ask(asked(FETCH, 16)) == answer
    assert ends, "it was parsed"
    assert "capture" not in ends


@pytest.mark.parametrize("of", [(FIND_COORDINATOR, 4), (METADATA, 12), (FETCH, 16)])
def test_a_response_with_millions_of_entries_is_refused_before_they_are_walked(of):
    """Two such responses would keep the threads that parse, and with them the next ones, for minutes."""
    count = as_varint(4_000_002)
    head = {FIND_COORDINATOR: bytes(5), METADATA: bytes(5), FETCH: bytes(11)}[of[0]]
    frame = framed(struct.pack(">i", 7) + head + count + bytes(100))
    with pytest.raises(Malformed, match="more than 4,000,000 entries"):
        rewritten(*of, frame, lambda host, port: (host, port))


@pytest.mark.parametrize("files", [300, 1_200])
def test_the_ports_of_many_brokers_leave_files_for_clients(bench, tmp_path, files):
    """Each broker has a port, and each port is a file."""
    broker = bench.broker(metadata_of(*range(1, 501)))
    command = [*COMMAND, "capture", "--upstream", broker.place, "--listen", "127.0.0.1:0"]
    command += ["--out", str(tmp_path / "out"), "-o", "json"]
    limited = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *command]
    said, place = tmp_path / "stderr", re.compile(r"at 127\.0\.0\.1:(\d+)")
    with said.open("w") as stderr, subprocess.Popen(limited, stderr=stderr) as process:
        try:
            until(lambda: place.search(said.read_text()))
            port = int(place.findall(said.read_text())[0])
            for _ in range(400):
                bench.client(port).ask(asked(12, 4))
            # The first time it makes room for the ports, and the client has to come again.
            answers = [bench.client(port).ask(asked(METADATA, 9)) for _ in range(2)]
            assert bool(answers[-1]) == (files == 1_200)
            assert all(bench.client(port).ask(asked(12, 4)) for _ in range(60))
        finally:
            process.terminate()
    assert "Traceback" not in said.read_text()
    assert ("more than 150 brokers (ulimit -n)" in said.read_text()) == (files == 300)


@pytest.mark.parametrize("host", ["a..b", "x" * 70, "a\0b"])
def test_a_host_that_nobody_can_have_ends_the_connection(bench, host):
    broker = bench.broker(made_up_answers)
    proxy = bench.proxy(broker)
    assert bench.client(proxy.doors.port).ask(asked(12, 4))
    here: list[int] = []
    assert proxy._loop is not None
    proxy._loop.call_soon_threadsafe(lambda: here.append(proxy.translate(host, 9092)[1]))
    until(lambda: here)
    assert bench.client(here[0]).read() == b""
    assert any("cannot be reached" in each for each in proxy.counts().troubles)


def test_a_second_signal_does_not_wait_for_what_is_still_written(bench, tmp_path):
    """The recorder ends by itself, with all that it was given."""
    command = [*COMMAND, "capture", "--upstream", bench.broker(made_up_answers).place]
    command += ["--listen", "127.0.0.1:0", "--out", str(tmp_path / "out"), "-o", "json"]
    said, place = tmp_path / "stderr", re.compile(r"at 127\.0\.0\.1:(\d+)")
    with said.open("w") as stderr, subprocess.Popen(command, stderr=stderr) as process:
        until(lambda: place.search(said.read_text()))
        client = bench.client(int(place.findall(said.read_text())[0]))
        assert client.ask(asked(12, 4))
        (scribe,) = children_of(process.pid)
        os.kill(scribe, signal.SIGSTOP)
        try:
            assert client.ask(asked(12, 4))
            process.terminate()
            until(lambda: "pairs are still to be written" in said.read_text())
            process.terminate()
            assert process.wait(10) == 143
        finally:
            process.kill()
            os.kill(scribe, signal.SIGCONT)
    assert "Traceback" not in said.read_text()
    until(lambda: not os.path.exists(f"/proc/{scribe}"))  # noqa: PTH110
    assert len((tmp_path / "out" / "raw.jsonl").read_text().splitlines()) == 2


def children_of(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task").iterdir()
    return [int(each) for task in tasks for each in (task / "children").read_text().split()]

"""What fills the memory of the proxy is ended, or passes without being kept; the others' traffic goes on."""

import contextlib
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import playhead.capture.proxy
import playhead.capture.relay
from playhead.capture import frame_memory
from playhead.capture.address_rewrite import rewritten
from playhead.capture.frames import framed
from playhead.capture.protocol import FETCH, METADATA
from playhead.host.clock import SystemClock, wait_until
from tests.fix_commands import COMMAND
from tests.kafka_bytes import request_frame, response_frame, set_of
from tests.unit.test_capture_proxy import (
    WITHIN_S,
    Bench,
    asked,
    large_metadata_of,
    made_up_answers,
    produce_frame,
    produce_many,
    until,
)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.close()


def test_who_sends_byte_after_byte_while_memory_is_full_is_ended(bench, monkeypatch):
    monkeypatch.setattr(playhead.capture.proxy, "_LOOK_EVERY_S", 0.2)
    monkeypatch.setattr(frame_memory, "MOST_S", 1.0)
    broker = bench.broker(made_up_answers)
    proxy = bench.proxy(broker, memory_bytes=1 << 20)
    slow, ended = bench.client(proxy.doors.port), threading.Event()

    def dribble() -> None:
        with contextlib.suppress(OSError):
            slow.link.sendall(struct.pack(">i", 90 << 20) + b"\0" * (3 << 20))
            while not ended.wait(0.02):
                slow.link.sendall(b"\0")

    thread = threading.Thread(target=dribble)
    thread.start()
    until(lambda: proxy.halves.is_full)
    assert bench.client(proxy.doors.port).ask(produce_frame(-1, set_of(os.urandom(300_000))))
    ended.set()
    thread.join()
    counts, _ = bench.ended(proxy)
    assert any("not complete after 1 s" in each for each in counts.troubles)
    assert any("fill the memory (--max-memory)" in each for each in counts.troubles)


def fetched(records: bytes) -> dict[str, Any]:
    """What a Fetch of version 11 brings."""
    partition = {"partitionIndex": 0, "errorCode": 0, "highWatermark": 9, "lastStableOffset": 9}
    partition |= {"logStartOffset": 0, "abortedTransactions": [], "preferredReadReplica": -1}
    topics = [{"topic": "t", "partitions": [partition | {"records": records}]}]
    return {"throttleTimeMs": 0, "errorCode": 0, "sessionId": 0, "responses": topics}


class _Dribbler:
    """A side that sends another byte whenever somebody looks, and never completes its frame."""

    def __init__(self, halves: frame_memory.Halves, held_bytes: int) -> None:
        self.halves, self.held_bytes = halves, held_bytes
        self.is_held_back = False
        self.gave_up: str | None = None

    def hold_back(self, why: str) -> None:
        self.is_held_back = True

    def let_go(self, why: str) -> None:
        self.is_held_back = False

    def give_up(self, why: str) -> None:
        self.gave_up = why
        self.halves.gone(self)


def test_many_that_dribble_one_after_the_other_stop_the_others_for_a_minute_at_most():
    now_s = 0.0
    halves = frame_memory.Halves(1_000_000, lambda _: None, clock=lambda: now_s)
    ends = [_Dribbler(halves, 40_000) for _ in range(100)]
    for end in ends:
        halves.changed(end)
    assert halves.is_full
    while halves.is_full and now_s < 3_600:
        now_s += 1.0
        first = next(end for end in ends if end.gave_up is None)
        first.held_bytes += 1
        halves.changed(first)
        halves.look()
    assert now_s <= 61, "thirty seconds for the first, and half of it for each next one"
    left = [end for end in ends if end.gave_up is None]
    assert len(left) in (11, 12)
    assert not any(end.is_held_back for end in left)


def test_who_sends_all_the_time_gets_all_its_time_again_after_minutes_with_room():
    now_s = 0.0
    halves = frame_memory.Halves(1_000, lambda _: None, clock=lambda: now_s)
    for _ in range(2):
        slow, small = _Dribbler(halves, 1_200), _Dribbler(halves, 10)
        halves.changed(slow)
        halves.changed(small)
        for _ in range(29):
            now_s += 1.0
            slow.held_bytes += 1
            halves.changed(slow)
            halves.look()
        assert slow.gave_up is None
        now_s += 1.0
        slow.held_bytes += 1
        halves.changed(slow)
        halves.look()
        assert slow.gave_up is not None
        assert "30 s" in slow.gave_up
        assert not halves.is_full
        halves.gone(small)
        for _ in range(300):
            now_s += 1.0
            halves.look()


def test_who_fills_the_memory_after_each_closing_blocks_the_others_for_a_minute_at_most():
    now_s, waits_s = 0.0, []
    halves = frame_memory.Halves(1_000, lambda _: None, clock=lambda: now_s)
    for _ in range(60):
        slow, small = _Dribbler(halves, 1_200), _Dribbler(halves, 10)
        halves.changed(slow)
        halves.changed(small)
        begun_s = now_s
        while slow.gave_up is None:
            now_s += 0.1
            slow.held_bytes += 1
            halves.changed(slow)
            halves.look()
        waits_s.append(now_s - begun_s)
        assert small.gave_up is None, "only who fills the memory is closed"
        halves.gone(small)
        now_s += 1.0
        halves.look()
    assert sum(waits_s[:6]) < 61
    assert max(waits_s[6:]) < 1


def test_a_frame_that_nobody_reads_keeps_the_turn_of_its_sender():
    halves = frame_memory.Halves(1_000, lambda _: None)
    sender, reader, waiting = (_Dribbler(halves, size) for size in (900, 0, 200))
    halves.changed(sender)
    halves.changed(waiting)
    assert (halves.is_full, waiting.is_held_back) == (True, True)
    reader.held_bytes, sender.held_bytes = 5_000, 0
    halves.changed(reader, sender)
    halves.changed(sender)
    assert waiting.is_held_back, "or many senders fill the memory with what nobody reads"
    reader.held_bytes = 0
    halves.changed(reader)
    assert not waiting.is_held_back


def test_idle_connections_leave_room_for_who_has_something_to_ask(bench, monkeypatch):
    monkeypatch.setattr(playhead.capture.proxy, "_MOST_CONNECTIONS", 20)
    broker = bench.broker(made_up_answers)
    proxy = bench.proxy(broker)
    busy = bench.client(proxy.doors.port)
    for _ in range(60):
        bench.client(proxy.doors.port)
        assert busy.ask(asked(12, 4)) == made_up_answers(12, 4, 7, b"")
        assert proxy.counts().open_connections <= 20
    late = bench.client(proxy.doors.port)
    assert late.ask(asked(12, 4)) == made_up_answers(12, 4, 7, b"")
    counts, _ = bench.ended(proxy)
    assert counts.connections == 62
    assert any("more than 20 are open (ulimit -n)" in each for each in counts.troubles)


def test_closed_connections_whose_clients_read_nothing_leave_room_for_others(bench, monkeypatch):
    """The proxy has an answer to send to each of them, so their sockets stay open."""
    monkeypatch.setattr(playhead.capture.proxy, "_MOST_CONNECTIONS", 8)
    large = framed(struct.pack(">i", 7) + bytes(5_000_000))

    def answer(api: int, version: int, correlation: int, frame: bytes) -> bytes:
        return large if api == 22 else made_up_answers(api, version, correlation, frame)

    proxy = bench.proxy(bench.broker(answer))
    idle = bench.client(proxy.doors.port)
    assert idle.ask(asked(12, 4)) == made_up_answers(12, 4, 7, b"")
    until(
        lambda: proxy.counts().to_client_bytes
    )  # It is counted when it is sent, by another thread.
    before = proxy.counts().to_client_bytes
    for count in range(1, 13):
        client = bench.client(proxy.doors.port)
        client.link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.link.sendall(asked(22, 0))
        until(lambda n=count: proxy.counts().to_client_bytes == before + n * len(large))
        client.link.sendall(b"GET / HTTP/1.1")
        until(lambda count=count: sum(proxy.counts().troubles.values()) >= count)
        assert proxy.counts().open_connections == min(count + 1, 8)
    # It has been idle for longest, and those that are closed go first.
    assert idle.ask(asked(12, 4)) == made_up_answers(12, 4, 7, b"")
    late = bench.client(proxy.doors.port)
    assert late.ask(asked(12, 4)) == made_up_answers(12, 4, 7, b"")
    counts, _ = bench.ended(proxy)
    assert counts.troubles["a client speaks HTTP; the proxy supports Kafka without TLS only"] == 12


def test_who_leaves_before_a_broker_answers_leaves_no_socket(bench, monkeypatch):
    """A broker whose host drops packets would keep each for two minutes, and nobody else could connect."""
    monkeypatch.setattr(playhead.capture.proxy, "_MOST_CONNECTIONS", 4)
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(socket.socket())
        broker.bind(("127.0.0.1", 0))
        broker.listen(0)
        for _ in range(4):  # Then its queue is full, and what else comes is dropped.
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(broker.getsockname())
        proxy = bench.proxy(SimpleNamespace(port=broker.getsockname()[1]))
        until(lambda: bench.client(proxy.doors.port).close() or proxy.counts().connections)
        before = len(os.listdir("/dev/fd"))  # noqa: PTH208
        for _ in range(40):
            bench.client(proxy.doors.port).close()
        until(lambda: proxy.counts().connections > 40)
        few = lambda: len(os.listdir("/dev/fd")) < before + 20  # noqa: E731, PTH208
        assert wait_until(few, deadline_s=10, clock=SystemClock(), every_s=0.1)


def test_a_proxy_that_may_open_few_files_still_serves_who_comes_last(bench, tmp_path):
    broker = bench.broker(made_up_answers)
    command = [*COMMAND, "capture", "--upstream", f"127.0.0.1:{broker.port}", "--listen"]
    command += ["127.0.0.1:0", "--out", str(tmp_path / "out"), "-o", "json"]
    limited = ["sh", "-c", 'ulimit -n 400; exec "$@"', "sh", *command]
    with subprocess.Popen(limited, stderr=subprocess.PIPE, text=True) as process:
        try:
            lines = takewhile(bool, iter(process.stderr.readline, ""))
            found = next(filter(None, map(re.compile(r"at 127\.0\.0\.1:(\d+)").search, lines)))
            for _ in range(30):
                for _ in range(10):
                    bench.client(int(found[1]))
                client = bench.client(int(found[1]))
                assert client.ask(asked(12, 4)) == made_up_answers(12, 4, 7, b"")
        finally:
            process.terminate()
        assert "Traceback" not in process.stderr.read()


def test_so_many_connections_are_open_as_files_may_be():
    """In a process of its own, because the limit of this one must stay."""
    code = (
        "import resource, sys; limits = int(sys.argv[1]), int(sys.argv[2]);"
        "resource.setrlimit(resource.RLIMIT_NOFILE, limits);"
        "from playhead.capture.proxy import _most_connections;"
        "print(_most_connections(), *resource.getrlimit(resource.RLIMIT_NOFILE))"
    )

    def found(soft: int, hard: int) -> str:
        command = [sys.executable, "-c", code, str(soft), str(hard)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert found(400, 400) == "72 400 400"
    assert found(400, 1_256) == "500 1256 1256"


@pytest.mark.slow  # fills the memory that a proxy may use
def test_who_reads_nothing_of_what_was_asked_for_is_ended_when_memory_is_full(bench, monkeypatch):
    monkeypatch.setattr(playhead.capture.proxy, "_LOOK_EVERY_S", 0.2)
    monkeypatch.setattr(frame_memory, "STALLED_S", 0.4)
    large = produce_frame(-1, set_of(os.urandom(12 << 20)))

    def much(api: int, version: int, correlation: int, frame: bytes) -> bytes:
        return struct.pack(">ii", len(large), correlation) + large[4:] if api == 1 else frame

    broker = bench.broker(much)
    proxy = bench.proxy(broker, memory_bytes=8 << 20)
    for _ in range(12):
        bench.client(proxy.doors.port).link.sendall(asked(1, 11))
    until(lambda: any("stalled" in each for each in proxy.counts().troubles))
    until(lambda: not proxy.halves.is_full)
    bench.ended(proxy)
    assert proxy.halves.total_bytes == 0


def test_large_responses_that_wait_to_be_parsed_are_counted_and_wait_for_each_other(
    bench, monkeypatch
):
    may_go_on, running, most = threading.Event(), [], []

    def slowly(*said: Any) -> bytes:
        running.append(1)
        most.append(len(running))
        assert may_go_on.wait(WITHIN_S)
        running.pop()
        return rewritten(*said)

    monkeypatch.setattr(playhead.capture.relay, "rewritten", slowly)
    broker = bench.broker(large_metadata_of(9))
    size = len(large_metadata_of(9)(METADATA, 12, 7, b""))
    proxy = bench.proxy(broker, memory_bytes=1 << 20)
    clients = [bench.client(proxy.doors.port) for _ in range(12)]
    for client in clients:
        client.link.sendall(asked(METADATA, 12))
    until(lambda: len(broker.heard) == 12 and running)
    assert wait_until(lambda: proxy.halves.is_full, deadline_s=3, clock=SystemClock(), every_s=0.01)
    # What the kernel hands over in one piece comes on top, once for each connection.
    assert 2 * size < proxy.halves.total_bytes < (1 << 20) + 12 * (256 << 10)
    may_go_on.set()
    for client in clients:
        assert len(client.read()) == pytest.approx(size, abs=100)
    assert max(most) <= 2
    bench.ended(proxy)
    assert proxy.halves.total_bytes == 0


def test_a_request_larger_than_brokers_take_ends_its_connection(bench):
    broker = bench.broker(made_up_answers)
    proxy = bench.proxy(broker, memory_bytes=1 << 20)
    assert bench.client(proxy.doors.port).ask(struct.pack(">i", (100 << 20) + 1)) == b""
    larger = bench.proxy(broker, memory_bytes=200 << 20)
    client = bench.client(larger.doors.port)
    client.link.sendall(struct.pack(">i", (100 << 20) + 1))
    client.link.settimeout(0.3)
    assert client.read() == b""
    assert larger.counts().open_connections == 1
    counts, _ = bench.ended(proxy)
    assert any("a request of 104,857,601 bytes" in each for each in counts.troubles)


@pytest.mark.parametrize("on_slow", ["block", "drop"])
def test_a_pair_larger_than_all_memory_passes_and_is_counted_as_dropped(bench, on_slow):
    broker = bench.broker(made_up_answers)
    proxy = bench.proxy(broker, on_slow=on_slow, memory_bytes=1 << 20)
    client = bench.client(proxy.doors.port)
    assert client.ask(produce_frame(-1, set_of(os.urandom(2 << 20))))
    produce_many(client, 2, b"small")
    counts, found = bench.ended(proxy)
    assert (counts.pairs, counts.dropped, counts.written, len(found)) == (3, 1, 2, 2)
    assert counts.most_held_bytes < 1 << 20


def test_answers_to_a_thousand_requests_wait_for_a_recorder_that_is_behind(bench):
    large = set_of(os.urandom(300_000))
    broker = bench.broker(
        lambda api, version, *_: response_frame(api, version, fetched(large), correlation=7)
    )
    proxy = bench.proxy(broker, memory_bytes=1 << 20)
    client = bench.client(proxy.doors.port)
    until(lambda: proxy._scribe is not None)
    os.kill(proxy._scribe.pid, signal.SIGSTOP)
    try:
        client.link.sendall(asked(FETCH, 11) * 60)
        answers = [len(client.read()) for _ in range(4)]
        until(lambda: proxy.is_holding_responses)
        client.link.settimeout(0.5)
        answers += takewhile(bool, (len(client.read()) for _ in range(60)))
    finally:
        os.kill(proxy._scribe.pid, signal.SIGCONT)
    assert len(answers) < 20
    client.link.settimeout(WITHIN_S)
    answers += takewhile(bool, (len(client.read()) for _ in range(60 - len(answers))))
    assert len(answers) == 60
    counts, found = bench.ended(proxy)
    assert (counts.dropped, len(found)) == (0, 60)
    assert counts.most_held_bytes < 3 << 20


def test_notes_of_requests_without_a_copy_are_bounded_and_hold_nobody(bench):
    """With --on-slow drop, or after the recorder's end, a request has no copy; what is noted of it takes memory too."""
    may_answer, heartbeat = threading.Event(), 12

    def answer(api: int, version: int, correlation: int, frame: bytes) -> bytes:
        if api == heartbeat:
            may_answer.wait(WITHIN_S)
        return made_up_answers(api, version, correlation, frame)

    broker = bench.broker(answer)
    proxy = bench.proxy(broker, memory_bytes=1 << 20, on_slow="drop")
    # A small one, of a group and a member without a name, so that what waits unread is little.
    names = {"groupId": "", "generationId": 0, "memberId": ""}
    one = request_frame(heartbeat, 0, names, correlation=7)
    clients, each_sends, passed = [bench.client(proxy.doors.port) for _ in range(20)], 1_000, [-1]
    for client in clients:
        client.link.sendall(one * each_sends)

    def has_stopped() -> bool:
        passed.append(proxy.counts().to_broker_bytes // len(one))
        return len(passed) > 50 and passed[-50] == passed[-1] > 0

    until(has_stopped)
    # The memory has room for the copies of some requests, and for the notes of some others.
    assert passed[-1] < 10_000
    assert bench.client(proxy.doors.port).ask(asked(METADATA, 9))
    may_answer.set()
    for client in clients:
        for _ in range(each_sends):
            assert client.read()
    counts, _ = bench.ended(proxy)
    assert counts.pairs == len(clients) * each_sends + 1
    assert not counts.troubles

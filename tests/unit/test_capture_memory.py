"""What fills the memory of the proxy is ended, or passes without being kept; the others' traffic goes on."""

import contextlib
import os
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import playhead.capture.proxy
from playhead.capture import frame_memory
from tests.kafka_bytes import set_of
from tests.unit.test_capture_proxy import (
    Bench,
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

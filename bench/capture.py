"""The promise of `capture`: at most 1 ms at p99 on a produce at 1,000 requests a second, and 50 MB/s through it."""

import json
import re
import socket
import statistics
import struct
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.measure import Row
from bench.replay_watch import Watched
from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.admin.client import Admin
from playhead.sandbox import Sandbox

_ROUNDS = 3
_RATE, _SECONDS = 1_000, 8
_RECORD_BYTES = 1_000
_RECORDS = 300_000
_READY_WITHIN_S = 60
_MB = 1_000_000
_VALUE = json.dumps({"text": "x" * (_RECORD_BYTES - 12)}).encode()


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="playhead-bench-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        box = Sandbox(Path(name) / "box")
        with box.running() as endpoints:
            ground = _Ground(
                endpoints.bootstrap_servers, Path(name), [box.status().broker_pid or 0]
            )
            yield from _latency(ground)
            yield from _throughput(ground)


@dataclass(frozen=True)
class _Ground:
    servers: str
    folder: Path
    pids: Sequence[int]

    def topic(self) -> str:
        name = f"bench-{uuid.uuid4().hex[:8]}"
        with Admin(KafkaConnection(self.servers)) as admin:
            admin.create_topic(name, partitions=1)
        return name

    def capture(self, *words: str) -> "_Capture":
        out = self.folder / uuid.uuid4().hex
        command = ["capture", "--listen", "127.0.0.1:0", "--upstream", self.servers]
        command += ["--out", str(out), "-o", "json", *words]
        return _Capture(self, command)


class _Capture:
    """One that runs, with what it costs."""

    def __init__(self, ground: _Ground, words: list[str]) -> None:
        command = [sys.executable, "-m", "playhead.cli.app", *words]
        self._watched = Watched(command, servers=ground.pids)
        self.counts: dict[str, Any] = {}
        self.figures: dict[str, float] = {}

    def __enter__(self) -> "_Capture":
        self._watched.__enter__()
        deadline = time.monotonic() + _READY_WITHIN_S
        while time.monotonic() < deadline:
            said = self._watched.complained_so_far()
            if "writing to" in said:
                self.place = re.findall(r"listening at (\S+) for", said)[0]
                return self
            time.sleep(0.02)
        raise RuntimeError("nothing listens")

    def stop(self) -> None:
        """Its counts and its costs."""
        cost = self._watched.stop()
        self.counts = json.loads(cost.said)
        million = max(self.counts["records"], 1) / 1e6
        self.figures = {
            "cpu_s_per_million": cost.cpu_s / million,
            "servers_cpu_s_per_million": cost.servers_cpu_s / million,
            "peak_mb": cost.peak_mb,
        }

    def __exit__(self, *error: object) -> None:
        self._watched.__exit__(*error)


# --- latency ----------------------------------------------------------------------------------------


def _latency(ground: _Ground) -> Iterator[Row]:
    direct: list[tuple[float, float]] = []
    through: list[tuple[float, float]] = []
    figures: dict[str, float] = {}
    topic = ground.topic()
    for number in range(_ROUNDS + 1):
        plain = _latencies_ms(ground.servers, topic)
        with ground.capture() as capture:
            # The first second of a proxy's life is imports.
            _latencies_ms(capture.place, topic, seconds=1)
            proxied = _latencies_ms(capture.place, topic)
            capture.stop()
        figures = capture.figures
        if number:
            direct.append(plain)
            through.append(proxied)
    for place, name in enumerate(("median", "p99")):
        without, with_it = ([each[place] for each in runs] for runs in (direct, through))
        added = statistics.median(with_it) - statistics.median(without)
        note = f"direct {_list(without)} ms, through {_list(with_it)} ms, by a plain socket, one at a time"
        work = f"capture, produce of one record at {_RATE:,}/s, acks 1: added at {name}"
        yield Row(work, added, "ms", at_most=1.0, our_figures=figures, note=note)


def _latencies_ms(place: str, topic: str, seconds: float = _SECONDS) -> tuple[float, float]:
    """The median and the 99th percentile of requests that are due at a steady rate, one after the other."""
    host, _, port = place.rpartition(":")
    frame = _produce_frame(topic)
    took: list[float] = []
    with socket.create_connection((host, int(port))) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began = time.perf_counter()
        for number in range(int(_RATE * seconds)):
            due = began + number / _RATE
            while (left := due - time.perf_counter()) > 0:
                time.sleep(left)
            sent = time.perf_counter()
            link.sendall(frame)
            _read_frame(link)
            took.append(time.perf_counter() - sent)
    return statistics.median(took) * 1000, statistics.quantiles(took, n=100)[98] * 1000


def _read_frame(link: socket.socket) -> None:
    (left,) = struct.unpack(">i", link.recv(4, socket.MSG_WAITALL))
    while left:
        left -= len(link.recv(left))


def _produce_frame(topic: str) -> bytes:
    """Produce version 3, which needs no lengths of one byte; one record, its check sum right."""
    record = b"\0\0\0\1" + bytes([200, 1]) + b"v" * 100 + b"\0"
    record = bytes([(len(record) * 2) & 0x7F | 0x80, (len(record) * 2) >> 7]) + record
    tail = struct.pack(">hiqqqhii", 0, 0, 1_000, 1_000, -1, -1, -1, 1) + record
    records = struct.pack(">qiibI", 0, len(tail) + 9, -1, 2, _crc32c(tail)) + tail
    name = topic.encode()
    body = struct.pack(">hhii", -1, 1, 30_000, 1) + struct.pack(">h", len(name)) + name
    body += struct.pack(">iii", 1, 0, len(records)) + records
    head = struct.pack(">hhih", 0, 3, 1, 5) + b"bench"
    return struct.pack(">i", len(head) + len(body)) + head + body


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


# --- throughput -------------------------------------------------------------------------------------


def _throughput(ground: _Ground) -> Iterator[Row]:
    topic = ground.topic()
    _produce(ground.servers, topic)
    size = _RECORDS * _RECORD_BYTES / _MB
    for rule in ("drop", "block"):
        direct, through, dropped = [], [], []
        for number in range(_ROUNDS + 1):
            plain = size / _consume(ground.servers, topic)
            with ground.capture("--on-slow", rule) as capture:
                proxied = size / _consume(capture.place, topic)
                capture.stop()
            if number:
                direct.append(plain)
                through.append(proxied)
                dropped.append(capture.counts["dropped"])
        yield Row(
            f"capture, consume {_RECORDS:,} records of {_RECORD_BYTES:,} B, --on-slow {rule}",
            statistics.median(through), "MB/s", at_least=50, our_figures=capture.figures,
            note=f"through {_list(through)} MB/s, direct {_list(direct)} MB/s; pairs dropped {dropped}; "
            f"records written in the last {capture.counts['records']:,}, memory held at most "
            f"{capture.counts['most_held_bytes'] / _MB:.0f} MB",
        )  # fmt: skip
    with ground.capture("--on-slow", "drop") as capture:
        rate = size / _produce(capture.place, ground.topic())
        capture.stop()
    yield Row(
        f"capture, produce {_RECORDS:,} records of {_RECORD_BYTES:,} B", rate, "MB/s", at_least=50
    )


def _produce(servers: str, topic: str) -> float:
    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 20, "batch.size": 500_000, "acks": 1,
         "queue.buffering.max.messages": 1_000_000}
    )  # fmt: skip
    began = time.perf_counter()
    for number in range(_RECORDS):
        while True:
            try:
                producer.produce(topic, _VALUE, b"%d" % number)
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(120):
        raise RuntimeError("not everything was produced")
    return time.perf_counter() - began


def _consume(servers: str, topic: str) -> float:
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "bench", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found, began = 0, time.perf_counter()
    while found < _RECORDS:
        found += len(consumer.consume(10_000, 5))
    took = time.perf_counter() - began
    consumer.close()
    return took


def _list(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:.3g}" for number in numbers)

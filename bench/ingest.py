"""The promise of `ingest`: 50,000 datagrams a second of 130 bytes, and none of them lost inside."""

import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import load
from bench.ingest_parts import BYTES
from bench.measure import Row
from bench.replay_watch import Watched
from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.admin.client import Admin
from playhead.sandbox import Sandbox

_PROMISED, _OFFERED, _SECONDS = 50_000, 52_000, 10
_ROUNDS = 3
_READY_WITHIN_S = 60
_PLAIN = "recvfrom, json.loads, produce, one by one, the same stream"


@dataclass(frozen=True)
class Run:
    """One stream of datagrams, and what became of it."""

    sent: int
    took_s: float
    counts: dict[str, int]
    in_topic: int
    figures: dict[str, float]

    @property
    def cpu_s_per_million(self) -> float:
        return self.figures["cpu_s_per_million"]

    @property
    def unaccounted(self) -> int:
        """Datagrams that were sent and are nowhere: not in the topic, not dropped by the kernel, not counted."""
        known = self.counts["delivered"] + (self.counts.get("kernel_drops") or 0)
        return abs(self.sent - known) + abs(self.counts["delivered"] - self.in_topic)


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="playhead-bench-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        box = Sandbox(Path(name) / "box")
        with box.running() as endpoints:
            ground = _Ground(endpoints.bootstrap_servers, [box.status().broker_pid or 0])
            yield from _promised(ground)
            yield from _at_most(ground)


@dataclass(frozen=True)
class _Ground:
    servers: str
    pids: Sequence[int]

    def topic(self) -> str:
        name = f"bench-{uuid.uuid4().hex[:8]}"
        with Admin(KafkaConnection(self.servers)) as admin:
            admin.create_topic(name, partitions=4)
        return name

    def held(self, topic: str) -> int:
        return load.offsets_in(self.servers, topic)


def _promised(ground: _Ground) -> Iterator[Row]:
    ours, theirs = [], []
    for number in range(_ROUNDS + 1):
        mine, plain = _ours(ground, _OFFERED), _plain(ground, _OFFERED)
        if number:
            ours.append(mine)
            theirs.append(plain)
    work = f"ingest, JSON of {BYTES} B by key and time, {_OFFERED:,}/s for {_SECONDS} s"
    slowest = min(each.counts["delivered"] / each.took_s for each in ours)
    drops = [each.counts["kernel_drops"] for each in ours]
    sums = "; ".join(
        f"sent {each.sent:,} = delivered {each.counts['delivered']:,} + dropped by the kernel "
        f"{each.counts['kernel_drops']:,}, in the topic {each.in_topic:,}"
        for each in ours
    )
    yield Row(
        f"{work}: delivered, slowest run", slowest, "/s", at_least=_PROMISED,
        our_figures=ours[-1].figures, note=sums,
    )  # fmt: skip
    lost = max(each.counts["records"] - each.counts["delivered"] for each in ours)
    yield Row(f"{work}: lost inside", lost, "records", at_most=0)
    yield Row(f"{work}: unaccounted for", max(e.unaccounted for e in ours), "records", at_most=0)
    yield Row(f"{work}: dropped by the kernel, worst run", max(drops), "datagrams")
    cost, plain_cost = (
        statistics.median(each.cpu_s_per_million for each in runs) for runs in (ours, theirs)
    )
    yield Row(
        f"{work}: processor per million", cost, "s", _PLAIN, plain_cost, at_most=1.0,
        our_figures=ours[-1].figures, their_figures=theirs[-1].figures,
    )  # fmt: skip


def _at_most(ground: _Ground) -> Iterator[Row]:
    """One sender that never waits: what is received of it, and the rest is counted."""
    runs = [_ours(ground, 0) for _ in range(_ROUNDS)]
    rate = statistics.median(each.counts["delivered"] / each.took_s for each in runs)
    note = "; ".join(
        f"sent {each.sent / each.took_s:,.0f}/s, dropped by the kernel {each.counts['kernel_drops']:,}"
        for each in runs
    )
    yield Row("ingest, as fast as one process sends: delivered", rate, "/s", note=note)
    yield Row("the same: lost inside", max(e.counts["dropped"] for e in runs), "records")
    yield Row("the same: unaccounted for", max(e.unaccounted for e in runs), "records", at_most=0)


def _ours(ground: _Ground, rate: int) -> Run:
    topic = ground.topic()
    words = ["ingest", "udp://127.0.0.1:0", f"kafka:{topic}", "--key", "car", "--timestamp", "ts"]
    words += ["-o", "json", "-b", ground.servers]
    return _run(ground, topic, [sys.executable, "-m", "playhead.cli.app", *words], rate)


def _plain(ground: _Ground, rate: int) -> Run:
    topic = ground.topic()
    words = [sys.executable, "-m", "bench.ingest_parts", "plain", ground.servers, topic]
    return _run(ground, topic, words, rate)


def _run(ground: _Ground, topic: str, command: list[str], rate: int) -> Run:
    with Watched(command, servers=ground.pids) as receiving:
        port = _await_port(receiving)
        sender = [
            sys.executable,
            "-m",
            "bench.ingest_parts",
            "sender",
            port,
            str(rate),
            str(_SECONDS),
        ]
        said = subprocess.run(sender, check=True, capture_output=True, text=True)
        time.sleep(0.5)  # a kernel's buffer full of them is read in less
        cost = receiving.stop()
    sent, counts = json.loads(said.stdout), json.loads(cost.said)
    million = max(counts["delivered"], 1) / 1e6
    figures = {
        "cpu_s_per_million": cost.cpu_s / million,
        "servers_cpu_s_per_million": cost.servers_cpu_s / million,
        "peak_mb": cost.peak_mb,
    }
    return Run(sent["sent"], sent["seconds"], counts, ground.held(topic), figures)


def _await_port(receiving: Watched) -> str:
    deadline = time.monotonic() + _READY_WITHIN_S
    while time.monotonic() < deadline:
        said = receiving.complained_so_far()
        if "receiving" in said:
            return str(re.findall(r"udp://127\.0\.0\.1:([0-9]+),", said)[0])
        time.sleep(0.02)
    raise RuntimeError("nothing listens")

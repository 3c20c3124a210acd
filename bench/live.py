"""The live pipeline's promise: from produce to the committed row in less than a second, also beside a replay."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from confluent_kafka import Producer

from bench import load
from bench.measure import Row
from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.admin.client import Admin
from playhead.replay.engine_warmup import train
from playhead.sandbox import Endpoints, Sandbox

_PLAYHEAD = [sys.executable, "-m", "playhead.cli.app"]
_TOPIC, _ARCHIVE, _TABLE = "live", "yesterday", "public.live"
_RATE = 5_000
_TICK_S = 0.01
_BEFORE_S, _MEASURED_S = 20, 60
_ARCHIVED = 1_000_000
_READY_WITHIN_S = 90
_STOPPED_WITHIN_S = 60
_ON_ITS_WAY_S = 5
_COUNT = f"SELECT count(*) FROM {_TABLE} WHERE _topic = %s"  # noqa: S608 - our own table
# What the server itself noted as the instant of each commit, against the time that the producer set.
_LATENCIES = f"""
SELECT count(*)::int8, percentile_disc(ARRAY[0.5, 0.99, 1.0]) WITHIN GROUP (
    ORDER BY extract(epoch FROM pg_xact_commit_timestamp(xmin) - _timestamp)::float8)
FROM {_TABLE} WHERE _topic = %s AND _timestamp BETWEEN to_timestamp(%s) AND to_timestamp(%s)
"""  # noqa: S608 - our own table


@dataclass(frozen=True)
class Latency:
    """Of the records of one stretch of time, in seconds."""

    records: int
    p50: float
    p99: float
    worst: float

    @property
    def told(self) -> str:
        return f"{self.records:,} rows: p50 {self.p50:.3f} s, worst {self.worst:.3f} s"


def rows() -> Iterator[Row]:
    train()
    with _servers() as endpoints:
        with _live(endpoints), _telemetry(endpoints) as stop_producing:
            yield from _latencies(endpoints)
            produced = stop_producing()
            time.sleep(_ON_ITS_WAY_S)
        [(found,)] = _sql(endpoints, _COUNT, _TOPIC)
        missing = produced - int(str(found))
        yield Row(f"live, of {produced:,} records not in the table", missing, "rows", at_most=0)


def _latencies(endpoints: Endpoints) -> Iterator[Row]:
    time.sleep(_BEFORE_S)
    alone = _measured(endpoints)
    work = f"live, produce to committed row, p99 at {_RATE:,} records/s"
    note = f"{alone.told}; by the server's own commit times"
    yield Row(work, alone.p99, "s", at_most=1.0, note=note)
    with _replay(endpoints):
        beside = _measured(endpoints)
    note = f"{beside.told}; a replay of {_ARCHIVED:,} records into the same table meanwhile"
    yield Row("the same beside a replay with half of the cores", beside.p99, "s", note=note)


@contextmanager
def _servers() -> Iterator[Endpoints]:
    with tempfile.TemporaryDirectory(prefix="playhead-bench-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        box = Sandbox(Path(name) / "box")
        with box.running() as first:
            _sql(first, "ALTER SYSTEM SET track_commit_timestamp = on")
            pid = box.status().database_pid
            assert pid is not None
            os.kill(pid, signal.SIGINT)
            while box.status().database_pid is not None:
                time.sleep(0.1)
            endpoints = box.up()
            with Admin(KafkaConnection(endpoints.bootstrap_servers)) as admin:
                for topic in (_TOPIC, _ARCHIVE):
                    admin.create_topic(topic, partitions=load.PARTITIONS)
            load.fill(endpoints.bootstrap_servers, _ARCHIVE, _ARCHIVED)
            _sql(endpoints, load.TABLE.format(_TABLE))
            _sql(endpoints, f"ALTER TABLE {_TABLE} ADD _topic text, ADD _timestamp timestamptz")
            yield endpoints


def _sql(endpoints: Endpoints, statement: str, *values: object) -> list[tuple[object, ...]]:
    with psycopg.connect(endpoints.database_url, autocommit=True) as connection:
        done = connection.execute(statement, values or None)
        return done.fetchall() if done.description else []


def _environment(endpoints: Endpoints) -> dict[str, str]:
    state = {"XDG_STATE_HOME": str(endpoints.directory.parent / "state")}
    return dict(os.environ) | endpoints.environment() | state


@contextmanager
def _live(endpoints: Endpoints) -> Iterator[None]:
    """The pipeline as a person starts it, and stopped as a person stops it."""
    said = endpoints.directory.parent / "live.txt"
    words = ["live", f"kafka:{_TOPIC}", f"postgres:{_TABLE}", "--from", "earliest", "--yes"]
    with said.open("w") as stream:
        process = subprocess.Popen(
            [*_PLAYHEAD, *words, "--on-conflict", "ignore"],
            env=_environment(endpoints),
            stdout=subprocess.DEVNULL,
            stderr=stream,
        )
    try:
        deadline = time.monotonic() + _READY_WITHIN_S
        while "reading" not in said.read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the pipeline does not run:\n{said.read_text()}")
            time.sleep(0.2)
        yield
        process.send_signal(signal.SIGINT)
        if process.wait(_STOPPED_WITHIN_S) != 0:
            raise RuntimeError(f"the pipeline ended badly:\n{said.read_text()}")
    finally:
        process.kill()
        process.wait()
        sys.stderr.write(said.read_text())


@contextmanager
def _telemetry(endpoints: Endpoints) -> Iterator[Callable[[], int]]:
    """Another process that produces at the rate; gives what stops it and tells how much it was."""
    command = [sys.executable, "-m", "bench.live", endpoints.bootstrap_servers]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def stopped() -> int:
        said, _ = process.communicate("\n")
        return int(said)

    try:
        yield stopped
    finally:
        process.kill()
        process.wait()


def _measured(endpoints: Endpoints) -> Latency:
    """Of what is produced from now on, when the last of it has come."""
    began = time.time()
    time.sleep(_MEASURED_S)
    ended = time.time()
    time.sleep(_ON_ITS_WAY_S)
    [(count, found)] = _sql(endpoints, _LATENCIES, _TOPIC, began, ended)
    p50, p99, worst = map(float, found)  # type: ignore[call-overload]
    return Latency(int(str(count)), p50, p99, worst)


@contextmanager
def _replay(endpoints: Endpoints) -> Iterator[None]:
    """Into the same table, again and again; that a pipeline is at work there bounds it."""
    stop = endpoints.directory.parent / "stop"
    words = ["replay", f"kafka:{_ARCHIVE}", f"postgres:{_TABLE}", "--yes", "--on-conflict", "newer"]
    loop = f"while [ ! -e {stop} ]; do {' '.join([*_PLAYHEAD, *words])} >/dev/null 2>&1; done"
    process = subprocess.Popen(["sh", "-c", loop], env=_environment(endpoints))
    try:
        yield
    finally:
        stop.touch()
        process.wait(300)


def _produce(bootstrap_servers: str) -> None:
    """At the rate until somebody writes a line to stdin; prints how many were acknowledged."""
    import select

    acknowledged = 0

    def note(error: object, _: object) -> None:
        nonlocal acknowledged
        acknowledged += error is None

    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 5, "acks": "all"})
    began, sent = time.monotonic(), 0
    while not select.select([sys.stdin], [], [], _TICK_S)[0]:
        wanted = int((time.monotonic() - began) * _RATE)
        for number in range(sent, wanted):
            car, now_ms = number % 20, time.time_ns() // 1_000_000
            value = {"car": f"live-{car:02}", "seq": number // 20, "speed": 200.5, "lap": 1}
            body = json.dumps(value).encode()
            key = f"live-{car:02}".encode()
            producer.produce(_TOPIC, body, key, timestamp=now_ms, on_delivery=note)
        sent = max(sent, wanted)
        producer.poll(0)
    producer.flush(30)
    print(acknowledged)


if __name__ == "__main__":
    _produce(sys.argv[1])

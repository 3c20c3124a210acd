"""Gaps in a table of ten million rows, and a timeline of the topic they came from; no value is read for either."""

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
from confluent_kafka import Producer

from bench.measure import Row, in_turn, run
from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.admin.client import Admin
from playhead.sandbox import Endpoints, Sandbox

_RECORDS, _PARTITIONS = 10_000_000, 12
_EACH = _RECORDS // _PARTITIONS
_T0_MS = 1_628_080_200_000
_VALUE = b'{"car":"car-00","seq":0,"speed":200.5,"rpm":11000,"gear":6,"throttle":0.9,"brake":0.0}'
_ROUNDS = 3
# Partition, first offset, how many: at a start, in the middle, at an end.
_GAPS = ((0, 0, 5_000), (5, 400_000, 10_000), (11, _EACH - 5_000, 5_000))
_COLUMNS = "_topic text, _partition int, _offset bigint, car text, seq bigint, speed float8"
_PLACE_KEY = "PRIMARY KEY (_topic, _partition, _offset)"


def rows() -> Iterator[Row]:
    """On a broker and a database of its own."""
    with _servers() as (endpoints, environment):
        _fill_topic(endpoints.bootstrap_servers)
        timeline = _Timed(["timeline", "bench", "-o", "json"], environment)
        (wall_s,) = in_turn(timeline.wall_s, rounds=_ROUNDS)
        work = f"timeline: 120 buckets, {_PARTITIONS} partitions, {_RECORDS / 1e6:g} M records"
        yield Row(work, wall_s, "s", at_most=2.5, note=f"{timeline.cpu_s:.2g} s of processor time")
        for name, columns in (
            ("no index", _COLUMNS),
            ("a key of places", f"{_COLUMNS}, {_PLACE_KEY}"),
        ):
            table = f"laps_{len(name)}"
            _fill_table(endpoints.database_url, table, columns)
            gaps = _Timed(["gaps", "kafka:bench", f"postgres:{table}", "-o", "json"], environment)
            gaps.code, gaps.wanted = 4, [list(each) for each in _found_gaps()]
            (wall_s,) = in_turn(gaps.wall_s, rounds=_ROUNDS)
            work = f"gaps: three in {_RECORDS / 1e6:g} M rows, {name}"
            note = f"{gaps.cpu_s:.2g} s of processor time of its own; 20,000 records were read"
            yield Row(work, wall_s, "s", at_most=10, note=note)


def _found_gaps() -> Iterator[tuple[int, int, int]]:
    for partition, start, count in _GAPS:
        yield partition, start, start + count


class _Timed:
    """A command whose answer is looked at; remembers what its last run cost."""

    def __init__(self, words: Sequence[str], environment: dict[str, str]) -> None:
        self._command = [sys.executable, "-m", "playhead.cli.app", *words, "-q"]
        self._environment = environment
        self.code, self.wanted = 0, list[list[int]]()
        self.cpu_s = 0.0

    def wall_s(self) -> float:
        done = run(self._command, self._environment, code=self.code)
        told = json.loads(done.said)
        found = [
            [each["partition"], each["from_offset"], each["to_offset"]]
            for each in told.get("gaps", ())
        ]
        if found != self.wanted:
            raise RuntimeError(f"found {found}, needed {self.wanted}")
        if not self.wanted and (told["records"], len(told["buckets"])) != (
            _EACH * _PARTITIONS,
            120,
        ):
            raise RuntimeError(f"counted {told['records']} in {len(told['buckets'])} buckets")
        self.cpu_s = done.cpu_s
        return done.wall_s


def _fill_topic(servers: str) -> None:
    with Admin(KafkaConnection(servers), timeout_s=60) as admin:
        admin.create_topic("bench", partitions=_PARTITIONS)
    with ProcessPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        for _ in pool.map(_fill_partition, [servers] * _PARTITIONS, range(_PARTITIONS)):
            pass


def _fill_partition(servers: str, partition: int) -> None:
    producer = Producer(
        KafkaConnection(servers).for_librdkafka("producer")
        | {"log_level": 0, "compression.type": "lz4", "linger.ms": 50}
        | {"queue.buffering.max.messages": 1_000_000}
    )
    for number in range(_EACH):
        while True:
            try:
                producer.produce(
                    "bench", _VALUE, partition=partition, timestamp=_T0_MS + 6 * number
                )
                break
            except BufferError:
                producer.poll(0.2)
    deadline = time.monotonic() + 300
    while producer.flush(10):
        if time.monotonic() > deadline:
            raise RuntimeError(f"partition {partition} could not be filled")


def _fill_table(url: str, table: str, columns: str) -> None:
    """By the server alone, and in the order in which a live pipeline writes: partitions in turn."""
    gaps = " OR ".join(f"(p = {p} AND o BETWEEN {o} AND {o + n - 1})" for p, o, n in _GAPS)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {table} ({columns})".encode())
        connection.execute(
            f"INSERT INTO {table} SELECT 'bench', p, o, 'car-' || p, o, o / 7.0 "  # noqa: S608
            f"FROM generate_series(0, {_EACH - 1}) o, generate_series(0, {_PARTITIONS - 1}) p "
            f"WHERE NOT ({gaps})".encode()
        )
        connection.execute(f"VACUUM ANALYZE {table}".encode())


@contextmanager
def _servers() -> Iterator[tuple[Endpoints, dict[str, str]]]:
    with tempfile.TemporaryDirectory(prefix="playhead-bench-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        with Sandbox(Path(name) / "box").running() as endpoints:
            own = {
                "XDG_STATE_HOME": f"{name}/state",
                "KAFKA_BOOTSTRAP_SERVERS": endpoints.bootstrap_servers,
                "DATABASE_URL": endpoints.database_url,
            }
            yield endpoints, dict(os.environ) | own

"""Captured traffic: a gigabyte of pairs onto a topic beside Spark's own reading of it, and an extract from cold."""

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.measure import Row, in_turn, run
from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.admin.client import Admin
from playhead.sandbox import Endpoints, Sandbox

_PLAYHEAD = [sys.executable, "-m", "playhead.cli.app"]
_BYTES, _EXTRACTED = 1_000_000_000, 100_000
_PARTITIONS, _RECORDS_IN_A_SET, _ROUNDS = 4, 25, 3
_VALUE = '{"car":"car-%02d","seq":%d,"speed":200.5,"rpm":11000,"gear":6,"throttle":0.9,"brake":0.0}'
_PATH = "kafka.response.FetchResponse.topics.0.partitions.0.records.records.0.valueString"
_BASE_MS = 1_772_445_600_000
# Its own schema is found by a first pass, which counts: nobody has written it down.
_SPARK = """
import sys
from playhead.spark.session import session
rows = session("bench").read.json(sys.argv[1])
rows.write.format("noop").mode("overwrite").save()
"""


def rows() -> Iterator[Row]:
    """On a broker of its own."""
    with tempfile.TemporaryDirectory(prefix="playhead-traffic-") as name:
        folder = Path(name)
        raw = folder / "raw.jsonl"
        records = _write(raw, bytes_=_BYTES)
        small = folder / "small.jsonl"
        _write(small, pairs=_EXTRACTED)
        yield _extract_row(small, folder)
        with _servers() as endpoints:
            yield _replay_row(raw, records, endpoints)


def _extract_row(raw: Path, folder: Path) -> Row:
    environment = os.environ | {"XDG_CACHE_HOME": str(folder / "cold")}
    words = ["extract", str(raw), "--path", _PATH, "--path", ".ts", "-q"]

    def wall_s() -> float:
        done = run([*_PLAYHEAD, *words, "--filter", '(command IS "Fetch")'], environment)
        if done.said.count("\n") != _EXTRACTED + 1:
            raise RuntimeError(f"found {done.said.count(chr(10))} lines")
        return done.wall_s

    (seconds,) = in_turn(wall_s, rounds=_ROUNDS)
    return Row(f"extract: {_EXTRACTED:,} pairs, cold", seconds, "s", at_most=10)


def _replay_row(raw: Path, records: int, endpoints: Endpoints) -> Row:
    """Rates in bytes of the file, engine's start included on both sides."""
    own = {"XDG_STATE_HOME": str(raw.parent / "state")}
    environment = os.environ | own | {"KAFKA_BOOTSTRAP_SERVERS": endpoints.bootstrap_servers}
    count = 0

    def ours() -> float:
        nonlocal count
        count += 1
        topic = f"copy-{count}"
        with Admin(KafkaConnection(endpoints.bootstrap_servers), timeout_s=60) as admin:
            admin.create_topic(topic, partitions=_PARTITIONS)
        raw.touch()  # what was found in it before does not count
        words = ["replay", f"rrpair:{raw}", f"kafka:{topic}", "--yes", "-o", "json", "-q"]
        done = run([*_PLAYHEAD, *words], environment)
        written = json.loads(done.said)["totals"]["written"]
        if written != records:
            raise RuntimeError(f"{written:,} of {records:,} records were written")
        return done.wall_s

    def theirs() -> float:
        return run([sys.executable, "-c", _SPARK, str(raw)], environment).wall_s

    our_s, their_s = in_turn(ours, theirs, rounds=_ROUNDS)
    size = raw.stat().st_size / 1e6
    work = f"rrpair → topic: {size / 1e3:.2g} GB, {records / 1e6:.2g} M records"
    return Row(work, size / our_s, "MB/s", "spark.read.json", size / their_s, at_least=0.5)


def _write(file: Path, *, bytes_: int | None = None, pairs: int | None = None) -> int:
    """Pairs of Fetches, one partition after the other; gives the number of records."""
    size = records = number = 0
    with file.open("w", encoding="utf-8") as out:
        while size < (bytes_ or 0) or number < (pairs or 0):
            line = json.dumps(_pair(number), separators=(",", ":")) + "\n"
            size += out.write(line)
            number += 1
            records += _RECORDS_IN_A_SET
    return records


def _pair(number: int) -> dict[str, object]:
    partition, turn = number % _PARTITIONS, number // _PARTITIONS
    base = turn * _RECORDS_IN_A_SET
    held = [
        {"offsetDelta": n, "timestampDelta": str(6 * n), "keyString": f"car-{n:02d}"}
        | {"valueString": _VALUE % (n, base + n)}
        for n in range(_RECORDS_IN_A_SET)
    ]
    set_ = {"attributes": ["ATTRIBUTE_NO_COMPRESSION"], "baseOffset": str(base), "magic": 2}
    set_ |= {"baseTimestamp": str(_BASE_MS + 150 * turn), "records": held}
    topics = [{"name": "laps", "partitions": [{"index": partition, "records": set_}]}]
    return {
        "msgType": "rrpair",
        "ts": f"2026-03-02T10:{number // 60_000 % 60:02d}:{number // 1_000 % 60:02d}.{number % 1_000:03d}Z",
        "l7protocol": "kafka",
        "tags": {"captureMode": "proxy", "sequence": str(number), "source": "goproxy"},
        "uuid": "RPeizCBFT7aWNT2oqn+pAQ==",
        "direction": "OUT",
        "service": "laps-consumer",
        "tech": "Kafka",
        "network_address": "kafka-0:9092",
        "command": "Fetch",
        "location": "N/A",
        "status": "OK",
        "kafka": {"response": {"FetchResponse": {"topics": topics}, "correlationId": number}},
    }


@contextmanager
def _servers() -> Iterator[Endpoints]:
    with tempfile.TemporaryDirectory(prefix="playhead-bench-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        with Sandbox(Path(name) / "sandbox").running() as endpoints:
            yield endpoints

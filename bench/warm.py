"""Commands in a warm engine, against the same commands with an engine of their own; and its memory over 500 runs."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psycopg

from bench.load import TABLE
from bench.measure import Row, run
from playhead.config.kafka_connection import KafkaConnection
from playhead.host import private_files
from playhead.kafka.admin.client import Admin
from playhead.sandbox import Endpoints, Sandbox

_RECORDS, _FEW, _ROUNDS = 20_000, 200, 7
_RUNS_BEFORE, _RUNS = 20, 500
_LOOKS_EVERY_S = 0.005
_COMMITTED_WITHIN_S = 120


def rows() -> Iterator[Row]:
    """On servers of its own, with an engine of its own."""
    with _bench() as bench:
        bench.fill("laps", _RECORDS)
        bench.fill("few", _FEW)
        works = (
            ("replay of 20,000 records to its first committed row", bench.to_first_row, 0.5),
            ("gaps --replay of 20,000 records", bench.fill_gap, 3.0),
            ("replay --where --dry-run", bench.dry_run, 1.0),
        )
        for work, measure, bound in works:
            cold, warm = list[float](), list[float]()
            for number in range(_ROUNDS + 1):
                pair = measure("off"), measure("on")
                if number:
                    cold.append(pair[0])
                    warm.append(pair[1])
            its = f"with an engine of its own: {statistics.median(cold):.2f} s"
            yield Row(f"warm: {work}", statistics.median(warm), "s", at_most=bound, note=its)
        yield bench.memory()


@dataclass
class _Bench:
    endpoints: Endpoints
    environment: dict[str, str]
    _numbers: "count[int]" = field(default_factory=count)

    def fill(self, topic: str, records: int) -> None:
        with Admin(KafkaConnection(self.endpoints.bootstrap_servers)) as admin:
            admin.create_topic(topic, partitions=4)
        words = [self.endpoints.bootstrap_servers, topic, "--records", str(records)]
        run([sys.executable, "-m", "bench.load", *words])

    def table(self) -> str:
        name = f"laps_{next(self._numbers)}"
        with psycopg.connect(self.endpoints.database_url, autocommit=True) as connection:
            connection.execute(TABLE.format(name).encode())
        return name

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "playhead.cli.app", *words, "-q"]

    def to_first_row(self, warm: str) -> float:
        table = self.table()
        words = self.command("replay", "kafka:laps", f"postgres:{table}", "--yes")
        with psycopg.connect(self.endpoints.database_url, autocommit=True) as connection:
            asked = f"SELECT 1 FROM {table} LIMIT 1".encode()  # noqa: S608
            began = time.monotonic()
            process = subprocess.Popen(
                words, env=self.environment | {"PLAYHEAD_WARM": warm}, stdout=subprocess.DEVNULL
            )
            while connection.execute(asked).fetchone() is None:
                if time.monotonic() - began > _COMMITTED_WITHIN_S:
                    raise RuntimeError("no row was committed")
                time.sleep(_LOOKS_EVERY_S)
            took_s = time.monotonic() - began
        if process.wait() != 0:
            raise RuntimeError(f"the replay ended with {process.returncode}")
        return took_s

    def fill_gap(self, warm: str) -> float:
        words = ("gaps", "kafka:laps", f"postgres:{self.table()}", "--key", "car,seq")
        return self.timed(warm, *words, "--replay", "--yes")

    def dry_run(self, warm: str) -> float:
        words = (
            "replay",
            "kafka:laps",
            f"postgres:{self.table()}",
            "--where",
            "value:speed > 200",
        )
        return self.timed(warm, *words, "--dry-run")

    def timed(self, warm: str, *words: str) -> float:
        return run(self.command(*words), self.environment | {"PLAYHEAD_WARM": warm}).wall_s

    def memory(self) -> Row:
        after: dict[int, float] = {}
        for number in range(1, _RUNS + 1):
            self.timed("on", "replay", "kafka:few", f"postgres:{self.table()}", "--yes")
            if number in (_RUNS_BEFORE, _RUNS):
                said = run(self.command("engine", "status", "-o", "json"), self.environment).said
                after[number] = json.loads(said)["memory_mb"]
        work = f"warm: memory of the engine after {_RUNS} runs"
        before = f"after {_RUNS_BEFORE}"
        return Row(work, after[_RUNS], "MB", before, after[_RUNS_BEFORE], at_most=1.2)


@contextmanager
def _bench() -> Iterator[_Bench]:
    with tempfile.TemporaryDirectory(prefix="playhead-bench-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        with Sandbox(Path(name) / "box").running() as endpoints:
            settings = Path(name) / "config" / "playhead"
            settings.mkdir(parents=True, mode=0o700)
            # In the file, and not in the environment: then the engine may have it.
            said = f"bootstrap_servers = {json.dumps(endpoints.bootstrap_servers)}\n"
            said += f"database = {json.dumps(endpoints.database_url)}\n"
            private_files.write(settings / "config.toml", f"[contexts.bench]\n{said}")
            kept = {k: v for k, v in os.environ.items() if not k.startswith("PLAYHEAD_")}
            own = {"XDG_STATE_HOME": f"{name}/state", "XDG_CONFIG_HOME": f"{name}/config"}
            bench = _Bench(endpoints, kept | own | {"PLAYHEAD_CONTEXT": "bench"})
            run(bench.command("engine", "start"), bench.environment)
            try:
                yield bench
            finally:
                run(bench.command("engine", "stop"), bench.environment)

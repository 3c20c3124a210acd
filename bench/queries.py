"""Queries: a day of PostgreSQL 15 played again, against pgreplay on the same log; and shipped, against kcat.

The programs to compare with are Debian's, unpacked and not installed. Without them a row has no baseline, and
says so.
"""

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from tests.postgres_pair import DURATIONS, STARTS, Postgres, started
from tools.debian import NoPackages, unpacked

from bench.measure import Row, in_turn, run
from bench.query_logs import write_log
from playhead.config.kafka_connection import KafkaConnection
from playhead.host.runtimes import PostgresPrograms
from playhead.kafka.admin.client import Admin
from playhead.sandbox import Sandbox

_SELECTS, _TRANSFERS, _SESSIONS, _ROUNDS = 200_000, 20_000, 20, 3
_PACED_S, _PER_SECOND = 20, 2_000
_ROWS_SHIPPED = 500_000
_LONGEST_S = 600
_RUN_OF_STATEMENTS = 10


def rows(*, quick: bool = False) -> Iterator[Row]:
    """On servers of its own; `quick` with a hundredth of the work, which measures nothing."""
    with _bench(100 if quick else 1) as bench:
        yield from bench.selects()
        yield from bench.transfers()
        yield from bench.recorded_speed()
        yield from bench.memory()
        yield from bench.shipping()


@dataclass
class _Bench:
    folder: Path
    base: Postgres
    less: int
    """By how much the work is smaller than that of the promises."""
    _numbers: "count[int]" = field(default_factory=count)

    # --- servers and commands

    def record(self, settings: dict[str, str], *pgbench: str) -> tuple[Path, float]:
        """Return the log of a run of pgbench, and how many seconds it took."""
        source = self.base.copy_to(self.folder / f"source-{next(self._numbers)}", settings)
        with started(source):
            began = time.monotonic()
            _pgbench(source, *pgbench)
            took_s = time.monotonic() - began
        return source.log, took_s

    @contextmanager
    def target(self) -> Iterator[Postgres]:
        server = self.base.copy_to(self.folder / f"target-{next(self._numbers)}")
        with started(server):
            yield server
        shutil.rmtree(server.folder)

    def replay(self, log: Path, target: Postgres, *more: str) -> dict[str, Any]:
        words = ["queries", "replay", f"csvlog:{log}", "--to", target.url, "--databases", "app"]
        words += ["--id", f"bench-{next(self._numbers)}", "-y", "-q", "-o", "json", *more]
        said = self.playhead(*words)
        found: dict[str, Any] = json.loads(said[said.index("{") :])
        if not found["is_equal"]:
            raise RuntimeError(f"the replay is not equal: {found['verdict']}")
        return found

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name[:9] != "PLAYHEAD_"}
        return kept | {"XDG_STATE_HOME": str(self.folder / "state"), "PLAYHEAD_WARM": "off"}

    def playhead(self, *words: str) -> str:
        return run([sys.executable, "-m", "playhead.cli.app", *words], self.environment).said

    def _pgreplay(self, log: Path, target: Postgres) -> float | None:
        """Return the seconds that pgreplay takes; None if it has not ended within the time limit."""
        program = _program("pgreplay", "usr/bin/pgreplay")
        words = [program, "-c", "-j", "-s", "1000000", "-h", "127.0.0.1", "-p", str(target.port)]
        began = time.monotonic()
        try:
            subprocess.run([*words, str(log)], check=True, capture_output=True, timeout=_LONGEST_S)
        except subprocess.TimeoutExpired:
            return None
        return time.monotonic() - began

    # --- the promises

    def selects(self) -> Iterator[Row]:
        each = _SELECTS // _SESSIONS // self.less
        log, _ = self.record(STARTS, "-S", "-c", str(_SESSIONS), "-t", str(each))
        work = (
            f"queries: {each * _SESSIONS:,} selects of {_SESSIONS} sessions, with reading the log"
        )
        played = list[float]()
        with self.target() as target:

            def ours() -> float:
                began = time.monotonic()
                played.append(self.replay(log, target)["seconds"])
                return each * _SESSIONS / (time.monotonic() - began)

            try:
                _program("pgreplay", "usr/bin/pgreplay")
            except NoPackages as exc:
                rate = in_turn(ours, rounds=_ROUNDS)[0]
                yield Row(work, rate, "1/s", note=f"no baseline: {exc}")
                return

            def theirs() -> float:
                took_s = self._pgreplay(log, target)
                if took_s is None:
                    raise RuntimeError("pgreplay does not end")
                return each * _SESSIONS / took_s

            rate, their_rate = in_turn(ours, theirs, rounds=_ROUNDS)
        only = each * _SESSIONS / statistics.median(played)
        note = f"playing alone, without reading: {only:,.0f}/s"
        yield Row(work, rate, "1/s", "pgreplay", their_rate, at_least=1.0, note=note)

    def transfers(self) -> Iterator[Row]:
        each = _TRANSFERS // _SESSIONS // self.less
        log, recorded_s = self.record(DURATIONS, "-c", str(_SESSIONS), "-t", str(each))

        def played(*more: str) -> Callable[[], float]:
            def once() -> float:
                with self.target() as target:
                    return float(self.replay(log, target, *more)["seconds"])

            return once

        ways = played(), played("--order", "session"), played("--no-marks")
        ours_s, session_s, unmarked_s = in_turn(*ways, rounds=_ROUNDS)
        work = f"queries: {each * _SESSIONS:,} transactions of TPC-B"
        yield Row(work, ours_s, "s", "--order session", session_s, at_most=2.0)
        yield Row(work, ours_s, "s", "recorded", recorded_s, at_most=1.0)
        yield Row(
            f"{work}, with marks", 1 / ours_s, "1/s", "without", 1 / unmarked_s, at_least=0.85
        )

    def recorded_speed(self) -> Iterator[Row]:
        options = ("-S", "-c", str(_SESSIONS), "-R", str(_PER_SECOND), "-T")
        log, _ = self.record(DURATIONS, *options, str(max(1, _PACED_S // self.less)))
        late, early = list[float](), list[float]()
        with self.target() as target:
            for _ in range(_ROUNDS):
                schedule = self.replay(log, target, "--pace", "1x")["schedule"]
                late.append(schedule["p99_us"] / 1_000)
                early.append(schedule["early"])
        work = f"queries: {_PER_SECOND:,} statements/s at the recorded speed"
        yield Row(f"{work}, p99 of the lateness", statistics.median(late), "ms", at_most=10)
        yield Row(f"{work}, sent early", max(early), "statements", at_most=0)

    def memory(self) -> Iterator[Row]:
        """What a log needs that has more sessions, or more statements."""
        few, most = 500 // self.less, 5_000 // self.less
        few_s = _RUN_OF_STATEMENTS
        peaks = [
            self._peak_mb(sessions=few, statements=few_s, at_once=few),
            self._peak_mb(sessions=most, statements=few_s, at_once=few),
            self._peak_mb(sessions=few, statements=10 * few_s, at_once=few),
        ]
        work = f"queries: memory for {most:,} sessions, {few} at once"
        yield Row(work, peaks[1], "MB", f"for {few}", peaks[0], at_most=1.5)
        work = "queries: memory for ten times the statements"
        yield Row(work, peaks[2], "MB", f"for {few * few_s:,}", peaks[0], at_most=1.1)

    def _peak_mb(self, *, sessions: int, statements: int, at_once: int) -> float:
        log = self.folder / f"made-{next(self._numbers)}.csv"
        write_log(log, sessions=sessions, statements=statements, at_once=at_once)
        with self.target() as target:
            words = ["queries", "replay", f"csvlog:{log}", "--to", target.url, "--max-connections"]
            words += ["50", "--id", f"bench-{next(self._numbers)}", "-y", "-q", "-o", "json"]
            process = subprocess.Popen(
                [sys.executable, "-m", "playhead.cli.app", *words],
                env=self.environment,
                stdout=subprocess.DEVNULL,
            )
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"the replay of a made log ended with {process.returncode}")
        return used.ru_maxrss / 1_024

    def shipping(self) -> Iterator[Row]:
        log = self.folder / "shipped.csv"
        number = _ROWS_SHIPPED // self.less
        write_log(log, sessions=number // 100, statements=98, at_once=20)
        with Sandbox(self.folder / "box").running() as endpoints:
            broker = endpoints.bootstrap_servers

            def ours() -> float:
                target, name = f"kafka:bench{next(self._numbers)}_{{db}}", str(next(self._numbers))
                began = time.monotonic()
                self.playhead(
                    "queries", "ship", str(log), target, "--once", "--name", name, "-b", broker
                )
                return number / (time.monotonic() - began)

            work = f"queries: {number:,} rows shipped"
            try:
                kcat = _program("kcat", "usr/bin/kcat", "libyajl2", "librdkafka1")
            except NoPackages as exc:
                yield Row(work, in_turn(ours, rounds=_ROUNDS)[0], "1/s", note=f"no baseline: {exc}")
                return
            libraries = next(Path(kcat).parents[1].glob("lib/*-linux-gnu"))

            def theirs() -> float:
                topic = f"bench{next(self._numbers)}"
                with Admin(KafkaConnection(broker)) as admin:
                    admin.create_topic(topic, partitions=4)
                words = [kcat, "-P", "-b", broker, "-t", topic, "-l", str(log)]
                began = time.monotonic()
                run(words, os.environ | {"LD_LIBRARY_PATH": str(libraries)})
                return number / (time.monotonic() - began)

            rate, their_rate = in_turn(ours, theirs, rounds=_ROUNDS)
        yield Row(work, rate, "1/s", "kcat", their_rate, at_least=0.5)


def _program(package: str, path: str, *with_packages: str) -> str:
    return str(unpacked(package, *with_packages) / path)


def _pgbench(server: Postgres, *options: str) -> None:
    place = ("-h", "127.0.0.1", "-p", str(server.port), "-U", "app", "-n", "-M", "simple")
    server.run(server.program("pgbench"), *place, *options, "app")


@contextmanager
def _bench(less: int) -> Iterator[_Bench]:
    # The loop opens a connection for each session.
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (4_096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    )
    with tempfile.TemporaryDirectory(prefix="playhead-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        base = Postgres(folder / "base", programs=_older())
        base.make()
        with started(base):
            _initialized(base, scale=10 if less == 1 else 1)
        yield _Bench(folder, base, less)


def _initialized(server: Postgres, *, scale: int) -> None:
    place: Sequence[str] = ("-h", "127.0.0.1", "-p", str(server.port), "-U", "app")
    server.run(server.program("pgbench"), *place, "-i", "-s", str(scale), "-q", "app")


def _older() -> PostgresPrograms | None:
    """Return PostgreSQL 15, whose logs pgreplay reads; None if it cannot be had."""
    try:
        files = unpacked("postgresql-15")
    except NoPackages as exc:
        sys.stderr.write(f"PostgreSQL 15 cannot be had, the sandbox's is taken: {exc}\n")
        return None
    bin_dir = files / "usr/lib/postgresql/15/bin"
    return PostgresPrograms(files, (files / "usr",), bin_dir, "PostgreSQL 15")

"""The foundations' promises: a light command line, a quick sandbox, a warm engine."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Row, in_turn, run
from playhead.replay.engine_warmup import train
from playhead.sandbox import Sandbox

_PLAYHEAD = [sys.executable, "-m", "playhead.cli.app"]
_READY = "print('ready after', time.perf_counter() - began, flush=True)"
_OURS = f"""
import time; began = time.perf_counter()
from playhead.spark import session
spark = session.session("bench")
{_READY}
print(spark.range(10).mapInArrow(lambda parts: parts, "id long").count())
"""
_PLAIN = f"""
import time; began = time.perf_counter()
from pyspark.sql import SparkSession
spark = SparkSession.builder.appName("bench").getOrCreate()
{_READY}
print(spark.range(10).mapInArrow(lambda parts: parts, "id long").count())
"""


def rows() -> Iterator[Row]:
    yield _help()
    yield from _sandbox()
    yield from _session()


def _help() -> Row:
    (cpu_ms,) = in_turn(lambda: run([*_PLAYHEAD, "--help"]).cpu_s * 1000, rounds=9)
    return Row("playhead --help, processor time", cpu_ms, "ms", at_most=150)


def _sandbox() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="playhead-bench-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        sandbox = Sandbox(Path(name) / "box")
        sandbox.up()
        sandbox.down()

        def up() -> float:
            began = time.perf_counter()
            sandbox.up()
            return time.perf_counter() - began

        def down() -> float:
            began = time.perf_counter()
            sandbox.down()
            return time.perf_counter() - began

        try:
            up_s, down_s = in_turn(up, down)
        finally:
            sandbox.down()
    yield Row("sandbox up, formatted, both answering", up_s, "s", at_most=6)
    yield Row("sandbox down", down_s, "s", at_most=3)


def _session() -> Iterator[Row]:
    train()
    with_cache = _timed(_OURS, {"PLAYHEAD_AOT_CACHE": "use"})
    without = _timed(_OURS, {"PLAYHEAD_AOT_CACHE": "off"})
    ours = "the same without the start-up cache"
    ready, ready_without, first, first_without = _medians(with_cache, without)
    yield Row("cold session", ready, "s", ours, ready_without, at_most=0.6)
    yield Row("cold session to first row, and out", first, "s", ours, first_without)
    java = shutil.which("java")
    if java is None:
        sys.stderr.write("SKIPPED: no Java on PATH, so plain PySpark cannot be the baseline\n")
        return
    plain = _timed(_PLAIN, {"JAVA_HOME": str(Path(java).resolve().parent.parent)})
    ready, ready_plain, first, first_plain = _medians(with_cache, plain)
    theirs = "plain PySpark on the machine's own Java"
    yield Row("cold session", ready, "s", theirs, ready_plain, at_most=0.6)
    yield Row("cold session to first row, and out", first, "s", theirs, first_plain)


class _timed:  # noqa: N801  reads as a verb where it is used
    """A program that says when it is ready; remembers how long it ran in all."""

    def __init__(self, program: str, more: dict[str, str]) -> None:
        kept = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"}
        self._command, self._environment = (
            [sys.executable, "-c", program],
            kept | more | {"PYSPARK_PYTHON": sys.executable},
        )
        self.whole_s = 0.0

    def ready(self) -> float:
        done = run(self._command, self._environment)
        self.whole_s = done.wall_s
        line = next(line for line in done.said.splitlines() if line.startswith("ready after"))
        return float(line.split()[-1])

    def to_the_end(self) -> float:
        """Of the run that `ready` has just made."""
        return self.whole_s


def _medians(one: _timed, other: _timed) -> list[float]:
    return in_turn(one.ready, other.ready, one.to_the_end, other.to_the_end, rounds=7)

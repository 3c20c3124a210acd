"""A session on a JVM that another process of ours has started and keeps, for one run of its own."""

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playhead.host.runtimes import workers_path
from playhead.spark import closed_ports, process_habits

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


_FIRST_JOBS = 3


@dataclass(frozen=True, slots=True)
class Lent:
    """How the JVM is reached, and what this process has of it."""

    spark: "SparkSession"
    folder: Path
    memory: str
    tag: str
    """On all jobs of this process, so that they can be cancelled without the others'."""


_lent: Lent | None = None


def lent() -> Lent | None:
    """Return what this process borrows of another process's engine; None if it borrows nothing."""
    return _lent


def attach(port: int, secret: str, folder: Path, memory: str, tag: str) -> "SparkSession":
    """Have a session of one's own on the JVM, whose first process has made its context."""
    global _lent  # noqa: PLW0603
    from pyspark.sql import SparkSession

    context = _context(port, secret)
    jvm = context._jvm
    classic = getattr(jvm, "org.apache.spark.sql.classic.SparkSession")
    base = classic.builder().getOrCreate()
    spark = SparkSession(context, base.newSession())
    classic.setDefaultSession(base)  # or the JVM would keep ours when we are gone
    _lent = Lent(spark, folder, memory, tag)
    mark()
    return spark


def open_context(port: int, secret: str, settings: Mapping[str, str]) -> None:
    """Make the context that all sessions on the JVM share; it lives as long as the JVM."""
    from pyspark.sql import SparkSession

    _connect(port, secret)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    with process_habits.kept_away():
        closed_ports.close(builder.getOrCreate().sparkContext)


def first_job() -> None:
    """Have the context do what the first job of each command would wait for: start Python's workers."""
    from pyspark.sql import SparkSession

    spark = SparkSession._instantiatedSession
    slots = spark.sparkContext.defaultParallelism
    for _ in range(_FIRST_JOBS):
        spark.range(0, slots, 1, slots).mapInArrow(_pass_on, "id long").collect()


def _pass_on(parts: Iterator[Any]) -> Iterator[Any]:
    yield from parts


def mark() -> None:
    """Have the jobs that this thread starts carry this process's tag."""
    if _lent is not None:
        _lent.spark.sparkContext.addJobTag(_lent.tag)


def cancel(port: int, secret: str, tag: str) -> None:
    """End the jobs of a process that is gone."""
    _context(port, secret).cancelJobsWithTag(tag)


def let_go() -> None:
    """Have the JVM forget what this process had of it, and leave the context to the others."""
    from py4j.finalizer import ThreadSafeFinalizer
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    with contextlib.suppress(Exception):  # a JVM that is gone has forgotten
        if context is not None:
            Path(context._temp_dir).rmdir()
        for reference in list(ThreadSafeFinalizer.finalizers.values()):
            reference.__callback__(reference)
        # The callbacks leave it to a thread, for which this process does not wait.
        waiting = SparkContext._gateway._gateway_client.finalizer_deque
        while waiting:
            client, number = waiting.pop()
            client.garbage_collect_object(number, False)


def _connect(port: int, secret: str) -> None:
    from pyspark import SparkContext

    process_habits.refuse_strangers(port)
    handed = {
        "PYSPARK_GATEWAY_PORT": str(port),
        "PYSPARK_GATEWAY_SECRET": secret,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        **workers_path(),
    }
    os.environ.update(handed)
    SparkContext._ensure_initialized()
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"):
        del os.environ[name]


def _context(port: int, secret: str) -> "SparkContext":
    from pyspark import SparkContext

    _connect(port, secret)
    jvm = SparkContext._jvm
    shared = getattr(jvm, "org.apache.spark.SparkContext").getOrCreate()
    with process_habits.kept_away():
        context = SparkContext(jsc=jvm.JavaSparkContext(shared))
    process_habits.quiet(context)
    return context

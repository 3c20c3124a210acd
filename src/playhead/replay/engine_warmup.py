"""Trains the engine's start-up cache with a job like ours: `python -m playhead.replay.engine_warmup
[--background]`.

It starts a throw-away broker, makes a topic, and runs a Spark job that reads it and passes Arrow to
Python; the JVM records the classes that this loads. Without the broker's jars, the Kafka part is
left out.
"""

import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import PlayheadError
from playhead.host import file_lock, jars, private_files
from playhead.kafka.admin import clients
from playhead.kafka.admin.client import Admin
from playhead.printable import printable
from playhead.sandbox import Sandbox
from playhead.spark import jvm, jvm_cache
from playhead.spark.session import DEFAULT_MEMORY, started_for_training
from playhead.spark.stream_reader import topic_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_AT_MOST_S = 240
_RECORDS = 2_000
_TOPIC = "warmup"


def train(memory: str = DEFAULT_MEMORY) -> jvm_cache.Cache | None:
    """Make the cache for this machine's engine, unless it exists or another process is making it."""
    blueprint = jvm.blueprint_for(memory)
    cache = jvm_cache.cache_for(blueprint)
    if cache is None or cache.is_there():
        return cache
    private_files.folder(cache.file.parent)
    with _alone(cache.file.with_suffix(".lock")) as is_ours:
        if not is_ours:
            return None
        for left in cache.file.parent.glob(f"{cache.file.stem}.*.new*"):
            left.unlink(missing_ok=True)  # A training that was killed has left it.
        made = cache.file.with_suffix(f".{os.getpid()}.new")
        try:
            trained_on = _run_training(blueprint, cache, made)
            if made.exists():
                cache.adopt(made, trained_on)
        finally:
            made.unlink(missing_ok=True)
            made.with_name(made.name + ".config").unlink(missing_ok=True)
    return cache if cache.is_there() else None


def _run_training(blueprint: jvm.JvmCommand, cache: jvm_cache.Cache, made: Path) -> list[str]:
    trained_on = ["arrow"]
    with started_for_training(blueprint, cache.training_options(made)) as spark:
        _arrow_to_python(spark.range(_RECORDS).selectExpr("cast(id as string) AS value"))
        if not jars.missing("broker"):
            with _throw_away_broker() as bootstrap_servers:
                _arrow_to_python(_read_topic(spark, bootstrap_servers))
            trained_on.append("kafka")
    return trained_on


def _arrow_to_python(frame: "DataFrame") -> None:
    def pass_on(parts: Iterator[Any]) -> Iterator[Any]:
        yield from parts

    frame.mapInArrow(pass_on, frame.schema).count()


def _read_topic(spark: "SparkSession", bootstrap_servers: str) -> "DataFrame":
    connection = KafkaConnection(bootstrap_servers)
    with Admin(connection) as admin:
        admin.create_topic(_TOPIC, partitions=2)
    producer = clients.producer(connection.for_librdkafka("producer"))
    for number in range(_RECORDS):
        producer.produce(_TOPIC, key=str(number), value=f'{{"n": {number}}}', partition=number % 2)
    producer.flush(30)
    return topic_frame(spark, connection, _TOPIC).select(
        "key", "value", "timestamp", "partition", "offset"
    )


@contextmanager
def _throw_away_broker() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="playhead-warmup-") as folder:
        Path(folder).chmod(0o755)  # The servers' user must be able to enter it.
        with Sandbox(Path(folder) / "sandbox").running() as endpoints:
            yield endpoints.bootstrap_servers


@contextmanager
def _alone(lock: Path) -> Iterator[bool]:
    """Return whether no other process is making this cache."""
    # Not as a file to empty, which would be replaced where others can write the folder.
    with private_files.opened(lock, "a") as stream:
        yield file_lock.take(stream)


def _step_aside() -> None:
    """Run only when the processor is idle; child processes inherit this."""
    os.nice(19)
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def give_up(*_: object) -> None:
    """End the training, and first of all the JVM, which would write a cache that is not waited for."""
    jvm.kill_all(for_good=True)
    raise PlayheadError(f"it was not finished within {_AT_MOST_S} s")


def main() -> None:
    """Train once; in the background with the lowest priority, silently and in limited time."""
    in_background = "--background" in sys.argv[1:]
    if in_background:
        _step_aside()
        signal.signal(signal.SIGALRM, give_up)
        signal.alarm(_AT_MOST_S)
    began = time.monotonic()
    try:
        cache = train()
    except PlayheadError as exc:
        told = printable(f"could not make the engine's start-up cache: {exc}")
        sys.exit(0 if in_background else told)
    if not in_background and cache is not None:
        with contextlib.suppress(OSError):
            size_mb = cache.file.stat().st_size / 1e6
            took = time.monotonic() - began
            sys.stderr.write(f"made the engine's start-up cache: {size_mb:.0f} MB, {took:.0f} s\n")


if __name__ == "__main__":
    main()

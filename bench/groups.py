"""Resetting a consumer group, beside Kafka's own ConsumerGroupCommand doing the same."""

import os
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer

from bench.measure import Row, Sample, in_turn, run
from playhead.config.kafka_connection import KafkaConnection
from playhead.host import jars
from playhead.host.runtimes import find_java
from playhead.kafka.admin.client import Admin
from playhead.sandbox import Sandbox

_T0_MS = 1_628_080_200_000
_HALF = "2021-08-04T12:34:10.000"
_PARTITIONS, _RECORDS = 4, 500
_MANY = 1_000
_ROUNDS = 7
_THEIRS = "kafka-consumer-groups --reset-offsets, the same"
_COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def rows() -> Iterator[Row]:
    with _servers() as (servers, environment):
        topic = _topic(servers, _PARTITIONS, _RECORDS)
        ours = _Timed(_ours(servers, topic), environment)
        theirs = _Timed(_theirs(servers, topic), environment)
        wall_s, cpu_s, their_wall_s, their_cpu_s = in_turn(
            ours.wall_s, ours.cpu_s, theirs.wall_s, theirs.cpu_s, rounds=_ROUNDS
        )
        work = "groups reset --to-datetime, written and read back"
        yield Row(f"{work}, wall", wall_s, "s", _THEIRS, their_wall_s, at_most=0.25)
        yield Row(f"{work}, processor", cpu_s, "s", _THEIRS, their_cpu_s, at_most=0.2)
        many = _Timed(_ours(servers, _topic(servers, _MANY, 10)), environment)
        (many_s,) = in_turn(many.wall_s, rounds=_ROUNDS)
        yield Row(f"the same of {_MANY:,} partitions", many_s, "s", at_most=3)


class _Timed:
    """A command; what one run of it took by two clocks."""

    def __init__(self, command: Sequence[str], environment: dict[str, str]) -> None:
        self._command, self._environment = command, environment
        self._last: Sample | None = None

    def wall_s(self) -> float:
        self._last = run(self._command, self._environment)
        return self._last.wall_s

    def cpu_s(self) -> float:
        """Of the run that `wall_s` has just made."""
        assert self._last is not None
        return self._last.cpu_s


def _ours(servers: str, topic: str) -> list[str]:
    words = [sys.executable, "-m", "playhead.cli.app", "groups", "reset", f"ours-{topic}"]
    words += ["--create", "--topic", topic, "--to-datetime", _HALF, "--execute"]
    return [*words, "-b", servers]


def _theirs(servers: str, topic: str) -> list[str]:
    """The client's heap as Kafka's script has it; the serial collector is the cheapest for so short a run."""
    class_path = os.pathsep.join(str(jar) for jar in jars.ensure("tools"))
    java = [str(find_java().program), "-Xmx256M", "-XX:+UseSerialGC", "-cp", class_path, _COMMAND]
    words = ["--bootstrap-server", servers, "--reset-offsets", "--group", f"theirs-{topic}"]
    return [*java, *words, "--topic", topic, "--to-datetime", _HALF, "--execute"]


def _topic(servers: str, partitions: int, records: int) -> str:
    name = f"bench-{uuid.uuid4().hex[:8]}"
    connection = KafkaConnection(servers)
    with Admin(connection, timeout_s=60) as admin:
        admin.create_topic(name, partitions=partitions)
    producer = Producer(connection.for_librdkafka("producer") | {"log_level": 0})
    for number in range(records):
        for partition in range(partitions):
            at_ms = _T0_MS + 1000 * number
            producer.produce(name, b"%d" % number, partition=partition, timestamp=at_ms)
        producer.poll(0)
    if producer.flush(60):
        raise RuntimeError(f"{name} could not be filled")
    return name


@contextmanager
def _servers() -> Iterator[tuple[str, dict[str, str]]]:
    """A broker, and an environment of the bench's own, with bytecode kept as an installation keeps it."""
    with tempfile.TemporaryDirectory(prefix="playhead-bench-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        own = {"XDG_STATE_HOME": f"{name}/state", "PYTHONPYCACHEPREFIX": f"{name}/bytecode"}
        with Sandbox(Path(name) / "box").running() as endpoints:
            yield endpoints.bootstrap_servers, kept | own

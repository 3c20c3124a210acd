"""The promise of the everyday commands: `topics list` costs a fraction of what Kafka's own tool costs."""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Row, in_turn, run
from playhead.config.context import configure
from playhead.config.guards import Guard
from playhead.config.kafka_connection import KafkaConnection
from playhead.host import jars
from playhead.host.runtimes import find_java
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.topics import NewShape, create
from playhead.sandbox import Sandbox

_TOPICS = 20
_ROUNDS = 7
_MOST_WALL, _MOST_CPU = 0.25, 0.2
# What kafka-run-class.sh starts its tools with.
_JAVA = ["-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]


def rows() -> Iterator[Row]:
    """Wall and processor time of both, in turn on one sandbox, both told to list the same topics."""
    with tempfile.TemporaryDirectory(prefix="playhead-bench-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        with Sandbox(Path(name) / "box").running() as endpoints:
            servers = endpoints.bootstrap_servers
            with Admin(KafkaConnection(servers)) as admin:
                guard = Guard(configure({}))
                wanted = [f"bench-{number:03}" for number in range(_TOPICS)]
                for topic in wanted:
                    create(admin, NewShape(topic), guard)
            yield from _measured(servers, wanted)


def _measured(servers: str, wanted: list[str]) -> Iterator[Row]:
    ours = _Timed(
        [sys.executable, "-m", "playhead.cli.app", "topics", "list", "-b", servers], wanted
    )
    theirs = _Timed(_kafka_topics(servers), wanted)
    wall, wall_theirs, cpu, cpu_theirs = in_turn(
        ours.wall_s, theirs.wall_s, ours.cpu_s, theirs.cpu_s, rounds=_ROUNDS
    )
    baseline = "kafka-topics --list, started as Kafka's script starts it, on our Java"
    yield Row("topics list, wall", wall, "s", baseline, wall_theirs, at_most=_MOST_WALL)
    yield Row("topics list, processor", cpu, "s", baseline, cpu_theirs, at_most=_MOST_CPU)


def _kafka_topics(servers: str) -> list[str]:
    class_path = os.pathsep.join(str(jar) for jar in jars.ensure("tools"))
    command = [str(find_java().program), *_JAVA, "-cp", class_path]
    return [
        *command,
        "org.apache.kafka.tools.TopicCommand",
        "--bootstrap-server",
        servers,
        "--list",
    ]


class _Timed:
    """A command that names these topics; remembers what its last run cost."""

    def __init__(self, command: list[str], wanted: list[str]) -> None:
        self._command, self._wanted = command, wanted
        self._cpu_s = 0.0

    def wall_s(self) -> float:
        done = run(self._command)
        missing = [topic for topic in self._wanted if topic not in done.said]
        if missing:
            raise RuntimeError(f"not listed: {missing}")
        self._cpu_s = done.cpu_s
        return done.wall_s

    def cpu_s(self) -> float:
        """Of the run that `wall_s` has just made."""
        return self._cpu_s

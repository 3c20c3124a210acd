"""What the replay suite stands on: a broker and a database of its own, loaded; fresh targets for each round."""

import json
import os
import shutil
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from psycopg import sql

from bench import load
from bench.replay_watch import Cost
from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.read.source import KafkaSource
from playhead.sandbox import Sandbox

TOPIC = "bench"
_CHANGED_WITHIN_S = 30


@dataclass(frozen=True)
class Figures:
    """One run: `run_s` is the copying alone, by the program's own account; the rest is of all of it."""

    records: int
    run_s: float
    wall_s: float
    cpu_s: float = 0.0
    servers_cpu_s: float = 0.0
    peak_mb: float = 0.0

    @classmethod
    def of(cls, records: int, run_s: float, cost: Cost) -> "Figures":
        used = cost.wall_s, cost.cpu_s, cost.servers_cpu_s, cost.peak_mb
        return cls(records, run_s, *used)

    @property
    def rate(self) -> float:
        return self.records / self.run_s

    def as_json(self) -> dict[str, float]:
        """For the table's columns and for the file of results."""
        per_million = 1e6 / self.records
        return {key: round(value, 3) for key, value in vars(self).items()} | {
            "records_per_second": round(self.rate),
            "cpu_s_per_million": round(self.cpu_s * per_million, 2),
            "servers_cpu_s_per_million": round(self.servers_cpu_s * per_million, 2),
        }


Runs = Callable[[int], Figures]
"""Does the work once; told the number of the round, 0 for the one that is not counted."""


def in_rounds(runs: Mapping[str, Runs], rounds: int) -> list[Figures]:
    """The medians of each, A B A B …, after one round that is not counted."""
    found: list[list[Figures]] = [[] for _ in runs]
    for number in range(rounds + 1):
        for place, (name, one) in enumerate(runs.items()):
            figures = one(number)
            shown = json.dumps(figures.as_json())
            sys.stderr.write(f"  round {number}, {name}: {shown}\n")
            if number:
                found[place].append(figures)
    return [_median(each) for each in found]


def _median(found: list[Figures]) -> Figures:
    return Figures(
        *(statistics.median(getattr(one, each.name) for one in found) for each in fields(Figures))
    )


@dataclass
class Stage:
    """The loaded servers, and the names that one run of the suite uses up."""

    sandbox: Sandbox
    folder: Path
    records: int
    rounds: int
    _loaded: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.endpoints = self.sandbox.endpoints()
        self.bootstrap_servers = self.endpoints.bootstrap_servers
        self.database_url = self.endpoints.database_url

    @property
    def broker_pid(self) -> int:
        pid = self.sandbox.status().broker_pid
        assert pid is not None
        return pid

    @property
    def database_pid(self) -> int:
        pid = self.sandbox.status().database_pid
        assert pid is not None
        return pid

    @property
    def servers(self) -> list[int]:
        return [self.broker_pid, self.database_pid]

    @property
    def rows_file(self) -> Path:
        """The bench topic's rows for COPY, in a folder that the database's own user can read."""
        file = self.folder / "rows.txt"
        if not file.exists():
            load.write_rows(file, self.records)
        return file

    def loaded(self, records: int, topic: str = TOPIC) -> str:
        """A topic that holds so many records; filled when it is asked for first."""
        if self._loaded.get(topic) != records:
            self.fresh_topic(topic)
            began = time.perf_counter()
            load.fill(self.bootstrap_servers, topic, records)
            took_s = time.perf_counter() - began
            sys.stderr.write(f"  loaded {records:,} records into {topic} in {took_s:.0f} s\n")
            self._loaded[topic] = records
        return topic

    def fresh_topic(self, name: str | None = None) -> str:
        topic = name or f"copy-{uuid.uuid4().hex[:8]}"
        client = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        client.create_topics([NewTopic(topic, load.PARTITIONS, 1)])[topic].result(_CHANGED_WITHIN_S)
        deadline = time.monotonic() + _CHANGED_WITHIN_S
        while time.monotonic() < deadline:  # it is made before its partitions can be used
            found = client.list_topics(topic, timeout=10).topics[topic].partitions.values()
            if len(found) == load.PARTITIONS and all(each.leader >= 0 for each in found):
                return topic
            time.sleep(0.05)
        raise RuntimeError(f"{topic} has no leaders after {_CHANGED_WITHIN_S} s")

    def drop_topics(self, *prefixes: str) -> None:
        """So that the disk does not fill and the broker has no more logs than it had."""
        client = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        names = [
            name for name in client.list_topics(timeout=10).topics if name.startswith(prefixes)
        ]
        for name, deleted in client.delete_topics(names).items() if names else ():
            deleted.result(_CHANGED_WITHIN_S)
            self._loaded.pop(name, None)

    def connected(self) -> psycopg.Connection:
        """A session that commits each statement."""
        return psycopg.connect(self.database_url, autocommit=True)

    def fresh_table(self, name: str | None = None) -> str:
        """Empty, with its primary key; a checkpoint first, so that nobody pays for the last round's pages."""
        table = name or f"t_{uuid.uuid4().hex[:8]}"
        with self.connected() as connection:
            connection.execute(sql.SQL(load.TABLE).format(sql.Identifier(table)))
            connection.execute("CHECKPOINT")
        return table

    def fill_table(self, table: str, file: Path) -> None:
        statement = sql.SQL("COPY {} FROM {}").format(sql.Identifier(table), sql.Literal(str(file)))
        with self.connected() as connection:
            connection.execute(statement)

    def rows_in(self, table: str) -> int:
        return int(self.ask(f'SELECT count(*) FROM "{table}"'))  # noqa: S608  our own name

    def untouched_sign(self, table: str) -> object:
        """Changes with any row that is added, changed or deleted."""
        return self.ask(f'SELECT (count(*), max(xmin::text::bigint))::text FROM "{table}"')  # noqa: S608

    def ask(self, query: str) -> Any:
        """The one value that the query finds."""
        with self.connected() as connection:
            row = connection.execute(query).fetchone()
        assert row is not None
        return row[0]

    def drop_table(self, table: str) -> None:
        with self.connected() as connection:
            connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(table)))

    def records_in(self, topic: str) -> int:
        """By its offsets: transaction markers count too."""
        return load.offsets_in(self.bootstrap_servers, topic)

    def committed_in(self, topic: str) -> int:
        """Counted one by one, as a reader of committed records sees them."""
        source = KafkaSource(KafkaConnection(self.bootstrap_servers), (topic,))
        ends = {number: held.high_watermark for (_, number), held in source.bounds().items()}
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": "bench-count",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        consumer.assign([TopicPartition(topic, number, 0) for number in ends])
        count, open_ends = 0, set(ends)
        while open_ends:
            for record in consumer.consume(10_000, 5.0):
                if record.error():  # the end of a partition, or something that the count will show
                    open_ends.discard(record.partition())
                else:
                    count += 1
        consumer.close()
        return count

    def environment(self) -> dict[str, str]:
        """For commands of ours: these servers, a state folder of the suite's own, our own Java."""
        kept = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"}
        state = {"XDG_STATE_HOME": str(self.folder / "state")}
        return kept | self.endpoints.environment() | state


@contextmanager
def stage(records: int, rounds: int) -> Iterator[Stage]:
    """Servers of the suite's own for as long as the block runs."""
    with tempfile.TemporaryDirectory(prefix="playhead-bench-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)  # the servers' user has to enter it
        sandbox = Sandbox(Path(name) / "box")
        with sandbox.running():
            yield Stage(sandbox, Path(name), records, rounds)
        shutil.rmtree(name, ignore_errors=True)

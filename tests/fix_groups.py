"""Consumer groups to work on, and Kafka's own command for them, run from its jars."""

import os
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient
from py4j.java_gateway import JavaGateway

from playhead.config.kafka_connection import KafkaConnection
from playhead.host import jars
from playhead.host.runtimes import find_java, find_spark_home
from playhead.kafka.admin.client import Admin
from playhead.kafka.groups.commit import commit
from playhead.kafka.groups.describe import committed
from playhead.kafka.groups.plan import CommittedOffset
from playhead.sandbox import Endpoints
from playhead.source import TopicPartition
from playhead.testing.fixtures import MakeTopic

T0_MS = 1_628_080_200_000
"""2021-08-04T12:30, the time of the first record; then one a second and partition."""
_WITHIN_S = 60.0

KafkaGroups = Callable[..., str]


@pytest.fixture(scope="session")
def kafka_jvm() -> Iterator[JavaGateway]:
    """A JVM with Kafka's tools, so that a command costs no start of one."""
    (py4j_jar,) = find_spark_home().glob("jars/py4j-*.jar")
    class_path = os.pathsep.join(str(jar) for jar in jars.ensure("tools"))
    gateway = JavaGateway.launch_gateway(
        jarpath=str(py4j_jar),
        classpath=class_path,
        java_path=str(find_java().program),
        javaopts=["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"],
        die_on_exit=True,
        enable_auth=True,
    )
    yield gateway
    process = gateway.java_process
    gateway.shutdown()
    process.stdin.close()
    process.terminate()
    process.wait(_WITHIN_S)


@pytest.fixture
def kafka_groups(kafka_jvm: JavaGateway, sandbox: Endpoints) -> KafkaGroups:
    """Runs Kafka's ConsumerGroupCommand on the run's broker; gives what it printed."""
    java = kafka_jvm.jvm
    command = java.org.apache.kafka.tools.consumer.group.ConsumerGroupCommand

    def run(*words: str) -> str:
        given = ["--bootstrap-server", sandbox.bootstrap_servers, *words]
        arguments = kafka_jvm.new_array(java.String, len(given))
        for place, word in enumerate(given):
            arguments[place] = word
        kept, said = java.System.out, java.java.io.ByteArrayOutputStream()
        java.System.setOut(java.java.io.PrintStream(said, True, "UTF-8"))
        try:
            command.main(arguments)
        finally:
            java.System.setOut(kept)
        text = str(said.toString("UTF-8"))
        assert "Error:" not in text, text
        return text

    return run


def rows_of(table: str) -> list[dict[str, str]]:
    """A table of Kafka's command as dictionaries."""
    lines = [re.split(r"\s+", line.strip()) for line in table.splitlines() if line.strip()]
    start = next(n for n, cells in enumerate(lines) if "TOPIC" in cells or "GROUP" in cells)
    return [dict(zip(lines[start], cells, strict=False)) for cells in lines[start + 1 :]]


@dataclass
class Readers:
    """Groups of the test's own, and the consumers that read for them."""

    connection: KafkaConnection
    _open: list[Consumer] = field(default_factory=list)

    def name(self) -> str:
        return f"group-{os.getpid()}-{uuid.uuid4().hex[:8]}"

    def group(self, offsets: Mapping[TopicPartition, int], name: str | None = None) -> str:
        """A group without members that has committed these."""
        group = name or self.name()
        with Admin(self.connection) as admin:
            commit(admin, group, {place: CommittedOffset(at) for place, at in offsets.items()})
        return group

    def offsets(self, group: str) -> dict[TopicPartition, int]:
        """What it has committed."""
        with Admin(self.connection) as admin:
            return {place: each.offset for place, each in committed(admin, group).items()}

    def reader(self, group: str, *topics: str, **more: object) -> Consumer:
        """Somebody who reads for the group and has been given partitions."""
        consumer = Consumer(
            self.connection.for_librdkafka("consumer")
            | {
                "group.id": group,
                "client.id": "onlooker",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
            | {name.replace("_", "."): value for name, value in more.items()}
        )
        self._open.append(consumer)
        consumer.subscribe(list(topics))
        assert consumer.consume(1, _WITHIN_S), "nobody was given anything"
        return consumer

    def leave(self, consumer: Consumer) -> None:
        self._open.remove(consumer)
        consumer.close()

    def close(self) -> None:
        for consumer in self._open:
            consumer.close()


@pytest.fixture
def readers(kafka: KafkaConnection) -> Iterator[Readers]:
    """Groups and their readers; those still open are closed after the test."""
    found = Readers(kafka)
    yield found
    found.close()


@pytest.fixture
def tape(make_topic: MakeTopic, kafka: KafkaConnection) -> str:
    """Four partitions: 100 records, 100 of which 30 were removed, none, 50 with times back and forth."""
    topic = make_topic(4)
    producer = Producer(kafka.for_librdkafka("producer") | {"log_level": 0})
    for number in range(100):
        for partition in (0, 1):
            producer.produce(topic, b"v", partition=partition, timestamp=T0_MS + 1000 * number)
    for number in range(50):
        at_ms = T0_MS + 1000 * (number if number % 7 else 49 - number)
        producer.produce(topic, b"v", partition=3, timestamp=at_ms)
    assert producer.flush(_WITHIN_S) == 0
    client = AdminClient(kafka.for_librdkafka("client"))
    for future in client.delete_records([ClientPartition(topic, 1, 30)]).values():
        future.result(_WITHIN_S)
    return topic


def write_csv(folder: Path, text: str) -> str:
    file = folder / "offsets.csv"
    file.write_text(text, encoding="utf-8")
    return str(file)

"""Asks and tells a Kafka cluster, with deadlines, and in errors that name the broker."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.admin import clients
from playhead.kafka.admin.errors import Meaning, meaning_of, translated

DEFAULT_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """Who answered."""

    cluster_id: str
    brokers: tuple[str, ...]
    topics: dict[str, int]
    """Topic to its number of partitions; Kafka's own internal topics left out."""


class Admin:
    """One admin client of a cluster; a context manager, so that its threads end."""

    def __init__(
        self, connection: KafkaConnection, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        self._connection = connection
        self._timeout_s = timeout_s
        self._said: list[str] = []
        self._client = clients.admin(
            connection.for_librdkafka("client")
            | {"error_cb": self._hear, "log_level": 0, "client.id": "playhead"}
        )

    def __enter__(self) -> "Admin":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the client's threads go; librdkafka ends them with its last reference."""
        del self._client

    def cluster(self) -> Cluster:
        """Brokers and topics; a broker that does not answer is an error after the deadline."""
        with self.asking("asking for metadata"):
            found = self._client.list_topics(timeout=self._timeout_s)
        return Cluster(
            found.cluster_id or "",
            tuple(f"{b.host}:{b.port}" for b in found.brokers.values()),
            {
                name: len(topic.partitions)
                for name, topic in sorted(found.topics.items())
                if not name.startswith("__")
            },
        )

    def groups(self) -> dict[str, str]:
        """Every consumer group and its state."""
        with self.asking("listing consumer groups"):
            listed = self._client.list_consumer_groups(request_timeout=self._timeout_s)
            found = listed.result(self._timeout_s).valid
        return {group.group_id: group.state.name.lower() for group in found}

    def committed(self, group: str) -> int:
        """How many partitions the group has committed offsets for."""
        with self.asking(f"reading the offsets of group {group}"):
            # Without a coordinator that knows the group, librdkafka ends our process at the next
            # question (its issue 5040); this one is answered with an error.
            known = self._client.describe_consumer_groups([group], request_timeout=self._timeout_s)
            known[group].result(self._timeout_s)
            asked = self._client.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group)], request_timeout=self._timeout_s
            )
            return len(asked[group].result(self._timeout_s).topic_partitions)

    def create_topic(
        self,
        name: str,
        *,
        partitions: int,
        settings: dict[str, str] | None = None,
        replication: int | None = None,
    ) -> bool:
        """Make a topic; False when it was already there."""
        # As many copies as the cluster makes of a topic when nobody says how many.
        copies = {"replication_factor": replication} if replication is not None else {}
        wanted = NewTopic(name, partitions, config=settings or {}, **copies)
        with self.asking(f"creating topic {name}"):
            try:
                made = self._client.create_topics([wanted], request_timeout=self._timeout_s)
                made[name].result(self._timeout_s)
            except KafkaException as exc:
                if exc.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    return False
                raise
            self._await_leaders(name, partitions)
        return True

    def _await_leaders(self, topic: str, partitions: int) -> None:
        """A topic is created before its partitions can be used; return when they can."""
        deadline = time.monotonic() + self._timeout_s
        wanted = [TopicPartition(topic, number) for number in range(partitions)]
        while True:
            try:
                self._offsets(wanted, OffsetSpec.latest())
            except KafkaException as exc:
                error = exc.args[0]
                is_early = (
                    meaning_of(error) in (Meaning.AWAY, Meaning.NOT_READY)
                    or error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
                )
                if not is_early or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        """Earliest and end offset of every partition; the end is the last stable offset."""
        with self.asking(f"asking for the offsets of {topic}"):
            described = self._client.list_topics(topic, timeout=self._timeout_s).topics[topic]
            if described.error is not None:
                raise KafkaException(described.error)
            partitions = [TopicPartition(topic, number) for number in described.partitions]
            earliest = self._offsets(partitions, OffsetSpec.earliest())
            return {
                number: (earliest[number], end)
                for number, end in self._offsets(partitions, OffsetSpec.latest()).items()
            }

    def _offsets(self, partitions: list[TopicPartition], which: OffsetSpec) -> dict[int, int]:
        asked = self._client.list_offsets(
            dict.fromkeys(partitions, which),
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=self._timeout_s,
        )
        found = {p.partition: answer.result(self._timeout_s) for p, answer in asked.items()}
        return {partition: answer.offset for partition, answer in sorted(found.items())}

    def _hear(self, error: Any) -> None:
        """librdkafka tells here why it cannot connect; its calls only say that they timed out."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._said.append(error.str())

    def _why(self, otherwise: str) -> str:
        self._client.poll(0)
        return self._said[0] if self._said else otherwise

    @property
    def timeout_s(self) -> float:
        """How long one question may take."""
        return self._timeout_s

    @contextmanager
    def asking(self, action: str) -> Iterator[AdminClient]:
        """The client, for a question; errors are raised as Playhead's."""
        with translated(action, self._connection.bootstrap_servers, reason=self._why):
            yield self._client

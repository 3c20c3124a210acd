"""Asks every broker for its log directories: the bytes of each replica."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from confluent_kafka import KafkaError

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import PlayheadError
from playhead.kafka.admin.answer_fields import Fields
from playhead.kafka.admin.broker_socket import Wire, array, text
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.errors import Need, needing, refused
from playhead.kafka.admin.offsets import Described

_DESCRIBE_LOG_DIRS, _VERSION = 35, 1  # Every broker since 2.0 has this version.
_LEADER_WITHIN_S = 2.0


@dataclass(frozen=True, slots=True)
class ReplicaSize:
    """The size of one replica of a partition."""

    topic: str
    partition: int
    broker: int
    log_dir: str
    size_bytes: int
    offset_lag: int
    is_future: bool
    """Whether it is a copy that is moving into this directory."""

    def row(self) -> dict[str, object]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "broker": self.broker,
            "log_dir": self.log_dir,
            "bytes": self.size_bytes,
            "offset_lag": self.offset_lag,
            "is_future": self.is_future,
        }


def sizes(
    admin: Admin, connection: KafkaConnection, topics: Sequence[str] | None
) -> list[ReplicaSize]:
    """Return the size of every replica on the cluster's brokers; of all topics if none are named."""
    with admin.asking("asking for the brokers") as client:
        found = client.list_topics(timeout=admin.timeout_s)
    partitions = {
        name: sorted(found.topics[name].partitions) for name in topics or () if name in found.topics
    }
    body = _request(partitions if topics is not None else None)
    held: list[ReplicaSize] = []
    for number, broker in sorted(found.brokers.items()):
        address = f"{broker.host}:{broker.port}"
        with needing(Need("Describe", "cluster")):
            held += _asked(connection, (number, address), body, admin.timeout_s)
    return sorted(held, key=lambda each: (each.topic, each.partition, each.broker, each.log_dir))


def sizes_at_leaders(
    connection: KafkaConnection, topics: Mapping[str, Described]
) -> dict[str, dict[int, int]]:
    """Return the size of each partition at its leader; of none if one leader does not answer."""
    led: dict[tuple[int, str], dict[str, list[int]]] = {}
    for topic, described in topics.items():
        for partition, leader in described.leaders.items():
            led.setdefault(leader, {}).setdefault(topic, []).append(partition)
    found: dict[str, dict[int, int]] = {topic: {} for topic in topics}
    try:
        for leader, partitions in led.items():
            for each in _asked(connection, leader, _request(partitions), _LEADER_WITHIN_S):
                if not each.is_future and each.topic in found:
                    found[each.topic][each.partition] = each.size_bytes
    except PlayheadError:  # Any error: the sizes are not essential.
        return {topic: {} for topic in topics}
    return found


def _asked(
    connection: KafkaConnection, broker: tuple[int, str], body: bytes, timeout_s: float
) -> list[ReplicaSize]:
    number, address = broker
    with closing(Wire(connection, address, timeout_s=timeout_s)) as wire:
        return wire.ask(_DESCRIBE_LOG_DIRS, _VERSION, body, lambda it: [*read_answer(it, number)])


def _request(partitions: dict[str, list[int]] | None) -> bytes:
    """Return the request; a null array asks for all partitions."""
    if partitions is None:
        return struct.pack(">i", -1)
    topics = (
        text(name) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
        for name, numbers in partitions.items()
    )
    return array(list(topics))


def read_answer(fields: Fields, broker: int) -> Iterator[ReplicaSize]:
    """Return the replicas of all directories of a broker."""
    fields.int32()  # The broker's throttle time.
    directories = fields.length()
    if not directories:
        # No directories: version 1 reports missing authorization in this way.
        error = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED)
        raise refused(error, f"asking broker {broker} for its log directories")
    for _ in range(directories):
        code, log_dir = fields.int16(), fields.text()
        if code:
            raise refused(KafkaError(code), f"asking broker {broker} for {log_dir}")
        yield from _replicas(fields, broker, log_dir)


def _replicas(fields: Fields, broker: int, log_dir: str) -> Iterator[ReplicaSize]:
    for _ in range(fields.length()):
        topic = fields.text()
        for _ in range(fields.length()):
            partition, size_bytes, lag = fields.int32(), fields.int64(), fields.int64()
            yield ReplicaSize(topic, partition, broker, log_dir, size_bytes, lag, fields.is_true())

"""Reads Kafka's own topic of groups for what only it knows: the time of the last commit, and
session lengths.

Only the newest records of the group's partition are read, within limits of offsets and time; if they do
not contain a value or may not be read, it is unknown.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from confluent_kafka import KafkaError

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import PlayheadError
from playhead.kafka.admin.answer_fields import BadAnswer, Fields
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.offsets import bounds_of, describe_those
from playhead.kafka.read.consumer import PartitionConsumer
from playhead.source import TopicPartition

TOPIC = "__consumer_offsets"
_NEWEST = 20_000
_PATIENCE_S = 2.0
_COMMIT_KEYS, _GROUP_KEY = (0, 1), 2
_FLEXIBLE_SINCE = 4
_PURPOSE = "reading the groups' own topic"


@dataclass(slots=True)
class GroupLog:
    """What was found about one group; empty if nothing was, with the reason."""

    committed_ms: dict[TopicPartition, int] = field(default_factory=dict)
    session_ms: dict[str, int] = field(default_factory=dict)
    """The session length of each member; only in the classic protocol."""
    reason: str | None = None


def partition_of(group: str, partitions: int) -> int:
    """Return the partition of a group: Java's hash of its name."""
    code = 0
    units = group.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    signed = code - (1 << 32) if code >= 1 << 31 else code
    return 0 if signed == -(1 << 31) else abs(signed) % partitions


def read_log(admin: Admin, connection: KafkaConnection, group: str) -> GroupLog:
    """Return the newest values in the log for the group."""
    found = GroupLog()
    try:
        topic = describe_those(admin, [TOPIC]).get(TOPIC)
        if topic is None:
            return found
        place = (TOPIC, partition_of(group, len(topic.partitions)))
        held = bounds_of(admin, [place])[place]
        start = max(held.earliest, held.stable_end - _NEWEST)
        if start < held.stable_end:
            for key, value, timestamp_ms in _records(connection, place, start, held.stable_end):
                _take(found, group, key, value, timestamp_ms)
    except BadAnswer:
        found.reason = f"{TOPIC} holds records of an unknown form"
    except PlayheadError as exc:
        found.reason = str(exc)
    return found


def _records(
    connection: KafkaConnection, place: TopicPartition, start: int, end: int
) -> Iterator[tuple[bytes | None, bytes | None, int]]:
    until = time.monotonic() + _PATIENCE_S
    with closing(PartitionConsumer(connection, patience_s=_PATIENCE_S)) as consumer:
        consumer.assign({place: start})
        while time.monotonic() < until:
            for each in consumer.poll_or_fail(_PURPOSE):
                if (error := each.error()) is not None:
                    if error.code() in (KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET):
                        return
                    consumer.refuse_permanent(error, _PURPOSE)
                    continue
                yield each.key(), each.value(), each.timestamp()[1]
                if each.offset() >= end - 1:
                    return


def _take(
    found: GroupLog, group: str, key: bytes | None, value: bytes | None, timestamp_ms: int
) -> None:
    if key is None:
        return
    fields = Fields(key)
    kind = fields.int16()
    if kind in _COMMIT_KEYS and fields.text() == group:
        place = (fields.text(), fields.int32())
        if value is None:
            found.committed_ms.pop(place, None)
        else:
            found.committed_ms[place] = timestamp_ms
    elif kind == _GROUP_KEY and fields.text() == group:
        found.session_ms = dict(_sessions(value)) if value is not None else {}


def _sessions(value: bytes) -> Iterator[tuple[str, int]]:
    """Return the members of a classic group's record, with their session lengths."""
    fields = Fields(value)
    version = fields.int16()
    is_compact = version >= _FLEXIBLE_SINCE
    text = fields.compact_text if is_compact else fields.text
    skip = fields.compact_bytes if is_compact else fields.bytes_
    text()  # protocol type
    fields.int32()  # generation
    text()  # protocol
    text()  # leader
    if version >= 2:
        fields.int64()  # The time of the present state.
    for _ in range(fields.count() if is_compact else fields.length()):
        member = text()
        if version >= 3:
            text()  # instance
        text()  # client
        text()  # host
        if version >= 1:
            fields.int32()  # rebalance timeout
        yield member, fields.int32()
        skip()  # subscription
        skip()  # assignment
        if is_compact:
            fields.skip_tags()


def session_of(
    admin: Admin, log: Mapping[str, int], member_id: str, kind: str, coordinator_id: int | None
) -> int | None:
    """Return how long the coordinator waits for a silent member, in ms; None if unknown."""
    if kind != "consumer":
        return log.get(member_id)
    return None if coordinator_id is None else _broker_session_ms(admin, coordinator_id)


def _broker_session_ms(admin: Admin, broker: int) -> int | None:
    """Return the session length of the new protocol, a broker setting for all groups."""
    from confluent_kafka.admin import ConfigResource

    wanted = ConfigResource(ConfigResource.Type.BROKER, str(broker))
    try:
        with admin.asking("asking for the broker's settings") as client:
            asked = client.describe_configs([wanted], request_timeout=admin.timeout_s)
            entry = asked[wanted].result(admin.timeout_s).get("group.consumer.session.timeout.ms")
    except PlayheadError:
        return None
    return int(entry.value) if entry is not None and entry.value else None

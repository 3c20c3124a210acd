"""Reads Kafka's own topic of groups for what only it knows: the time of the last commit, and
session lengths.

Only the newest records of the group's partition are read, within limits of offsets and time; if they do
not contain a value or may not be read, it is unknown.
"""

import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from confluent_kafka import KafkaError

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import PlayheadError
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
    except PlayheadError as exc:
        found.reason = str(exc)
    except (struct.error, IndexError, UnicodeDecodeError):
        found.reason = f"{TOPIC} holds records of an unknown form"
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
    reading = _Reading(key)
    kind = reading.number(">h")
    if kind in _COMMIT_KEYS and reading.text() == group:
        place = (reading.text() or "", reading.number(">i"))
        if value is None:
            found.committed_ms.pop(place, None)
        else:
            found.committed_ms[place] = timestamp_ms
    elif kind == _GROUP_KEY and reading.text() == group:
        found.session_ms = dict(_sessions(value)) if value is not None else {}


def _sessions(value: bytes) -> Iterator[tuple[str, int]]:
    """Return the members of a classic group's record, with their session lengths."""
    reading = _Reading(value)
    version = reading.number(">h")
    reading.is_compact = version >= _FLEXIBLE_SINCE
    reading.text()  # protocol type
    reading.number(">i")  # generation
    reading.text()  # protocol
    reading.text()  # leader
    if version >= 2:
        reading.number(">q")  # The time of the present state.
    for _ in range(reading.count()):
        member = reading.text() or ""
        if version >= 3:
            reading.text()  # instance
        reading.text()  # client
        reading.text()  # host
        if version >= 1:
            reading.number(">i")  # rebalance timeout
        yield member, reading.number(">i")
        reading.skip()  # subscription
        reading.skip()  # assignment
        reading.skip_tags()


class _Reading:
    """Decodes Kafka's fields from left to right."""

    def __init__(self, held: bytes) -> None:
        self._held, self._at = held, 0
        self.is_compact = False

    def number(self, form: str) -> int:
        (found,) = struct.unpack_from(form, self._held, self._at)
        self._at += struct.calcsize(form)
        return int(found)

    def text(self) -> str | None:
        length = self._varint() - 1 if self.is_compact else self.number(">h")
        found = self._bytes(length)
        return None if found is None else found.decode()

    def count(self) -> int:
        return self._varint() - 1 if self.is_compact else self.number(">i")

    def skip(self) -> None:
        self._bytes(self.count())

    def skip_tags(self) -> None:
        if self.is_compact:
            for _ in range(self._varint()):
                self._varint()
                self._bytes(self._varint())

    def _bytes(self, length: int) -> bytes | None:
        if length < 0:
            return None
        if self._at + length > len(self._held):
            raise IndexError("a record ends early")
        self._at += length
        return self._held[self._at - length : self._at]

    def _varint(self) -> int:
        found = shift = 0
        while True:
            byte = self._held[self._at]
            self._at += 1
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found
            shift += 7


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

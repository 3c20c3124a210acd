"""Asks for the epochs of partitions' leaders, and where the records of an epoch end in the log of now.

After a leader without the last records was elected (an unclean election), or a disk was restored, other
records are at offsets that were read before. Each election raises the epoch, so that these have a later one. In a
cluster that was restored from a copy, the epoch is an earlier one again.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import PlayheadError
from playhead.kafka.admin.answer_fields import Fields
from playhead.kafka.admin.broker_socket import Wire
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.leader_requests import by_leader, of_those, topics_body
from playhead.kafka.admin.offsets import ask, describe_those
from playhead.source import TopicPartition

_OFFSET_FOR_LEADER_EPOCH, _VERSION = 23, 4  # understood by every broker since 2.8
_WITHIN_S = 3.0
_NO_REPLICA = struct.pack(">i", -1)
_ANY_EPOCH = -1


def leader_epochs(admin: Admin, places: Sequence[TopicPartition]) -> dict[str, dict[int, int]]:
    """Return by topic the present epoch of each partition's leader, if its broker tells."""
    found = ask(admin, places, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)
    epochs: dict[str, dict[int, int]] = {topic: {} for topic, _ in places}
    for (topic, number), answer in found.items():
        if answer.leader_epoch is not None and answer.leader_epoch >= 0:
            epochs[topic][number] = answer.leader_epoch
    return epochs


def ends_of_epochs(
    admin: Admin, connection: KafkaConnection, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return where the records up to each epoch end; nothing for a partition whose leader does not tell.

    If the leader's present epoch is an earlier one, nothing tells which records are those of before: the end is 0.
    """
    ends: dict[TopicPartition, int] = {}
    if not epochs:
        return ends
    described = describe_those(admin, sorted({topic for topic, _ in epochs}))
    led = by_leader(described, [*epochs])
    for leader, places in led.items():
        body = request_of({place: epochs[place] for place in places})
        # Some logins work only in the client that reads.
        with (
            suppress(PlayheadError),
            closing(Wire(connection, leader, timeout_s=_WITHIN_S)) as wire,
        ):
            answers = wire.ask(
                _OFFSET_FOR_LEADER_EPOCH,
                _VERSION,
                body,
                lambda it: of_those(epochs, read_answer(it)),
            )
            ends.update((place, end) for place, end in answers if end >= 0)
    left = [place for places in led.values() for place in places if place not in ends]
    if left:
        with suppress(PlayheadError):
            now = leader_epochs(admin, left)
            earlier = (it for it in left if now[it[0]].get(it[1], epochs[it]) < epochs[it])
            ends.update(dict.fromkeys(earlier, 0))
    return ends


def request_of(epochs: Mapping[TopicPartition, int]) -> bytes:
    """Return the body of a request for the ends of epochs."""
    parts = {
        (topic, number): struct.pack(">iii", number, _ANY_EPOCH, epoch) + b"\0"
        for (topic, number), epoch in epochs.items()
    }
    return topics_body(parts, _NO_REPLICA)


def read_answer(fields: Fields) -> Iterator[tuple[TopicPartition, int]]:
    """Return the end of each partition's epoch, -1 if the log does not know the epoch, or the broker does not tell."""
    fields.skip_tags()
    fields.int32()  # for how long the broker holds us back
    for _ in range(fields.count()):
        topic = fields.compact_text()
        for _ in range(fields.count()):
            code, number, _epoch, end = (
                fields.int16(),
                fields.int32(),
                fields.int32(),
                fields.int64(),
            )
            fields.skip_tags()
            # A partition whose leader has changed must not hide the answers about others.
            yield (topic, number), -1 if code else end
        fields.skip_tags()

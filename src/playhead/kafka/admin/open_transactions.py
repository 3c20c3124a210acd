"""Asks the leaders of partitions which producers have a transaction open there, and since which offset."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing

from confluent_kafka import KafkaError

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import PlayheadError
from playhead.kafka.admin.answer_fields import BadAnswer, Fields
from playhead.kafka.admin.broker_socket import Wire
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.errors import refused
from playhead.kafka.admin.leader_requests import by_leader, of_those, topics_body
from playhead.kafka.admin.offsets import describe_those, stable_ends
from playhead.source import Bounds, TopicPartition

_DESCRIBE_PRODUCERS, _VERSION = 61, 0  # understood by every broker since 2.8
_WITHIN_S = 3.0


def open_transactions(
    admin: Admin, connection: KafkaConnection, bounds: Mapping[TopicPartition, Bounds]
) -> set[TopicPartition]:
    """Those of the partitions in which a transaction is open that began before their end of then.

    Where the leaders cannot be asked, another look at the stable ends tells less: one that still stands
    before that end is held back by some transaction.
    """
    if not bounds:
        return set()
    described = describe_those(admin, sorted({topic for topic, _ in bounds}))
    try:
        first = {
            place: start
            for leader, places in by_leader(described, [*bounds]).items()
            for place, start in _first_open(connection, leader, places)
        }
    except PlayheadError:
        stable = stable_ends(admin, [*bounds])
        return {place for place, held in bounds.items() if stable[place] < held.high_watermark}
    return {place for place, start in first.items() if start < bounds[place].high_watermark}


def _first_open(
    connection: KafkaConnection, address: str, places: Sequence[TopicPartition]
) -> Iterator[tuple[TopicPartition, int]]:
    """Of each partition with an open transaction the offset at which the first of them began."""
    with closing(Wire(connection, address, timeout_s=_WITHIN_S)) as wire:
        found = wire.ask(
            _DESCRIBE_PRODUCERS,
            _VERSION,
            request_of(places),
            lambda it: of_those(places, read_answer(it)),
        )
    if unsaid := {*places} - {place for place, _ in found}:
        raise BadAnswer(f"it says nothing of {len(unsaid):,} of {len(places):,} partitions")
    for place, starts in found:
        if starts:
            yield place, min(starts)


def request_of(places: Sequence[TopicPartition]) -> bytes:
    """The body of a request for producers."""
    return topics_body({place: struct.pack(">i", place[1]) for place in places})


def read_answer(fields: Fields) -> Iterator[tuple[TopicPartition, list[int]]]:
    """Of each partition where its open transactions began."""
    fields.skip_tags()
    fields.int32()  # for how long the broker holds us back
    for _ in range(fields.count()):
        topic = fields.compact_text()
        for _ in range(fields.count()):
            number, code, _said = fields.int32(), fields.int16(), fields.compact_text()
            starts = [_start(fields) for _ in range(fields.count())]
            fields.skip_tags()
            if code:
                raise refused(KafkaError(code), f"asking for the producers of {topic}:{number}")
            yield (topic, number), [start for start in starts if start >= 0]
        fields.skip_tags()


def _start(fields: Fields) -> int:
    """Of one producer where its transaction began; -1 when it has none open."""
    fields.int64()  # its id
    fields.int32()  # its epoch
    fields.int32()  # its last sequence number
    fields.int64()  # the time of its last record
    fields.int32()  # the epoch of its coordinator
    start = fields.int64()
    fields.skip_tags()
    return start

"""Deletes committed offsets with a request that librdkafka's Python client lacks."""

import struct
from collections.abc import Sequence
from contextlib import closing

from confluent_kafka import KafkaError, KafkaException

from playhead.config.kafka_connection import KafkaConnection
from playhead.host.clock import wait_until
from playhead.kafka.admin.answer_fields import Fields
from playhead.kafka.admin.broker_socket import Wire, array, text
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.errors import Meaning, meaning_of
from playhead.kafka.groups.describe import described
from playhead.source import TopicPartition

_OFFSET_DELETE, _VERSION = 47, 0  # Every broker since 2.4 has this request.
_AGAIN_AFTER_S = 0.1


def forget(
    admin: Admin, connection: KafkaConnection, group: str, places: Sequence[TopicPartition]
) -> dict[TopicPartition, KafkaError]:
    """Delete the group's committed offsets for these partitions; return those that were refused."""
    request = _request(group, places)

    def ask() -> tuple[int, dict[TopicPartition, int]] | None:
        coordinator = described(admin, [group])[group].coordinator
        if coordinator is None:
            return None
        with closing(Wire(connection, coordinator, timeout_s=admin.timeout_s)) as wire:
            code, codes = wire.ask(_OFFSET_DELETE, _VERSION, request, read_answer)
        # The group may move to another coordinator between the two requests.
        return None if meaning_of(KafkaError(code)) is Meaning.NOT_READY else (code, codes)

    answer = wait_until(ask, deadline_s=admin.timeout_s, every_s=_AGAIN_AFTER_S)
    if answer is None:
        raise KafkaException(KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE))
    of_all, codes = answer
    if of_all:
        codes = dict.fromkeys(places, of_all)
    return {place: KafkaError(code) for place, code in codes.items() if code}


def _request(group: str, places: Sequence[TopicPartition]) -> bytes:
    topics = {topic: [number for name, number in places if name == topic] for topic, _ in places}
    named = (
        text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
        for topic, numbers in topics.items()
    )
    return text(group) + array(list(named))


def read_answer(fields: Fields) -> tuple[int, dict[TopicPartition, int]]:
    """Return the error of the whole request, and that of each partition."""
    code = fields.int16()
    fields.int32()  # The throttle time.
    codes: dict[TopicPartition, int] = {}
    for _ in range(fields.length()):
        topic = fields.text()
        for _ in range(fields.length()):
            number = fields.int32()
            codes[topic, number] = fields.int16()
    return code, codes

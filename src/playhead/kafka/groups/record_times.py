"""Looks up record times at or before offsets, in many partitions at once."""

from collections.abc import Callable, Mapping
from contextlib import closing

from confluent_kafka import KafkaError, Message

from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.groups.plan import AffectedOffsets
from playhead.kafka.read.consumer import PartitionConsumer
from playhead.source import TopicPartition

_PURPOSE = "looking up the times of records"
_TUNING = {
    # One record of each partition is enough.
    "max.partition.fetch.bytes": 1 << 14,
    "fetch.max.bytes": 8 << 20,
    "message.max.bytes": 8 << 20,
    "queued.max.messages.kbytes": 16 << 10,
}
# How many offsets before an end are searched for a record: the last ones may be markers.
_BACK = 16

Times = tuple[int | None, int | None]


def times_of(
    connection: KafkaConnection,
    reaches: Mapping[TopicPartition, AffectedOffsets],
    *,
    patience_s: float,
) -> dict[TopicPartition, Times]:
    """Return for each range of offsets the times of its first and last record; None without one."""
    if not reaches:
        return {}
    with closing(PartitionConsumer(connection, patience_s=patience_s, tuning=_TUNING)) as consumer:
        firsts = _first_times(consumer, reaches)
        tails = {
            place: AffectedOffsets(max(reach.first, reach.end - _BACK), reach.end)
            for place, reach in reaches.items()
            if firsts.get(place) is not None
        }
        lasts = _last_times(consumer, tails)
    return {place: (firsts.get(place), lasts.get(place)) for place in reaches}


def first_times(
    connection: KafkaConnection,
    reaches: Mapping[TopicPartition, AffectedOffsets],
    *,
    patience_s: float,
) -> dict[TopicPartition, int]:
    """Return for each range the time of its first record, if there is one."""
    if not reaches:
        return {}
    with closing(PartitionConsumer(connection, patience_s=patience_s, tuning=_TUNING)) as consumer:
        return _first_times(consumer, reaches)


def _first_times(
    consumer: PartitionConsumer, reaches: Mapping[TopicPartition, AffectedOffsets]
) -> dict[TopicPartition, int]:
    return _times(consumer, reaches, lambda _place, _each: True)


def _last_times(
    consumer: PartitionConsumer, reaches: Mapping[TopicPartition, AffectedOffsets]
) -> dict[TopicPartition, int]:
    return _times(
        consumer, reaches, lambda place, each: bool(each.offset() >= reaches[place].end - 1)
    )


def _times(
    consumer: PartitionConsumer,
    reaches: Mapping[TopicPartition, AffectedOffsets],
    is_enough: Callable[[TopicPartition, Message], bool],
) -> dict[TopicPartition, int]:
    """Return the time of the last record of each partition that was read until it was enough."""
    found: dict[TopicPartition, int] = {}

    def take(place: TopicPartition, each: Message) -> bool:
        if each.offset() < reaches[place].end:
            found[place] = each.timestamp()[1]
        return is_enough(place, each)

    pending = set(reaches)
    consumer.assign({place: reach.first for place, reach in reaches.items()})
    while pending:
        settled = []
        for each in consumer.poll_or_fail(_PURPOSE):
            place = (each.topic(), each.partition())
            if place in pending and _is_settled(consumer, each, place, take):
                pending.discard(place)
                settled.append(place)
        if settled and pending:
            consumer.unassign(settled)
    return found


def _is_settled(
    consumer: PartitionConsumer,
    each: Message,
    place: TopicPartition,
    take: Callable[[TopicPartition, Message], bool],
) -> bool:
    error = each.error()
    if error is None:
        return take(place, each)
    # At the end, or the records were deleted meanwhile: there is no time.
    if error.code() in (KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET):
        return True
    consumer.refuse_permanent(error, _PURPOSE)
    return False

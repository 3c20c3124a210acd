"""Finds the first record that is not before a time, which Kafka's own time index does not always
do.

Kafka answers with the first entry of the log, which may be a transaction marker with the time of the
transaction's end. If records are older than that, as in a restored topic, every time between leads to
the first marker. Therefore the lookup reads on from there.
"""

from collections.abc import Mapping
from contextlib import closing

from confluent_kafka import KafkaError, Message

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import Unavailable
from playhead.kafka.read.consumer import PartitionConsumer
from playhead.source import TopicPartition

_PURPOSE = "looking up a time"
# After a reported end, only markers and aborted records follow. If that were wrong, a plan would
# lack records: it is accepted when two clients report the end after the same record.
_MOST_LOOKS = 6
_TUNING = {
    # Usually one record of each partition is enough.
    "max.partition.fetch.bytes": 1 << 20,
    "fetch.max.bytes": 8 << 20,
    "queued.max.messages.kbytes": 16 << 10,
}


class LogMoved(Unavailable):
    """The first record was deleted while it was looked up."""

    def __init__(self, topic: str, partition: int) -> None:
        self.topic, self.partition = topic, partition
        super().__init__(
            f"{topic}:{partition} lost its oldest records while a time was looked up in it",
            hint="run the command again",
        )


def first_records_at(
    connection: KafkaConnection,
    found: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    *,
    instant_ms: int,
    patience_s: float,
) -> dict[TopicPartition, int]:
    """Return, from each offset on, that of the first record not before the time, or else the end.

    No record before the offset `found` may be at or after the time.
    """
    answers, doubted = dict(ends), dict[TopicPartition, int]()
    pending = {place: at for place, at in found.items() if at < ends[place]}
    for _ in range(_MOST_LOOKS):
        if pending:
            search = _searched(connection, pending, ends, instant_ms, patience_s)
            answers |= search.answers
            again = {it: at for it, at in search.ended.items() if doubted.get(it) != at}
            pending = search.cut | again
            doubted |= search.ended
    # Starting there reads too many records, but misses none.
    return answers | pending


def _searched(
    connection: KafkaConnection,
    pending: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    instant_ms: int,
    patience_s: float,
) -> "_Search":
    with closing(PartitionConsumer(connection, patience_s=patience_s, tuning=_TUNING)) as consumer:
        search = _Search(consumer, ends, pending, instant_ms)
        consumer.assign(pending)
        while search.pending:
            search.look_at(consumer.poll_or_fail(_PURPOSE))
    return search


class _Search:
    def __init__(
        self,
        consumer: PartitionConsumer,
        ends: Mapping[TopicPartition, int],
        starts: Mapping[TopicPartition, int],
        instant_ms: int,
    ) -> None:
        self._consumer, self._ends, self._instant_ms = consumer, ends, instant_ms
        self._seen = dict(starts)
        self.pending = set(starts)
        self.answers: dict[TopicPartition, int] = {}
        self.ended: dict[TopicPartition, int] = {}
        """The partitions whose end was reported, with the end of their records so far."""
        self.cut: dict[TopicPartition, int] = {}
        """The same for partitions whose end was reported too early."""

    def look_at(self, arrived: list[Message]) -> None:
        settled = []
        for each in arrived:
            place = (each.topic(), each.partition())
            if place in self.pending and (answer := self._answer(each, place)) is not None:
                self.answers[place] = answer
                self.pending.remove(place)
                settled.append(place)
        if settled and self.pending:
            self._consumer.unassign(settled)

    def _answer(self, each: Message, place: TopicPartition) -> int | None:
        error, end = each.error(), self._ends[place]
        if error is None:
            offset: int = each.offset()
            self._seen[place] = offset + 1
            is_it = offset >= end or each.timestamp()[1] >= self._instant_ms
            return min(offset, end) if is_it else None
        if error.code() == KafkaError._PARTITION_EOF:
            told = self.ended if each.offset() >= end else self.cut
            told[place] = self._seen[place]
            return end
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            raise LogMoved(*place)
        self._consumer.refuse_permanent(error, _PURPOSE)
        return None

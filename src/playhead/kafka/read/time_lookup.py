"""Finds the first record that is not before an instant, which Kafka's own index of times does not always do.

Kafka answers with the first entry of the log, and a transaction's marker is one: it carries the time
at which the transaction ended. Where records are older than that, as in a topic that was restored,
every instant between leads to the first marker. So what stands there is looked at, and read on from.
"""

from collections.abc import Mapping
from contextlib import closing

from confluent_kafka import KafkaError, Message

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import Unavailable
from playhead.kafka.read.consumer import PartitionConsumer
from playhead.source import TopicPartition

_PURPOSE = "looking up a time"
# Where an end is told, markers and aborted records are all that is left. Were that not so, records would
# be left out of a plan: it is believed when two clients are told so behind the same record.
_MOST_LOOKS = 6
_TUNING = {
    # Mostly one record of each partition is all that is looked at.
    "max.partition.fetch.bytes": 1 << 20,
    "fetch.max.bytes": 8 << 20,
    "queued.max.messages.kbytes": 16 << 10,
}


class LogMoved(Unavailable):
    """The first record was removed while it was looked for."""

    def __init__(self, topic: str, partition: int) -> None:
        self.topic, self.partition = topic, partition
        super().__init__(
            f"{topic}:{partition} lost its oldest records while a time was looked up in it",
            hint="ask again",
        )


def first_records_at(
    connection: KafkaConnection,
    found: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    *,
    instant_ms: int,
    patience_s: float,
) -> dict[TopicPartition, int]:
    """From each offset on, that of the first record not before the instant, or else the end.

    No record before the offset `found` may be at or after the instant.
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
    # To begin there reads some records too many, and leaves none out.
    return answers | pending


def _searched(
    connection: KafkaConnection,
    pending: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    instant_ms: int,
    patience_s: float,
) -> "_Search":
    with closing(PartitionConsumer(connection, patience_s=patience_s, tuning=_TUNING)) as intake:
        search = _Search(intake, ends, pending, instant_ms)
        intake.stand(pending)
        while search.pending:
            search.look_at(intake.wait(_PURPOSE))
    return search


class _Search:
    def __init__(
        self,
        intake: PartitionConsumer,
        ends: Mapping[TopicPartition, int],
        starts: Mapping[TopicPartition, int],
        instant_ms: int,
    ) -> None:
        self._intake, self._ends, self._instant_ms = intake, ends, instant_ms
        self._seen = dict(starts)
        self.pending = set(starts)
        self.answers: dict[TopicPartition, int] = {}
        self.ended: dict[TopicPartition, int] = {}
        """Of those whose end was told: up to where there had been records."""
        self.cut: dict[TopicPartition, int] = {}
        """The same of those that were told an end where there is none."""

    def look_at(self, arrived: list[Message]) -> None:
        settled = []
        for each in arrived:
            place = (each.topic(), each.partition())
            if place in self.pending and (answer := self._answer(each, place)) is not None:
                self.answers[place] = answer
                self.pending.remove(place)
                settled.append(place)
        if settled and self.pending:
            self._intake.leave(settled)

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
        self._intake.judge(error, _PURPOSE)
        return None

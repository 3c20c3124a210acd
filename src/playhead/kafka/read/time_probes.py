"""Returns the times of records in many short probes of a log, in all partitions at the same time."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing

from confluent_kafka import KafkaError, Message

from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.read.consumer import PartitionConsumer
from playhead.kafka.read.time_lookup import LogMoved
from playhead.record import Slice
from playhead.source import TopicPartition
from playhead.time_span_tail import Times, side_by_side

_PURPOSE = "looking at the times of records"
_CONSUMERS, _MOST_PARTITIONS = 4, 50
_TUNING = {
    # A probe is a few hundred records; what is fetched beyond it is thrown away.
    "max.partition.fetch.bytes": 1 << 16,
    "fetch.max.bytes": 8 << 20,
    "message.max.bytes": 8 << 20,
    "queued.min.messages": 2_000,
    "queued.max.messages.kbytes": 16 << 10,
}
Wave = Mapping[TopicPartition, Slice]
"""One probe for each of some partitions."""


def glance(
    connection: KafkaConnection,
    probes: Sequence[Slice],
    *,
    within_s: float,
    most_bytes: int,
    patience_s: float,
) -> list[tuple[Slice, Times]]:
    """See `playhead.time_span_tail.Glancing`; a probe that ends early is returned as far as it was read."""
    waves = list(_waves(probes))
    until = time.monotonic() + within_s
    found: list[tuple[Slice, Times]] = []

    def work(lot: Sequence[Wave]) -> None:
        with closing(
            PartitionConsumer(connection, patience_s=patience_s, tuning=_TUNING)
        ) as consumer:
            for number, wave in enumerate(lot):
                if number == 0 or time.monotonic() < until:
                    found.extend(_Look(consumer, wave, most_bytes).run())

    lots = [waves[index::_CONSUMERS] for index in range(min(_CONSUMERS, len(waves)))]
    side_by_side(work, lots)
    return found


def _waves(probes: Sequence[Slice]) -> Iterator[Wave]:
    """Yield the first probe of every partition, then the second, and so on."""
    left: dict[TopicPartition, list[Slice]] = {}
    for each in probes:
        left.setdefault((each.topic, each.partition), []).append(each)
    for number in range(max(map(len, left.values()), default=0)):
        wave = [(place, each[number]) for place, each in left.items() if number < len(each)]
        for start in range(0, len(wave), _MOST_PARTITIONS):
            yield dict(wave[start : start + _MOST_PARTITIONS])


class _Look:
    """One probe for each partition, until each was read to its end."""

    def __init__(self, consumer: PartitionConsumer, wave: Wave, most_bytes: int) -> None:
        self._consumer, self._wave, self._most_bytes = consumer, wave, most_bytes
        self._pending = set(wave)
        self._times = {place: Times([], [], []) for place in wave}
        self._ends = {place: probe.from_offset for place, probe in wave.items()}
        self._sizes = dict.fromkeys(wave, 0)

    def run(self) -> Iterator[tuple[Slice, Times]]:
        self._consumer.assign({place: each.from_offset for place, each in self._wave.items()})
        while self._pending:
            settled = []
            for each in self._consumer.poll_or_fail(_PURPOSE):
                place = (each.topic(), each.partition())
                if place in self._pending and self._is_last(each, place):
                    self._pending.discard(place)
                    settled.append(place)
            if settled and self._pending:
                self._consumer.unassign(settled)
        for place, probe in self._wave.items():
            if self._ends[place] > probe.from_offset:
                seen = Slice(*place, probe.from_offset, self._ends[place])
                yield seen, self._times[place]

    def _is_last(self, each: Message, place: TopicPartition) -> bool:
        error, probe = each.error(), self._wave[place]
        if error is not None:
            if error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise LogMoved(*place)
            if error.code() != KafkaError._PARTITION_EOF:
                self._consumer.refuse_permanent(error, _PURPOSE)
                return False
            # The part without a record until then does not count as read.
            return bool(each.offset() >= probe.from_offset)
        offset: int = each.offset()
        if offset < self._ends[place]:
            return False  # A message of an earlier probe.
        if offset >= probe.to_offset:
            self._ends[place] = probe.to_offset
            return True
        kind, instant = each.timestamp()
        times = self._times[place]
        times.offsets.append(offset)
        times.timestamps_ms.append(instant)
        # The client's ids of timestamp types are Kafka's plus one.
        times.timestamp_types.append(kind - 1)
        self._ends[place] = offset + 1
        self._sizes[place] += len(each.value() or b"") + len(each.key() or b"")
        return offset + 1 == probe.to_offset or self._sizes[place] > self._most_bytes

"""Chooses the target topic and partition of each record, and its form."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from playhead.account import Account
from playhead.kafka.write.dead_letter_headers import (
    Origin,
    may_return_to,
    origin_of,
    without_errors,
)
from playhead.kafka.write.headers import HeaderRules, provenance, unsendable
from playhead.kafka.write.partitioner import KeyPartitioner
from playhead.kafka.write.target_topics import TargetTopic
from playhead.kafka.write.transactions import RecordColumns
from playhead.record import Headers
from playhead.records import Records

PartitionRule = Literal["auto", "keep", "key", "any"]
Refusal = tuple[str, str]
"""The kind and the reason of a refusal."""
# librdkafka takes 0 for now, and has no other way to write 0.
_NO_ZERO = "its timestamp is 0 (1970-01-01), which the Kafka client cannot send"


class Route(Protocol):
    """Routes the records of one source partition."""

    def wrong(self, records: Records) -> Iterator[tuple[int, Refusal]]:
        """Return the indexes of records that have no target."""
        ...

    def ways(self, records: Records) -> Iterator[RecordColumns]:
        """Return the records as they are sent, by target partition."""
        ...


@dataclass(frozen=True, slots=True)
class TargetShape:
    """The form of a copy beside its key and value."""

    rules: HeaderRules
    provenance: bool
    replay_id: str

    def headers(self, records: Records, held: Sequence[Headers]) -> Sequence[Headers]:
        """Return the headers of each record's copy."""
        if not self.rules.is_identity:
            held = [self.rules.apply(each) for each in held]
        if self.provenance:
            place = records.topic, records.partition
            held = [
                each + provenance(*place, offset, self.replay_id)
                for each, offset in zip(held, records.offsets, strict=True)
            ]
        return held


@dataclass(frozen=True, slots=True)
class CopyRoute:
    """Routes into one topic: by partition number, by key, or in turn."""

    topic: TargetTopic
    keeps: bool
    shape: TargetShape
    is_any: bool = False
    """Choose the partition by the offset, so that a comparison finds each record."""
    _by_key: KeyPartitioner = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_key", KeyPartitioner(self.topic.partitions))

    def wrong(self, records: Records) -> Iterator[tuple[int, Refusal]]:
        if self.keeps and records.partition >= self.topic.partitions:
            reason = f"topic {self.topic.name} has no partition {records.partition}"
            yield from ((index, ("partition", reason)) for index in range(len(records)))

    def ways(self, records: Records) -> Iterator[RecordColumns]:
        headers = self.shape.headers(records, records.headers)
        if self.keeps:
            yield _columns((self.topic.name, records.partition), records, headers)
            return
        for partition, indexes in sorted(self._partitioned(records).items()):
            picked = records.pick(indexes)
            place = self.topic.name, partition
            yield _columns(place, picked, [headers[i] for i in indexes])

    def _partitioned(self, records: Records) -> Mapping[int, list[int]]:
        if self.is_any:
            return self._in_turn(records)
        by_key = self._by_key.partition_of
        # Records without a key go where their keyless neighbours go, so that they keep their order.
        keyless = records.partition % self.topic.partitions
        found: dict[int, list[int]] = {}
        for index, key in enumerate(records.keys):
            partition = keyless if key is None else by_key(key)
            found.setdefault(partition, []).append(index)
        return found

    def _in_turn(self, records: Records) -> Mapping[int, list[int]]:
        turns: dict[int, list[int]] = {}
        for index, offset in enumerate(records.offsets):
            turns.setdefault((records.partition + offset) % self.topic.partitions, []).append(index)
        return turns


@dataclass(frozen=True, slots=True)
class RedriveRoute:
    """Routes back to the topic and partition in a dead letter's headers."""

    find: Callable[[str], TargetTopic | None]
    allowed: frozenset[str] | None
    """The topics to which records return; None for all."""
    shape: TargetShape

    def wrong(self, records: Records) -> Iterator[tuple[int, Refusal]]:
        for index in range(len(records)):
            origin = origin_of(records.record(index))
            if origin is None:
                yield index, ("no-origin", "no header names its original topic")
            elif origin.lacking:
                yield index, ("not-copied", f"{origin.lacking}; its topic was {origin.topic}")
            elif origin.topic == records.topic:
                yield index, ("no-origin", f"its original topic is {origin.topic}, where it is now")
            elif not may_return_to(origin.topic):
                yield index, ("no-origin", f"no record may return to topic {origin.topic!r}")
            elif self.allowed is not None and origin.topic not in self.allowed:
                reason = "is not among those that the target or the plan names"
                way = "the target can name all: kafka:TOPIC,TOPIC"
                yield index, ("not-named", f"its original topic {origin.topic} {reason}; {way}")
            elif self.find(origin.topic) is None:
                yield (
                    index,
                    ("topic-gone", f"its original topic {origin.topic} does not exist any more"),
                )
            elif origin.timestamp_ms == 0:
                yield index, ("timestamp", _NO_ZERO)

    def ways(self, records: Records) -> Iterator[RecordColumns]:
        origins = [origin_of(records.record(index)) for index in range(len(records))]
        places: dict[tuple[str, int], list[int]] = {}
        for index, origin in enumerate(origins):
            if origin is not None:
                places.setdefault(self._place(origin, records, index), []).append(index)
        for place, indexes in sorted(places.items()):
            named = [origin for i in indexes if (origin := origins[i]) is not None]
            picked = records.pick(indexes)
            for at, origin in enumerate(named):
                if origin.timestamp_ms is not None:
                    picked.timestamps_ms[at] = origin.timestamp_ms
            cleaned = [
                without_errors(headers, origin.count)
                for headers, origin in zip(picked.headers, named, strict=True)
            ]
            yield _columns(place, picked, self.shape.headers(picked, cleaned))

    def _place(self, origin: Origin, records: Records, index: int) -> tuple[str, int]:
        topic = self.find(origin.topic)
        partitions = topic.partitions if topic else 1
        if origin.partition is not None and origin.partition < partitions:
            return origin.topic, origin.partition
        key = records.keys[index]
        if key is None:
            return origin.topic, (origin.partition or 0) % partitions
        return origin.topic, KeyPartitioner(partitions).partition_of(key)


def _columns(place: tuple[str, int], records: Records, headers: Sequence[Headers]) -> RecordColumns:
    return RecordColumns(
        *place,
        records.offsets,
        records.timestamps_ms,
        records.keys,
        records.values,
        [list(each) if each else None for each in headers] if any(headers) else None,
    )


def sendable(
    records: Records, route: Route, account: Account, refused: Mapping[int, Refusal]
) -> Records:
    """Refuse records that cannot be sent unchanged, and return the others."""
    wrong = dict(_unsendable(records))
    wrong.update(route.wrong(records))
    if refused:
        offsets = enumerate(records.offsets)
        wrong |= {i: refused[offset] for i, offset in offsets if offset in refused}
    if not wrong:
        return records
    for index in sorted(wrong):
        kind, reason = wrong[index]
        account.refuse(records.record(index), kind=kind, reason=reason)
    return records.pick([i for i in range(len(records)) if i not in wrong])


def _unsendable(records: Records) -> Iterator[tuple[int, Refusal]]:
    if 0 in records.timestamps_ms:
        for index, timestamp_ms in enumerate(records.timestamps_ms):
            if timestamp_ms == 0:
                yield index, ("timestamp", _NO_ZERO)
    if any(records.headers):
        for index, headers in enumerate(records.headers):
            found = unsendable(headers) if headers else None
            if found is not None:
                yield index, ("headers", found)

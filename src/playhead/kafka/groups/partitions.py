"""Collects what a reset needs: the partitions in scope, their bounds, and the committed offsets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.errors import Need, needing
from playhead.kafka.admin.offsets import Described, bounds_of, describe, describe_those, entries_at
from playhead.kafka.groups.plan import CommittedOffset, GroupPlan
from playhead.kafka.groups.position import ByPartition, Facts, Position
from playhead.kafka.groups.record_times import times_of
from playhead.kafka.groups.scope import NoSuchPartition, Scope
from playhead.kafka.read.source import KafkaSource
from playhead.kafka.read.time_answers import leaving_out
from playhead.kafka.read.time_lookup import first_records_at
from playhead.source import Bounds, TopicPartition
from playhead.time_span_tail import SearchedEnd, Tail, look

PATIENCE_S = 10.0
_CLOCKS_DIFFER_MS = 60_000


@dataclass(frozen=True, slots=True)
class SelectedPartitions:
    """The partitions in scope, and those of them that no longer exist."""

    places: tuple[TopicPartition, ...]
    gone: tuple[TopicPartition, ...]


def partitions_meant(
    admin: Admin, scope: Scope, mode: Position, committed: Mapping[TopicPartition, CommittedOffset]
) -> SelectedPartitions:
    """Return the partitions by name, by committed offsets, or from a file."""
    if isinstance(mode, ByPartition):
        return SelectedPartitions(_of_file(admin, mode), ())
    if not scope.all_topics:
        known = {t: each.partitions for t, each in _described(admin, list(scope.topics)).items()}
        return SelectedPartitions(tuple(scope.places(known)), ())
    there, gone = split(admin, committed)
    return SelectedPartitions(tuple(there), tuple(gone))


def split(
    admin: Admin, places: Mapping[TopicPartition, object]
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Split partitions into existing ones and those that are gone with their topic."""
    topics = sorted({topic for topic, _ in places})
    if not topics:
        return [], []
    with needing(*(Need("Describe", "topic", topic) for topic in topics)):
        known = describe_those(admin, topics)
    there = [p for p in places if p[0] in known and p[1] in known[p[0]].partitions]
    return sorted(there), sorted(set(places) - set(there))


@dataclass(frozen=True, slots=True)
class Gathered:
    """A partition's bounds, the first record not before the given time, and one that is out of order."""

    bounds: Bounds
    at_instant: int | None = None
    earlier: tuple[int, int] | None = None


def gather(
    admin: Admin,
    connection: KafkaConnection,
    mode: Position,
    places: Sequence[TopicPartition],
) -> dict[TopicPartition, Gathered]:
    """Return each partition's bounds, and what is known about the given time."""
    with needing(*(Need("Describe", "topic", topic) for topic in sorted({t for t, _ in places}))):
        bounds = bounds_of(admin, places)
        if mode.instant_ms is None:
            return {place: Gathered(held) for place, held in bounds.items()}
        entries = entries_at(admin, places, mode.instant_ms)
    ends = {place: held.stable_end for place, held in bounds.items()}
    with needing(*(Need("Read", "topic", topic) for topic in sorted({t for t, _ in places}))):
        found = first_records_at(
            connection, entries, ends, instant_ms=mode.instant_ms, patience_s=PATIENCE_S
        )
        wrong = leaving_out(
            connection, found, instant_ms=mode.instant_ms, timeout_s=admin.timeout_s
        )
        found |= {place: bounds[place].earliest for place in wrong}
        earlier = _earlier(connection, found, ends, mode.instant_ms)
    return {
        place: Gathered(held, _at(found[place], held), earlier.get(place))
        for place, held in bounds.items()
    }


def _at(found: int, held: Bounds) -> int | None:
    """Return None if all records are before the time; an open transaction may hold others, and is not skipped."""
    if found < held.stable_end or held.stable_end < held.high_watermark:
        return found
    return None


def _earlier(
    connection: KafkaConnection,
    found: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    instant_ms: int,
) -> dict[TopicPartition, tuple[int, int]]:
    """Return records after an answer that are much older than the time: then the answer is too early."""
    latest_ms = instant_ms - _CLOCKS_DIFFER_MS
    sought = SearchedEnd(None, latest_ms, 0, reached_ms=latest_ms)
    tails = [
        Tail(place, found[place], end, sought)
        for place, end in sorted(ends.items())
        if found[place] < end
    ]
    topics = tuple(sorted({each.place[0] for each in tails}))
    if tails:
        look(KafkaSource(connection, topics=topics, patience_s=PATIENCE_S), tails)
    strays = {each.place: each.first for each in tails}
    return {
        place: (stray.offset, stray.timestamp_ms)
        for place, stray in strays.items()
        if stray is not None
    }


def facts(
    group: str,
    gathered: Mapping[TopicPartition, Gathered],
    committed: Mapping[TopicPartition, CommittedOffset],
) -> list[Facts]:
    """Return the facts of each partition for the decision."""
    found = []
    for place, each in gathered.items():
        held = committed.get(place)
        offset = held.offset if held else None
        found.append(Facts(group, place, each.bounds, offset, each.at_instant, each.earlier))
    return found


def with_times(connection: KafkaConnection, plan: GroupPlan) -> GroupPlan:
    """Return the plan with the times of records that are repeated or skipped."""
    reaches = {move.place: move.reach for move in plan.moves if move.reach is not None}
    topics = sorted({topic for topic, _ in reaches})
    with needing(*(Need("Read", "topic", topic) for topic in topics)):
        return plan.with_times(times_of(connection, reaches, patience_s=PATIENCE_S))


def _of_file(admin: Admin, mode: ByPartition) -> tuple[TopicPartition, ...]:
    known = _described(admin, sorted({topic for topic, _ in mode.offsets}))
    for topic, number in mode.offsets:
        if number not in known[topic].partitions:
            has = known[topic].partitions
            raise NoSuchPartition(topic, number, known=has, where=mode.written)
    return tuple(mode.offsets)


def _described(admin: Admin, topics: Sequence[str]) -> dict[str, Described]:
    with needing(*(Need("Describe", "topic", topic) for topic in topics)):
        return describe(admin, topics)

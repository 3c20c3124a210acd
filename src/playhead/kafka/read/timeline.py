"""Asks a cluster for the offsets of many times at once, and samples a few records."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import OffsetSpec

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import PlayheadError
from playhead.grammar.instant import show_ms
from playhead.kafka.admin.client import DEFAULT_TIMEOUT_S, Admin
from playhead.kafka.admin.errors import KafkaRefused
from playhead.kafka.admin.offsets import (
    NO_ENTRY,
    bounds_of,
    describe,
    places_of,
    topics_like,
)
from playhead.kafka.read.time_probes import glance
from playhead.record import Slice
from playhead.source import Bounds, TopicPartition
from playhead.span import Resolved
from playhead.time_span_tail import probes
from playhead.timeline.timeline import Disorder, Timeline, edges_between

# Requests under way at a time, each to one broker.
_AT_ONCE = 128
_NONE = -1
_STRIDES, _MOST_PROBES = 24, 512
_LOOK_S, _LOOK_BYTES, _PATIENCE_S = 0.5, 1 << 18, 10.0


class NoTimes(PlayheadError):
    """A topic without records, or without record times, has no timeline."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(
            f"{topic} has no record with a time, so that its first and last time are unknown",
            hint="give the span: --from T --to T",
        )


def timeline(
    connection: KafkaConnection,
    topics: Sequence[str],
    resolved: Resolved,
    *,
    buckets: int,
    now_ms: int,
    pattern: str | None = None,
) -> Timeline:
    """Return the timeline of a span; an open side is the first or the last record's time."""
    with Admin(connection, timeout_s=DEFAULT_TIMEOUT_S) as admin:
        names = topics if pattern is None else topics_like(admin, pattern)
        places = places_of(describe(admin, names))
        bounds = bounds_of(admin, places)
        title = ", ".join(names)
        edges = edges_between(*_sides(admin, places, resolved, now_ms, title), buckets)
        found = instants(admin, bounds, edges)
        held = {place: (each.earliest, each.stable_end) for place, each in bounds.items()}
        made = Timeline(title, edges, found, held)
        if not made.counted:
            first, last = _first_and_last(admin, places)
            made = replace(made, whole_ms=None if first is None or last is None else (first, last))
    return replace(made, disorder=_disorder(connection, made))


def _disorder(connection: KafkaConnection, made: Timeline) -> Disorder | None:
    """Return how well sampled record times agree with their positions."""
    tails = [
        Slice(*place, made.offsets[place][0], end)
        for place, (_, end) in made.held.items()
        if made.offsets[place][0] < end
    ]
    strides = max(1, min(_STRIDES, _MOST_PROBES // max(1, len(tails))))
    wanted = [probe for each in tails for probe in probes(each, strides)]
    try:
        seen = glance(
            connection, wanted, within_s=_LOOK_S, most_bytes=_LOOK_BYTES, patience_s=_PATIENCE_S
        )
    except KafkaRefused:
        return None  # A user who may ask for offsets may lack the right to read.
    total, earlier, first = 0, 0, None
    for part, times in sorted(seen, key=lambda each: each[0]):
        found = made.disorder_in((part.topic, part.partition), times.offsets, times.timestamps_ms)
        total, earlier = total + found.looked_at, earlier + found.earlier
        first = first or found.first
    return Disorder(total, earlier, first)


def instants(
    admin: Admin, bounds: Mapping[TopicPartition, Bounds], edges_ms: Sequence[int]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return for each partition the first entry that is not before each time, or its end."""
    found: dict[TopicPartition, list[int]] = {place: [] for place in bounds}
    for start in range(0, len(edges_ms), _AT_ONCE):
        specs = [OffsetSpec.for_timestamp(max(0, at)) for at in edges_ms[start : start + _AT_ONCE]]
        for answer in _ask(admin, list(bounds), specs):
            for place, held in bounds.items():
                offset = answer[place].offset
                at = held.stable_end if offset == _NONE else offset
                least = found[place][-1] if found[place] else held.earliest
                # The log grows during the requests, and may lose its oldest records.
                found[place].append(min(max(at, least), held.stable_end))
    return {place: tuple(at) for place, at in found.items()}


def _sides(
    admin: Admin, places: Sequence[TopicPartition], resolved: Resolved, now_ms: int, title: str
) -> tuple[int, int]:
    from_ms, to_ms = resolved.from_ms, resolved.to_ms
    if from_ms is None or to_ms is None:
        first, last = _first_and_last(admin, places)
        if first is None or last is None:
            raise NoTimes(title)
        from_ms = first if from_ms is None else from_ms
        if to_ms is None:
            # One record from the year 2100 would put all others into the first bucket.
            to_ms = last + 1 if last <= now_ms or from_ms >= now_ms else now_ms
        if from_ms >= to_ms:
            raise PlayheadError(
                f"the timeline of {title} would begin at {show_ms(from_ms)} and end at {show_ms(to_ms)}",
                hint=f"its records are from {show_ms(first)} to {show_ms(last)}: --from T --to T",
            )
    return from_ms, to_ms


def _first_and_last(
    admin: Admin, places: Sequence[TopicPartition]
) -> tuple[int | None, int | None]:
    """Return the times of the first records, and the latest time of any record."""
    specs = [OffsetSpec.for_timestamp(0), OffsetSpec.max_timestamp()]
    first, last = _ask(admin, places, specs)
    firsts = [each.timestamp for each in first.values() if each.offset != _NONE]
    lasts = [each.timestamp for each in last.values() if each.offset != _NONE]
    return (
        min((each for each in firsts if each >= 0), default=None),
        max((each for each in lasts if each >= 0), default=None),
    )


def _ask(
    admin: Admin, places: Sequence[TopicPartition], specs: Sequence[OffsetSpec]
) -> list[dict[TopicPartition, Any]]:
    """Send all requests, and return their answers."""
    if not places:
        return [{} for _ in specs]
    topics = ", ".join(sorted({topic for topic, _ in places}))
    with admin.asking(f"asking for the offsets of {topics}") as client:
        asked = [
            client.list_offsets(
                {ClientPartition(*place): spec for place in places},
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=admin.timeout_s,
            )
            for spec in specs
        ]
        found = [
            {
                (place.topic, place.partition): answer.result(admin.timeout_s)
                for place, answer in each.items()
            }
            for each in asked
        ]
        if any(each.offset < NO_ENTRY for answers in found for each in answers.values()):
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return found

"""Looks at a few records while a plan is made: what the span holds, and what stands after it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import not_

from playhead.cutter import KEPT, Filter
from playhead.plan import PartitionPlan
from playhead.record import Slice
from playhead.records import Records
from playhead.source import Place, Reader, Source
from playhead.span import Resolved

AT_EACH_END = 3
_TO_INFER_FROM = 500
# Where most of what is read lies outside the span, one does not look for ever.
_MOST_LOOKED_AT = 20_000
_FIRST_TAIL, _LONGEST_TAIL = 200, 200_000
_MOST_PARTITIONS = 64


@dataclass(frozen=True, slots=True)
class Overlooked:
    """A record of the span behind the one at which its partition's reading ends."""

    place: Place
    end_offset: int
    end_ms: int
    """The record at which the log counts as past the span, and its time."""
    offset: int
    timestamp_ms: int


def samples(
    source: Source, partitions: Sequence[PartitionPlan], resolved: Resolved
) -> list[Records]:
    """Some records of the span from the start of every topic, and some from its end."""
    filter_ = Filter(resolved.from_ms, resolved.to_ms)
    found: dict[str, list[Records]] = {}
    with source.open() as reader:
        for each in partitions:
            held = found.setdefault(each.topic, [])
            if each.planned and len(held) < 2:
                held += _of_partition(reader, filter_, each)
    return [records for held in found.values() for records in held]


def _of_partition(reader: Reader, filter_: Filter, each: PartitionPlan) -> Iterator[Records]:
    # Late records are looked at only where there is nothing else.
    end = each.span_end if each.span_end > each.from_offset else each.to_offset
    head = _first_kept(reader, filter_, each, (each.from_offset, end), _TO_INFER_FROM)
    if not len(head):
        return
    yield head
    start, length = head.offsets[-1] + 1, _FIRST_TAIL
    while start < end:
        tail_from = max(start, end - length)
        tail = _first_kept(reader, filter_, each, (tail_from, end), length)
        if len(tail) >= AT_EACH_END or tail_from == start or length >= _LONGEST_TAIL:
            if len(tail):
                yield tail.cut(max(0, len(tail) - AT_EACH_END), len(tail))
            return
        length *= 10


def _first_kept(
    reader: Reader, filter_: Filter, each: PartitionPlan, span: tuple[int, int], most: int
) -> Records:
    """The first so many records that the span keeps; by records, and not by offsets, which may be absent."""
    found = Records(each.topic, each.partition)
    looked_at, start = 0, span[0]
    # Mostly so many offsets are so many records; where they are not, one reads on.
    for end in (min(start + most, span[1]), span[1]):
        if start >= end:
            continue
        for records in reader.read(Slice(each.topic, each.partition, start, end)):
            kept = _kept(filter_, records)
            found = _joined(found, kept.cut(0, most - len(found)))
            looked_at += len(records)
            if len(found) >= most or looked_at >= _MOST_LOOKED_AT:
                return found
        start = end
    return found


def _kept(filter_: Filter, records: Records) -> Records:
    verdicts = filter_.verdicts(records)
    if verdicts is None:
        return records
    return records.pick([*compress(range(len(records)), map(not_, verdicts))])


def _joined(one: Records, other: Records) -> Records:
    if not len(one):
        return other
    return Records(
        one.topic,
        one.partition,
        one.offsets + other.offsets,
        one.timestamps_ms + other.timestamps_ms,
        one.timestamp_types + other.timestamp_types,
        one.keys + other.keys,
        one.values + other.values,
        one.headers + other.headers,
    )


def overlooked(
    source: Source, partitions: Sequence[PartitionPlan], resolved: Resolved
) -> list[Overlooked]:
    """Records of the span that nobody will read, because a later time stands before them.

    Kafka knows the first record at or after a time, and no more; so some of what follows it is
    looked at, and the log's last ones.
    """
    cut = [each for each in partitions if each.to_offset < each.stable_end]
    if resolved.to_ms is None or not cut:
        return []
    filter_ = Filter(resolved.from_ms, resolved.to_ms)
    with source.open() as reader:
        found = (_behind(reader, filter_, each) for each in cut[:_MOST_PARTITIONS])
        return [each for each in found if each is not None]


def _behind(reader: Reader, filter_: Filter, each: PartitionPlan) -> Overlooked | None:
    near = min(each.to_offset + _TO_INFER_FROM, each.stable_end)
    last = max(near, each.stable_end - _FIRST_TAIL)
    end: tuple[int, int] | None = None
    for span in ((each.to_offset, near), (last, each.stable_end)):
        if span[0] == span[1]:
            continue
        for records in reader.read(Slice(each.topic, each.partition, *span)):
            times = records.timestamps_ms
            end = end or (records.offsets[0], times[0])
            verdicts = filter_.verdicts(records) or [KEPT] * len(records)
            if KEPT in verdicts:
                at = verdicts.index(KEPT)
                return Overlooked(each.place, *end, records.offsets[at], times[at])
    return None


def of_the_future(
    source: Source, partitions: Sequence[PartitionPlan], horizon_ms: int
) -> list[tuple[Place, int, int]]:
    """Planned records from after an instant, the first of each partition: its place, offset and time.

    Where there is none from before it, nothing is out of place.
    """
    first = source.offsets_at(horizon_ms)
    planned = [each for each in partitions if each.planned]
    if all(first.get(each.place, each.to_offset) <= each.from_offset for each in planned):
        return []
    late = [each for each in partitions if first.get(each.place, each.to_offset) < each.to_offset]
    found = []
    with source.open() as reader:
        for each in late[:_MOST_PARTITIONS]:
            start = max(first[each.place], each.from_offset)
            span = (start, min(start + _TO_INFER_FROM, each.to_offset))
            here = _first_kept(reader, Filter(horizon_ms), each, span, 1)
            if len(here):
                found.append((each.place, here.offsets[0], here.timestamps_ms[0]))
    return found

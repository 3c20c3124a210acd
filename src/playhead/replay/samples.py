"""Reads sample records while a plan is made: what the span holds, and which times are in the future."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import compress, islice
from operator import not_

from playhead.grammar.instant import show_ms
from playhead.note import Note
from playhead.plan import PartitionPlan
from playhead.record import Slice
from playhead.records import Records
from playhead.source import Bounds, Reader, Source, TopicPartition, rejecting
from playhead.span import Resolved
from playhead.target import AT_EACH_END
from playhead.task.slicer import Filter
from playhead.time_span_tail import side_by_side

NO_RECORDS = "no-records"
_TO_INFER_FROM = 500
_MOST_BYTES, _LEAST_BYTES = 16 << 20, 256 << 10
"""The limits of all topics together, and the minimum of each topic; one record may exceed them."""
# If most records are outside the span, the search ends after this many.
_MOST_LOOKED_AT, _MOST_LOOKED_BYTES = 20_000, 64 << 20
_FIRST_TAIL, _LONGEST_TAIL = 200, 200_000
_MOST_PARTITIONS = 64
# The number of short pieces of the whole span: of all partitions together, and at least of each.
_STRIDES, _FEWEST_STRIDES, _STRIDE, _STRIDE_BYTES = 128, 4, 100, 64 << 10
_READERS, _AT_ONCE = 4, 32
WITHIN_S = 4.0
"""How long is spent on such pieces; those that are being read then are read to their end."""


@dataclass(frozen=True, slots=True)
class _Few:
    """How many sample records to take, and their maximum bytes."""

    records: int
    size_bytes: int

    def cut(self, found: Records, more: Records) -> tuple[Records, bool]:
        """Return the part of `more` that still fits, and whether the sample is complete."""
        left = self.size_bytes - found.size_bytes()
        for index, size in enumerate(more.sizes_bytes()):
            is_first = not len(found) and not index
            left -= size
            if len(found) + index >= self.records or (left < 0 and not is_first):
                return more.cut(0, index), True
        return more, len(found) + len(more) >= self.records


def samples(
    source: Source, partitions: Sequence[PartitionPlan], resolved: Resolved
) -> list[Records]:
    """Return sample records of the span, from the start of every topic and from its end."""
    filter_ = Filter(resolved.from_ms, resolved.to_ms)
    found: dict[str, list[Records]] = {each.topic: [] for each in partitions}
    few = _Few(_TO_INFER_FROM, max(_LEAST_BYTES, _MOST_BYTES // max(1, len(found))))
    with rejecting(source) as reader:
        for each in partitions:
            held = found[each.topic]
            if each.planned and len(held) < 2:
                held += _of_partition(reader, filter_, each, few)
    return [records for held in found.values() for records in held]


def strides(
    source: Source,
    partitions: Sequence[PartitionPlan],
    resolved: Resolved,
    arriving: Callable[[Sequence[Records]], Sequence[Records]],
) -> list[Records]:
    """Short pieces of the whole span, spread over every partition; where a filter keeps nothing, more of them.

    `arriving` is what becomes of records on their way: what it leaves out does not count.
    """
    filter_ = Filter(resolved.from_ms, resolved.to_ms)
    planned = [each for each in partitions if each.planned]
    least = max(_STRIDES, _FEWEST_STRIDES * len(planned))
    until, looked_at, kept, left = time.monotonic() + WITHIN_S, 0, 0, _MOST_LOOKED_BYTES
    found: list[Records] = []
    pieces = _spread(planned)
    with ExitStack() as stack:
        readers = [stack.enter_context(rejecting(source)) for _ in planned[:_READERS]]
        while time.monotonic() < until and left > 0 and (looked_at < least or not kept):
            wanted = list(islice(pieces, _AT_ONCE))
            if not wanted:
                break
            looked_at += len(wanted)
            taken = _read_pieces(readers, filter_, wanted, until, left)
            left -= sum(map(Records.size_bytes, taken))
            kept += sum(map(len, arriving(taken))) if taken else 0
            found += taken
    return found


def _read_pieces(
    readers: Sequence[Reader],
    filter_: Filter,
    wanted: Sequence[Slice],
    until: float,
    most_bytes: int,
) -> list[Records]:
    """Several at the same time; those for which there is no time are left out, and those beyond `most_bytes`."""
    few = _Few(_STRIDE, _STRIDE_BYTES)
    taken: dict[Slice, Records] = {}

    def work(number: int) -> None:
        for piece in wanted[number :: len(readers)]:
            size = sum(map(Records.size_bytes, [*taken.values()]))
            if time.monotonic() < until and size < most_bytes:
                span = (piece.from_offset, piece.to_offset)
                taken[piece] = _first_kept(readers[number], filter_, piece, span, few)

    side_by_side(work, range(len(readers)))
    return [taken[piece] for piece in wanted if piece in taken and len(taken[piece])]


def _spread(planned: Sequence[PartitionPlan]) -> Iterator[Slice]:
    """Of every partition in turn a piece at its start and at its end, in its middle, its quarters, its eighths …"""
    for each in planned:
        yield _piece(each, each.from_offset)
    for each in planned:
        if each.planned > _STRIDE:
            yield _piece(each, each.to_offset - _STRIDE)
    longest = max((each.planned for each in planned), default=0)
    level = 0
    while longest >> level > _STRIDE:
        for number in range(1, 2 << level, 2):
            for each in planned:
                if each.planned >> level > _STRIDE:
                    yield _piece(each, each.from_offset + (each.planned * number >> level + 1))
        level += 1


def _piece(each: PartitionPlan, start: int) -> Slice:
    return Slice(*each.place, start, min(start + _STRIDE, each.to_offset))


def unlike(found: Sequence[Records], known: Sequence[Records]) -> list[Records]:
    """Those of the records that are not among the known ones, each of them once."""
    seen = {(each.topic, each.partition, offset) for each in known for offset in each.offsets}
    fresh: list[Records] = []
    for each in found:
        places = [(each.topic, each.partition, offset) for offset in each.offsets]
        new = [index for index, place in enumerate(places) if place not in seen]
        seen.update(places)
        if new:
            fresh.append(each.pick(new))
    return fresh


def _of_partition(
    reader: Reader, filter_: Filter, each: PartitionPlan, few: _Few
) -> Iterator[Records]:
    # Use late records only if there are no others.
    for end in dict.fromkeys((each.span_end, each.to_offset)):
        head = _first_kept(reader, filter_, each, (each.from_offset, end), few)
        if len(head):
            break
    else:
        return
    yield head
    start, size = head.offsets[-1] + 1, head.size_bytes() // len(head)
    longest = min(_LONGEST_TAIL, max(AT_EACH_END, _MOST_LOOKED_BYTES // size))
    length = min(_FIRST_TAIL, longest, max(AT_EACH_END, few.size_bytes // size))
    while start < end:
        tail_from = max(start, end - length)
        tail = _last_kept(reader, filter_, Slice(each.topic, each.partition, tail_from, end), few)
        if len(tail) >= AT_EACH_END or tail_from == start or length >= longest:
            if len(tail):
                yield tail
            return
        length *= 10


def _first_kept(
    reader: Reader, filter_: Filter, each: PartitionPlan | Slice, span: tuple[int, int], few: _Few
) -> Records:
    """Return the first records that the span keeps, counted in records, because offsets may be absent."""
    found = Records(each.topic, each.partition)
    looked_at, looked_bytes, start = 0, 0, span[0]
    # Usually each offset has a record; otherwise read on.
    for end in (min(start + few.records, span[1]), span[1]):
        if start >= end:
            continue
        for records in reader.read(Slice(each.topic, each.partition, start, end)):
            kept, is_full = few.cut(found, _kept(filter_, records))
            found = _joined(found, kept)
            looked_at += len(records)
            looked_bytes += records.size_bytes()
            is_enough = looked_at >= _MOST_LOOKED_AT or looked_bytes >= _MOST_LOOKED_BYTES
            if is_full or is_enough:
                return found
        start = end
    return found


def _last_kept(reader: Reader, filter_: Filter, slice_: Slice, few: _Few) -> Records:
    """Return the last records of a slice that the span keeps."""
    found = Records(slice_.topic, slice_.partition)
    for records in reader.read(slice_):
        found = _joined(found, _kept(filter_, records))
        found = found.cut(max(0, len(found) - AT_EACH_END), len(found))
    while len(found) > 1 and found.size_bytes() > few.size_bytes:
        found = found.cut(1, len(found))
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
        undecoded=one.undecoded | other.undecoded,
    )


def first_ms(reader: Reader, place: TopicPartition, held: Bounds) -> int | None:
    """The time of the first record; a log can begin with markers, and with aborted records."""
    start = held.earliest
    for end in (min(start + _TO_INFER_FROM, held.stable_end), held.stable_end):
        if start < end:
            for records in reader.read(Slice(*place, start, end)):
                return records.timestamps_ms[0]
        start = end
    return None


def _last_ms(reader: Reader, place: TopicPartition, held: Bounds) -> int | None:
    """The time of the last record, behind which there may be offsets without one."""
    end, length = held.stable_end, _FIRST_TAIL
    while held.earliest < end:
        start = max(held.earliest, end - length)
        times = [records.timestamps_ms[-1] for records in reader.read(Slice(*place, start, end))]
        if times:
            return times[-1]
        end, length = start, length * 10
    return None


def where_the_records_are(source: Source, bounds: Mapping[TopicPartition, Bounds]) -> Note:
    """Said of a span by time that is empty: from when to when there are records at all."""
    times: list[int | None] = []
    with rejecting(source) as reader:
        for place, held in sorted(bounds.items())[:_MOST_PARTITIONS]:
            times += first_ms(reader, place, held), _last_ms(reader, place, held)
    known = [each for each in times if each is not None]
    names = sorted({topic for topic, _ in bounds})
    shown = ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
    if not known:
        text = "there are no records at all"
        return Note(NO_RECORDS, f"{shown}: {text}" if shown else f"{text}, and no topics")
    text = f"the records of {shown} are from {show_ms(min(known))} to {show_ms(max(known))}"
    return Note(NO_RECORDS, f"no record of the span was found; {text}")


def of_the_future(
    source: Source, partitions: Sequence[PartitionPlan], horizon_ms: int, inside: Filter
) -> list[tuple[TopicPartition, int, int]]:
    """Return the first record after a time in each partition: partition, offset and time.

    If no record is before the time, none is out of place.
    """
    first = source.offsets_at(horizon_ms)
    planned = [each for each in partitions if each.planned]
    if all(first.get(each.place, each.to_offset) <= each.from_offset for each in planned):
        return []
    late = [each for each in partitions if first.get(each.place, each.to_offset) < each.to_offset]
    found = []
    with rejecting(source) as reader:
        for each in late[:_MOST_PARTITIONS]:
            start = max(first[each.place], each.from_offset)
            span = (start, min(start + _TO_INFER_FROM, each.to_offset))
            here = _first_kept(reader, inside, each, span, _Few(1, 0))
            if len(here):
                found.append((each.place, here.offsets[0], here.timestamps_ms[0]))
    return found

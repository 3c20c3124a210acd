"""How what is left of a plan is shared out to tasks, and what paced tasks must know of each other."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, compress, islice
from operator import not_

from playhead.cutter import KEPT, Filter
from playhead.job import Lane
from playhead.pace import Share, Silence, silences_of
from playhead.plan import Plan
from playhead.record import Slice
from playhead.source import Place, Reader, Source

_LEAST_SPLIT = 50_000
_MOST_EDGES = 240
_TAIL = 200


def lanes_of(slices: Sequence[Slice]) -> list[Lane]:
    """The slices of each partition, in order."""
    lanes: dict[tuple[str, int], list[Slice]] = {}
    for slice_ in sorted(slices):
        lanes.setdefault((slice_.topic, slice_.partition), []).append(slice_)
    return [tuple(lane) for lane in lanes.values()]


def split(lanes: Sequence[Lane], slots: int) -> list[Lane]:
    """Lanes that are longer than a slot's part of the whole in several pieces."""
    total = sum(len(slice_) for lane in lanes for slice_ in lane)
    piece = max(_LEAST_SPLIT, -(-total // max(slots, 1)))
    return [part for lane in lanes for part in _pieces(lane, piece)]


def _pieces(lane: Lane, piece: int) -> Iterator[Lane]:
    """The lane's offsets, so many at a time; of one length, so that no slot gets a small rest."""
    total = sum(map(len, lane))
    most = -(-total // -(-total // piece))
    part: list[Slice] = []
    room = most
    for slice_ in lane:
        start = slice_.from_offset
        while start < slice_.to_offset:
            end = min(start + room, slice_.to_offset)
            part.append(replace(slice_, from_offset=start, to_offset=end))
            room -= end - start
            start = end
            if room == 0:
                yield tuple(part)
                part, room = [], most
    if part:
        yield tuple(part)


def shared_out(lanes: Sequence[Lane], tasks: int) -> tuple[tuple[Lane, ...], ...]:
    """Lanes given to tasks, the longest first and each to the one with the least to do."""
    loads = [0] * min(max(tasks, 1), len(lanes))
    works: list[list[Lane]] = [[] for _ in loads]
    for lane in sorted(lanes, key=lambda lane: -sum(map(len, lane))):
        index = loads.index(min(loads))
        works[index].append(lane)
        loads[index] += sum(map(len, lane))
    # In the log's order again, so that what follows on is read without seeking.
    return tuple(tuple(sorted(work)) for work in works)


def shares_of(left: Sequence[Slice]) -> dict[Place, Share]:
    """What each partition gets of a rate: by its planned offsets, so that all end together."""
    planned: dict[Place, int] = {}
    for slice_ in sorted(left):
        place = (slice_.topic, slice_.partition)
        planned[place] = planned.get(place, 0) + len(slice_)
    counts = tuple(planned.values())
    return {place: Share(counts, index) for index, place in enumerate(planned)}


def times_of(source: Source, left: Sequence[Slice], plan: Plan) -> list[int]:
    """Record times of the first and the last records that are left of each partition."""
    times: list[int] = []
    filter_ = Filter(plan.from_ms, plan.to_ms)
    span_ends = plan.span_ends()
    with source.open() as reader:
        for lane in lanes_of(left):
            end = span_ends.get((lane[0].topic, lane[0].partition), lane[-1].to_offset)
            head = chain.from_iterable(_kept_times(reader, filter_, slice_) for slice_ in lane)
            times += islice(head, 1)
            times += [max(held) for held in [[*_tail(reader, filter_, lane, end)]] if held]
    return times


def _tail(reader: Reader, filter_: Filter, lane: Lane, end: int) -> Iterator[int]:
    """Times before the span's end. What stands last may be a transaction's marker, or out of order."""
    before = [slice_ for slice_ in lane if slice_.from_offset < end]
    if before:
        to_offset = min(before[-1].to_offset, end)
        from_offset = max(before[-1].from_offset, to_offset - _TAIL)
        tail = replace(before[-1], from_offset=from_offset, to_offset=to_offset)
        yield from _kept_times(reader, filter_, tail)


def _kept_times(reader: Reader, filter_: Filter, slice_: Slice) -> Iterator[int]:
    for records in reader.read(slice_):
        verdicts = filter_.verdicts(records) or [KEPT] * len(records)
        yield from compress(records.timestamps_ms, map(not_, verdicts))


def silences(source: Source, times: Sequence[int], max_gap_ms: int | None) -> tuple[Silence, ...]:
    """The silences all partitions have in common, as far as asking for a few hundred instants shows them."""
    if max_gap_ms is None or not times:
        return ()
    first, last = min(times), max(times)
    step = max(max_gap_ms, (last - first) // _MOST_EDGES, 1)
    edges = [*range(first, last, step), last]
    offsets: list[list[int]] = []
    for edge in edges:
        found: Mapping[Place, int] = source.offsets_at(edge)
        offsets.append([found[place] for place in sorted(found)])
    return tuple(silences_of(edges, offsets))

"""How what is left of a plan is shared out to tasks, and what paced tasks must know of each other."""

from collections.abc import Mapping, Sequence

from playhead.cutter import KEPT, Filter
from playhead.job import Lane
from playhead.pace import Share, Silence, silences_of
from playhead.plan import Plan
from playhead.record import Slice
from playhead.source import Place, Source

_LEAST_SPLIT = 50_000
_MOST_EDGES = 240


def lanes_of(slices: Sequence[Slice]) -> list[Lane]:
    """The slices of each partition, in order."""
    lanes: dict[tuple[str, int], list[Slice]] = {}
    for slice_ in sorted(slices):
        lanes.setdefault((slice_.topic, slice_.partition), []).append(slice_)
    return [tuple(lane) for lane in lanes.values()]


def split(lanes: Sequence[Lane], slots: int) -> list[Lane]:
    """Large partitions in several pieces, when there are fewer partitions than slots."""
    total = sum(len(slice_) for lane in lanes for slice_ in lane)
    piece = max(_LEAST_SPLIT, -(-total // max(slots, 1)))
    pieces: list[Lane] = []
    for lane in lanes:
        if len(lanes) >= slots:
            pieces.append(lane)
            continue
        for slice_ in lane:
            starts = range(slice_.from_offset, slice_.to_offset, piece)
            pieces += [
                (Slice(slice_.topic, slice_.partition, at, min(at + piece, slice_.to_offset)),)
                for at in starts
            ]
    return pieces


def shared_out(lanes: Sequence[Lane], tasks: int) -> tuple[tuple[Lane, ...], ...]:
    """Lanes given to tasks, the longest first and each to the one with the least to do."""
    loads = [0] * min(max(tasks, 1), len(lanes))
    works: list[list[Lane]] = [[] for _ in loads]
    for lane in sorted(lanes, key=lambda lane: -sum(map(len, lane))):
        index = loads.index(min(loads))
        works[index].append(lane)
        loads[index] += sum(map(len, lane))
    return tuple(tuple(work) for work in works)


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
    with source.open() as reader:
        for lane in lanes_of(left):
            last = lane[-1]
            tail = Slice(last.topic, last.partition, last.to_offset - 1, last.to_offset)
            for slice_ in (lane[0], tail):
                for records in reader.read(slice_):
                    verdicts = filter_.verdicts(records) or [KEPT] * len(records)
                    kept = [
                        t for t, v in zip(records.timestamps_ms, verdicts, strict=True) if not v
                    ]
                    if kept:
                        times.append(kept[0])
                        break
    return times


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

"""Distributes the rest of a plan over tasks, and computes what paced tasks need to know of each other."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, compress, islice
from operator import not_

from playhead.errors import Refused
from playhead.pace import Share, Silence, horizon_of, silences_of
from playhead.plan import Plan
from playhead.record import Slice
from playhead.source import Reader, Source, TopicPartition, rejecting
from playhead.task.job import PartitionWork
from playhead.task.slicer import KEPT, Filter

_LEAST_SPLIT = 50_000
_MOST_EDGES = 240
# After this many steps an edge is off by a thousandth.
_MOST_HALVINGS = 10
_HEAD = _TAIL = 200
_NEVER = 1 << 62


class TooFewSlots(Refused):
    """Paced tasks that cannot all run at once would wait for each other."""

    def __init__(self, pace: str, *, partitions: int, slots: int) -> None:
        super().__init__(
            f"the pace {pace} with --where or --select needs {partitions} tasks at once, one "
            f"for each partition; found {slots} slots",
            hint=f"start a larger engine (--master 'local[{partitions}]'), replay the "
            "partitions in groups (--offsets), or leave --pace out",
        )


def partition_works(slices: Sequence[Slice]) -> list[PartitionWork]:
    """Return the slices of each partition, in order."""
    works: dict[tuple[str, int], list[Slice]] = {}
    for slice_ in sorted(slices):
        works.setdefault((slice_.topic, slice_.partition), []).append(slice_)
    return [tuple(work) for work in works.values()]


def split(works: Sequence[PartitionWork], slots: int) -> list[PartitionWork]:
    """Split what is longer than one slot's share."""
    total = sum(len(slice_) for work in works for slice_ in work)
    piece = max(_LEAST_SPLIT, -(-total // max(slots, 1)))
    return [part for work in works for part in _pieces(work, piece)]


def _pieces(work: PartitionWork, piece: int) -> Iterator[PartitionWork]:
    """Cut offsets into pieces of equal length, so that no slot gets a small rest."""
    total = sum(map(len, work))
    most = -(-total // -(-total // piece))
    part: list[Slice] = []
    room = most
    for slice_ in work:
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


def shared_out(works: Sequence[PartitionWork], slots: int) -> tuple[tuple[PartitionWork, ...], ...]:
    """Give the work to tasks, the longest first, each to the task with the least."""
    loads = [0] * min(max(slots, 1), len(works))
    tasks: list[list[PartitionWork]] = [[] for _ in loads]
    for work in sorted(works, key=lambda work: -sum(map(len, work))):
        index = loads.index(min(loads))
        tasks[index].append(work)
        loads[index] += sum(map(len, work))
    # In the log's order again, so that neighbours are read without a seek.
    return tuple(tuple(sorted(task)) for task in tasks)


def shares_of(left: Sequence[Slice]) -> dict[TopicPartition, Share]:
    """Return the share of each partition in a rate: by planned offsets, so that all end together."""
    planned: dict[TopicPartition, int] = {}
    for slice_ in sorted(left):
        place = (slice_.topic, slice_.partition)
        planned[place] = planned.get(place, 0) + len(slice_)
    counts = tuple(planned.values())
    return {place: Share(counts, index) for index, place in enumerate(planned)}


def times_of(source: Source, left: Sequence[Slice], plan: Plan) -> list[int]:
    """Return the record times of the first and last remaining records of each partition.

    Invalid and future times are left out, unless all are.
    """
    heads: list[list[int]] = []
    tails: list[list[int]] = []
    filter_ = Filter(plan.from_ms, plan.to_ms)
    span_ends = plan.span_ends()
    with rejecting(source) as reader:
        for work in partition_works(left):
            end = span_ends.get((work[0].topic, work[0].partition), work[-1].to_offset)
            head = chain.from_iterable(_kept_times(reader, filter_, slice_) for slice_ in work)
            heads.append([*islice(head, _HEAD)])
            tails.append([*_tail(reader, filter_, work, end)])
    horizon_ms = horizon_of(plan.made_at_ms)
    return _ends(heads, tails, horizon_ms) or _ends(heads, tails, _NEVER)


def _ends(heads: Sequence[list[int]], tails: Sequence[list[int]], most_ms: int) -> list[int]:
    """Return the first believable time of each head and the latest of each tail."""
    known = [[time for time in held if 0 <= time <= most_ms] for held in (*heads, *tails)]
    firsts = [held[0] for held in known[: len(heads)] if held]
    return firsts + [max(held) for held in known[len(heads) :] if held]


def _tail(reader: Reader, filter_: Filter, work: PartitionWork, end: int) -> Iterator[int]:
    """Return times before the span's end; the last offset may be a transaction marker or out of order."""
    before = [slice_ for slice_ in work if slice_.from_offset < end]
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
    """Return the silences of all partitions together, as far as some hundred times show them."""
    if max_gap_ms is None or not times:
        return ()
    first, last = min(times), max(times)
    step = max(max_gap_ms // 2, (last - first) // _MOST_EDGES, 1)
    known = _Known(source)
    edges = [*range(first, last, step), last]
    for start, end in silences_of(edges, [known.offsets(edge) for edge in edges]):
        # A silence lies between two edges; its own edges are just outside.
        if end - start + 2 * step > max_gap_ms:
            edges += known.nearer(max(first, start - step), start, is_end=False)
            edges += known.nearer(end, min(last, end + step), is_end=True)
    edges = sorted(set(edges))
    found = silences_of(edges, [known.offsets(edge) for edge in edges])
    return tuple((start, end) for start, end in found if end - start > max_gap_ms)


class _Known:
    """The answers of a source for times; each is asked once."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._answers: dict[int, list[int]] = {}

    def offsets(self, instant_ms: int) -> list[int]:
        """Return the first offset of each partition that is not before the time."""
        if instant_ms not in self._answers:
            found: Mapping[TopicPartition, int] = self._source.offsets_at(instant_ms)
            self._answers[instant_ms] = [found[place] for place in sorted(found)]
        return self._answers[instant_ms]

    def nearer(self, start: int, end: int, *, is_end: bool) -> list[int]:
        """Bisect between two times for an edge of the silence."""
        inside = self.offsets(start if is_end else end)
        asked: list[int] = []
        while end - start > 1 and len(asked) < _MOST_HALVINGS:
            middle = (start + end) // 2
            asked.append(middle)
            if (self.offsets(middle) == inside) == is_end:
                start = middle
            else:
                end = middle
        return asked

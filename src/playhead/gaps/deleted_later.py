"""Leaves out missing records that a tombstone of the log deletes, so that no replay brings their rows back."""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter

from playhead.gaps.lost_from_log import Committed
from playhead.gaps.missing import MissingOffsets
from playhead.gaps.row_lookup import RecordKey, RowLookup
from playhead.ledger import remaining
from playhead.note import Note
from playhead.record import Slice
from playhead.source import Source, TopicPartition

Rank = tuple[int, str, int, int]
"""Of two records of a key, the one with the higher rank decides: time, topic, partition and offset."""


def without_deleted(
    rows: RowLookup,
    found: MissingOffsets,
    key: Sequence[str],
    spans: Sequence[Slice],
    committed: Sequence[Committed],
    *,
    by_time: bool,
) -> MissingOffsets:
    """Leave out records whose key a later tombstone has, for a table that is written with --tombstones delete.

    With `by_time`, as under `newer`, the later time decides, and tombstones before the record in the log count
    from the start of the span; otherwise their order in the partition decides.
    """
    if not found.slices:
        return found
    tombstones = _Tombstones(by_time=by_time)
    first = spans if by_time else found.slices
    for each in rows.keys(_applied(rows.ends.source, spans, first, committed), key, "tombstones"):
        tombstones.add(each)
    if not tombstones:
        return found
    records = rows.keys(found.slices, key, "records")
    left = [each for each in records if not tombstones.delete(each)]
    if count := len(records) - len(left):
        runs = dict(_runs(found.slices, records, {*left}))
        text = f"{count:,} records without a row were deleted by a later tombstone of their key: no gaps"
        counts = runs if found.records is not None else None
        notes = [*found.notes, Note("deleted-later", text, "info")]
        return replace(found, slices=sorted(runs), records=counts, notes=notes)
    return found


def last_of_keys(records: Sequence[RecordKey]) -> list[Slice]:
    """Return the offsets of each partition's last record of each key, and of all without a key."""
    last: dict[tuple[str, int, int], RecordKey] = {}
    kept = []
    for each in sorted(records):
        if each.number is None:
            kept.append(each)
        else:
            last[each.topic, each.partition, each.number] = each
    kept = sorted([*kept, *last.values()])
    return [Slice(each.topic, each.partition, each.offset, each.offset + 1) for each in kept]


class _Tombstones:
    """The tombstones that count for each key: the last one, of the partition or of all."""

    def __init__(self, *, by_time: bool) -> None:
        self._by_time = by_time
        self._last: dict[tuple[int, str, int], Rank] = {}

    def __bool__(self) -> bool:
        return bool(self._last)

    def add(self, tombstone: RecordKey) -> None:
        if tombstone.number is not None:
            place, rank = self._place(tombstone), self._rank(tombstone)
            self._last[place] = max(rank, self._last.get(place, rank))

    def delete(self, record: RecordKey) -> bool:
        last = self._last.get(self._place(record)) if record.number is not None else None
        return last is not None and last > self._rank(record)

    def _place(self, each: RecordKey) -> tuple[int, str, int]:
        number = each.number or 0
        return (number, "", 0) if self._by_time else (number, each.topic, each.partition)

    def _rank(self, each: RecordKey) -> Rank:
        return each.time_ms if self._by_time else 0, each.topic, each.partition, each.offset


def _applied(
    source: Source, spans: Sequence[Slice], first: Sequence[Slice], committed: Sequence[Committed]
) -> list[Slice]:
    """Return the offsets whose tombstones count: from the first of these offsets of each partition on.

    After the span, those count that a replay or pipeline has committed: rows of the others are not deleted yet. If
    the ledger knows of nothing, another program writes the table, and it may have read everything.
    """
    starts: dict[TopicPartition, int] = {}
    for each in first:
        starts[each.place] = min(each.from_offset, starts.get(each.place, each.from_offset))
    ends: dict[TopicPartition, int] = {}
    for each in spans:
        ends[each.place] = max(each.to_offset, ends.get(each.place, 0))
    entries = [entry.slice for each in committed for entry in each.entries]
    bounds, found = source.bounds(), []
    for place, start in sorted(starts.items()):
        if place not in bounds:
            continue
        held, end = bounds[place], ends.get(place, start)
        inside = _between(place, max(start, held.earliest), min(end, held.stable_end))
        after = _between(place, max(start, end, held.earliest), held.stable_end)
        if any(each.place == place for each in entries):
            after = remaining(after, remaining(after, entries))
        found += [*inside, *after]
    return found


def _between(place: TopicPartition, start: int, end: int) -> list[Slice]:
    return [Slice(*place, start, end)] if start < end else []


def _runs(
    runs: Sequence[Slice], records: Sequence[RecordKey], left: Collection[RecordKey]
) -> Iterator[tuple[Slice, int]]:
    """Yield the runs of records that are left, and how many each has: one that is not left ends a run."""
    by_place: dict[TopicPartition, list[RecordKey]] = {}
    for each in sorted(records):
        by_place.setdefault((each.topic, each.partition), []).append(each)
    for run in runs:
        its = by_place.get(run.place, [])
        start = bisect_left(its, run.from_offset, key=attrgetter("offset"))
        stop = bisect_left(its, run.to_offset, key=attrgetter("offset"))
        for is_left, group in groupby(its[start:stop], key=left.__contains__):
            if is_left:
                offsets = [each.offset for each in group]
                yield Slice(*run.place, offsets[0], offsets[-1] + 1), len(offsets)

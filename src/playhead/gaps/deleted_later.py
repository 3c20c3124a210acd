"""Leaves out missing records that a tombstone of the log deletes, so that no replay brings their rows back."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter

from playhead.gaps.gap import touching
from playhead.gaps.lost_from_log import Committed
from playhead.gaps.missing import MissingOffsets
from playhead.gaps.row_lookup import RecordKey, RowLookup
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
    writers: Sequence[Committed],
    *,
    by_time: bool,
) -> tuple[MissingOffsets, list[Slice]]:
    """Leave out records whose key a later tombstone has, for a table that is written with --tombstones delete.

    With `by_time`, as under `newer`, the later time decides, and tombstones before the record in the log count
    from the start of the span; otherwise their order in the partition decides. Also return the records that are
    missing, but should not be replayed: a tombstone after the span has their key, and none of the `writers` that
    the ledger knows has committed it, so that only another program can have deleted the row.
    """
    if not found.slices:
        return found, []
    first = spans if by_time else found.slices
    applied, pending = _Tombstones(by_time=by_time), _Tombstones(by_time=by_time)
    is_applied = _applied(spans, writers)
    for each in rows.keys(_to_the_end(rows.ends.source, first), key, "tombstones"):
        (applied if is_applied(each) else pending).add(each)
    if not (applied or pending):
        return found, []
    records = rows.keys(found.slices, key, "records")
    left = [each for each in records if not applied.delete(each)]
    held = [_slice(each) for each in left if pending.delete(each)]
    notes = []
    if count := len(records) - len(left):
        text = f"{count:,} records without a row were deleted by a later tombstone of their key: no gaps"
        notes.append(Note("deleted-later", text, "info"))
        runs = dict(_runs(found.slices, records, {*left}))
        counts = runs if found.records is not None else None
        found = replace(found, slices=sorted(runs), records=counts)
    if held:
        text = (
            f"{len(held):,} of the missing records have the key of a tombstone after the span, which no replay or "
            "pipeline of the ledger has applied: another program may have deleted their rows, and --replay "
            "leaves them out"
        )
        notes.append(Note("maybe-deleted", text))
    return replace(found, notes=[*found.notes, *notes]), held


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
    return [*map(_slice, kept)]


def _slice(record: RecordKey) -> Slice:
    return Slice(record.topic, record.partition, record.offset, record.offset + 1)


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


def _applied(spans: Sequence[Slice], writers: Sequence[Committed]) -> Callable[[RecordKey], bool]:
    """Return whether a tombstone has deleted its row: in the span, or if one of the writers has committed it.

    If the ledger knows no writer, another program writes the table, and may have read everything.
    """
    known = {entry.slice.place for each in writers for entry in each.entries}
    deleting = [each for each in writers if each.terms.rules.get("tombstones") == "delete"]
    reached = [touching(spans), *(touching(e.slice for e in each.entries) for each in deleting)]

    def is_applied(tombstone: RecordKey) -> bool:
        if (tombstone.topic, tombstone.partition) not in known:
            return True
        return any(reaches(_slice(tombstone)) for reaches in reached)

    return is_applied


def _to_the_end(source: Source, first: Sequence[Slice]) -> list[Slice]:
    """Return what the log has from the first of these offsets of each partition on."""
    starts: dict[TopicPartition, int] = {}
    for each in first:
        starts[each.place] = min(each.from_offset, starts.get(each.place, each.from_offset))
    bounds = source.bounds()
    reach = [
        (place, max(start, bounds[place].earliest), bounds[place].stable_end)
        for place, start in sorted(starts.items())
        if place in bounds
    ]
    return [Slice(*place, start, end) for place, start, end in reach if start < end]


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

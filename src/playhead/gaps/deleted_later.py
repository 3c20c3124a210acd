"""Leaves out missing records that a tombstone of the log deletes, so that no replay brings their rows back."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter

from playhead.gaps.gap import touching
from playhead.gaps.lost_from_log import Committed
from playhead.gaps.missing import MissingOffsets
from playhead.gaps.row_lookup import RecordKey, RowLookup
from playhead.note import Note
from playhead.record import Slice
from playhead.source import Source, TopicPartition
from playhead.terms import Whereto

MAYBE_DELETED = "maybe-deleted"
Rank = tuple[int, str, int, int]
"""Of two records of a key, the one with the higher rank decides: time, topic, partition and offset."""


@dataclass(frozen=True, slots=True)
class Deleting:
    """How tombstones delete the rows of a table."""

    by_time: bool | None
    """As under `newer`: the later time decides. Otherwise the order in the partition does; None if the rule is
    unknown, so that the time decides for tombstones of another partition.
    """
    is_known: bool
    """Whether the table is known to be written with --tombstones delete."""
    where: str | None = None
    """The filter that tombstones pass here, and have passed in a writer with the same one."""


def without_deleted(
    rows: RowLookup,
    found: MissingOffsets,
    key: Sequence[str],
    deleting: Deleting,
    spans: Sequence[Slice],
    writers: Sequence[Committed],
) -> tuple[MissingOffsets, list[Slice]]:
    """Leave out records whose key a later tombstone has, wherever it is in the log.

    Also return the records that are missing, but should not be replayed, because their rows may have been deleted:
    a tombstone outside of the span has their key, and none of the `writers` that the ledger knows has committed it, so
    that only another program can have applied it; or nothing says whether tombstones delete.
    """
    if not found.slices:
        return found, []
    source, records = rows.ends.source, list[RecordKey]()
    # The missing records may be many: by the order, they are needed only if there are tombstones.
    if is_by_time := deleting.by_time is not False:
        records = rows.keys(found.slices, key, "records")
        if not records:
            return found, []
    starts = _starts(source, found.slices, records, deleting.by_time)
    tables = rows.ends.target.whereto(sorted({topic for topic, _ in starts}))
    applied, pending = (_Tombstones(deleting.by_time, tables) for _ in range(2))
    is_applied = _applied(spans, writers, deleting.where)
    for each in rows.keys(_to_the_end(source, starts), key, "tombstones"):
        (applied if deleting.is_known and is_applied(each) else pending).add(each)
    if not (applied or pending):
        return found, []
    if not is_by_time:
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
        notes.append(_maybe_deleted(len(held), deleting))
    return replace(found, notes=[*found.notes, *notes]), held


def _maybe_deleted(count: int, deleting: Deleting) -> Note:
    text = f"{count:,} of the missing records have the key of a later tombstone, and nothing says whether it deleted "
    more = (
        "their rows: --replay leaves them out. Pass --tombstones delete or --tombstones skip, as the "
        "table is written"
    )
    if deleting.is_known:
        text = f"{count:,} of the missing records have the key of a tombstone outside of the span, of which no "
        more = (
            "ledger says that it was applied: another program may have deleted their rows, and --replay "
            "leaves them out"
        )
    return Note(MAYBE_DELETED, f"{text}{more}")


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
    """The last tombstone of each key and partition, by its offset and by its time."""

    def __init__(self, by_time: bool | None, tables: Mapping[str, Whereto]) -> None:
        self._by_time, self._tables = by_time, tables
        self._last: dict[tuple[int, Whereto | str], dict[TopicPartition, tuple[int, Rank]]] = {}

    def __bool__(self) -> bool:
        return bool(self._last)

    def add(self, tombstone: RecordKey) -> None:
        if tombstone.number is not None:
            its = self._last.setdefault(self._key(tombstone), {})
            place, rank = (tombstone.topic, tombstone.partition), _rank(tombstone)
            offset, latest = its.get(place, (tombstone.offset, rank))
            its[place] = max(offset, tombstone.offset), max(latest, rank)

    def delete(self, record: RecordKey) -> bool:
        its = self._last.get(self._key(record), {}) if record.number is not None else {}
        here, rank = (record.topic, record.partition), _rank(record)
        if not self._by_time and here in its and its[here][0] > record.offset:
            return True
        if self._by_time is False:
            return False
        return any(
            latest > rank for place, (_, latest) in its.items() if self._by_time or place != here
        )

    def _key(self, each: RecordKey) -> tuple[int, Whereto | str]:
        of = each.topic if self._by_time is False else self._tables[each.topic]
        return each.number or 0, of


def _rank(each: RecordKey) -> Rank:
    return each.time_ms, each.topic, each.partition, each.offset


def _applied(
    spans: Sequence[Slice], writers: Sequence[Committed], where: str | None = None
) -> Callable[[RecordKey], bool]:
    """Return whether a tombstone has deleted its row: in the span, or if one of the writers has committed it.

    An entry that may have read it beside its span, or filtered it, says nothing. If the ledger knows no
    writer, another program writes the table, and may have read everything.
    """
    known = {entry.slice.place for each in writers for entry in each.entries}
    deleting = [each for each in writers if each.terms.rules.get("tombstones") == "delete"]
    applied = (_sure(each, where) for each in deleting)
    reached = [touching(spans), *map(touching, applied)]

    def is_applied(tombstone: RecordKey) -> bool:
        if (tombstone.topic, tombstone.partition) not in known:
            return True
        return any(reaches(_slice(tombstone)) for reaches in reached)

    return is_applied


def _sure(writer: Committed, where: str | None) -> list[Slice]:
    filters_others = writer.terms.filters_others(where)
    sure = (
        entry
        for entry in writer.entries
        if entry.lists_outside and not (filters_others and entry.filtered_by_where)
    )
    return [part for entry in sure for part in entry.of_its_span()]


def _starts(
    source: Source, slices: Sequence[Slice], records: Sequence[RecordKey], by_time: bool | None
) -> dict[TopicPartition, int]:
    """Return from where on tombstones may be later than these records."""
    first = {place: its[0].from_offset for place, its in _by_place(slices).items()}
    if by_time is False:
        return first
    found = dict(source.offsets_at(min(each.time_ms for each in records)))
    if by_time is None:
        found |= {place: min(start, found.get(place, start)) for place, start in first.items()}
    return found


def _to_the_end(source: Source, starts: Mapping[TopicPartition, int]) -> list[Slice]:
    """Return what the log has from these offsets of each partition on."""
    bounds = source.bounds()
    reach = [
        (place, max(start, bounds[place].earliest), bounds[place].stable_end)
        for place, start in sorted(starts.items())
        if place in bounds
    ]
    return [Slice(*place, start, end) for place, start, end in reach if start < end]


def _by_place(slices: Sequence[Slice]) -> dict[TopicPartition, list[Slice]]:
    found: dict[TopicPartition, list[Slice]] = {}
    for each in sorted(slices):
        found.setdefault(each.place, []).append(each)
    return found


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

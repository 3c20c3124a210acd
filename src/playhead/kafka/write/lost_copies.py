"""Finds which copies of committed records are gone, by the bounds and ids of their topics alone."""

from collections.abc import Iterable, Iterator, Mapping

from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.offsets import Described, bounds_of
from playhead.kafka.write.ledger_keys import LEDGER_TOPIC
from playhead.kafka.write.offset_map import End, OffsetMap, OffsetRun
from playhead.kafka.write.target_topics import described_soon
from playhead.ledger import UNREADABLE, Entry, LedgerUnreadable
from playhead.record import Slice
from playhead.source import Bounds, TopicPartition, bounds_reaching

IDS = "topic_ids"
"""In an entry's details: the ids of the topics that have its records."""


def lost_copies(admin: Admin, entries: Iterable[Entry]) -> dict[Slice, str]:
    """Return the offsets of the source whose copies are gone, with the reason.

    Records expire, topics are cut, deleted and created again, and a ledger notices nothing. No record is
    read, so one that compaction removed is not found. Entries that were joined have no map to look at.
    """
    maps = [(entry, map_) for entry in entries if (map_ := _map_of(entry)) is not None]
    topics = sorted({end.topic for _, map_ in maps for end in map_.ends})
    there = described_soon(admin, topics)
    bounds = _bounds_with(admin, there, [end for _, map_ in maps for end in map_.ends])
    lost: dict[Slice, str] = {}
    for entry, map_ in maps:
        for end in map_.ends:
            then = (entry.details.get(IDS) or {}).get(end.topic)
            held = bounds.get((end.topic, end.partition))
            if (reason := _replaced(end, then, there)) is not None:
                lost |= dict.fromkeys(_parts(entry.slice, map_, end, None), reason)
            elif (reason := _cut(end, held)) is not None:
                lost |= dict.fromkeys(_parts(entry.slice, map_, end, held), reason)
    return lost


def _bounds_with(
    admin: Admin, there: Mapping[str, Described], ends: Iterable[End]
) -> Mapping[TopicPartition, Bounds]:
    """Return the bounds of the partitions that exist."""
    reached: dict[TopicPartition, int] = {}
    for end in ends:
        if end.topic in there and end.partition in there[end.topic].partitions:
            place = end.topic, end.partition
            reached[place] = max(reached.get(place, 0), end.last + 1)
    return bounds_reaching(lambda: bounds_of(admin, sorted(reached)), reached) if reached else {}


def _map_of(entry: Entry) -> OffsetMap | None:
    if "ends" not in entry.details:
        return None
    try:
        return OffsetMap.from_details(entry.details)
    except (*UNREADABLE, IndexError) as exc:
        where = f"topic {LEDGER_TOPIC}, the entry of {entry.slice}"
        raise LedgerUnreadable(where, f"{type(exc).__name__}: {exc}") from exc


def _replaced(end: End, then: str | None, there: Mapping[str, Described]) -> str | None:
    if end.topic not in there:
        return f"topic {end.topic} is gone"
    now = there[end.topic].topic_id
    if then is not None and then != now:
        return f"topic {end.topic} was created again: its id was {then} and is {now}"
    return None


def _cut(end: End, held: Bounds | None) -> str | None:
    place = f"{end.topic}:{end.partition}"
    if held is None:
        return f"{place} is gone"
    if end.first < held.earliest:
        return f"{place} begins at offset {held.earliest:,}, but had copies from {end.first:,} on"
    if end.last >= held.high_watermark:
        return f"{place} ends at offset {held.high_watermark:,}, but had copies up to {end.last:,}"
    return None


def _parts(whole: Slice, map_: OffsetMap, end: End, held: Bounds | None) -> Iterator[Slice]:
    """Yield the offsets whose copies are not inside the bounds; the whole slice if the map does not say."""
    if not map_.exact:
        yield whole
        return
    for run in map_.runs:
        if (run.topic, run.partition) == (end.topic, end.partition):
            yield from _outside(whole, run, held)


def _outside(whole: Slice, run: OffsetRun, held: Bounds | None) -> Iterator[Slice]:
    first, stop = run.source_offset, run.source_offset + run.length
    if held is None:
        yield Slice(*whole.place, first, stop)
        return
    apart = run.source_offset - run.target_offset
    begins, ends = held.earliest + apart, held.high_watermark + apart
    if first < begins:
        yield Slice(*whole.place, first, min(stop, begins))
    if ends < stop:
        yield Slice(*whole.place, max(first, ends), stop)

"""An index of all ledgers of an archive: bounds, gaps, and the file for each offset."""

import itertools
from bisect import insort
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from playhead.files.archive import MOST_PARTITIONS, Archive, ArchivedSlice
from playhead.files.errors import ArchiveGap, Damaged
from playhead.files.origins import Origins, replays_by_topic
from playhead.ledger import Entry, remaining
from playhead.record import Slice
from playhead.source import Bounds, OutOfBounds, TopicPartition

# Slices that have the offsets of a segment, of all segments. Slices inside slices are the square of their number.
_MOST_TOGETHER = 20_000_000


@dataclass(frozen=True, slots=True)
class Segment:
    """Offsets that the same entries cover, with those to read; the first one's records have precedence."""

    slice: Slice
    entries: Sequence[ArchivedSlice]


@dataclass(frozen=True, slots=True)
class Index:
    """The entries of each partition, in slice order, and the origins of topics with several replays."""

    places: Mapping[TopicPartition, Sequence[ArchivedSlice]]
    origins: Origins
    lost: Collection[Slice] = ()
    """Slices without their file, where entries overlap; another entry's file may have their offsets."""

    @classmethod
    def of(cls, archive: Archive) -> "Index":
        """Read all ledgers; refuse records of several topics under one name."""
        places: dict[TopicPartition, list[ArchivedSlice]] = {
            (topic, partition): []
            for topic, count in _partitions(archive).items()
            for partition in range(count)
        }
        committed = archive.committed()
        for each in committed:
            places.setdefault((each.slice.topic, each.slice.partition), []).append(each)
        replays = replays_by_topic((each.slice.topic, each.replay_id) for each in committed)
        # One replay has one topic of each name, so that its terms need not be read.
        several = {topic: ids for topic, ids in replays.items() if len(ids) > 1}
        origins = Origins.of(archive, several)
        origins.refuse_several()
        overlapping = [entry for its in places.values() for entry in _overlapping(its)]
        return cls(places, origins, archive.lost_files(overlapping))

    def bounds(self, place: TopicPartition) -> Bounds:
        """Return the first and the last archived offset; an unarchived partition is empty."""
        entries = self.places[place]
        if not entries:
            return Bounds(0, 0, 0)
        end = max(each.slice.to_offset for each in entries)
        return Bounds(entries[0].slice.from_offset, end, end)

    def gaps(self, place: TopicPartition) -> list[Slice]:
        """Return offsets inside the bounds that were not archived."""
        bounds = self.bounds(place)
        if bounds.earliest == bounds.stable_end:
            return []
        whole = Slice(*place, bounds.earliest, bounds.stable_end)
        return remaining([whole], [each.slice for each in self.places[place]])

    def segments(self, slice_: Slice) -> list[Segment]:
        """Return what to read for a slice, in order; refuse offsets outside and gaps."""
        place = (slice_.topic, slice_.partition)
        if place not in self.places:
            raise OutOfBounds(slice_, None)
        bounds = self.bounds(place)
        if slice_.from_offset < bounds.earliest or slice_.to_offset > bounds.stable_end:
            raise OutOfBounds(slice_, bounds)
        touching = [each for each in self.places[place] if each.slice.overlaps(slice_)]
        for gap in remaining([slice_], [each.slice for each in touching]):
            raise ArchiveGap(slice_, bounds, gap=gap)
        return list(_segments(slice_, touching, self.lost))


def _partitions(archive: Archive) -> dict[str, int]:
    """Return how many partitions each topic had; refuse more of all than a cluster can have."""
    found: dict[str, int] = {}
    for about in archive.abouts():
        for topic, known in about.items():
            found[topic] = max(found.get(topic, 0), known["partitions"])
    if (count := sum(found.values())) > MOST_PARTITIONS:
        reason = f"its topics have {count:,} partitions, needed at most {MOST_PARTITIONS:,}"
        raise Damaged(archive.store.identity, reason=reason)
    return found


def _overlapping(entries: Sequence[ArchivedSlice]) -> list[Entry]:
    """Return the entries, which are in order, if some of them overlap."""
    ends = itertools.accumulate((each.slice.to_offset for each in entries), max)
    pairs = zip(ends, entries[1:], strict=False)
    is_any = any(end > each.slice.from_offset for end, each in pairs)
    return [each.entry for each in entries] if is_any else []


def _segments(
    slice_: Slice, entries: Sequence[ArchivedSlice], lost: Collection[Slice]
) -> Iterator[Segment]:
    edges = {slice_.from_offset, slice_.to_offset}
    for each in entries:
        edges |= {each.slice.from_offset, each.slice.to_offset}
    ordered = sorted(edge for edge in edges if slice_.from_offset <= edge <= slice_.to_offset)
    waiting = sorted(entries, key=lambda each: each.slice.from_offset, reverse=True)

    def precedence(each: ArchivedSlice) -> tuple[bool, bool, Slice, str]:
        return each.slice in lost, not each.is_complete, each.slice, each.replay_id

    covering: list[ArchivedSlice] = []
    together = 0
    for start, end in itertools.pairwise(ordered):
        covering = [each for each in covering if each.slice.to_offset > start]
        while waiting and waiting[-1].slice.from_offset <= start:
            insort(covering, waiting.pop(), key=precedence)
        together += len(covering)
        if together > _MOST_TOGETHER:
            reason = f"its {len(entries):,} slices overlap so much that they cannot be read"
            raise Damaged(f"{slice_.topic}[{slice_.partition}]", reason=reason)
        part = Slice(slice_.topic, slice_.partition, start, end)
        # One complete entry is enough; of others, each may hold what the rest left out.
        yield Segment(part, covering[:1] if covering[0].is_complete else covering)

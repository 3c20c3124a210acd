"""Reads the log at missing offsets: which records are there, and their times."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from playhead.absence import Blank, Explained, absent_between, total, within
from playhead.gaps.gap import Gap, GapScan, GracePeriod
from playhead.grammar.instant import show_ms
from playhead.note import Note
from playhead.proof import absent_note, unexplained_note
from playhead.record import Slice
from playhead.records import Records
from playhead.source import LazyExplainer, Reader, Source, TopicPartition, rejecting
from playhead.task.slicer import FILTERED, KEPT, Filter

# A seek costs as much as reading this many offsets.
_READ_OVER = 5_000


@dataclass(slots=True)
class ScanResult:
    """What the log says of missing offsets."""

    gaps: list[Gap] = field(default_factory=list)
    absent: dict[str, int] = field(default_factory=dict)
    """Offsets without a record, by topic."""
    absences: dict[str, dict[str, int]] = field(default_factory=dict)
    """Offsets without a record, by topic and reason."""
    unexplained: dict[TopicPartition, list[Blank]] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)

    def note(self, place: TopicPartition, blanks: Sequence[Blank], found: Explained) -> None:
        """Add offsets without a record, with their reasons."""
        if not blanks:
            return
        topic = place[0]
        self.absent[topic] = self.absent.get(topic, 0) + total(blanks)
        reasons = self.absences.setdefault(topic, {})
        for reason, count in found.absences.items():
            reasons[reason] = reasons.get(reason, 0) + count
        if found.unexplained:
            self.unexplained.setdefault(place, []).extend(found.unexplained)

    def unexplained_count(self) -> int:
        """Return how many offsets have neither a record nor a reason to have none."""
        return sum(map(total, self.unexplained.values()))

    def absent_notes(self) -> list[Note]:
        """Yield notes about offsets without a record."""
        known = [absent_note(topic, held) for topic, held in sorted(self.absences.items()) if held]
        return known + [
            unexplained_note(place, total(blanks), blanks)
            for place, blanks in sorted(self.unexplained.items())
        ]


def seen(
    source: Source,
    missing: Sequence[Slice],
    settling: GracePeriod,
    in_time: Filter | None = None,
    *,
    skips_tombstones: bool = False,
) -> ScanResult:
    """Scan the log at the missing runs: number and times of records, and whether they may still
    arrive.

    Only these runs are read, and what lies closely between them. Records outside the span by their own
    time are not a gap, and neither are tombstones that have no row by the user's rule.
    """
    found, skipped = ScanResult(), 0
    if not missing:
        return found
    with rejecting(source) as reader, closing(LazyExplainer(source)) as explainer:
        young = _young(source, reader, missing, settling)
        for cover, parts in _covers(missing):
            place = (cover.topic, cover.partition)
            looked = _Looked(cover, parts, in_time or Filter(), skips_tombstones=skips_tombstones)
            looked.read(reader, young[place])
            skipped += looked.skipped
            found.gaps += [gap for each in looked.sightings for gap in each.gaps()]
            blanks = looked.blanks()
            found.note(place, blanks, explainer.explain(place, blanks))
    found.notes = [note for each in young.values() if (note := each.note()) is not None]
    if skipped:
        text = f"{skipped:,} missing records are tombstones, which have no row by --tombstones skip: no gaps"
        found.notes.append(Note("tombstones", text, "info"))
    return found


@dataclass(slots=True)
class _GraceScan:
    """Finds from which offset on the records of a partition may still arrive."""

    place: TopicPartition
    settling: GracePeriod
    since: int | None = None
    doubtful_from: int | None = None
    """The offset of a record whose time is too far in the future to be believed."""
    doubtful_ms: int = 0

    def look_at(self, records: Records) -> None:
        if self.since is not None:
            self._doubt_our_clock(records, self.since)
            return
        if self.doubtful_from is None:
            return
        start = bisect_left(records.offsets, self.doubtful_from)
        if start < len(records):
            self.since = self.settling.first_young(records.cut(start, len(records)))

    def _doubt_our_clock(self, records: Records, since: int) -> None:
        """With a clock that is behind, all that was written meanwhile follows a record that seems young."""
        held = records.cut(bisect_left(records.offsets, since), len(records))
        ahead = self.settling.first_ahead(held)
        if self.doubtful_from is None and ahead is not None:
            self.doubtful_from, self.doubtful_ms = held.offsets[ahead], held.timestamps_ms[ahead]

    def note(self) -> Note | None:
        if self.doubtful_from is None:
            return None
        place = f"{self.place[0]}:{self.place[1]}"
        if self.since is not None and self.since < self.doubtful_from:
            text = (
                f"{place} offset {self.doubtful_from} counts as settling, but has a time in the future, "
                f"{show_ms(self.doubtful_ms)}: if the clock of this machine is behind, such records are missing"
            )
            return Note("clock", text)
        text = (
            f"{place} offset {self.doubtful_from} has a time in the future, "
            f"{show_ms(self.doubtful_ms)}: records after it may be late rather than missing"
        )
        return Note("future", text)


def young_at_the_end(
    source: Source, parts: Sequence[Slice], settling: GracePeriod
) -> set[TopicPartition]:
    """Return the partitions in which what follows these parts is young too, as a record in them is."""
    with rejecting(source) as reader:
        young = _young(source, reader, parts, settling)
    return {place for place, its in young.items() if its.since is not None}


def _young(
    source: Source, reader: Reader, missing: Sequence[Slice], settling: GracePeriod
) -> dict[TopicPartition, _GraceScan]:
    ends: dict[TopicPartition, int] = {}
    for each in missing:
        ends[(each.topic, each.partition)] = each.to_offset
    young = {place: _GraceScan(place, settling) for place in ends}
    if settling.settle_ms <= 0:
        return young
    first = source.offsets_at(max(0, settling.since_ms + 1))
    for place, its in young.items():
        at = first.get(place)
        if at is None or at >= ends[place]:
            continue
        found = reader.read(Slice(*place, at, at + 1))
        times = [time for records in found for time in records.timestamps_ms]
        if times and not settling.is_young(times[0]):
            its.doubtful_from, its.doubtful_ms = at, times[0]
        else:
            its.since = at
    return young


def _covers(missing: Sequence[Slice]) -> Iterator[tuple[Slice, list[Slice]]]:
    """Return runs of offsets to read, with the missing ones in each."""
    parts: list[Slice] = []
    for each in sorted(missing):
        last = parts[-1] if parts else each
        is_near = (last.topic, last.partition) == (each.topic, each.partition)
        if parts and not (is_near and each.from_offset - last.to_offset <= _READ_OVER):
            yield _whole(parts), parts
            parts = []
        parts.append(each)
    if parts:
        yield _whole(parts), parts


def _whole(parts: Sequence[Slice]) -> Slice:
    first = parts[0]
    return Slice(first.topic, first.partition, first.from_offset, parts[-1].to_offset)


class _Looked:
    """The result of reading one run: its missing parts, and the offsets without a record."""

    def __init__(
        self, cover: Slice, parts: Sequence[Slice], in_time: Filter, *, skips_tombstones: bool
    ) -> None:
        self._cover, self._parts, self._in_time = cover, parts, in_time
        self._skips_tombstones, self.skipped = skips_tombstones, 0
        self._starts = [part.from_offset for part in parts]
        self._ends = [part.to_offset for part in parts]
        self.sightings = [GapScan(part) for part in parts]
        self._reached = cover.from_offset
        self._absent: list[Blank] = []

    def read(self, reader: Reader, young: _GraceScan) -> None:
        for records in reader.read(self._cover):
            young.look_at(records)
            first = bisect_right(self._ends, records.offsets[0])
            stop = bisect_right(self._starts, records.offsets[-1])
            verdicts = self._verdicts(records)
            for each in self.sightings[first:stop]:
                each.young_from = young.since
                each.see(records, verdicts)
            self._absent += absent_between(self._reached, records.offsets)
            self._reached = records.offsets[-1] + 1

    def _verdicts(self, records: Records) -> Sequence[int] | None:
        """Return the verdict on each record, None if all count; count the tombstones that are left out."""
        verdicts = self._in_time.verdicts(records)
        if not self._skips_tombstones or None not in records.values:
            return verdicts
        merged = list(verdicts or [KEPT] * len(records))
        for index, value in enumerate(records.values):
            if value is None and merged[index] == KEPT:
                merged[index] = FILTERED
                self.skipped += self._is_missing(records.offsets[index])
        return merged

    def _is_missing(self, offset: int) -> bool:
        after = bisect_right(self._starts, offset)
        return after > 0 and offset < self._ends[after - 1]

    def blanks(self) -> list[Blank]:
        """The blanks inside the missing parts; the others do not matter."""
        end = self._cover.to_offset
        absent = [*self._absent, *([(self._reached, end)] if self._reached < end else [])]
        return [
            blank
            for part in self._parts
            for blank in within(absent, part.from_offset, part.to_offset)
        ]

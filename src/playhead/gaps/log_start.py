"""Finds the partitions whose log begins inside a span by time, because older records were deleted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from playhead.gaps.gap import Gap
from playhead.grammar.instant import show_ms
from playhead.inventory import Inventory
from playhead.ledger import remaining
from playhead.note import Note
from playhead.offset_bitmap import missing
from playhead.record import Slice
from playhead.replay.samples import first_ms
from playhead.source import Bounds, Source, TopicPartition, rejecting
from playhead.span import Resolved

EXPIRED: Final = "expired"
_MOST_SAID = 4


@dataclass(frozen=True, slots=True)
class LogStart:
    """A partition whose deleted records may have been in the span: their times are unknown."""

    before: Slice
    """The offsets that the log had once, up to where it begins now."""
    from_ms: int
    """Where the span begins."""
    first_ms: int | None
    """The time of the first record that is left; None when none is."""

    @property
    def place(self) -> TopicPartition:
        return self.before.topic, self.before.partition

    def __str__(self) -> str:
        left = "empty" if self.first_ms is None else show_ms(self.first_ms)
        return f"{self.before.topic}:{self.before.partition} at offset {self.before.to_offset} ({left})"

    def gap(self, lacking: Sequence[Slice]) -> Gap:
        """What the target lacks of it, from an offset that is no longer known."""
        end = lacking[-1].to_offset
        last_ms = self.first_ms if end == self.before.to_offset else None
        slice_ = Slice(*self.place, lacking[0].from_offset, end)
        return Gap(slice_, EXPIRED, first_ms=self.from_ms, last_ms=last_ms, is_open=True)


def log_starts_inside(
    source: Source, bounds: Mapping[TopicPartition, Bounds], resolved: Resolved
) -> list[LogStart]:
    """A log that begins at offset 0 has lost nothing; a span without a start begins where the log does."""
    from_ms = resolved.from_ms
    cut = {place: held for place, held in sorted(bounds.items()) if held.earliest > 0}
    if from_ms is None or not cut:
        return []
    starts = []
    with rejecting(source) as reader:
        for place, held in cut.items():
            begins_ms = first_ms(reader, place, held)
            if begins_ms is None or begins_ms > from_ms:
                starts.append(LogStart(Slice(*place, 0, held.earliest), from_ms, begins_ms))
    return starts


@dataclass(frozen=True, slots=True)
class ExpiredRecords:
    """What the target lacks of deleted records, and the offsets that are known to be of the span."""

    gaps: tuple[Gap, ...] = ()
    spans: tuple[Slice, ...] = ()
    notes: tuple[Note, ...] = ()


def expired_by_offsets(target: Inventory, starts: Sequence[LogStart]) -> ExpiredRecords:
    """By the rows of a table: those that are older than the span say where it began."""
    before = [each.before for each in starts]
    there = target.held_offsets(before)
    older = target.held_offsets(before, until_ms=starts[0].from_ms)
    gaps: list[Gap] = []
    spans: list[Slice] = []
    lacks: list[LogStart] = []
    for start in starts:
        lacking = missing([start.before], there.words.get(start.place, ()))
        not_older = missing([start.before], older.words.get(start.place, ()))
        since = _first_of_span(start.before, lacking, not_older)
        if since is None:
            gaps += [start.gap(lacking)] if lacking else []
        elif since == start.before.to_offset:
            continue
        else:
            inside = Slice(*start.place, since, start.before.to_offset)
            lacking = remaining([inside], remaining([inside], lacking))
            spans.append(inside)
            gaps += [Gap(slice_, EXPIRED) for slice_ in lacking]
        if lacking:
            lacks.append(start)
    return ExpiredRecords(tuple(gaps), tuple(spans), tuple(_notes(lacks)))


def expired_by_ledger(starts: Sequence[LogStart], lacking: Sequence[Slice]) -> ExpiredRecords:
    """By what was committed, or, where only rows could tell, all of it: no ledger keeps times, so that
    where the span began is unknown."""
    gaps, lacks = [], []
    for start in starts:
        if its := [each for each in lacking if each.overlaps(start.before)]:
            gaps.append(start.gap(its))
            lacks.append(start)
    return ExpiredRecords(tuple(gaps), (), tuple(_notes(lacks)))


def _first_of_span(
    before: Slice, lacking: Sequence[Slice], not_older: Sequence[Slice]
) -> int | None:
    """Behind the last row that is older than the span, before the first one that is not; None without one."""
    newer = remaining(not_older, lacking)
    end = newer[0].from_offset if newer else before.to_offset
    older = [each for each in remaining([before], not_older) if each.from_offset < end]
    return older[-1].to_offset if older else None


def _notes(starts: Sequence[LogStart]) -> list[Note]:
    if not starts:
        return []
    places = ", ".join(map(str, starts[:_MOST_SAID]))
    more = f" and {len(starts) - _MOST_SAID} more" if len(starts) > _MOST_SAID else ""
    text = (
        f"the span begins at {show_ms(starts[0].from_ms)}, but the log begins later: {places}{more}; the target "
        "lacks older offsets, and deleted records of the span may be among them; to compare certain offsets: "
        "--offsets"
    )
    return [Note(EXPIRED, text)]


def split_gone(
    resolved: Resolved, bounds: Mapping[TopicPartition, Bounds]
) -> tuple[tuple[Slice, ...], Resolved | None]:
    """Split off named offsets before the log's start; None if no others remain."""
    if not resolved.offsets:
        return (), resolved
    topics = sorted({topic for topic, _ in bounds})
    gone, left = [], []
    for each in resolved.offsets:
        topic = each.topic or (topics[0] if len(topics) == 1 else None)
        held = bounds.get((topic, each.partition)) if topic is not None else None
        start = each.from_offset
        if topic is None or held is None or start is None or start >= held.earliest:
            left.append(each)
            continue
        end = held.earliest if each.to_offset is None else min(each.to_offset, held.earliest)
        if start < end:
            gone.append(Slice(topic, each.partition, start, end))
        if each.to_offset is None or each.to_offset > held.earliest:
            left.append(replace(each, from_offset=held.earliest))
    return tuple(gone), replace(resolved, offsets=tuple(left)) if left else None

"""Turns a span by time into offsets: Kafka's answers for both ends, and a check of the offsets
after them.

Kafka's answer for a time is the first offset whose record is not before it. So no record of a span is
before the answer for its start. But one record with a fast clock moves the answer for the end far too
early, and a record with a slow clock can be after it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from playhead.errors import BadValue, Refused
from playhead.grammar.duration import parse_duration_ms
from playhead.grammar.instant import show_ms
from playhead.note import Note
from playhead.source import Bounds, Source, TopicFacts, TopicPartition, offsets_of
from playhead.span import Resolved
from playhead.time_span_tail import WHOLE_OFFSETS, SearchedEnd, StrayRecord, Tail, look

LATENESS_MS: Final = 600_000
SAMPLED, READ_ON, LOOKED = "looked-in-part", "read-on", "looked"
"""Codes of notes: the offsets after a span were sampled, read as part of it, or checked completely."""
OPEN_TRANSACTION: Final = "open-transaction"
"""The code of a note on offsets that nothing can read yet, because a transaction is open before them."""
_SHORT = 4
"""A rest of the log of at most this fraction (1/4) of the span is read too instead of sampled."""
_BEFORE, _AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
_AFTER_UNSAID_MS, _BOUNDED_MS = 3_600_000, 7 * 86_400_000
_MOST_SAID = 4


@dataclass(frozen=True, slots=True)
class ReadOn:
    """How far to read past the end of a span: as far as needed, to the end of the log, or a duration."""

    is_to_end: bool = False
    fixed_ms: int | None = None
    is_least: bool = False
    """Whether the lateness is also checked where everything can be, instead of being read."""

    @classmethod
    def parse(cls, text: str) -> "ReadOn":
        """`auto`, `end`, or a duration."""
        if text == "auto":
            return cls()
        if text == "end":
            return cls(is_to_end=True)
        if not text[:1].isdigit() and text[:1] not in ("P", "p"):
            needed = "auto, end, or a duration such as 30m"
            raise BadValue("--read-on", found=text, needed=needed)
        return cls(fixed_ms=parse_duration_ms(text, where="--read-on"))


@dataclass(frozen=True, slots=True)
class PartitionSpan:
    """The offsets `[from_offset, to_offset)` of a partition; those from `span_end` on came late."""

    from_offset: int
    span_end: int
    to_offset: int


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A span by time as offsets of each partition, with the notes about it."""

    partitions: Mapping[TopicPartition, PartitionSpan]
    notes: tuple[Note, ...] = ()
    reaching: frozenset[TopicPartition] = frozenset()
    """Partitions whose stable offsets all lie before the end of the span and the lateness: a record that
    cannot be read yet may be of the span."""


class SpanGoesOn(Refused):
    """A record of the span is after the offset up to which the span may be read."""

    def __init__(self, place: TopicPartition, end: int, stray: StrayRecord) -> None:
        self.place, self.end, self.stray = place, end, stray
        super().__init__(
            f"{place[0]}:{place[1]} is read up to offset {end}, but offset {stray.offset} "
            f"after it is also in the span ({show_ms(stray.timestamp_ms)})",
            hint="use --read-on end to read all that follows, or name the offsets: --offsets "
            f"{place[0]}:{place[1]}:FROM-TO",
        )


def time_span(
    source: Source,
    bounds: Mapping[TopicPartition, Bounds],
    resolved: Resolved,
    *,
    lateness_ms: int = LATENESS_MS,
    read_on: ReadOn | None = None,
    topics: Mapping[str, TopicFacts] | None = None,
) -> TimeSpan:
    """Return offsets that contain every record of the span, as far as was checked; notes name the
    rest.

    Only offsets within the bounds are requested, so that a growing log does not matter.
    """
    asked, facts = read_on or ReadOn(), topics or {}
    late = _lateness(bounds, lateness_ms if asked.fixed_ms is None else asked.fixed_ms, facts)
    partitions = _by_index(source, bounds, resolved, late, asked)
    reaching = frozenset(p for p, it in partitions.items() if it.to_offset == bounds[p].stable_end)
    if resolved.to_ms is None or asked.is_to_end:
        return TimeSpan(partitions, (), reaching)
    is_least = asked.is_least and asked.fixed_ms is None
    tails = list(_tails(partitions, bounds, resolved, late, is_least=is_least))
    short = [] if asked.fixed_ms is not None else _short(tails, partitions, facts)
    seen = _seen(source, [each for each in tails if each not in short], bounds, facts)
    if asked.fixed_ms is not None:
        _refuse_more(seen)
        return TimeSpan(partitions, tuple(_on_looked(seen, {})), reaching)
    ends = _ends(seen) | {each.place: each.end for each in short}
    notes = (*_on_looked(seen, ends), *_on_read(seen, ends), *_on_short(short))
    ended = {place: _ending(each, ends.get(place)) for place, each in partitions.items()}
    return TimeSpan(ended, notes, reaching)


def _ending(span_: PartitionSpan, end: int | None) -> PartitionSpan:
    return span_ if end is None else replace(span_, to_offset=end)


# --- by the index


def _by_index(
    source: Source,
    bounds: Mapping[TopicPartition, Bounds],
    resolved: Resolved,
    late: Mapping[str, int],
    asked: ReadOn,
) -> dict[TopicPartition, PartitionSpan]:
    """Return the offsets from Kafka's answers alone."""
    to_ms = resolved.to_ms
    shifts = sorted({0, *late.values()}) if to_ms is not None and not asked.is_to_end else [0]
    instants = [None if to_ms is None else to_ms + shift for shift in shifts]
    first, *answers = offsets_of(source, resolved.from_ms, *instants)
    by_shift = dict(zip(shifts, answers, strict=True))
    partitions = {}
    for place, held in sorted(bounds.items()):
        from_offset = _clamped(first.get(place, held.earliest), held)
        end = by_shift[0].get(place, held.stable_end)
        last = by_shift.get(late.get(place[0], 0), {}).get(place, held.stable_end)
        span_end = max(from_offset, _clamped(end, held))
        to_offset = held.stable_end if asked.is_to_end else max(span_end, _clamped(last, held))
        partitions[place] = PartitionSpan(from_offset, span_end, to_offset)
    return partitions


def _clamped(offset: int, held: Bounds) -> int:
    # The log may have moved between two requests: offsets beyond the first answer are not planned.
    return min(max(offset, held.earliest), held.stable_end)


def _lateness(
    bounds: Mapping[TopicPartition, Bounds], lateness_ms: int, facts: Mapping[str, TopicFacts]
) -> dict[str, int]:
    """Return how long to read on in each topic: the requested lateness, or more if its settings allow more."""
    found = {}
    for topic in {topic for topic, _ in bounds}:
        bounded_ms = _bounded_ms(facts.get(topic))
        found[topic] = max(lateness_ms, bounded_ms or 0)
    return found


def _bounded_ms(facts: TopicFacts | None) -> int | None:
    """Return the greatest disorder of times that a topic's settings allow, if they limit both sides."""
    if facts is None or facts.sets_log_append_time or _BEFORE not in facts.settings:
        return None
    after = facts.settings.get(_AFTER, _AFTER_UNSAID_MS)
    total_ms = int(facts.settings[_BEFORE]) + int(after)
    return total_ms if total_ms <= _BOUNDED_MS else None


def _is_ordered(place: TopicPartition, facts: Mapping[str, TopicFacts]) -> bool:
    """Return whether the topic's settings rule out records later than the lateness."""
    known = facts.get(place[0])
    return known is not None and (known.sets_log_append_time or _bounded_ms(known) is not None)


# --- after the end


def _tails(
    partitions: Mapping[TopicPartition, PartitionSpan],
    bounds: Mapping[TopicPartition, Bounds],
    resolved: Resolved,
    late: Mapping[str, int],
    *,
    is_least: bool,
) -> Iterator[Tail]:
    """Return the offsets after the end and the lateness; with `is_least`, those after the end."""
    to_ms = resolved.to_ms or 0
    for place, held in sorted(bounds.items()):
        its, lateness_ms = partitions[place], late[place[0]]
        start = its.span_end if is_least else its.to_offset
        reached_ms = to_ms if is_least else to_ms + lateness_ms
        if start < held.stable_end:
            sought = SearchedEnd(resolved.from_ms, to_ms, lateness_ms, reached_ms)
            yield Tail(place, start, held.stable_end, sought)


def _short(
    tails: Sequence[Tail],
    partitions: Mapping[TopicPartition, PartitionSpan],
    facts: Mapping[str, TopicFacts],
) -> list[Tail]:
    """Return the tails that are cheaper to read than to sample, if not all can be checked completely."""
    if sum(map(len, tails)) <= WHOLE_OFFSETS:
        return []
    planned = {place: each.to_offset - each.from_offset for place, each in partitions.items()}
    return [
        each
        for each in tails
        if len(each) <= planned[each.place] // _SHORT and not _is_ordered(each.place, facts)
    ]


def _seen(
    source: Source,
    tails: Sequence[Tail],
    bounds: Mapping[TopicPartition, Bounds],
    facts: Mapping[str, TopicFacts],
) -> list[Tail]:
    """Check the tails. A topic that uses the broker's times only recently is checked like any other."""
    sizes = _sizes(bounds, facts)
    look(source, tails, bytes_per_offset=sizes, few=lambda place: _is_ordered(place, facts))
    again = [
        Tail(each.place, each.start, each.end, each.sought)
        for each in tails
        if _is_ordered(each.place, facts) and not (each.is_whole or _is_as_set(each, facts))
    ]
    if again:
        look(source, again, bytes_per_offset=sizes)
    anew = {each.place: each for each in again}
    return [anew.get(each.place, each) for each in tails]


def _is_as_set(tail: Tail, facts: Mapping[str, TopicFacts]) -> bool:
    return tail.by_broker or not facts[tail.place[0]].sets_log_append_time


def _sizes(
    bounds: Mapping[TopicPartition, Bounds], facts: Mapping[str, TopicFacts]
) -> Callable[[TopicPartition], float]:
    """Return the approximate bytes of an offset in each partition; 0 if unknown."""

    def per_offset(place: TopicPartition) -> float:
        held, known = bounds[place], facts.get(place[0])
        size = known.bytes_by_partition.get(place[1], 0) if known else 0
        return size / max(1, held.high_watermark - held.earliest)

    return per_offset


def _refuse_more(tails: Sequence[Tail]) -> None:
    for tail in tails:
        if tail.first is not None:
            raise SpanGoesOn(tail.place, tail.start, tail.first)


def _ends(tails: Sequence[Tail]) -> dict[TopicPartition, int]:
    """Return the new ends. If clocks disagreed in a topic, its samples are not trusted."""
    lying = {tail.place[0] for tail in tails if not tail.is_in_order}
    ends = {}
    for tail in tails:
        if tail.is_whole:
            ends[tail.place] = tail.start if tail.last is None else tail.last + 1
        elif not tail.is_whole and tail.place[0] in lying:
            ends[tail.place] = tail.end
    return ends


# --- notes


def _on_looked(tails: Sequence[Tail], ends: Mapping[TopicPartition, int]) -> Iterator[Note]:
    whole = [each for each in tails if each.is_whole]
    sampled = [each for each in tails if not each.is_whole and each.place not in ends]
    by_broker = [each for each in sampled if each.by_broker and each.looked_at]
    others = [each for each in sampled if each not in by_broker]
    if whole:
        found = sum(each.last is not None for each in whole)
        result = f"{found} of them with records of the span" if found else "nothing of the span"
        yield Note(LOOKED, f"looked past the end: all {_counted(whole)}, {result}", "info")
    if by_broker:
        text = (
            f"looked past the end: {_counted(by_broker)}; the broker has set their times, in order"
        )
        yield Note(LOOKED, text, "info")
    if others:
        more = "in order" if all(each.is_in_order for each in others) else "NOT in order"
        text = (
            f"looked past the end: {_counted(others)}, nothing of the span, and times {more}; "
            "--read-on end reads all of them"
        )
        yield Note(SAMPLED, text, "info" if more == "in order" else "warn")


def _counted(tails: Sequence[Tail]) -> str:
    looked, total = sum(each.looked_at for each in tails), sum(map(len, tails))
    of = "" if looked == total else f" of {total:,}"
    return f"{looked:,}{of} offsets in {len(tails)} partition{'s' if len(tails) > 1 else ''}"


def _on_read(tails: Sequence[Tail], ends: Mapping[TopicPartition, int]) -> Iterator[Note]:
    read = [each for each in tails if ends.get(each.place, each.start) > each.start]
    for tail in sorted(read, key=lambda each: each.is_in_order)[:_MOST_SAID]:
        place, end = f"{tail.place[0]}:{tail.place[1]}", ends[tail.place]
        yield Note(READ_ON, f"{place} is read on from {tail.start} to {end}: {_why(tail)}")
    if len(read) > _MOST_SAID:
        yield Note(READ_ON, f"and {len(read) - _MOST_SAID} more partitions")


def _why(tail: Tail) -> str:
    less = "" if tail.is_whole else "; --read-on DURATION reads less"
    if tail.first is not None:
        at = tail.first
        text = f"offset {at.offset} after Kafka's end is in the span ({show_ms(at.timestamp_ms)})"
    elif tail.earlier is not None:
        at = tail.earlier
        text = (
            f"offset {at.offset} is from {show_ms(at.timestamp_ms)}, after records with later times"
        )
    else:
        text = "the samples were in order, but not those of other partitions of the topic"
    return f"{text}: clocks disagree{less}"


def _on_short(tails: Sequence[Tail]) -> Iterator[Note]:
    if tails:
        text = f"the rest after the end is short compared with the span and is read too: {sum(map(len, tails)):,}"
        yield Note(READ_ON, f"{text} offsets in {len(tails)} partitions", "info")

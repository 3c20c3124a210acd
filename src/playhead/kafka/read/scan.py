"""Reads spans of many partitions as records arrive, and knows the position in each at any moment."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import groupby

from confluent_kafka import KafkaError, Message

from playhead.absence import Blank, absent_between
from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import BrokerUnavailable, PlayheadError
from playhead.kafka.admin.client import DEFAULT_TIMEOUT_S
from playhead.kafka.read.absences import LogExplainer, RecordsNotGiven
from playhead.kafka.read.consumer import OffsetsFall, PartitionConsumer, need_order
from playhead.kafka.read.unreadable import headers_of
from playhead.note import Note
from playhead.record import Headers
from playhead.records import Records
from playhead.source import Bounds, OutOfBounds, Source, TopicPartition
from playhead.span import OffsetSpan, Resolved
from playhead.time_span import ReadOn, time_span

_LOOK_S = 0.2
_MOST_BLANKS = 1_000
"""With more runs of offsets without a record, the log is asked for their reasons before reading continues."""
_NOT_GIVEN_HINT = (
    "read the records before and after them: --offsets TOPIC:PARTITION:FROM-TO; a producer may have written "
    "what the client cannot read"
)


class NoSuchOffsets(PlayheadError):
    """A span names a partition or offsets that a topic does not have."""


class LogMovedOn(PlayheadError):
    """Records to be read are no longer in the log."""

    def __init__(self, place: TopicPartition, *, offset: int) -> None:
        self.place, self.offset = place, offset
        super().__init__(
            f"{place[0]}:{place[1]} no longer holds offset {offset}: it was deleted by retention or a trim",
            hint="`playhead topics describe --offsets` shows the existing offsets; start there",
        )


@dataclass(slots=True)
class Stretch:
    """The offsets `[start, end)` of one partition; without an end, it continues as records arrive."""

    topic: str
    partition: int
    start: int
    end: int | None
    at: int = field(init=False)
    """The next offset to read; all before it, from the start, were scanned."""

    def __post_init__(self) -> None:
        self.at = self.start

    @property
    def place(self) -> TopicPartition:
        return self.topic, self.partition

    @property
    def is_done(self) -> bool:
        return self.end is not None and self.at >= self.end

    def move(self, at: int) -> None:
        self.at = max(self.at, at if self.end is None else min(at, self.end))


def stretches(
    source: Source,
    resolved: Resolved,
    *,
    lateness_ms: int,
    read_on: ReadOn | None = None,
    is_open: bool = False,
) -> tuple[list[Stretch], tuple[Note, ...]]:
    """Return the span's offsets now, with notes; with `is_open`, no partition has an end."""
    bounds = source.bounds()
    if resolved.offsets:
        return [_by_offsets(each, bounds, is_open) for each in resolved.offsets], ()
    asked = replace(resolved, to_ms=None) if is_open else resolved
    found = time_span(source, bounds, asked, lateness_ms=lateness_ms, read_on=read_on)
    return [
        Stretch(*place, each.from_offset, None if is_open else each.to_offset)
        for place, each in found.partitions.items()
    ], found.notes


def from_now(source: Source) -> list[Stretch]:
    """Return stretches that contain only future records."""
    return [
        Stretch(*place, held.stable_end, None) for place, held in sorted(source.bounds().items())
    ]


def from_tail(source: Source, count: int, *, is_open: bool) -> list[Stretch]:
    """Return stretches of `count` offsets before the end of each partition."""
    return [
        _from(place, held, held.stable_end - count, is_open)
        for place, held in sorted(source.bounds().items())
    ]


def from_offsets(
    source: Source, offsets: Mapping[TopicPartition, int], *, group: str, is_open: bool
) -> tuple[list[Stretch], tuple[Note, ...]]:
    """Return stretches from a group's committed offsets, with notes on partitions that lack them."""
    found, notes = [], []
    for place, held in sorted(source.bounds().items()):
        offset = offsets.get(place)
        if offset is None:
            text = (
                f"group {group} has committed nothing for {place[0]}:{place[1]}: reading all of it"
            )
            notes.append(Note("consume-uncommitted", text, "info"))
        elif offset < held.earliest:
            gone = f"{offset:,} to {held.earliest - 1:,} are gone from the log"
            text = f"group {group} has not read all of {place[0]}:{place[1]}: offsets {gone}"
            notes.append(Note("consume-expired", text))
        elif offset > held.stable_end:
            text = (
                f"group {group} has committed offset {offset:,} of {place[0]}:{place[1]}, "
                f"which ends at {held.stable_end:,}: the topic may have been created again"
            )
            notes.append(Note("consume-beyond", text))
        found.append(_from(place, held, held.earliest if offset is None else offset, is_open))
    return found, tuple(notes)


def _from(place: TopicPartition, held: Bounds, offset: int, is_open: bool) -> Stretch:
    start = min(max(offset, held.earliest), held.stable_end)
    return Stretch(*place, start, None if is_open else held.stable_end)


def _by_offsets(
    span: OffsetSpan, bounds: Mapping[TopicPartition, Bounds], is_open: bool
) -> Stretch:
    topics = sorted({topic for topic, _ in bounds})
    if span.topic is None and len(topics) != 1:
        raise NoSuchOffsets(
            f"the span {span} names no topic, but there are {len(topics)}",
            hint="write TOPIC:PARTITION:FROM-TO",
        )
    place = (span.topic or topics[0], span.partition)
    held = bounds.get(place)
    if held is None:
        there = ", ".join(str(number) for topic, number in sorted(bounds) if topic == place[0])
        hint = f"{place[0]} has {there}" if there else f"read here: {', '.join(topics)}"
        raise NoSuchOffsets(f"there is no partition {place[0]}:{place[1]}", hint=hint)
    start = held.earliest if span.from_offset is None else span.from_offset
    end = held.stable_end if span.to_offset is None else span.to_offset
    if start < held.earliest or max(start, end) > held.stable_end:
        raise NoSuchOffsets(
            f"{place[0]}:{place[1]} offsets {start}-{end} do not exist; the partition holds "
            f"{held.earliest}-{held.stable_end}",
            hint="use existing offsets: --offsets "
            f"{place[0]}:{place[1]}:{max(start, held.earliest)}-{min(max(end, held.earliest), held.stable_end)}",
        )
    return Stretch(*place, start, None if is_open and span.to_offset is None else end)


@dataclass(slots=True)
class Scan:
    """Reads stretches in the order in which their records arrive; the caller may stop at any time."""

    connection: KafkaConnection
    stretches: Sequence[Stretch]
    patience_s: float
    trouble: str | None = None
    """While following: why nothing can arrive now."""
    _blanks: dict[TopicPartition, list[Blank]] = field(default_factory=dict, init=False)
    """The offsets without a record that the log was not asked about yet."""

    @property
    def scanned(self) -> int:
        """How many offsets were passed, with or without a record."""
        return sum(each.at - each.start for each in self.stretches)

    @property
    def planned(self) -> int | None:
        """How many offsets there are in all; None without an end."""
        ends = [each.end for each in self.stretches]
        if any(end is None for end in ends):
            return None
        return sum((each.end or 0) - each.start for each in self.stretches)

    def run(self) -> Iterator[Records]:
        """Yield runs of records, each of one partition in order; empty runs while following and waiting.

        Raises if the log holds records at offsets that were passed without one.
        """
        left = {each.place: each for each in self.stretches if not each.is_done}
        if not left:
            return
        with closing(PartitionConsumer(self.connection, patience_s=self.patience_s)) as consumer:
            consumer.assign({place: each.at for place, each in left.items()})
            follows = any(each.end is None for each in left.values())
            while left:
                found = consumer.poll(_LOOK_S) if follows else consumer.poll_or_fail("reading")
                if follows:
                    self.trouble = None if found else consumer.last_error
                    if not found:
                        self._need_no_more()
                        yield Records("", 0)
                # What came before an error is returned first, and the span may end with it.
                for (place, _), arrived in groupby(found, _place_and_error):
                    yield from self._take(consumer, left, place, list(arrived))
                done = [place for place, each in left.items() if each.is_done]
                for place in done:
                    del left[place]
                if done and left:
                    consumer.unassign(done)
                if sum(map(len, self._blanks.values())) > _MOST_BLANKS:
                    self._need_no_more()
        self._need_no_more()

    def _need_no_more(self) -> None:
        """Raise if the log holds records where the client gave none; nothing is known of what was deleted meanwhile.

        While a leader is away, a scan that follows asks again later, and any other waits.
        """
        deadline = time.monotonic() + self.patience_s
        while self._blanks:
            try:
                self._ask_for_reasons()
            except BrokerUnavailable as exc:
                if self.planned is None:
                    self.trouble = exc.reason
                    return
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_LOOK_S)

    def _ask_for_reasons(self) -> None:
        timeout_s = min(self.patience_s, DEFAULT_TIMEOUT_S)
        with closing(LogExplainer(self.connection, timeout_s=timeout_s)) as log:
            while self._blanks:
                place, its = next(iter(self._blanks.items()))
                try:
                    log.explain(place, its)
                except OutOfBounds:
                    pass
                except RecordsNotGiven as exc:
                    exc.hint = _NOT_GIVEN_HINT
                    raise
                del self._blanks[place]

    def _take(
        self,
        consumer: PartitionConsumer,
        left: Mapping[TopicPartition, Stretch],
        place: TopicPartition,
        arrived: list[Message],
    ) -> Iterator[Records]:
        stretch = left.get(place)
        good, position = [], 0
        for each in arrived:
            error = each.error()
            if error is None:
                if stretch is not None:
                    if each.offset() < stretch.at:
                        raise OffsetsFall(place, stretch.at - 1, each.offset())
                    position = each.offset() + 1
                    if stretch.end is None or each.offset() < stretch.end:
                        good.append(each)
            elif error.code() == KafkaError._PARTITION_EOF:
                position = max(position, each.offset())
            elif stretch is not None and stretch.is_done:
                continue
            elif error.code() == KafkaError._AUTO_OFFSET_RESET and stretch is not None:
                self._need_no_more()
                raise LogMovedOn(place, offset=stretch.at)
            else:
                consumer.refuse_permanent(error, f"reading {place[0]}")
        if stretch is None:
            return
        need_order(good)
        began, offsets = stretch.at, [each.offset() for each in good]
        for run in _runs(place, good):
            # If the caller stops in the middle of a run, this is the position.
            stretch.move(run.offsets[-1] + 1)
            yield run
        stretch.move(position)
        blanks = absent_between(began, offsets)
        passed = offsets[-1] + 1 if offsets else began
        if passed < stretch.at:
            blanks.append((passed, stretch.at))
        if blanks:
            self._blanks.setdefault(place, []).extend(blanks)


def _place_and_error(found: Message) -> tuple[TopicPartition, bool]:
    return (found.topic(), found.partition()), found.error() is not None


def _runs(place: TopicPartition, found: list[Message]) -> Iterator[Records]:
    """Yield the records, and one with a part that cannot be read by itself, marked."""
    while found:
        headers, _, unread = headers_of(found)
        if headers:
            yield _columns(place, found[: len(headers)], headers)
        if unread is None:
            return
        yield unread.marked()
        found = found[len(headers) + 1 :]


def _columns(place: TopicPartition, found: list[Message], headers: list[Headers]) -> Records:
    stamps = [each.timestamp() for each in found]
    return Records(
        *place,
        [each.offset() for each in found],
        [instant for _, instant in stamps],
        # The client's ids of timestamp types are Kafka's plus one.
        [kind - 1 for kind, _ in stamps],
        [each.key() for each in found],
        [each.value() for each in found],
        headers,
    )

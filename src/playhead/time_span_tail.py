"""Checks the offsets after Kafka's end of a time span for records of the span."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from threading import Thread
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from playhead.record import Slice, TimestampType
from playhead.records import Records
from playhead.source import Reader, Source, TopicPartition, rejecting

WHOLE_OFFSETS, WHOLE_BYTES = 250_000, 48 << 20
"""Tails are read completely up to this many offsets and bytes in all."""
WITHIN_S = 1.0
"""The time for samples; requests under way at that time still count."""
_NEAR, _STRIDE, _LAST = 2_000, 200, 500
_STRIDES, _MOST_PROBES, _FEW = 64, 2_048, 3
_READERS, _GLANCED = 4, 5_000
_PROBE_BYTES = 1 << 20
Lot = TypeVar("Lot")
_BY_BROKER = {TimestampType.LOG_APPEND_TIME.value, TimestampType.NONE.value}


class Times(NamedTuple):
    """The offsets and times of a partition's records, without their content."""

    offsets: list[int]
    timestamps_ms: list[int]
    timestamp_types: list[int]


@runtime_checkable
class Glancing(Protocol):
    """A source that returns the times of many short probes faster than a reader could."""

    def glance(
        self, probes: Sequence[Slice], /, *, within_s: float, most_bytes: int
    ) -> Iterable[tuple[Slice, Times]]:
        """Return for each probe the part that was read, from its start, and all record times in it.

        Probes that exceed the time are left out; one that exceeds the bytes ends early.
        """
        ...


@dataclass(frozen=True, slots=True)
class SearchedEnd:
    """The record times to look for, and by how much clocks may differ without a note."""

    from_ms: int | None
    to_ms: int
    lateness_ms: int
    reached_ms: int
    """The log's time at the start of the search: a record of at least this time is there, or before."""

    def has(self, time_ms: int) -> bool:
        return time_ms < self.to_ms and (self.from_ms is None or self.from_ms <= time_ms)


@dataclass(frozen=True, slots=True)
class StrayRecord:
    """A record that is out of place in time."""

    offset: int
    timestamp_ms: int


@dataclass(slots=True)
class Tail:
    """The offsets `[start, end)` after the end of a span in one partition, and the results of the check."""

    place: TopicPartition
    start: int
    end: int
    sought: SearchedEnd
    looked_at: int = 0
    """The number of offsets that were checked."""
    first: StrayRecord | None = None
    """The first record of the span that was found."""
    last: int | None = None
    """The offset of the last one."""
    earlier: StrayRecord | None = None
    """A record that is earlier than a record before it by more than the lateness."""
    by_broker: bool = True
    """Whether all checked records have the broker's time."""
    _reached: int = field(init=False)
    _level_ms: int = field(init=False)

    def __post_init__(self) -> None:
        self._reached = self.start
        self._level_ms = self.sought.reached_ms

    def __len__(self) -> int:
        return self.end - self.start

    @property
    def is_whole(self) -> bool:
        return self.looked_at == len(self)

    @property
    def is_in_order(self) -> bool:
        """Whether the checked records are in order."""
        return self.first is None and self.earlier is None

    def take(self, seen: Slice, times: Times) -> None:
        """Add all records of a part; parts come in offset order, and overlaps count once."""
        start = max(seen.from_offset, self._reached)
        self.looked_at += max(0, seen.to_offset - start)
        self._reached = max(self._reached, seen.to_offset)
        if self.by_broker and set(times.timestamp_types) - _BY_BROKER:
            self.by_broker = False
        if not times.offsets or self._is_plain(times):
            return
        for offset, time_ms, kind in zip(*times, strict=True):
            if offset >= start:
                self._see(offset, time_ms, is_timed=kind != TimestampType.NONE.value)

    def _is_plain(self, times: Times) -> bool:
        """Return whether all records of a part are after the span and in order, which is usual."""
        most = max(self._level_ms, *times.timestamps_ms)
        if min(times.timestamps_ms) < max(most - self.sought.lateness_ms, self.sought.to_ms):
            return False
        self._level_ms = most
        return True

    def _see(self, offset: int, time_ms: int, *, is_timed: bool) -> None:
        if time_ms >= self._level_ms:
            self._level_ms = time_ms
            return
        if self.sought.has(time_ms):
            self.first = self.first or StrayRecord(offset, time_ms)
            self.last = offset
        is_late = time_ms < self._level_ms - self.sought.lateness_ms
        if self.earlier is None and is_late and is_timed:
            self.earlier = StrayRecord(offset, time_ms)


def look(
    source: Source,
    tails: Sequence[Tail],
    *,
    bytes_per_offset: Callable[[TopicPartition], float] = lambda _: 0.0,
    few: Callable[[TopicPartition], bool] = lambda _: False,
) -> None:
    """Check the tails: short ones completely, long ones by samples.

    `few` are tails whose times are known to be in order; hardly anything of them is read.
    """
    whole: list[Tail] = []
    left, left_bytes = WHOLE_OFFSETS, float(WHOLE_BYTES)
    for tail in sorted(tails, key=len):
        size = len(tail) * bytes_per_offset(tail.place)
        if len(tail) <= left and size <= left_bytes and (not few(tail.place) or len(tail) < _NEAR):
            whole.append(tail)
            left, left_bytes = left - len(tail), left_bytes - size
    _read_wholly(source, whole)
    sampled = [tail for tail in tails if not tail.is_whole]
    if sampled:
        _sample(source, sampled, few)


def _read_wholly(source: Source, tails: Sequence[Tail]) -> None:
    """Read several tails at the same time; the rest of those that turn out too large is sampled."""
    if isinstance(source, Glancing) and len(tails) > _READERS:
        _glance_wholly(source, [each for each in tails if len(each) <= _GLANCED])
        tails = [each for each in tails if not each.is_whole]
    lots = [tails[index::_READERS] for index in range(min(_READERS, len(tails)))]
    if len(tails) <= _READERS:
        lots = [tails] if tails else []
    room = [WHOLE_BYTES]

    def work(lot: Sequence[Tail]) -> None:
        with rejecting(source) as reader:
            for tail in lot:
                if room[0] > 0:
                    room[0] -= _read(reader, tail, room[0])

    side_by_side(work, lots)


def side_by_side(work: Callable[[Lot], None], lots: Sequence[Lot]) -> None:
    """Do the work for each lot in a thread, the first in this one; raise the first error when all have ended."""
    failures: list[BaseException] = []

    def guarded(lot: Lot) -> None:
        try:
            work(lot)
        except BaseException as exc:  # noqa: BLE001  raised again in the thread that waits
            failures.append(exc)

    threads = [Thread(target=guarded, args=(lot,), daemon=True) for lot in lots[1:]]
    for thread in threads:
        thread.start()
    for lot in lots[:1]:
        guarded(lot)
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _glance_wholly(source: Glancing, tails: Sequence[Tail]) -> None:
    """Read many short tails at the same time, for sources without absent offsets only."""
    by_place = {each.place: each for each in tails}
    most_bytes = WHOLE_BYTES // max(1, len(tails))
    wanted = [Slice(*each.place, each.start, each.end) for each in tails]
    for part, times in source.glance(wanted, within_s=WITHIN_S, most_bytes=most_bytes):
        tail = by_place[part.topic, part.partition]
        if len(part) == len(times.offsets) == len(tail):
            tail.take(part, times)


def _read(reader: Reader, tail: Tail, most_bytes: int) -> int:
    """Read a tail to its end or the byte limit; return the number of records."""
    at, size = tail.start, 0
    for records in reader.read(Slice(*tail.place, tail.start, tail.end)):
        end = records.offsets[-1] + 1
        tail.take(Slice(*tail.place, at, end), _times(records))
        at, size = end, size + records.size_bytes()
        if size > most_bytes:
            return size
    if at < tail.end:
        tail.take(Slice(*tail.place, at, tail.end), Times([], [], []))
    return size


def _times(records: Records) -> Times:
    return Times(records.offsets, records.timestamps_ms, records.timestamp_types)


# --- samples


def _sample(source: Source, tails: Sequence[Tail], few: Callable[[TopicPartition], bool]) -> None:
    strides = max(_FEW, min(_STRIDES, _MOST_PROBES // len(tails)))
    planned = {
        tail.place: probes(
            Slice(*tail.place, tail._reached, tail.end), _FEW if few(tail.place) else strides
        )
        for tail in tails
    }
    # The first, then the last offsets, and so on: if the time runs out, the important ones were
    # read.
    waves = max(map(len, planned.values()))
    ordered = [each[wave] for wave in range(waves) for each in planned.values() if wave < len(each)]
    seen: dict[TopicPartition, list[tuple[Slice, Times]]] = {tail.place: [] for tail in tails}
    for part, times in _glanced(source, ordered):
        seen[part.topic, part.partition].append((part, times))
    for tail in tails:
        for part, times in sorted(seen[tail.place], key=lambda each: each[0]):
            tail.take(part, times)


def probes(tail: Slice, strides: int) -> list[Slice]:
    """Return short probes of a tail by importance: its start, its end, then denser near the start."""
    start, end = tail.from_offset, tail.to_offset
    found = [replace(tail, to_offset=min(start + _NEAR, end))]
    starts = [end - _LAST]
    far, step = start + _NEAR, _NEAR
    while far < end and len(starts) < strides // 2:
        starts.append(far)
        far, step = far + step, step * 2
    left = strides - len(starts)
    starts += [start + (end - start) * (index + 1) // (left + 1) for index in range(left)]
    for at in starts:
        first = max(at, start)
        last = min(first + (_LAST if at == end - _LAST else _STRIDE), end)
        if first < last and not any(_holds(each, first, last) for each in found):
            found.append(replace(tail, from_offset=first, to_offset=last))
    return found


def _holds(probe: Slice, first: int, last: int) -> bool:
    return probe.from_offset <= first and last <= probe.to_offset


def _glanced(source: Source, wanted: Sequence[Slice]) -> Iterable[tuple[Slice, Times]]:
    if isinstance(source, Glancing):
        return source.glance(wanted, within_s=WITHIN_S, most_bytes=_PROBE_BYTES)
    return _read_probes(source, wanted)


def _read_probes(source: Source, wanted: Sequence[Slice]) -> Iterator[tuple[Slice, Times]]:
    until = time.monotonic() + WITHIN_S
    with rejecting(source) as reader:
        for probe in wanted:
            yield _probe(reader, probe)
            if time.monotonic() > until:
                return


def _probe(reader: Reader, probe: Slice) -> tuple[Slice, Times]:
    found, size = Times([], [], []), 0
    for records in reader.read(probe):
        for column, more in zip(found, _times(records), strict=True):
            column.extend(more)
        size += records.size_bytes()
        if size > _PROBE_BYTES:
            return replace(probe, to_offset=records.offsets[-1] + 1), found
    return probe, found

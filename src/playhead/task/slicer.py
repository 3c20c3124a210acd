"""Cuts the records of a planned slice into open slices that commit as a whole, and counts them."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, groupby
from operator import not_

from playhead.absence import Blank, absent_between
from playhead.account import Account
from playhead.ledger import listed
from playhead.record import Slice
from playhead.records import Records
from playhead.source import TopicPartition

MAX_RECORDS = 200_000
MAX_BYTES = 64 << 20

# KEPT is 0, so that `any(verdicts)` is false if every record is kept.
KEPT, FILTERED, OUTSIDE = 0, 1, 2
ReadRun = tuple[Records, Sequence[int] | None]
"""Records as read, with the verdict on each; None if only the span remains to be checked."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When a slice is cut: at the first limit. Limits count records read and bytes kept, so that
    equal records give equal slices, however they arrive.
    """

    max_records: int = MAX_RECORDS
    max_bytes: int = MAX_BYTES


@dataclass(frozen=True, slots=True)
class Filter:
    """Filters records whose own time is outside the span."""

    from_ms: int | None = None
    to_ms: int | None = None
    span_ends: Mapping[TopicPartition, int] = field(default_factory=dict)

    def verdicts(self, records: Records) -> list[int] | None:
        """Return the verdict on each record; None if all are inside."""
        if not len(records) or (self.from_ms is None and self.to_ms is None):
            return None
        times = records.timestamps_ms
        least, most = min(times), max(times)
        first = least if self.from_ms is None else self.from_ms
        end = most + 1 if self.to_ms is None else self.to_ms
        if first <= least and most < end:
            return None
        if most < first or end <= least:
            return [OUTSIDE] * len(times)
        return [KEPT if first <= time < end else OUTSIDE for time in times]


@dataclass(slots=True)
class OpenSlice:
    """The counts and the records of a slice that will be committed."""

    account: Account
    runs: list[Records] = field(default_factory=list)
    size_bytes: int = 0
    reached: int = 0
    """The offset up to which everything is counted as read or absent."""


class Slicer:
    """Turns the records of one planned slice into open slices."""

    def __init__(
        self, limits: Limits, filter_: Filter, make_account: Callable[[Slice], Account]
    ) -> None:
        self._limits, self._filter, self._make_account = limits, filter_, make_account
        self._log_ms: dict[TopicPartition, int] = {}

    def open_slices(self, planned: Slice, runs_read: Iterable[ReadRun]) -> Iterator[OpenSlice]:
        """Yield open slices that contain every offset of the planned slice exactly once, even empty ones."""
        start = reached = planned.from_offset
        open_slice = self._open_slice(planned, start)
        for records, given in runs_read:
            rest, verdicts = records, self._filter.verdicts(records) if given is None else given
            reached = _followed(planned, reached, rest, verdicts)
            while len(rest):
                taken = self._take(open_slice, rest, verdicts)
                if taken < len(rest) or self._is_full(open_slice):
                    start = rest.offsets[taken - 1] + 1
                    yield _ended(open_slice, start)
                    open_slice = self._open_slice(planned, start)
                rest = rest.cut(taken, len(rest))
                verdicts = verdicts[taken:] if verdicts is not None else None
        if start < planned.to_offset:
            yield _ended(open_slice, planned.to_offset)

    def _open_slice(self, planned: Slice, start: int) -> OpenSlice:
        # The end is not known yet, and is corrected later.
        end = max(planned.to_offset, start + 1)
        account = self._make_account(replace(planned, from_offset=start, to_offset=end))
        return OpenSlice(account, reached=start)

    def _is_full(self, open_slice: OpenSlice) -> bool:
        limits = self._limits
        return (
            open_slice.account.read >= limits.max_records
            or open_slice.size_bytes >= limits.max_bytes
        )

    def _take(self, open_slice: OpenSlice, records: Records, verdicts: Sequence[int] | None) -> int:
        """Add as many of the records as fit into the slice; return how many."""
        head, verdicts = _start_of(
            records, verdicts, self._limits.max_records - open_slice.account.read
        )
        kept = _kept(head, verdicts)
        size = kept.size_bytes()
        room = self._limits.max_bytes - open_slice.size_bytes
        if size >= room:
            head, verdicts = _start_of(head, verdicts, _where_full(head, verdicts, room))
            kept = _kept(head, verdicts)
            size = kept.size_bytes()
        open_slice.size_bytes += size
        if len(kept):
            open_slice.runs.append(kept)
        open_slice.account.absent += absent_between(open_slice.reached, head.offsets)
        self._count(open_slice, head, kept, verdicts)
        open_slice.reached = head.offsets[-1] + 1
        return len(head)

    def _count(
        self, open_slice: OpenSlice, head: Records, kept: Records, verdicts: Sequence[int] | None
    ) -> None:
        account = open_slice.account
        outside = verdicts.count(OUTSIDE) if verdicts is not None else 0
        account.read += len(head)
        if account.checksum is not None:
            account.checksum = head.checksum(account.checksum)
        account.outside += outside
        if outside and verdicts is not None:
            runs = _outside_at(head, verdicts, open_slice)
            account.outside_at = listed(account.outside_at, runs)
        account.filtered += len(head) - outside - len(kept)
        if len(kept):
            first, last = min(kept.timestamps_ms), max(kept.timestamps_ms)
            account.first_ms = first if account.first_ms is None else min(first, account.first_ms)
            account.last_ms = last if account.last_ms is None else max(last, account.last_ms)
        self._count_late(account, head, verdicts)

    def _count_late(self, account: Account, head: Records, verdicts: Sequence[int] | None) -> None:
        place = (head.topic, head.partition)
        end, to_ms = self._filter.span_ends.get(place), self._filter.to_ms
        if end is None or to_ms is None or head.offsets[-1] < end:
            return
        after = bisect_left(head.offsets, end)
        times = head.timestamps_ms[after:]
        held = verdicts[after:] if verdicts is not None else [KEPT] * len(times)
        reached = self._log_ms.get(place, to_ms)
        late = len(held) - held.count(OUTSIDE)
        if late:
            # The log's time never decreases, so it was highest at the last record.
            last = next(i for i in reversed(range(len(held))) if held[i] != OUTSIDE)
            account.late += late
            highest = max(times[: last + 1])
            since_ms = max(reached, highest) - to_ms
            account.last_late_ms = max(account.last_late_ms or 0, since_ms)
        highest = max(times)
        self._log_ms[place] = max(reached, highest)


def _followed(
    planned: Slice, reached: int, records: Records, verdicts: Sequence[int] | None
) -> int:
    """Return where the next run ends; refuse a run that does not follow, which would corrupt the counts."""
    if verdicts is not None and len(verdicts) != len(records):
        raise ValueError(f"runs_read: found {len(verdicts)} verdicts, needed {len(records)}")
    if not len(records):
        return reached
    first, last = records.offsets[0], records.offsets[-1]
    is_theirs = (records.topic, records.partition) == (planned.topic, planned.partition)
    if not is_theirs or first < reached or last < first or last >= planned.to_offset:
        raise ValueError(
            f"runs_read: found {records.topic}:{records.partition} offsets {first} to {last}, "
            f"needed some of {planned} from {reached} on"
        )
    return last + 1


def _ended(open_slice: OpenSlice, end: int) -> OpenSlice:
    open_slice.account.slice = replace(open_slice.account.slice, to_offset=end)
    if end > open_slice.reached:
        open_slice.account.absent.append((open_slice.reached, end))
        open_slice.reached = end
    return open_slice


def _start_of(
    records: Records, verdicts: Sequence[int] | None, count: int
) -> tuple[Records, Sequence[int] | None]:
    if count >= len(records):
        return records, verdicts
    return records.cut(0, count), verdicts[:count] if verdicts is not None else None


def _outside_at(
    records: Records, verdicts: Sequence[int], open_slice: OpenSlice
) -> Iterator[Blank]:
    """Yield the runs of records outside of the span, with the offsets between them that hold no record."""
    at, before = 0, open_slice.account.outside_at or ((-1, -1),)
    continues = before[-1][1] == open_slice.reached
    for is_outside, run in groupby(verdicts, OUTSIDE.__eq__):
        start, at = at, at + sum(1 for _ in run)
        if is_outside:
            first = open_slice.reached if continues and not start else records.offsets[start]
            yield first, records.offsets[at - 1] + 1


def _kept(records: Records, verdicts: Sequence[int] | None) -> Records:
    if verdicts is None or not any(verdicts):
        return records
    return records.pick([*compress(range(len(records)), map(not_, verdicts))])


def _where_full(records: Records, verdicts: Sequence[int] | None, room: int) -> int:
    """Return how many records it takes until the kept ones fill the room; at least one."""
    total = 0
    for index, size in enumerate(records.sizes_bytes()):
        if verdicts is None or verdicts[index] == KEPT:
            total += size
        if total >= room:
            return index + 1
    return len(records)

"""Holds records back until they are due, relative to a start that all tasks share."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field

from playhead.host.clock import Clock
from playhead.pace import Schedule, ScheduleError
from playhead.record import Slice
from playhead.records import Records
from playhead.task.slicer import KEPT, Filter, OpenSlice, ReadRun, Slicer

# Records due within this time commit together at first; later, the time of a commit decides.
# Records that become due during a commit are late by its duration, so commits must be few; but
# nothing of a slice is visible before its commit, so they must be many.
COMMIT_EVERY_NS = 500_000_000
_LEAST_NS, MOST_NS = 200_000_000, 2_000_000_000
# Commits take one part in this many of the time; then two records of a hundred become due during
# one.
_PARTS = 60
# If nothing is due for this long, a commit delays no record, and is made early.
REST_NS = 100_000_000
# A rate that is further behind than this does not catch up.
_STANDSTILL_NS = 100_000_000
_LOOK_EVERY_S = 0.2


@dataclass(slots=True)
class Pacer:
    """The clock of one partition.

    It waits on the monotonic clock, so that a jump of the wall clock has no effect; the wall clock is read
    once, to find the shared start. `start` returns that start when this partition is ready, or None if the run
    will not start.
    """

    schedule: Schedule
    filter_: Filter
    clock: Clock
    _: KW_ONLY
    start: Callable[[], int | None]
    errors: ScheduleError
    is_stopped: Callable[[], bool]
    keeps_rate: bool = False
    first_commit_ns: int = COMMIT_EVERY_NS
    """The time until the first commit; later commits follow at even intervals."""
    _ordinal: int = field(default=0, init=False)
    _due_ns: dict[int, int] = field(default_factory=dict, init=False)
    _began_ns: int | None = field(default=None, init=False)
    _length_ns: int = field(default=COMMIT_EVERY_NS, init=False)
    _commit_ns: int = field(default=COMMIT_EVERY_NS // _PARTS, init=False)
    _given_ns: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._length_ns = self.first_commit_ns

    def open_slices(
        self, slicer: Slicer, planned: Slice, runs_read: Iterable[ReadRun]
    ) -> Iterator[OpenSlice]:
        """Yield the cutter's slices, each when its first record is due and with an end soon after."""
        start = planned.from_offset
        for records, given in runs_read:
            if not self._has_begun():
                return
            verdicts = self.filter_.verdicts(records) if given is None else given
            verdicts = [KEPT] * len(records) if verdicts is None else verdicts
            for first, stop in self._stretches(records, verdicts):
                end = records.offsets[stop - 1] + 1
                if not self._wait_until(self._due_ns.get(records.offsets[first])):
                    return
                part = Slice(planned.topic, planned.partition, start, end)
                piece = (records.cut(first, stop), verdicts[first:stop])
                yield from slicer.open_slices(part, [piece])
                self._note_commit()
                start = end
        if self._has_begun() and start < planned.to_offset:
            tail = Slice(planned.topic, planned.partition, start, planned.to_offset)
            yield from slicer.open_slices(tail, [])

    def _has_begun(self) -> bool:
        """Return whether the run has a start; the first call waits for it, with the first records ready."""
        if self._began_ns is None and (start_ns := self.start()) is not None:
            self._began_ns = self.clock.monotonic_ns() - (self.clock.now_ns() - start_ns)
        return self._began_ns is not None

    def release(self, open_slice: OpenSlice) -> Iterator[Records]:
        """Yield the slice's records, each when it is due, and note its delay."""
        for records in open_slice.runs:
            due = [self._due_ns.pop(offset) for offset in records.offsets]
            given = 0
            while given < len(due):
                now = self._now_ns()
                if due[given] > now:
                    self.clock.sleep((due[given] - now) / 1e9)
                    continue
                stop = next((i for i in range(given, len(due)) if due[i] > now), len(due))
                for each in due[given:stop]:
                    self.errors.note(late_ns=now - each, due_ns=each)
                yield records.cut(given, stop)
                given = stop
        self._given_ns = self._now_ns()

    def _note_commit(self) -> None:
        """Note the end of a commit, which determines the interval of the next ones."""
        took_ns = self._now_ns() - self._given_ns
        self._commit_ns += (took_ns - self._commit_ns) // 4
        self._length_ns = min(max(_LEAST_NS, _PARTS * self._commit_ns), MOST_NS)

    def _stretches(self, records: Records, verdicts: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield index pairs between which the records are due closely enough to commit together."""
        first, end_ns, before_ns = 0, None, 0
        for index in range(len(records)):
            if verdicts[index] != KEPT:
                continue
            due = self.schedule.due_ns(self._ordinal, records.timestamps_ms[index])
            self._ordinal += 1
            if end_ns is None or due >= end_ns or due - before_ns >= REST_NS:
                if index > first:
                    yield first, index
                    first = index
                due += self._put_off(due)
                # If it is already behind, commit everything overdue together: one by one would fall
                # back further.
                end_ns = max(due, self._now_ns()) + self._length_ns
            self._due_ns[records.offsets[index]] = before_ns = due
        if first < len(records):
            yield first, len(records)

    def _put_off(self, due_ns: int) -> int:
        """Return the delay for this record and all that follow.

        After a standstill of the target or the task's start, a rate must not be exceeded to catch up. A speed
        may, because its records have fixed places in time.
        """
        behind_ns = self._now_ns() - due_ns
        if not self.keeps_rate or behind_ns <= _STANDSTILL_NS:
            return 0
        self.schedule.put_off(behind_ns)
        return behind_ns

    def _wait_until(self, due_ns: int | None) -> bool:
        """Wait; return False if the run must stop before."""
        while due_ns is not None and (left := due_ns - self._now_ns()) > 0:
            if self.is_stopped():
                return False
            self.clock.sleep(min(left / 1e9, _LOOK_EVERY_S))
        return True

    def _now_ns(self) -> int:
        return self.clock.monotonic_ns() - (self._began_ns or 0)


def ahead(runs_read: Iterable[ReadRun]) -> Generator[ReadRun, None, None]:
    """Yield the same runs, reading the next one while one is processed; closing waits for that read."""
    runs = iter(runs_read)
    with ThreadPoolExecutor(1, thread_name_prefix="ahead") as fetching:
        pending = fetching.submit(next, runs, None)
        while (run := pending.result()) is not None:
            pending = fetching.submit(next, runs, None)
            yield run

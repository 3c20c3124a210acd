"""Holds records back until they are due, against one start that all tasks share."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field

from playhead.host.clock import Clock
from playhead.pace import Schedule, ScheduleError
from playhead.record import Slice
from playhead.records import Records
from playhead.task.slicer import KEPT, Cutter, Filter, OpenSlice, ReadRun

# What is due within so long commits together, at first and then by how long a commit takes. What comes due
# while one is on its way is late by as long, so commits must be few; and nothing of a slice is seen before
# it commits, so they must be many.
COMMIT_EVERY_NS = 500_000_000
_LEAST_NS, MOST_NS = 200_000_000, 2_000_000_000
# Of so much of the time commits take one part: then the records that meet one are two of a hundred.
_PARTS = 60
# Where nothing is due for so long, a commit is nobody's delay, and comes early.
REST_NS = 100_000_000
# A rate that is behind by more than this is not made up for.
_STANDSTILL_NS = 100_000_000
_LOOK_EVERY_S = 0.2


@dataclass(slots=True)
class Pacer:
    """The clock's side of one partition's lane.

    Waiting is on the monotonic clock, so that a wall clock that jumps moves nothing; the wall clock is
    asked once, to find the shared start on it. `start` tells that by the wall clock, when all is ready
    here, and None when there will be none.
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
    """How much is due until the first commit; the others follow each other evenly."""
    _ordinal: int = field(default=0, init=False)
    _due_ns: dict[int, int] = field(default_factory=dict, init=False)
    _began_ns: int | None = field(default=None, init=False)
    _length_ns: int = field(default=COMMIT_EVERY_NS, init=False)
    _commit_ns: int = field(default=COMMIT_EVERY_NS // _PARTS, init=False)
    _given_ns: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._length_ns = self.first_commit_ns

    def portions(
        self, cutter: Cutter, planned: Slice, drawn: Iterable[ReadRun]
    ) -> Iterator[OpenSlice]:
        """As the cutter's, but each is given out when its first record is due, and ends soon after."""
        start = planned.from_offset
        for records, given in drawn:
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
                yield from cutter.portions(part, [piece])
                self._note_commit()
                start = end
        if self._has_begun() and start < planned.to_offset:
            tail = Slice(planned.topic, planned.partition, start, planned.to_offset)
            yield from cutter.portions(tail, [])

    def _has_begun(self) -> bool:
        """Whether the run has a start; the first call learns it, when the first records are at hand."""
        if self._began_ns is None and (start_ns := self.start()) is not None:
            self._began_ns = self.clock.monotonic_ns() - (self.clock.now_ns() - start_ns)
        return self._began_ns is not None

    def release(self, portion: OpenSlice) -> Iterator[Records]:
        """The portion's records, each not before it is due, and noted when it is given out."""
        for records in portion.runs:
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
        """The last record was given out, and all is committed: how often can that be done?"""
        took_ns = self._now_ns() - self._given_ns
        self._commit_ns += (took_ns - self._commit_ns) // 4
        self._length_ns = min(max(_LEAST_NS, _PARTS * self._commit_ns), MOST_NS)

    def _stretches(self, records: Records, verdicts: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Pairs of indexes between which records are due closely enough to commit together."""
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
                # Behind already, all that is overdue goes together: commit by commit it would fall back.
                end_ns = max(due, self._now_ns()) + self._length_ns
            self._due_ns[records.offsets[index]] = before_ns = due
        if first < len(records):
            yield first, len(records)

    def _put_off(self, due_ns: int) -> int:
        """By how much this record, and all that follow, are put off.

        After a standstill of the target, or of the task's own start, a rate must not be exceeded to
        make up for it; a speed is another matter, its records have their places in time.
        """
        behind_ns = self._now_ns() - due_ns
        if not self.keeps_rate or behind_ns <= _STANDSTILL_NS:
            return 0
        self.schedule.put_off(behind_ns)
        return behind_ns

    def _wait_until(self, due_ns: int | None) -> bool:
        """False when the run is to stop before that."""
        while due_ns is not None and (left := due_ns - self._now_ns()) > 0:
            if self.is_stopped():
                return False
            self.clock.sleep(min(left / 1e9, _LOOK_EVERY_S))
        return True

    def _now_ns(self) -> int:
        return self.clock.monotonic_ns() - (self._began_ns or 0)


def ahead(drawn: Iterable[ReadRun]) -> Generator[ReadRun, None, None]:
    """The same, with the next run being fetched while one is played; to close it waits for that."""
    runs = iter(drawn)
    with ThreadPoolExecutor(1, thread_name_prefix="ahead") as fetching:
        pending = fetching.submit(next, runs, None)
        while (run := pending.result()) is not None:
            pending = fetching.submit(next, runs, None)
            yield run

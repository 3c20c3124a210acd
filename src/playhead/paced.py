"""Holds records back until they are due, against one start that all tasks share."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field

from playhead.clock import Clock
from playhead.cutter import KEPT, Cutter, Drawn, Filter, Portion
from playhead.pace import Schedule, ScheduleError
from playhead.record import Slice
from playhead.records import Records

# What is due within so long commits together: a slice of its own for each record would cost more than
# it shows, and nothing of a slice is seen before it commits.
COMMIT_EVERY_NS = 100_000_000
_LOOK_EVERY_S = 0.2


@dataclass(slots=True)
class Pacer:
    """The clock's side of one partition's lane.

    Waiting is on the monotonic clock, so that a wall clock that jumps moves nothing; the wall clock is
    asked once, to find the shared start on it.
    """

    schedule: Schedule
    filter_: Filter
    clock: Clock
    _: KW_ONLY
    start_ns: int
    errors: ScheduleError
    is_stopped: Callable[[], bool]
    keeps_rate: bool = False
    _ordinal: int = field(default=0, init=False)
    _due_ns: dict[int, int] = field(default_factory=dict, init=False)
    _began_ns: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._began_ns = self.clock.monotonic_ns() - (self.clock.now_ns() - self.start_ns)

    def portions(self, cutter: Cutter, planned: Slice, drawn: Iterable[Drawn]) -> Iterator[Portion]:
        """As the cutter's, but each is given out when its first record is due, and ends soon after."""
        start = planned.from_offset
        for records, given in drawn:
            verdicts = self.filter_.verdicts(records) if given is None else given
            verdicts = [KEPT] * len(records) if verdicts is None else verdicts
            for first, stop in self._stretches(records, verdicts):
                end = records.offsets[stop - 1] + 1
                if not self._wait_until(self._due_ns.get(records.offsets[first])):
                    return
                part = Slice(planned.topic, planned.partition, start, end)
                piece = (records.cut(first, stop), verdicts[first:stop])
                yield from cutter.portions(part, [piece])
                start = end
        if start < planned.to_offset:
            tail = Slice(planned.topic, planned.partition, start, planned.to_offset)
            yield from cutter.portions(tail, [])

    def release(self, portion: Portion) -> Iterator[Records]:
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

    def _stretches(self, records: Records, verdicts: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Pairs of indexes between which records are due closely enough to commit together."""
        first, end_ns = 0, None
        for index in range(len(records)):
            if verdicts[index] != KEPT:
                continue
            due = self.schedule.due_ns(self._ordinal, records.timestamps_ms[index])
            self._ordinal += 1
            if end_ns is None or due >= end_ns:
                if index > first:
                    yield first, index
                    first = index
                due += self._put_off(due)
                end_ns = due + COMMIT_EVERY_NS
            self._due_ns[records.offsets[index]] = due
        if first < len(records):
            yield first, len(records)

    def _put_off(self, due_ns: int) -> int:
        """By how much this record, and all that follow, are put off.

        After a standstill of the target, or of the task's own start, a rate must not be exceeded to
        make up for it; a speed is another matter, its records have their places in time.
        """
        behind_ns = self._now_ns() - due_ns
        if not self.keeps_rate or behind_ns <= COMMIT_EVERY_NS:
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
        return self.clock.monotonic_ns() - self._began_ns

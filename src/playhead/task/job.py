"""The work of a run as its tasks receive it, and what they report; picklable, because tasks run elsewhere."""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from playhead.account import Account, ErrorRule, WriteDeadLetters
from playhead.decoding import Decoding
from playhead.host.clock import Clock
from playhead.ledger import Entry
from playhead.note import Note
from playhead.pace import Pace, ScheduleError, Share, Silence
from playhead.record import Slice
from playhead.source import Source, TopicPartition
from playhead.target import SliceComparison, Target
from playhead.task.dead_letter_check import DeadLetterReader
from playhead.task.slicer import Filter, Limits
from playhead.task.start_barrier import StartBarrier

_MEET_WITHIN_NS = 30_000_000_000
_MEET_EVERY_S = 0.005

PartitionWork = tuple[Slice, ...]
"""Slices of one partition, in order."""


class DeadLetters(Protocol):
    """Where dead letters go: a picklable description."""

    def inspect(self) -> tuple[Note, ...]:
        """Refuse a place that cannot store them, and return notes about it; write nothing."""
        ...

    def open(self, replay_id: str, /) -> AbstractContextManager[WriteDeadLetters]:
        """Connect; the result writes a slice's dead letters exactly once."""
        ...

    def letters(self, replay_id: str, /) -> DeadLetterReader:
        """Return the reader of a replay's present dead letters."""
        ...


@dataclass(frozen=True, slots=True)
class Pacing:
    """The pace of a run, its shared start, and the share of each partition."""

    pace: Pace
    start_ns: int
    """By the wall clock: all tasks count from this time, unless they share a start barrier."""
    first_ms: int | None
    shares: Mapping[TopicPartition, Share] = field(default_factory=dict)
    silences: tuple[Silence, ...] = ()
    latest_ms: int | None = None
    """Record times after this one are not waited for."""
    barrier: StartBarrier | None = None
    """The barrier at which partitions report that they are ready; None without a common folder."""

    def start(self, clock: Clock, is_stopped: Callable[[], bool]) -> int | None:
        """Report readiness, wait for the other partitions, and return the start; None if the run will not start."""
        if self.barrier is None:
            return self.start_ns
        self.barrier.arrive()
        latest_ns = clock.now_ns() + _MEET_WITHIN_NS
        while (found := self.barrier.start_ns(clock, latest_ns=latest_ns)) is None:
            if is_stopped():
                return None
            clock.sleep(_MEET_EVERY_S)
        return found


@dataclass(frozen=True, slots=True)
class Job:
    """One run over the rest of a plan."""

    replay_id: str
    source: Source
    target: Target
    tasks: tuple[tuple[PartitionWork, ...], ...]
    """The work of each task; a paced task runs its partitions at the same time."""
    filter: Filter
    rule: ErrorRule = field(default_factory=ErrorRule)
    dead_letters: DeadLetters | None = None
    decoding: Decoding | None = None
    """How to decode values as they are read; None if no one reads them."""
    pacing: Pacing | None = None
    limits: Limits = field(default_factory=Limits)
    stop_file: Path | None = None
    """A file whose presence, where visible, requests a stop at the next slice boundary."""
    planned: tuple[Slice, ...] = ()
    """The whole plan, of which `tasks` is the rest. It determines what must be committed before a
    slice if the target keeps them in order.
    """
    letters: DeadLetterReader | None = None
    """With `compares`: the dead letters of the replay, which are compared as well."""
    compares: Mapping[Slice, Entry] | None = None
    """With these, the task writes nothing: it compares the target with each slice of the ledger."""

    def is_stopped(self) -> bool:
        """Return whether a stop was requested or a paced task elsewhere gave up."""
        if self.stop_file is not None and self.stop_file.exists():
            return True
        barrier = self.pacing.barrier if self.pacing is not None else None
        return barrier is not None and barrier.is_over

    def tell_the_others(self) -> None:
        """Stop the paced tasks elsewhere at their next slice boundary, because this one cannot continue."""
        if self.pacing is not None and self.pacing.barrier is not None:
            self.pacing.barrier.end()


@dataclass(slots=True)
class Report:
    """What a task reports when it ends; the ledger has its commits."""

    index: int
    started_ns: int
    commits: int = 0
    offsets: int = 0
    """How many offsets it committed: the ledger must have them afterwards."""
    records: int = 0
    first_commit_ns: int | None = None
    last_commit_ns: int | None = None
    schedule: ScheduleError = field(default_factory=ScheduleError)
    findings: list[SliceComparison] = field(default_factory=list)
    away: str | None = None
    """Why the task gave up for now, because a server did not answer."""
    away_hint: str | None = None

    def note_commit(self, account: Account) -> None:
        now = time.time_ns()
        self.commits += 1
        self.offsets += len(account.slice)
        self.records += account.read - account.filtered - account.outside
        self.first_commit_ns = self.first_commit_ns or now
        self.last_commit_ns = now

    def as_document(self) -> dict[str, Any]:
        document: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        findings = [asdict(each) for each in self.findings]
        return document | {"schedule": self.schedule.as_document(), "findings": findings}

"""Runs a plan: repeats jobs for what the ledger lacks, until nothing is left."""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playhead.errors import PlayheadError, Stopped, Unavailable
from playhead.host.clock import sleep_unless
from playhead.host.faults import abort_point
from playhead.host.threads import BackgroundCall
from playhead.ledger import Entry, remaining
from playhead.note import Note
from playhead.pace import ScheduleError, horizon_of
from playhead.plan import Plan
from playhead.proof import Proof, Took, prove
from playhead.record import Slice
from playhead.replay.assemble import Wiring, expecting
from playhead.replay.earlier_copies import copied_meanwhile
from playhead.replay.guards import (
    cut_meanwhile,
    lost_letters,
    refuse_another_target,
    refuse_less,
    refuse_lost_copies,
    refuse_lost_files,
    refuse_lost_rows,
    refuse_what_is_gone,
    source_notes,
)
from playhead.replay.journal import DIFFERENT, DONE, FAILED, RUNNING, STOPPED, Journal
from playhead.replay.ledger_watch import LedgerWatcher
from playhead.replay.partition_work import (
    TooFewSlots,
    partition_works,
    shared_out,
    shares_of,
    silences,
    split,
    times_of,
)
from playhead.replay.patience import Patience
from playhead.source import Source
from playhead.task.commit_order import refuse_broken_order
from playhead.task.job import Job, Pacing, PartitionWork
from playhead.task.raising_records import RecordsRaise
from playhead.task.slicer import Filter, Limits
from playhead.task.start_barrier import StartBarrier

SLICE_RECORDS = "PLAYHEAD_SLICE_RECORDS"
_LOOK_EVERY_S = 0.1
_PROGRESS_EVERY_S = 1.0
_CANCELLED_WITHIN_S = 20.0
# The time for a paced run's tasks to start, connect and read ahead, without a common barrier.
_START_DELAY_NS = 2_500_000_000


class StoppedBeforeEnd(Stopped):
    """The run was asked to stop, and stopped at a slice boundary."""

    def __init__(self, replay_id: str, *, done: int, planned: int) -> None:
        self.replay_id, self.done, self.planned = replay_id, done, planned
        where = f"at {done:,} of {planned:,} offsets; all of them are committed"
        super().__init__(
            f"replay {replay_id} stopped {where if done else 'before anything was written'}",
            hint=f"continue with: playhead resume {replay_id}",
        )


class NothingDone(PlayheadError):
    """A job ended without an error and without committing anything."""

    def __init__(self, replay_id: str, *, left: int) -> None:
        super().__init__(
            f"a job of replay {replay_id} ended without an error, and {left:,} offsets are still left",
            hint=f"this is a fault of Playhead's; playhead resume {replay_id} tries again",
        )


Progress = Callable[[int, int, Sequence[Entry]], None]
RunJob = Callable[[Job], list[Mapping[str, Any]]]
Work = BackgroundCall[list[Mapping[str, Any]]]


@dataclass(slots=True)
class Runner:
    """One run of a plan in this process."""

    plan: Plan
    ends: Wiring
    journal: Journal
    run_job: RunJob
    """Runs a job on the engine."""
    start_engine: Callable[[], None] | None = None
    """Starts the engine; None if it is there."""
    paced_slots: Callable[[], int] = lambda: os.cpu_count() or 1
    """Returns how many tasks the engine runs at once: no task of a paced run may wait for the end
    of another task.
    """
    cancel_job: Callable[[], None] = lambda: None
    """Ends the running job, for engines whose tasks do not see our stop file."""
    say: Callable[[str], None] = lambda _: None
    progress: Progress = lambda _done, _total, _entries: None
    slots: int = os.cpu_count() or 1
    is_bounded: bool = False
    """Whether `slots` is the limit, on an engine that could run more at once."""
    patience_s: float = 120.0
    tasks_see_files: bool = True
    """Whether tasks see the stop file; otherwise, stopping cancels them."""
    trusts_ledger: bool = False
    """Whether the user accepts a ledger with less than the journal knows."""
    _reports: list[Mapping[str, Any]] = field(default_factory=list)
    _doubts: list[Note] = field(default_factory=list)
    _trusted: list[Note] = field(default_factory=list)
    _done: int = 0
    """Offsets that the ledger had when it was last read."""

    def run(self) -> Proof:
        """Do what is left; the returned proof accounts for everything."""
        began = time.monotonic()
        replay_id = self.plan.replay_id
        _ = self.plan.request.spec  # Refuse an invalid value before anything is written.
        with self.journal.held(replay_id), self.ends.target.hold(replay_id):
            self.journal.note(replay_id, RUNNING)
            try:
                notes = self._say(refuse_another_target(self.ends.target, self.plan))
                if self.journal.committed(replay_id):
                    self._look()  # Before the terms are written again into an emptied ledger.
                terms = self.plan.terms()
                notes += self._say(self.ends.target.prepare(replay_id, self.plan.target, terms))
                abort_point("run.prepared")
                entries = self._until_done()
                if self.plan.planned and not self._reports:
                    self.say(f"replay {replay_id} was done before; nothing was written now")
                    notes += self._say(source_notes(self.ends.source, self.plan))
                else:
                    notes += self._say(cut_meanwhile(self.ends.source, self.plan))
                notes += self._say(copied_meanwhile(self.ends.target, self.plan))
                notes += self._say(self._trusted + self._doubts)
            except BaseException as exc:
                state = FAILED if isinstance(exc, Exception) else STOPPED
                state = STOPPED if isinstance(exc, Stopped) else state
                self.journal.note(replay_id, state, error=str(exc) or type(exc).__name__)
                raise
            proof = prove(self.plan, entries, took=self._took(began), pace=self._pace())
            proof = replace(proof, notes=(*notes, *proof.notes))
            abort_point("run.proved")
            state = DONE if proof.adds_up else DIFFERENT
            self.journal.note(replay_id, state, proof=proof.as_document())
        return proof

    def _say(self, notes: Sequence[Note]) -> list[Note]:
        for note in notes:
            self.say(note.text)
        return list(notes)

    def _until_done(self) -> Sequence[Entry]:
        """Run job after job; wait for unavailable servers as long as there is progress."""
        patience = Patience(self.patience_s)
        is_first, away = True, ""
        while True:
            try:
                entries, left = self._look()
                if is_first or not left:
                    refuse_lost_copies(self.ends.target, self.plan.replay_id, entries)
                    self._doubts = refuse_lost_rows(
                        self.ends.target, self.plan.replay_id, entries, is_run=True
                    )
                if not left:
                    refuse_lost_files(self.ends.target, self.plan.replay_id, entries)
                    self._doubts += lost_letters(
                        self.ends.dead_letters, self.plan.replay_id, entries
                    )
                    return entries
                moved = patience.heed(self._done)
                if not (moved or is_first or away):
                    raise NothingDone(self.plan.replay_id, left=sum(map(len, left)))
                away, is_first = self._play(left) or "", False
            except RecordsRaise as exc:
                self.say(f"{exc.message}; continuing from the ledger without them")
                away, is_first = "", True
            except Unavailable as exc:
                away = exc.message
            self._stop_if_asked()
            if away:
                self._wait(patience, away)

    def _look(self) -> tuple[Sequence[Entry], list[Slice]]:
        """Return the ledger's entries and what is left; a ledger with less than before is not believed."""
        replay_id = self.plan.replay_id
        known = self.journal.committed(replay_id)
        entries, left = self._read()
        if self._committed(left) < known:
            # Read a second time: whatever is missing here would be written twice.
            entries, left = self._read()
        found, trusts = self._committed(left), self.trusts_ledger
        self._trusted += refuse_less(replay_id, known=known, found=found, is_trusted=trusts)
        self.journal.note_committed(replay_id, found)
        self.trusts_ledger = False
        self._done = _offsets(entries)
        self.progress(self._done, self.plan.planned, entries)
        if self.ends.target.is_ordered:
            committed = [entry.slice for entry in entries]
            refuse_broken_order(replay_id, self.plan.slices(), committed)
        return entries, left

    def _read(self) -> tuple[Sequence[Entry], list[Slice]]:
        entries = self.ends.target.entries(self.plan.replay_id)
        return entries, remaining(self.plan.slices(), [entry.slice for entry in entries])

    def _committed(self, left: Sequence[Slice]) -> int:
        """Return how many planned offsets are committed."""
        return self.plan.planned - sum(map(len, left))

    def _wait(self, patience: Patience, away: str) -> None:
        if patience.is_over:
            # The last job may have made progress before the outage.
            with suppress(Unavailable):
                self._look()
                patience.heed(self._done)
        if patience.is_over:
            raise Unavailable(
                f"gave up after {patience.waited_s:.0f} s without progress: {away}",
                hint=f"when it is back: playhead resume {self.plan.replay_id}",
            )
        seconds = patience.take()
        told = f"waiting {seconds:g} s (at most {patience.left_s:.0f} s more without progress)"
        self.say(f"{told}, then continuing from the ledger: {away}")
        if sleep_unless(self.journal.stop_file(self.plan.replay_id).exists, seconds):
            self._stop_if_asked()

    def _stop_if_asked(self) -> None:
        if not self.journal.stop_file(self.plan.replay_id).exists():
            return
        # Stop even if the ledger does not answer, with its last known state.
        with suppress(Unavailable):
            self._done = _offsets(self.ends.target.entries(self.plan.replay_id))
        if self._done < self.plan.planned:
            raise StoppedBeforeEnd(self.plan.replay_id, done=self._done, planned=self.plan.planned)

    def _play(self, left: list[Slice]) -> str | None:
        """Run one job over the rest; return the outage that ended it, if any."""
        refuse_what_is_gone(self._source(), self.plan, left)
        self._start_engine()
        with self._barrier(left) as barrier:
            job = self._job(left, barrier)
            abort_point("run.planned")
            reports = self._watched(job)
        self._reports += reports
        committed = self._committed(left) + sum(report["offsets"] for report in reports)
        self.journal.note_seen(self.plan.replay_id, committed)
        return next((report["away"] for report in reports if report["away"]), None)

    @contextmanager
    def _barrier(self, left: Sequence[Slice]) -> Iterator[StartBarrier | None]:
        """Return the start barrier of a paced job, if all its tasks can see it."""
        if self.plan.request.spec.pace.is_max or not self.tasks_see_files:
            yield None
            return
        around = self.journal.stop_file(self.plan.replay_id).parent
        prefix = f"{self.plan.replay_id}@"  # A character that no id contains, so that the name is unique.
        for left_behind in around.glob(f"{prefix}*"):  # A killed run may have left it.
            shutil.rmtree(left_behind, ignore_errors=True)
        with TemporaryDirectory(prefix=prefix, dir=around, ignore_cleanup_errors=True) as folder:
            yield StartBarrier(Path(folder), len(partition_works(left)))

    def _job(self, left: list[Slice], barrier: StartBarrier | None) -> Job:
        works = partition_works(left)
        pacing = None
        if not self.plan.request.spec.pace.is_max:
            tasks = self._paced_tasks(works)
            pacing = self._pacing(left, barrier)
        else:
            parts = works if self._is_ordered() else split(works, self.slots)
            tasks = shared_out(parts, self.slots if self.is_bounded else len(parts))
        return Job(
            self.plan.replay_id,
            self._source(),
            self.ends.target,
            tasks,
            Filter(self.plan.from_ms, self.plan.to_ms, self.plan.span_ends()),
            self.plan.request.spec.on_error,
            self.ends.dead_letters,
            self.ends.decoding,
            pacing,
            limits=_limits(),
            stop_file=self.journal.stop_file(self.plan.replay_id),
            planned=tuple(self.plan.slices()),
        )

    def _source(self) -> Source:
        """Return the source with the plan's topics only, even if more match the pattern now."""
        return expecting(self.ends.source, self.plan.source)

    def _is_ordered(self) -> bool:
        """Whether each partition needs one writer; dead letters are in a topic for any target."""
        return self.ends.target.is_ordered or self.ends.dead_letters is not None

    def _paced_tasks(self, works: list[PartitionWork]) -> tuple[tuple[PartitionWork, ...], ...]:
        """Give partitions to tasks so that all run at once; a transform's output comes partition by partition."""
        slots = self.paced_slots()
        request = self.plan.request
        if not request.spec.is_transformed:
            return shared_out(works, slots)
        if len(works) > slots:
            raise TooFewSlots(request.pace, partitions=len(works), slots=slots)
        return shared_out(works, len(works))

    def _pacing(self, left: list[Slice], barrier: StartBarrier | None) -> Pacing:
        source = self._source()
        times = times_of(source, left, self.plan)
        return Pacing(
            self.plan.request.spec.pace,
            time.time_ns() + _START_DELAY_NS,
            min(times, default=None),
            shares_of(left),
            silences(source, times, self.plan.request.spec.pace.max_gap_ms),
            horizon_of(self.plan.made_at_ms),
            barrier,
        )

    def _start_engine(self) -> None:
        """Start it in a thread, so that a stop of the run does not wait for it."""
        if self.start_engine is not None:
            starting = BackgroundCall(self.start_engine, name="engine")
            while not starting.is_over(_LOOK_EVERY_S):
                self._stop_if_asked()
            starting.result()

    def _watched(self, job: Job) -> list[Mapping[str, Any]]:
        """Run the job in its own thread, so that this one can print progress and handle signals."""
        working = BackgroundCall(lambda: self.run_job(job), name=f"replay {job.replay_id}")
        looks = LedgerWatcher(self.ends.target, self.plan.replay_id, _PROGRESS_EVERY_S)
        with looks.going_on(), self._cancelling_on_the_way_out(working):
            self._wait_for(working, looks)
        return working.result()

    def _wait_for(self, working: Work, looks: LedgerWatcher) -> None:
        while not working.is_over(_LOOK_EVERY_S):
            if not self.tasks_see_files:
                self._stop_if_asked()
            entries = looks.latest()
            if entries is not None:
                self.progress(_offsets(entries), self.plan.planned, entries)
                left = remaining(self.plan.slices(), [entry.slice for entry in entries])
                # A killed run must know it when it is resumed.
                self.journal.note_seen(self.plan.replay_id, self._committed(left))

    @contextmanager
    def _cancelling_on_the_way_out(self, working: Work) -> Iterator[None]:
        try:
            yield
        except BaseException:
            if not working.is_over(0):
                self.cancel_job()
                # Tasks write until they end; no other run may start before that.
                working.is_over(_CANCELLED_WITHIN_S)
            raise

    def _took(self, began: float) -> Took:
        started = [report["started_ns"] for report in self._reports]
        first = [r["first_commit_ns"] for r in self._reports if r["first_commit_ns"]]
        last = [r["last_commit_ns"] for r in self._reports if r["last_commit_ns"]]
        return Took(
            round(time.monotonic() - began, 3),
            round((max(last) - min(started)) / 1e9, 3) if last else 0.0,
            round((min(first) - min(started)) / 1e9, 3) if first else None,
            sum(report["records"] for report in self._reports),
            sum(report["commits"] for report in self._reports),
        )

    def _pace(self) -> Mapping[str, Any] | None:
        if self.plan.request.spec.pace.is_max:
            return None
        merged = ScheduleError()
        for report in self._reports:
            merged.merge(ScheduleError.from_document(report["schedule"]))
        return {"pace": self.plan.request.pace, **merged.summary()}


def _limits() -> Limits:
    """Return smaller slices if the environment asks for them, mostly in tests."""
    wanted = os.environ.get(SLICE_RECORDS)
    return Limits(max_records=int(wanted)) if wanted else Limits()


def _offsets(entries: Sequence[Entry]) -> int:
    return sum(len(entry.slice) for entry in entries)

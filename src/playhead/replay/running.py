"""Carries out a plan: what the ledger does not have yet, again and again, until nothing is left."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

from playhead.account import ErrorRule
from playhead.cutter import Filter, Limits
from playhead.errors import Refused, Stopped, Unavailable
from playhead.faults import abort_point
from playhead.job import Job, Pacing
from playhead.journal import DIFFERENT, DONE, FAILED, RUNNING, STOPPED, Journal
from playhead.ledger import Entry, remaining
from playhead.pace import Pace, ScheduleError
from playhead.plan import Plan
from playhead.proof import Proof, Took, prove
from playhead.record import Slice
from playhead.replay.build import Ends, expecting
from playhead.replay.sharing import lanes_of, shared_out, shares_of, silences, split, times_of
from playhead.source import OutOfBounds, Source

SLICE_RECORDS = "PLAYHEAD_SLICE_RECORDS"
_LOOK_EVERY_S = 0.1
_PROGRESS_EVERY_S = 1.0
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 10.0
# Until the tasks of a paced run have started, connected and read ahead.
_START_DELAY_NS = 2_500_000_000


class StoppedBeforeEnd(Stopped):
    """The run was asked to stop, and has, at a slice boundary."""

    def __init__(self, replay_id: str, *, done: int, planned: int) -> None:
        self.replay_id, self.done, self.planned = replay_id, done, planned
        super().__init__(
            f"replay {replay_id} stopped at {done:,} of {planned:,} offsets; all of them are committed",
            hint=f"playhead resume {replay_id}",
        )


class SourceReplaced(Refused):
    """What is at the address now is not what was planned."""

    def __init__(self, what: str, *, planned: str, found: str, replay_id: str) -> None:
        super().__init__(
            f"replay {replay_id} was planned with {what} {planned}; there is {found} now",
            hint="name the same servers as then (-b, --database, -c), or plan a new replay",
        )


Progress = Callable[[int, int, Sequence[Entry]], None]
RunJob = Callable[[Job], list[Mapping[str, Any]]]


@dataclass(slots=True)
class Runner:
    """One run of a plan in this process."""

    plan: Plan
    ends: Ends
    journal: Journal
    run_job: RunJob
    """Does a job's works on the engine, which it starts when it is first called."""
    warm: Callable[[], None] = lambda: None
    """Returns when the engine is there: a paced run counts from an instant that must not lie before."""
    cancel_job: Callable[[], None] = lambda: None
    """Ends the job that runs, for engines whose tasks do not see our stop file."""
    say: Callable[[str], None] = lambda _: None
    progress: Progress = lambda _done, _total, _entries: None
    slots: int = os.cpu_count() or 1
    patience_s: float = 120.0
    tasks_see_files: bool = True
    """Whether the stop file reaches the tasks; where not, stopping cancels them."""
    _reports: list[Mapping[str, Any]] = field(default_factory=list)

    def run(self) -> Proof:
        """Do what is left; the proof says what became of all of it."""
        began = time.monotonic()
        replay_id = self.plan.replay_id
        with self.journal.held(replay_id), self.ends.target.hold(replay_id):
            self.journal.note(replay_id, RUNNING)
            try:
                self.ends.target.prepare(replay_id, self.plan.target)
                abort_point("run.prepared")
                entries = self._until_done()
            except BaseException as exc:
                state = FAILED if isinstance(exc, Exception) else STOPPED
                state = STOPPED if isinstance(exc, Stopped) else state
                self.journal.note(replay_id, state, error=str(exc) or type(exc).__name__)
                raise
            proof = prove(self.plan, entries, took=self._took(began), pace=self._pace())
            abort_point("run.proved")
            state = DONE if proof.adds_up else DIFFERENT
            self.journal.note(replay_id, state, proof=proof.as_document())
        return proof

    def _until_done(self) -> Sequence[Entry]:
        """Job after job; a server that is away is waited for as long as there is progress."""
        waited_s, wait_s, before = 0.0, _FIRST_WAIT_S, -1
        while True:
            away: str | None
            try:
                entries = self.ends.target.entries(self.plan.replay_id)
                left = remaining(self.plan.slices(), [entry.slice for entry in entries])
                self.progress(_offsets(entries), self.plan.planned, entries)
                if not left:
                    return entries
                done = _offsets(entries)
                if done != before:
                    waited_s, wait_s, before = 0.0, _FIRST_WAIT_S, done
                away = self._play(left)
            except Unavailable as exc:
                away = exc.message
                if waited_s + wait_s > self.patience_s:
                    raise
            self._stop_if_asked()
            if away is None:
                continue
            if waited_s + wait_s > self.patience_s:
                raise Unavailable(
                    f"gave up after {waited_s:.0f} s without progress: {away}",
                    hint=f"when it is back: playhead resume {self.plan.replay_id}",
                )
            self.say(f"waiting {wait_s:g} s, then going on from the ledger: {away}")
            self._sleep(wait_s)
            waited_s, wait_s = waited_s + wait_s, min(2 * wait_s, _LONGEST_WAIT_S)

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._stop_if_asked()
            time.sleep(min(_LOOK_EVERY_S, seconds))

    def _stop_if_asked(self) -> None:
        if self.journal.stop_file(self.plan.replay_id).exists():
            entries = self.ends.target.entries(self.plan.replay_id)
            done, planned = _offsets(entries), self.plan.planned
            if done < planned:
                raise StoppedBeforeEnd(self.plan.replay_id, done=done, planned=planned)

    def _play(self, left: list[Slice]) -> str | None:
        """One job over what is left; why a server was away, when one was."""
        _refuse_what_is_gone(self.ends.source, self.plan, left)
        job = self._job(left)
        abort_point("run.planned")
        reports = self._watched(job)
        self._reports += reports
        return next((report["away"] for report in reports if report["away"]), None)

    def _job(self, left: list[Slice]) -> Job:
        pacing = self._pacing(left)
        ordered = self.ends.target.is_ordered or pacing is not None
        lanes = lanes_of(left) if ordered else split(lanes_of(left), self.slots)
        return Job(
            self.plan.replay_id,
            expecting(self.ends.source, self.plan.source),
            self.ends.target,
            shared_out(lanes, self.slots if pacing is not None else len(lanes)),
            Filter(self.plan.from_ms, self.plan.to_ms, self.plan.span_ends()),
            ErrorRule.parse(self.plan.request.on_error),
            self.ends.graveyard,
            pacing,
            limits=_limits(),
            stop_file=self.journal.stop_file(self.plan.replay_id),
        )

    def _pacing(self, left: list[Slice]) -> Pacing | None:
        request = self.plan.request
        pace = Pace.parse(request.pace, max_gap_ms=request.max_gap_ms)
        if pace.is_max:
            return None
        self.warm()
        times = times_of(self.ends.source, left, self.plan)
        return Pacing(
            pace,
            time.time_ns() + _START_DELAY_NS,
            min(times, default=None),
            shares_of(left),
            silences(self.ends.source, times, request.max_gap_ms),
        )

    def _watched(self, job: Job) -> list[Mapping[str, Any]]:
        """Run the job in a thread of its own, so that this one can tell progress and take a signal."""
        outcome: list[list[Mapping[str, Any]]] = []
        failure: list[BaseException] = []

        def work() -> None:
            try:
                outcome.append(self.run_job(job))
            except BaseException as exc:  # noqa: BLE001  raised again in the thread that waits
                failure.append(exc)

        thread = Thread(target=work, name=f"replay {job.replay_id}", daemon=True)
        thread.start()
        with self._cancelling_on_the_way_out(thread):
            self._wait_for(thread)
        if failure:
            raise failure[0]
        return outcome[0]

    def _wait_for(self, thread: Thread) -> None:
        looked = time.monotonic()
        while thread.is_alive():
            thread.join(_LOOK_EVERY_S)
            if not self.tasks_see_files:
                self._stop_if_asked()
            if time.monotonic() - looked < _PROGRESS_EVERY_S:
                continue
            try:
                entries = self.ends.target.entries(self.plan.replay_id)
                self.progress(_offsets(entries), self.plan.planned, entries)
            except Unavailable:
                pass  # the tasks will notice, and what they say counts
            looked = time.monotonic()

    @contextmanager
    def _cancelling_on_the_way_out(self, thread: Thread) -> Iterator[None]:
        try:
            yield
        except BaseException:
            if thread.is_alive():
                self.cancel_job()
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
        if Pace.parse(self.plan.request.pace).is_max:
            return None
        merged = ScheduleError()
        for report in self._reports:
            merged.merge(ScheduleError.from_document(report["schedule"]))
        return {"pace": self.plan.request.pace, **merged.summary()}


def _limits() -> Limits:
    """Smaller slices where somebody wants to see more of them: a test, mostly."""
    wanted = os.environ.get(SLICE_RECORDS)
    return Limits(max_records=int(wanted)) if wanted else Limits()


def _offsets(entries: Sequence[Entry]) -> int:
    return sum(len(entry.slice) for entry in entries)


def _refuse_what_is_gone(source: Source, plan: Plan, left: Sequence[Slice]) -> None:
    """What is still to be read must still be there, in the topic that was planned."""
    facts = source.facts()
    if facts.identity != plan.source.identity:
        raise SourceReplaced(
            "source", planned=plan.source.identity, found=facts.identity, replay_id=plan.replay_id
        )
    for topic, planned in plan.source.topics.items():
        found = facts.topics.get(topic)
        if planned.topic_id and found is not None and found.topic_id != planned.topic_id:
            raise SourceReplaced(
                f"topic {topic} of id",
                planned=planned.topic_id,
                found=str(found.topic_id),
                replay_id=plan.replay_id,
            )
    bounds = source.bounds()
    for slice_ in left:
        held = bounds.get((slice_.topic, slice_.partition))
        if held is None or slice_.from_offset < held.earliest or slice_.to_offset > held.stable_end:
            raise OutOfBounds(slice_, held)

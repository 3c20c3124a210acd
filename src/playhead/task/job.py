"""The work of one task of a run: read, cut, wait until due, commit.

It knows only the contracts of sources and targets, so it works equally in a Spark task, in one of its
threads, and in a test with lists. Everything in a `Job` is picklable, because tasks run elsewhere.
"""

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from threading import Event, Thread
from typing import Any, Protocol

from playhead.absence import MOST_BLANKS, total
from playhead.account import Account, ErrorRule, WriteDeadLetters
from playhead.checksum import differ
from playhead.decoding import Decoding, reading, without_undecoded
from playhead.errors import Stopped, Unavailable
from playhead.host.clock import Clock, SystemClock
from playhead.host.faults import abort_point
from playhead.ledger import Entry
from playhead.note import Note
from playhead.pace import Pace, ScheduleError, Share, Silence
from playhead.record import Slice
from playhead.records import Records
from playhead.source import LazyExplainer, Source, TopicPartition
from playhead.target import AlreadyCommitted, Difference, SliceComparison, Target, Writer
from playhead.task.commit_order import follows_in
from playhead.task.dead_letter_check import DeadLetterReader, LetterCheck
from playhead.task.malloc import give_back, keep_memory
from playhead.task.pacer import COMMIT_EVERY_NS, Pacer, ahead
from playhead.task.slicer import Cutter, Filter, Limits, OpenSlice, ReadRun
from playhead.task.start_barrier import StartBarrier

_MEET_WITHIN_NS = 30_000_000_000
_MEET_EVERY_S = 0.005

# Records come and go by the hundred thousand without reference cycles; Python's default collection
# interval would take a fifth of the time.
_OBJECTS_BETWEEN_COLLECTIONS = 50_000

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
    meeting: StartBarrier | None = None
    """The barrier at which the lanes report that they are ready; None without a common folder."""

    def start(self, clock: Clock, is_stopped: Callable[[], bool]) -> int | None:
        """Report readiness, wait for the other lanes, and return the start; None if the run will not start."""
        if self.meeting is None:
            return self.start_ns
        self.meeting.arrive()
        latest_ns = clock.now_ns() + _MEET_WITHIN_NS
        while (found := self.meeting.start_ns(clock, latest_ns=latest_ns)) is None:
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
    works: tuple[tuple[PartitionWork, ...], ...]
    """The lanes of each task; a paced task runs them at the same time."""
    filter: Filter
    rule: ErrorRule = field(default_factory=ErrorRule)
    graveyard: DeadLetters | None = None
    decoding: Decoding | None = None
    """How to decode values as they are read; None if no one reads them."""
    pacing: Pacing | None = None
    limits: Limits = field(default_factory=Limits)
    stop_file: Path | None = None
    """A file whose presence, where visible, requests a stop at the next slice boundary."""
    planned: tuple[Slice, ...] = ()
    """The whole plan, of which `works` is the rest. It determines what must be committed before a
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
        meeting = self.pacing.meeting if self.pacing is not None else None
        return meeting is not None and meeting.is_over

    def tell_the_others(self) -> None:
        """Stop the paced tasks elsewhere at their next slice boundary, because this one cannot continue."""
        if self.pacing is not None and self.pacing.meeting is not None:
            self.pacing.meeting.end()


@dataclass(slots=True)
class Report:
    """What a task reports when it ends; the ledger has its commits."""

    index: int
    started_ns: int
    commits: int = 0
    records: int = 0
    first_commit_ns: int | None = None
    last_commit_ns: int | None = None
    schedule: ScheduleError = field(default_factory=ScheduleError)
    findings: list[SliceComparison] = field(default_factory=list)
    away: str | None = None
    """Why the task gave up for now, because a server did not answer."""

    def note_commit(self, account: Account) -> None:
        now = time.time_ns()
        self.commits += 1
        self.records += account.read - account.filtered - account.outside
        self.first_commit_ns = self.first_commit_ns or now
        self.last_commit_ns = now

    def as_document(self) -> dict[str, Any]:
        document: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        findings = [asdict(each) for each in self.findings]
        return document | {"schedule": self.schedule.as_document(), "findings": findings}


ReadSlice = Callable[[Slice], Iterable[ReadRun]]


def play(job: Job, index: int, draw: ReadSlice | None = None) -> list[Report]:
    """Do a task's work; `draw` returns a slice's records if they do not come from the source directly."""
    lanes = job.works[index]
    keep_memory()
    try:
        with seldom_collecting():
            if job.pacing is None or len(lanes) == 1 or draw is not None:
                return [_play_lanes(job, index, lanes, draw, Event())]
            return _side_by_side(job, index, lanes)
    finally:
        give_back()


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Run Python's cycle collector less often than by default."""
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _side_by_side(job: Job, index: int, lanes: tuple[PartitionWork, ...]) -> list[Report]:
    """Run paced lanes in threads of one task, because they wait most of the time.

    If one lane cannot continue, the others stop at their next slice boundary; otherwise they would run
    ahead of it for the rest of the replay.
    """
    reports: list[Report] = []
    failures: list[BaseException] = []
    is_over = Event()

    def run(lane: PartitionWork) -> None:
        try:
            reports.append(_play_lanes(job, index, (lane,), None, is_over))
        except BaseException as exc:  # noqa: BLE001  raised again in the task's own thread
            failures.append(exc)
            is_over.set()

    threads = [Thread(target=run, args=(lane,), daemon=True) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return reports


def _play_lanes(
    job: Job, index: int, lanes: tuple[PartitionWork, ...], draw: ReadSlice | None, is_over: Event
) -> Report:
    report = Report(index, time.time_ns())
    try:
        with ExitStack() as stack:
            if draw is None:
                reader = reading(stack.enter_context(job.source.open()), job.decoding)
                draw = _from(reader.read)
            bury = stack.enter_context(job.graveyard.open(job.replay_id)) if job.graveyard else None
            writer = stack.enter_context(job.target.open(job.replay_id))
            cutter = Cutter(job.limits, job.filter, _accounts(job, bury))
            explainer = stack.enter_context(closing(LazyExplainer(job.source)))
            desk = _TaskContext(job, writer, cutter, explainer, report, is_over)
            if job.compares is not None:
                _compare_lanes(desk, lanes, draw, job.compares)
                return report
            for lane in lanes:
                _play_lane(desk, lane, draw)
    except Stopped:
        pass  # The ledger has what was committed; a resume does the rest.
    except (Unavailable, AlreadyCommitted) as exc:
        # Not raised: the other tasks may continue, and the run retries the rest. An engine that
        # restarts a lost task finds slices committed, because the ledger has advanced.
        report.away = exc.message
        is_over.set()
        job.tell_the_others()
    return report


def _from(read: Callable[[Slice], Iterator[Records]]) -> ReadSlice:
    return lambda slice_: ((records, None) for records in read(slice_))


def _accounts(job: Job, bury: WriteDeadLetters | None) -> Callable[[Slice], Account]:
    follows = follows_in(job.planned)

    def account(slice_: Slice) -> Account:
        made = Account(slice_, job.rule, bury)
        made.follows = follows(slice_)
        return made

    return account


@dataclass(frozen=True, slots=True)
class _TaskContext:
    job: Job
    writer: Writer
    cutter: Cutter
    explainer: LazyExplainer
    report: Report
    is_over: Event
    """Set when the lanes beside this one have ended."""
    clock: Clock = field(default_factory=SystemClock)

    def is_stopped(self) -> bool:
        return self.is_over.is_set() or self.job.is_stopped()


def _play_lane(desk: _TaskContext, lane: PartitionWork, draw: ReadSlice) -> None:
    place = (lane[0].topic, lane[0].partition)
    pacer = _pacer(desk, place, desk.writer.expect(place))
    for slice_ in lane:
        if desk.is_stopped():
            return
        drawn = draw(slice_)
        if pacer is None:
            _commit_all(desk, desk.cutter.portions(slice_, drawn), lambda portion: portion.runs)
        else:
            with closing(ahead(drawn)) as ready:
                portions = pacer.portions(desk.cutter, slice_, ready)
                _commit_all(desk, portions, pacer.release)


def _pacer(
    desk: _TaskContext, place: TopicPartition, wait_for_writer: Callable[[], None]
) -> Pacer | None:
    pacing = desk.job.pacing
    if pacing is None:
        return None
    schedule = pacing.pace.schedule(
        first_ms=pacing.first_ms,
        share=pacing.shares.get(place, 1),
        silences=pacing.silences,
        latest_ms=pacing.latest_ms,
    )

    def start() -> int | None:
        wait_for_writer()
        return pacing.start(desk.clock, desk.is_stopped)

    return Pacer(
        schedule,
        desk.job.filter,
        desk.clock,
        start=start,
        errors=desk.report.schedule,
        is_stopped=desk.is_stopped,
        keeps_rate=pacing.pace.per_second is not None,
        first_commit_ns=_staggered_ns(desk.job, place),
    )


def _staggered_ns(job: Job, place: TopicPartition) -> int:
    """Return when a lane first commits, so that not all lanes commit at the same moment."""
    places = sorted({(lane[0].topic, lane[0].partition) for work in job.works for lane in work})
    return COMMIT_EVERY_NS * (places.index(place) + 1) // len(places)


def _commit_all(
    desk: _TaskContext,
    portions: Iterable[OpenSlice],
    release: Callable[[OpenSlice], Iterable[Records]],
) -> None:
    for portion in portions:
        if desk.is_stopped():
            return
        abort_point("job.drawn")
        explain(portion.account, desk.explainer)
        desk.writer.commit(portion.account, without_undecoded(portion.account, release(portion)))
        abort_point("job.committed")
        desk.report.note_commit(portion.account)
        del portion  # Otherwise the run would be held in memory while the next one is read.


def explain(account: Account, explainer: LazyExplainer) -> None:
    """Find the reasons of the offsets that gave no record."""
    place = (account.slice.topic, account.slice.partition)
    account.explained = explainer.explain(place, account.absent)


def _compare_lanes(
    desk: _TaskContext,
    lanes: Iterable[PartitionWork],
    draw: ReadSlice,
    entries: Mapping[Slice, Entry],
) -> None:
    """Compare slice by slice; results that need all slices come when the writer concludes."""
    whole = replace(desk.job.limits, max_records=1 << 62, max_bytes=1 << 62)
    cutter = Cutter(whole, desk.job.filter, lambda slice_: _like(entries[slice_]))
    read: dict[Slice, Account] = {}
    checks: dict[Slice, LetterCheck] = {}
    said: list[SliceComparison] = []
    for slice_ in chain.from_iterable(lanes):
        if desk.is_stopped():
            return
        for portion in cutter.portions(slice_, draw(slice_)):
            explain(portion.account, desk.explainer)
            entry, passing = entries[slice_], iter(portion.runs)
            if desk.job.letters is not None:
                checks[slice_] = LetterCheck(desk.job.letters, entry)
                passing = checks[slice_].passing(passing)
            runs = without_undecoded(Account(slice_, ErrorRule("skip")), passing)
            found = desk.writer.compare(entry, runs)
            read[slice_] = portion.account
            said += [] if found is None else [found]
    said += desk.writer.conclude()
    said = [checks[it.slice].added(it) if it.slice in checks else it for it in said]
    desk.report.findings += [_with_source(it, entries[it.slice], read[it.slice]) for it in said]


def _like(entry: Entry) -> Account:
    """Return an account for the slice of an entry, with a checksum of the entry's kind."""
    account = Account(entry.slice)
    if isinstance(entry.checksum, int):
        account.checksum = 0
    return account


def _with_source(found: SliceComparison, entry: Entry, account: Account) -> SliceComparison:
    """Add whether the source still returns what was read; entries of version 1 do not say it."""
    texts = []
    if differ(entry.checksum, account.checksum):
        now = f"{account.read:,} records now, {entry.read:,} when it was read"
        if account.read == entry.read:
            now = f"{entry.read:,} records as before, but some have changed"
        texts.append(f"the source has changed since it was read: {entry.slice} has {now}")
    unexplained = account.explained.unexplained
    if unexplained:
        named = ", ".join(f"{start}-{end}" for start, end in unexplained[:MOST_BLANKS])
        texts.append(f"{total(unexplained):,} offsets of the source gave no record: {named}")
    place = entry.slice.topic, entry.slice.partition, entry.slice.from_offset
    more = tuple(Difference("source", *place, text) for text in texts)
    different = found.different + len(more)
    return replace(found, differences=(*more, *found.differences), different=different)

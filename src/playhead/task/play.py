"""Does the work of one task: read, cut, wait until due, commit; or compare.

It knows only the contracts of sources and targets, so it works equally in a Spark task, in one of its
threads, and in a test with lists.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from itertools import chain
from threading import Event, Thread

from playhead.absence import MOST_BLANKS, total
from playhead.account import Account, ErrorRule, WriteDeadLetters
from playhead.checksum import differ
from playhead.decoding import reading, without_undecoded
from playhead.errors import Stopped, Unavailable
from playhead.host.clock import Clock, SystemClock
from playhead.host.collector import seldom_collecting
from playhead.host.faults import abort_point
from playhead.ledger import Entry
from playhead.record import Slice
from playhead.records import Records
from playhead.source import LazyExplainer, TopicPartition
from playhead.target import AlreadyCommitted, Difference, SliceComparison, Writer
from playhead.task.commit_order import follows_in
from playhead.task.dead_letter_check import LetterCheck, named_refused
from playhead.task.job import Job, PartitionWork, Report
from playhead.task.malloc import give_back, keep_memory
from playhead.task.pacer import COMMIT_EVERY_NS, Pacer, ahead
from playhead.task.slicer import OpenSlice, ReadRun, Slicer
from playhead.task.tally import SHOWN

_OF_RUN = "it was written, but the table refuses it now: its row cannot be compared"
_OF_SPAN = (
    "it is refused: it cannot be read, the table cannot take it, or it is a tombstone and there is no "
    "--tombstones rule"
)

ReadSlice = Callable[[Slice], Iterable[ReadRun]]


def play(job: Job, index: int, read_slice: ReadSlice | None = None) -> list[Report]:
    """Do a task's work; `read_slice` returns a slice's records if they do not come from the source directly."""
    works = job.tasks[index]
    keep_memory()
    try:
        with seldom_collecting():
            if job.pacing is None or len(works) == 1 or read_slice is not None:
                return [_play_works(job, index, works, read_slice, Event())]
            return _side_by_side(job, index, works)
    finally:
        give_back()


def _side_by_side(job: Job, index: int, works: tuple[PartitionWork, ...]) -> list[Report]:
    """Run paced partitions in threads of one task, because they wait most of the time.

    If one cannot continue, the others stop at their next slice boundary; otherwise they would run
    ahead of it for the rest of the replay.
    """
    reports: list[Report] = []
    failures: list[BaseException] = []
    is_over = Event()

    def run(work: PartitionWork) -> None:
        try:
            reports.append(_play_works(job, index, (work,), None, is_over))
        except BaseException as exc:  # noqa: BLE001  raised again in the task's own thread
            failures.append(exc)
            is_over.set()

    threads = [Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return reports


def _play_works(
    job: Job,
    index: int,
    works: tuple[PartitionWork, ...],
    read_slice: ReadSlice | None,
    is_over: Event,
) -> Report:
    report = Report(index, time.time_ns())
    try:
        with ExitStack() as stack:
            if read_slice is None:
                reader = reading(stack.enter_context(job.source.open()), job.decoding)
                read_slice = _from(reader.read)
            write_dead_letters = (
                stack.enter_context(job.dead_letters.open(job.replay_id))
                if job.dead_letters
                else None
            )
            writer = stack.enter_context(job.target.open(job.replay_id))
            slicer = Slicer(job.limits, job.filter, _accounts(job, write_dead_letters))
            explainer = stack.enter_context(closing(LazyExplainer(job.source)))
            context = _TaskContext(job, writer, slicer, explainer, report, is_over)
            if job.compares is not None:
                _compare_works(context, works, read_slice, job.compares)
                return report
            for work in works:
                _play_work(context, work, read_slice)
    except Stopped:
        pass  # The ledger has what was committed; a resume does the rest.
    except (Unavailable, AlreadyCommitted) as exc:
        # Not raised: the other tasks may continue, and the run retries the rest. An engine that
        # restarts a lost task finds slices committed, because the ledger has advanced.
        report.away, report.away_hint = exc.message, exc.hint
        is_over.set()
        job.tell_the_others()
    return report


def _from(read: Callable[[Slice], Iterator[Records]]) -> ReadSlice:
    return lambda slice_: ((records, None) for records in read(slice_))


def _accounts(job: Job, write_dead_letters: WriteDeadLetters | None) -> Callable[[Slice], Account]:
    follows = follows_in(job.planned)

    def account(slice_: Slice) -> Account:
        made = Account(slice_, job.rule, write_dead_letters)
        made.follows = follows(slice_)
        return made

    return account


@dataclass(frozen=True, slots=True)
class _TaskContext:
    job: Job
    writer: Writer
    slicer: Slicer
    explainer: LazyExplainer
    report: Report
    is_over: Event
    """Set when the partitions beside this one have ended."""
    clock: Clock = field(default_factory=SystemClock)

    def is_stopped(self) -> bool:
        return self.is_over.is_set() or self.job.is_stopped()


def _play_work(context: _TaskContext, work: PartitionWork, read_slice: ReadSlice) -> None:
    place = (work[0].topic, work[0].partition)
    pacer = _pacer(context, place, context.writer.expect(place))
    for slice_ in work:
        if context.is_stopped():
            return
        runs_read = read_slice(slice_)
        if pacer is None:
            _commit_all(
                context,
                context.slicer.open_slices(slice_, runs_read),
                lambda open_slice: open_slice.runs,
            )
        else:
            with closing(ahead(runs_read)) as ready:
                open_slices = pacer.open_slices(context.slicer, slice_, ready)
                _commit_all(context, open_slices, pacer.release)


def _pacer(
    context: _TaskContext, place: TopicPartition, wait_for_writer: Callable[[], None]
) -> Pacer | None:
    pacing = context.job.pacing
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
        return pacing.start(context.clock, context.is_stopped)

    return Pacer(
        schedule,
        context.job.filter,
        context.clock,
        start=start,
        errors=context.report.schedule,
        is_stopped=context.is_stopped,
        keeps_rate=pacing.pace.per_second is not None,
        first_commit_ns=_staggered_ns(context.job, place),
    )


def _staggered_ns(job: Job, place: TopicPartition) -> int:
    """Return when a partition first commits, so that not all commit at the same moment."""
    places = sorted({(work[0].topic, work[0].partition) for task in job.tasks for work in task})
    return COMMIT_EVERY_NS * (places.index(place) + 1) // len(places)


def _commit_all(
    context: _TaskContext,
    open_slices: Iterable[OpenSlice],
    release: Callable[[OpenSlice], Iterable[Records]],
) -> None:
    for open_slice in open_slices:
        if context.is_stopped():
            return
        abort_point("job.drawn")
        explain(open_slice.account, context.explainer)
        context.writer.commit(
            open_slice.account, without_undecoded(open_slice.account, release(open_slice))
        )
        abort_point("job.committed")
        context.report.note_commit(open_slice.account)
        del open_slice  # Otherwise the run would be held in memory while the next one is read.


def explain(account: Account, explainer: LazyExplainer) -> None:
    """Find the reasons of the offsets that gave no record."""
    account.explained = explainer.explain(account.slice.place, account.absent)


def _compare_works(
    context: _TaskContext,
    works: Iterable[PartitionWork],
    read_slice: ReadSlice,
    entries: Mapping[Slice, Entry],
) -> None:
    """Compare slice by slice; results that need all slices come when the writer concludes."""
    whole = replace(context.job.limits, max_records=1 << 62, max_bytes=1 << 62)
    slicer = Slicer(whole, context.job.filter, lambda slice_: _like(entries[slice_]))
    read: dict[Slice, Account] = {}
    undecoded: dict[Slice, Account] = {}
    checks: dict[Slice, LetterCheck] = {}
    said: list[SliceComparison] = []
    for slice_ in chain.from_iterable(works):
        if context.is_stopped():
            return
        for open_slice in slicer.open_slices(slice_, read_slice(slice_)):
            explain(open_slice.account, context.explainer)
            entry, passing = entries[slice_], iter(open_slice.runs)
            if context.job.letters is not None:
                checks[slice_] = LetterCheck(context.job.letters, entry)
                passing = checks[slice_].passing(passing)
            undecoded[slice_] = Account(slice_, ErrorRule("skip"))
            found = context.writer.compare(entry, without_undecoded(undecoded[slice_], passing))
            read[slice_] = open_slice.account
            said += [] if found is None else [found]
    said += context.writer.conclude()
    said = [with_refused(it, entries[it.slice], undecoded[it.slice].refused_offsets) for it in said]
    said = [checks[it.slice].added(it) if it.slice in checks else it for it in said]
    context.report.findings += [_with_source(it, entries[it.slice], read[it.slice]) for it in said]


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
            now = f"{entry.read:,} records as before, but some have changed, or were not complete when they were read"
        texts.append(f"the source has changed since it was read: {entry.slice} has {now}")
    unexplained = account.explained.unexplained
    if unexplained:
        named = ", ".join(f"{start}-{end}" for start, end in unexplained[:MOST_BLANKS])
        texts.append(f"{total(unexplained):,} offsets of the source gave no record: {named}")
    place = *entry.slice.place, entry.slice.from_offset
    more = tuple(Difference("source", *place, text) for text in texts)
    different = found.different + len(more)
    return replace(found, differences=(*more, *found.differences), different=different)


def with_refused(
    found: SliceComparison, entry: Entry, undecoded: Collection[int] = ()
) -> SliceComparison:
    """Return the comparison with these records as unknown ones; their rows are as unknown.

    An entry may list only some of the records that were refused, but counts all of them. Without a run,
    nothing says that a record was refused before.
    """
    listed = named_refused(entry)
    refused = sorted({*found.refused, *undecoded} - listed)
    since = refused[max(0, entry.skipped + entry.dead - len(listed)) :]
    if not since:
        return replace(found, refused=())
    place, text = entry.slice.place, _OF_RUN if entry.read else _OF_SPAN
    shown = [Difference("unknown", *place, offset, text) for offset in since[:SHOWN]]
    return replace(
        found,
        refused=(),
        expected=found.expected + len(since),
        unknown=found.unknown + len(since),
        differences=(*found.differences, *shown)[:SHOWN],
    )

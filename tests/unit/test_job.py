"""A task does its work, says what it did, stops where it may, and gives up for now when a server is away."""

import json
import pickle
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pytest

from playhead.account import ErrorRule, RecordRefused
from playhead.errors import Stopped, Unavailable
from playhead.host.clock import SystemClock, wait_until
from playhead.pace import Pace, ScheduleError
from playhead.record import Record, Slice
from playhead.records import Records
from playhead.source import Bounds
from playhead.task.job import Job, Pacing, PartitionWork, Report
from playhead.task.play import play
from playhead.task.slicer import KEPT, OUTSIDE, Filter, Limits
from playhead.task.start_barrier import StartBarrier
from playhead.testing import Abort, Aborted, ListSource, ListTarget
from tests.unit.replaying import TOPIC, entry, record

EIGHT = [record(offset, 100 * offset) for offset in range(8)]
WHOLE = Slice(TOPIC, 0, 0, 8)


def job(
    source: ListSource, target: ListTarget, *tasks: tuple[PartitionWork, ...], **changes: object
) -> Job:
    given = {"filter": Filter(), "limits": Limits(2), **changes}
    return Job("r1", source, target, tasks or (((WHOLE,),),), **given)  # type: ignore[arg-type]


def pacing(pace: str) -> Pacing:
    return Pacing(Pace.parse(pace), SystemClock().now_ns(), 0)


def committed(target: ListTarget) -> list[Slice]:
    return [each.slice for each in target.entries("r1")]


def test_a_work_is_played_and_told():
    target = ListTarget()
    [report] = play(job(ListSource(EIGHT), target), 0)
    assert target.records == tuple(EIGHT)
    assert [len(slice_) for slice_ in committed(target)] == [2, 2, 2, 2]
    assert (report.index, report.commits, report.records, report.away) == (0, 4, 8, None)
    assert report.started_ns <= report.first_commit_ns <= report.last_commit_ns


def test_what_lies_outside_the_span_was_read_and_not_played():
    target = ListTarget()
    [report] = play(job(ListSource(EIGHT), target, filter=Filter(200, 600)), 0)
    assert target.records == tuple(EIGHT[2:6])
    assert report.records == 4


def test_a_report_survives_json():
    report = Report(3, 12, schedule=ScheduleError())
    report.schedule.note(late_ns=5_000, due_ns=0)
    document = json.loads(json.dumps(report.as_document()))
    assert document["index"] == 3
    assert ScheduleError.from_document(document["schedule"]) == report.schedule


def test_a_job_can_be_sent_away():
    target = ListTarget()
    sent = pickle.dumps(
        job(ListSource(EIGHT), target, pacing=pacing("1000x"), rule=ErrorRule("skip"))
    )
    play(pickle.loads(sent), 0)  # noqa: S301
    assert target.records == tuple(EIGHT)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_server_that_is_away_ends_the_task_and_not_the_run(moment):
    target = ListTarget()
    fail = target.fail_before_commit if moment == "before" else target.fail_after_commit
    fail(Unavailable("the database went away"))
    [report] = play(job(ListSource(EIGHT), target), 0)
    assert report.away == "the database went away"
    assert committed(target) == ([] if moment == "before" else [Slice(TOPIC, 0, 0, 2)])


def test_a_source_that_is_away_leaves_whole_slices_only():
    target = ListTarget()
    source = ListSource([*EIGHT[:3], Abort(Unavailable("no broker")), *EIGHT[3:]])
    [report] = play(job(source, target), 0)
    assert (report.away, committed(target)) == ("no broker", [Slice(TOPIC, 0, 0, 2)])


def test_a_task_that_the_engine_starts_again_says_so_and_writes_nothing_twice():
    """Spark does that when an executor is lost; what the first one committed is in the ledger."""
    target = ListTarget()
    both = job(ListSource(EIGHT), target, ((Slice(TOPIC, 0, 0, 4), Slice(TOPIC, 0, 4, 8)),))
    play(replace(both, tasks=(((Slice(TOPIC, 0, 0, 4),),),)), 0)
    [report] = play(both, 0)
    assert "already committed" in report.away
    assert target.records == tuple(EIGHT[:4])


def test_other_errors_are_raised():
    target = ListTarget(refuses=lambda each: "no" if each.offset == 5 else None)
    with pytest.raises(RecordRefused, match="offset 5: no"):
        play(job(ListSource(EIGHT), target), 0)
    assert committed(target) == [Slice(TOPIC, 0, 0, 2), Slice(TOPIC, 0, 2, 4)]


class Yard:
    """Dead letters that are kept, in a place that is closed when the task ends."""

    def __init__(self) -> None:
        self.buried: list[tuple[Slice, list[int]]] = []
        self.is_open = False

    @contextmanager
    def open(self, _replay_id: str):
        self.is_open = True
        try:
            yield lambda slice_, letters: self.buried.append(
                (slice_, [letter.record.offset for letter in letters])
            )
        finally:
            self.is_open = False


def test_dead_letters_are_buried_by_slice_and_counted():
    target, yard = ListTarget(refuses=lambda each: "odd" if each.offset % 2 else None), Yard()
    rule = ErrorRule("dlq", "dead")
    play(job(ListSource(EIGHT), target, rule=rule, dead_letters=yard, limits=Limits(4)), 0)
    assert yard.buried == [(Slice(TOPIC, 0, 0, 4), [1, 3]), (Slice(TOPIC, 0, 4, 8), [5, 7])]
    assert [each.dead for each in target.entries("r1")] == [2, 2]
    assert not yard.is_open


def test_a_stop_takes_effect_at_the_next_slice(tmp_path):
    stop = tmp_path / "stop"
    target = ListTarget(refuses=lambda each: stop.touch() if each.offset == 3 else None)
    other = Slice(TOPIC, 1, 0, 2)
    source = ListSource([*EIGHT, record(0, partition=1), record(1, partition=1)])
    play(job(source, target, ((WHOLE,), (other,)), stop_file=stop), 0)
    assert committed(target) == [Slice(TOPIC, 0, 0, 2), Slice(TOPIC, 0, 2, 4)]


def test_a_stop_that_is_there_already_reads_nothing(tmp_path):
    source = ListSource([Abort(), *EIGHT])
    play(job(source, ListTarget(), stop_file=tmp_path), 0)
    with pytest.raises(Aborted):
        play(job(source, ListTarget()), 0)


def test_records_may_be_drawn_by_somebody_else_with_their_verdicts():
    target = ListTarget()
    verdicts = [KEPT, OUTSIDE] * 4
    play(job(ListSource([]), target), 0, lambda _: [(Records.of(EIGHT), verdicts)])
    assert target.records == tuple(EIGHT[::2])


def test_who_draws_may_stop_and_what_it_had_not_drawn_is_not_absent():
    target = ListTarget()

    def draw(_: Slice):
        yield Records.of(EIGHT[:3]), None
        raise Stopped("told to")

    [report] = play(job(ListSource([]), target), 0, draw)
    assert committed(target) == [Slice(TOPIC, 0, 0, 2)]
    assert report.away is None


# --- side by side


def two_lanes(items: list[Record | Abort], **changes: object) -> tuple[Job, ListTarget]:
    """Partition 0 as given, and partition 1, whose second record is due after an hour."""
    hour = [record(0, 0, partition=1), record(1, 3_600_000, partition=1)]
    target = ListTarget()
    lanes = ((WHOLE,), (Slice(TOPIC, 1, 0, 2),))
    bounds = {(TOPIC, 0): Bounds(0, 8, 8)}
    source = ListSource([*hour, *items], bounds=bounds)
    return job(source, target, lanes, pacing=pacing("1x"), **changes), target


def within(seconds: float, work: Job) -> list[Report]:
    """The reports of a work that must end soon, or the error it ends with."""
    found: list[list[Report]] = []
    failures: list[BaseException] = []
    is_done = Event()

    def run() -> None:
        try:
            found.append(play(work, 0))
        except BaseException as exc:
            failures.append(exc)
        is_done.set()

    Thread(target=run, daemon=True).start()
    assert is_done.wait(seconds), "a lane waits for an hour"
    if failures:
        raise failures[0]
    return found[0]


def test_lanes_play_side_by_side():
    target = ListTarget()
    source = ListSource(
        [record(offset, 400 * offset, partition=p) for offset in range(4) for p in (0, 1)]
    )
    lanes = ((Slice(TOPIC, 0, 0, 4),), (Slice(TOPIC, 1, 0, 4),))
    reports = play(job(source, target, lanes, pacing=pacing("2x"), limits=Limits()), 0)
    assert len(reports) == 2
    assert [each.offset for each in target.records] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_when_a_lane_fails_the_others_do_not_play_on():
    work, target = two_lanes([record(0), Abort(ValueError("broken")), record(1)])
    with pytest.raises(ValueError, match="broken"):
        within(5, work)
    assert len(target.records) <= 2


def test_when_a_server_is_away_for_one_lane_the_others_do_not_run_ahead():
    work, _ = two_lanes([record(0), Abort(Unavailable("no leader")), record(1)])
    reports = within(5, work)
    assert [each.away for each in reports if each.away] == ["no leader"]


def test_a_stop_is_seen_by_lanes_that_wait(tmp_path):
    stop: Path = tmp_path / "stop"
    work, target = two_lanes([record(0)], stop_file=stop)
    thread = Thread(target=lambda: within(10, work))
    thread.start()
    seen = wait_until(
        lambda: len(target.records) == 2, deadline_s=5, clock=SystemClock(), every_s=0.01
    )
    assert seen
    stop.touch()
    thread.join(5)
    assert not thread.is_alive()
    assert Slice(TOPIC, 1, 0, 1) in committed(target)


# --- in several tasks


def met(tmp_path: Path, pace: str, items: list[Record | Abort]) -> tuple[Job, ListTarget]:
    """Two works of one lane each, that meet in a folder."""
    target = ListTarget()
    source = ListSource(items, bounds={(TOPIC, p): Bounds(0, 8, 8) for p in (0, 1)})
    tasks = tuple(((Slice(TOPIC, p, 0, 8),),) for p in (0, 1))
    together = replace(pacing(pace), barrier=StartBarrier(tmp_path, 2))
    return job(source, target, *tasks, pacing=together, limits=Limits()), target


def test_tasks_begin_when_all_are_there(tmp_path):
    work, target = met(tmp_path, "1x", [record(0), record(0, partition=1)])
    first: list[list[Report]] = []
    thread = Thread(target=lambda: first.append(play(work, 0)))
    thread.start()
    thread.join(1)
    assert target.records == ()
    second = play(work, 1)
    thread.join(10)
    merged = ScheduleError()
    for reports in (*first, second):
        merged.merge(reports[0].schedule)
    assert (len(target.records), merged.early) == (2, 0)
    assert merged.max_us < 900_000, "what one waited for the other counts as late"


def test_when_a_task_gives_up_those_elsewhere_stop(tmp_path):
    """The other one's second record is due after an hour."""
    hour = [record(0, 0, partition=1), record(1, 3_600_000, partition=1)]
    away = Abort(Unavailable("no leader"))
    work, target = met(tmp_path, "1x", [*hour, record(0), record(1), away, record(2)])
    found: list[list[Report]] = []
    threads = [Thread(target=lambda i=i: found.append(play(work, i)), daemon=True) for i in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted((reports[0].away or "") for reports in found) == ["", "no leader"]
    assert (TOPIC, 1, 1) not in {
        (each.topic, each.partition, each.offset) for each in target.records
    }


def test_who_is_told_to_stop_waits_for_nobody(tmp_path):
    work, target = met(tmp_path, "1x", [record(0), record(0, partition=1)])
    stop = tmp_path / "stop"
    thread = Thread(target=lambda: play(replace(work, stop_file=stop), 0), daemon=True)
    thread.start()
    thread.join(0.3)
    assert thread.is_alive()
    stop.touch()
    thread.join(5)
    assert not thread.is_alive()
    assert target.records == ()


# --- held against the target


def test_comparing_writes_nothing_and_says_what_is_missing():
    target = ListTarget()
    source = ListSource(EIGHT)
    play(job(source, target), 0)
    target.lose(EIGHT[3])
    entries = {each.slice: each for each in target.entries("r1")}
    lanes = (tuple(entries),)
    [report] = play(job(source, target, lanes, compares=entries, limits=Limits(1)), 0)
    assert [each.slice for each in report.findings] == list(entries)
    assert [(each.different, each.found) for each in report.findings] == [
        (0, 2),
        (1, 1),
        (0, 2),
        (0, 2),
    ]
    assert report.commits == 0
    assert len(target.entries("r1")) == 4
    json.dumps(report.as_document())


def test_comparing_leaves_out_what_lies_outside_the_span():
    target = ListTarget()
    source, filter_ = ListSource(EIGHT), Filter(200, 600)
    play(job(source, target, filter=filter_, limits=Limits()), 0)
    entries = {WHOLE: entry(0, 8)}
    [report] = play(job(source, target, compares=entries, filter=filter_), 0)
    assert [(each.expected, each.different) for each in report.findings] == [(4, 0)]

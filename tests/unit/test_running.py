"""Whole replays between lists: whatever happens on the way, the target ends up with the records of the span, once."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playhead.account import Account, RecordRefused
from playhead.config.context import configure
from playhead.errors import PlayheadError, Refused, Unavailable
from playhead.ledger import Entry
from playhead.plan import Plan
from playhead.proof import Proof
from playhead.record import Record, Slice
from playhead.records import Records
from playhead.replay import patience
from playhead.replay import runner as running
from playhead.replay.assemble import ends
from playhead.replay.guards import (
    RestIsGone,
    SourceReplaced,
    TargetReplaced,
    refuse_another_target,
)
from playhead.replay.journal import DIFFERENT, DONE, FAILED, STOPPED, Journal
from playhead.replay.runner import Runner, StoppedBeforeEnd
from playhead.replay.verify import verify
from playhead.request import Request
from playhead.source import Bounds, OutOfBounds, TopicFacts
from playhead.target import Inspection, InUse
from playhead.task.job import Job
from playhead.task.slicer import Limits
from playhead.testing import Abort, Aborted, ListSource, ListTarget
from tests.unit.replaying import (
    TOPIC,
    Small,
    entry,
    partition_plan,
    plan_of,
    play_all,
    record,
    request,
    runner,
    whole_plan,
)

TEN = [record(offset, 100 * offset) for offset in range(10)]


@pytest.fixture(autouse=True, scope="module")
def _impatient() -> Iterator[None]:
    """A server that is away for one commit is back at once, so there is nothing to wait for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patience, "_FIRST_WAIT_S", 0.001)
        patch.setattr(patience, "_LONGEST_WAIT_S", 0.002)
        yield


def state(folder: Path) -> str | None:
    run = Journal(folder).get("r1")
    return run.state if run else None


def finished(plan: Plan, source: ListSource, target: ListTarget, folder: Path, **how: Any) -> Proof:
    """Started again, as often as it is killed."""
    for _ in range(100):
        try:
            return runner(plan, source, target, folder, **how).run()
        except (Aborted, StoppedBeforeEnd):
            continue
    raise AssertionError("does not come to an end")


# --- the law


@st.composite
def logs(draw: st.DrawFn) -> list[Record]:
    """Two partitions with gaps, in the order in which their records were written."""
    return [
        record(offset, draw(st.integers(0, 30)), partition=partition, size=draw(st.integers(1, 60)))
        for partition in (0, 1)
        for offset in sorted(draw(st.sets(st.integers(0, 30), max_size=15)))
    ]


class Faulty:
    """Before each job something is about to go wrong, or somebody asks to stop."""

    def __init__(self, target: ListTarget, faults: list[str], limits: Limits, stop: Path) -> None:
        self.target, self.faults, self.stop = target, faults, stop
        self.play = Small(limits)

    def __call__(self, job: Job) -> list[Mapping[str, Any]]:
        fault = self.faults.pop() if self.faults else None
        if fault == "stop":
            self.stop.touch()
        elif fault is not None:
            moment, _, kind = fault.partition(" ")
            error = Unavailable("away") if kind == "away" else None
            fail = (
                self.target.fail_before_commit
                if moment == "before"
                else self.target.fail_after_commit
            )
            fail(error)
        return self.play(job)


FAULTS = ["before away", "after away", "before killed", "after killed", "stop"]


@pytest.mark.slow  # whole runs with faults in them
@given(
    records=logs(),
    breaks=st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=6),
    faults=st.lists(st.sampled_from(FAULTS), max_size=6),
    limits=st.builds(Limits, st.integers(1, 5), st.integers(80, 300)),
    sides=st.tuples(st.none() | st.integers(0, 15), st.none() | st.integers(15, 31)),
    is_ordered=st.booleans(),
    slots=st.integers(1, 5),
)
@settings(max_examples=60, deadline=None)  # each has a journal on a disk
def test_after_any_faults_the_target_holds_the_span_once(
    records, breaks, faults, limits, sides, is_ordered, slots
):
    items: list[Record | Abort] = list(records)
    for at, is_away in breaks:
        items.insert(min(at, len(items)), Abort(Unavailable("no leader") if is_away else None))
    bounds = {(TOPIC, 0): Bounds(0, 31, 35), (TOPIC, 1): Bounds(0, 31, 31)}
    source, target = ListSource(items, bounds=bounds), ListTarget(is_ordered=is_ordered)
    plan = whole_plan(source, from_ms=sides[0], to_ms=sides[1])
    with TemporaryDirectory() as folder:
        stop = Journal(Path(folder)).stop_file("r1")
        job = Faulty(target, faults, limits, stop)
        proof = finished(plan, source, target, Path(folder), run_job=job, slots=slots)
        assert state(Path(folder)) == DONE
    low, high = sides[0] or 0, 10**6 if sides[1] is None else sides[1]
    inside = [each for each in records if low <= each.timestamp_ms < high]
    places = sorted((each.partition, each.offset) for each in target.records)
    assert places == [(each.partition, each.offset) for each in inside]
    if is_ordered:
        for partition in (0, 1):
            offsets = [each.offset for each in target.records if each.partition == partition]
            assert offsets == sorted(offsets), "committed in the log's order, whatever failed"
    assert proof.adds_up
    assert proof.total("written") == len(inside)
    assert proof.total("absent") == 62 - len(records)
    slices = sorted(each.slice for each in target.entries("r1"))
    for partition in (0, 1):
        mine = [each for each in slices if each.partition == partition]
        ends = [0] + [each.to_offset for each in mine]
        assert [each.from_offset for each in mine] == ends[:-1]
        assert ends[-1] == 31


# --- one by one


def test_a_replay_is_played_proved_and_noted(tmp_path):
    source, target = ListSource(TEN), ListTarget()
    proof = runner(whole_plan(source), source, target, tmp_path).run()
    assert target.records == tuple(TEN)
    assert (proof.adds_up, proof.took.records, proof.took.commits) == (True, 10, 5)
    run = Journal(tmp_path).get("r1")
    assert (run.state, run.proof["verdict"]) == (DONE, proof.verdict())
    json.dumps(proof.as_document())


def test_a_finished_replay_run_again_reads_and_writes_nothing(tmp_path):
    source, target = ListSource([*TEN, Abort()]), ListTarget()
    plan = whole_plan(source)
    finished(plan, source, target, tmp_path)

    def never(_: Job) -> list[Mapping[str, Any]]:
        raise AssertionError("a job")

    said: list[str] = []
    proof = runner(plan, source, target, tmp_path, run_job=never, say=said.append).run()
    assert (proof.adds_up, proof.took.commits, len(target.records)) == (True, 0, 10)
    assert said == ["replay r1 was done before; nothing was written now"]


def test_an_empty_plan_is_done_at_once(tmp_path):
    source = ListSource([], bounds={(TOPIC, 0): Bounds(5, 5, 5)})
    proof = runner(whole_plan(source), source, ListTarget(), tmp_path).run()
    assert (proof.adds_up, proof.total("planned")) == (True, 0)


def test_a_stop_ends_at_a_slice_and_a_resume_finishes(tmp_path):
    stop = Journal(tmp_path).stop_file("r1")
    target = ListTarget(refuses=lambda each: stop.touch() if each.offset == 3 else None)
    source = ListSource(TEN)
    plan = whole_plan(source)
    with pytest.raises(StoppedBeforeEnd, match="stopped at 4 of 10 offsets") as caught:
        runner(plan, source, target, tmp_path).run()
    assert caught.value.hint == "continue with: playhead resume r1"
    assert str(StoppedBeforeEnd("r1", done=0, planned=9)).endswith(
        "stopped before anything was written"
    )
    assert (state(tmp_path), len(target.records), stop.exists()) == (STOPPED, 4, False)
    proof = runner(plan, source, target, tmp_path).run()
    assert (proof.adds_up, target.records) == (True, tuple(TEN))
    assert proof.took.records == 6


def test_a_record_that_cannot_be_written_fails_the_run_and_keeps_what_was(tmp_path):
    target = ListTarget(refuses=lambda each: "too large" if each.offset == 7 else None)
    source = ListSource(TEN)
    with pytest.raises(RecordRefused, match="offset 7: too large"):
        runner(whole_plan(source), source, target, tmp_path).run()
    run = Journal(tmp_path).get("r1")
    assert (run.state, run.error) == (FAILED, "laps:0 offset 7: too large")
    assert len(target.records) == 6


def test_records_that_cannot_be_written_are_left_out_and_counted(tmp_path):
    target = ListTarget(refuses=lambda each: "odd" if each.offset % 2 else None)
    source = ListSource(TEN)
    plan = whole_plan(source, request=request(on_error="skip"))
    proof = runner(plan, source, target, tmp_path).run()
    assert (proof.adds_up, proof.total("skipped"), proof.total("written")) == (True, 5, 5)


def test_a_server_that_stays_away_is_given_up_with_the_next_command(tmp_path):
    source = ListSource([*[Abort(Unavailable("no leader")) for _ in range(50)], *TEN])
    told: list[str] = []
    with pytest.raises(Unavailable, match="without progress: no leader") as caught:
        runner(
            whole_plan(source), source, ListTarget(), tmp_path, patience_s=0.01, say=told.append
        ).run()
    assert "playhead resume r1" in caught.value.hint
    assert state(tmp_path) == FAILED
    waits = [each for each in told if "no leader" in each]
    assert {"(at most 0 s more without progress)" in each for each in waits} == {True}


def test_a_second_run_of_the_same_replay_is_refused_and_told_who_has_it(tmp_path):
    source, target = ListSource(TEN), ListTarget()
    plan = whole_plan(source)
    with Journal(tmp_path).held("r1"), pytest.raises(InUse, match="process [0-9]+ on "):
        runner(plan, source, target, tmp_path).run()
    with target.hold("r1"), pytest.raises(InUse):
        runner(plan, source, target, tmp_path).run()
    assert runner(plan, source, target, tmp_path).run().adds_up


def test_what_the_log_has_lost_since_the_plan_is_refused_by_name(tmp_path):
    source = ListSource(TEN)
    longer = plan_of(partition_plan(0, 12), source=source.facts())
    with pytest.raises(OutOfBounds, match="laps:0:0-12: the partition holds 0-10"):
        runner(longer, source, ListTarget(), tmp_path).run()
    assert state(tmp_path) == FAILED
    source = ListSource(TEN[4:])
    older = plan_of(partition_plan(0, 10), source=source.facts())
    with pytest.raises(
        RestIsGone, match="laps:0:0-10 is still .* begins at offset 4 now"
    ) as caught:
        runner(older, source, ListTarget(), tmp_path / "older").run()
    assert str(caught.value.hint).startswith("playhead gaps ")


def test_a_plan_of_another_source_is_refused(tmp_path):
    source = ListSource(TEN)
    plan = whole_plan(source)
    with pytest.raises(SourceReplaced):
        runner(plan, ListSource(TEN[:9]), ListTarget(), tmp_path).run()
    was = replace(plan.source, topics={TOPIC: TopicFacts("one")})
    made_again = ListSource(TEN, topics={TOPIC: TopicFacts("other")})
    with pytest.raises(SourceReplaced, match="planned with topic laps of id one"):
        runner(replace(plan, source=was), made_again, ListTarget(), tmp_path).run()


def test_a_target_that_is_not_the_planned_one_is_left_alone(tmp_path):
    """All would be written there again, and the proof would say that it is the first time."""
    source, target = ListSource(TEN), ListTarget()
    plan = replace(whole_plan(source), target=Inspection("elsewhere"))
    with pytest.raises(TargetReplaced, match="planned into elsewhere; found the target lists"):
        runner(plan, source, target, tmp_path).run()
    with pytest.raises(TargetReplaced):
        refuse_another_target(target, plan)
    assert not target.records


def test_a_target_that_was_restored_goes_on(tmp_path):
    """What has come there with its ledger counts as the planned one."""
    source, target = ListSource(TEN), ListTarget()
    plan = whole_plan(source)
    runner(plan, source, target, tmp_path).run()
    assert runner(replace(plan, target=Inspection("moved")), source, target, tmp_path).run().adds_up
    assert len(target.records) == 10


def test_entries_that_were_not_planned_make_the_proof_fail(tmp_path):
    source, target = ListSource(TEN), ListTarget()
    shorter = plan_of(partition_plan(0, 6), source=source.facts())
    with target.open(shorter.replay_id) as writer:
        account = Account(Slice(TOPIC, 0, 6, 10))
        account.read = 4
        writer.commit(account, [Records.of(TEN[6:])])
    proof = runner(shorter, source, target, tmp_path).run()
    assert (proof.adds_up, proof.total("foreign")) == (False, 4)
    assert state(tmp_path) == DIFFERENT


def test_an_unforeseen_error_is_noted_and_raised(tmp_path):
    def broken(_: Job) -> list[Mapping[str, Any]]:
        raise RuntimeError("a fault of ours")

    source = ListSource(TEN)
    with pytest.raises(RuntimeError, match="a fault of ours"):
        runner(whole_plan(source), source, ListTarget(), tmp_path, run_job=broken).run()
    assert Journal(tmp_path).get("r1").error == "a fault of ours"


@pytest.mark.parametrize("pace", ["100x", "500/s"])
def test_a_paced_replay_tells_how_well_it_kept_its_pace(pace, tmp_path):
    source = ListSource([replace(each, partition=p) for p in (0, 1) for each in TEN])
    target = ListTarget()
    (tmp_path / "runs" / "r1@left-behind-by-one-that-was-killed").mkdir(parents=True)
    plan = whole_plan(source, request=request(pace=pace))
    proof = runner(plan, source, target, tmp_path, paced_slots=lambda: 1).run()
    assert proof.adds_up
    assert (proof.pace["records"], proof.pace["early"]) == (20, 0)
    assert [each.name for each in (tmp_path / "runs").iterdir()] == ["r1.lock"]
    assert [each.offset for each in target.records if each.partition == 1] == list(range(10))


def test_a_job_that_says_nothing_and_does_nothing_is_not_played_for_ever(tmp_path):
    source, calls = ListSource(TEN), []

    def idle(job: Job) -> list[Mapping[str, Any]]:
        calls.append(job)
        if len(calls) > 50:
            raise AssertionError("played again and again")
        return []

    with pytest.raises(PlayheadError):
        runner(whole_plan(source), source, ListTarget(), tmp_path, run_job=idle).run()


class Away(ListTarget):
    """A list whose ledger cannot be read any more once somebody says so."""

    is_away = False

    def entries(self, replay_id: str, /):
        if self.is_away:
            raise Unavailable("the database went away")
        return super().entries(replay_id)


def test_who_stops_while_the_target_is_away_can_resume(tmp_path):
    source, target = ListSource(TEN), Away()
    stop = Journal(tmp_path).stop_file("r1")

    def gone(job: Job) -> list[Mapping[str, Any]]:
        reports = play_all(job)
        target.is_away = True
        stop.touch()
        return [{**report, "away": "the database went away"} for report in reports]

    with pytest.raises(StoppedBeforeEnd):
        runner(whole_plan(source), source, target, tmp_path, run_job=gone, patience_s=1).run()


def test_a_job_that_got_on_is_no_reason_to_give_up(tmp_path):
    """One slice a job, and a server that is away after each of them: more waits than the patience has."""
    source, target = ListSource(TEN), ListTarget()

    def one_slice(job: Job) -> list[Mapping[str, Any]]:
        target.fail_after_commit(Unavailable("away"))
        return Small(Limits(1))(job)

    one = runner(whole_plan(source), source, target, tmp_path, run_job=one_slice, patience_s=0.0011)
    assert one.run().adds_up
    assert target.records == tuple(TEN)


def test_what_an_engine_loses_is_waited_for_and_gone_on_with(tmp_path):
    """It raises, and says nothing of what its tasks had done until then."""
    source, target, left = ListSource(TEN), ListTarget(), [3]
    told: list[str] = []

    def losing(job: Job) -> list[Mapping[str, Any]]:
        if left[0] > 0:
            left[0] -= 1
            target.fail_after_commit(Unavailable("away"))
            Small(Limits(1))(job)
            raise Unavailable("a worker was lost")
        return play_all(job)

    proof = runner(
        whole_plan(source), source, target, tmp_path, run_job=losing, say=told.append
    ).run()
    assert (proof.adds_up, target.records) == (True, tuple(TEN))
    assert sum("a worker was lost" in each for each in told) == 3


def test_who_gives_up_before_the_first_job_is_told_how_to_go_on(tmp_path):
    target = Away()
    target.is_away = True
    source = ListSource(TEN)
    with pytest.raises(Unavailable, match="the database went away") as caught:
        runner(whole_plan(source), source, target, tmp_path, patience_s=0.01).run()
    assert caught.value.hint == "when it is back: playhead resume r1"


def test_the_lock_is_kept_until_the_tasks_have_ended(tmp_path):
    """Whoever stops hard and resumes at once must not meet the tasks of before."""
    source, target, journal = ListSource(TEN), ListTarget(), Journal(tmp_path)
    is_cancelled, was_held = Event(), []

    def slow(_: Job) -> list[Mapping[str, Any]]:
        is_cancelled.wait(10)
        time.sleep(0.3)
        was_held.append(journal.is_held("r1"))
        return []

    def interrupted(_done: int, _total: int, _entries: object) -> None:
        if told.pop():
            raise KeyboardInterrupt

    told = [True, False]
    one = runner(
        whole_plan(source),
        source,
        target,
        tmp_path,
        run_job=slow,
        progress=interrupted,
        cancel_job=is_cancelled.set,
    )
    with pytest.raises(KeyboardInterrupt):
        one.run()
    assert was_held == [True]
    assert not journal.is_held("r1")


@pytest.mark.parametrize(("where", "slots"), [(None, [2, 1]), ("offset > 3", [1, 1, 1])])
def test_paced_works_all_play_at_once(tmp_path, where, slots):
    """What a transform gives comes lane after lane, so it has a task for each."""
    source = ListSource([replace(each, partition=p) for p in range(3) for each in TEN])
    plan = whole_plan(source, request=request(pace="100x", where=where))
    jobs: list[Job] = []

    def look(job: Job) -> list[Mapping[str, Any]]:
        jobs.append(job)
        raise Aborted

    with pytest.raises(Aborted):
        runner(
            plan, source, ListTarget(), tmp_path, run_job=look, paced_slots=lambda: len(slots)
        ).run()
    [job] = jobs
    assert [len(work) for work in job.tasks] == slots
    assert job.pacing.barrier.partitions == 3
    assert job.pacing.latest_ms == plan.made_at_ms + 3_600_000


def test_too_few_tasks_for_a_paced_transform_are_refused(tmp_path):
    source = ListSource([replace(each, partition=p) for p in range(3) for each in TEN])
    plan = whole_plan(source, request=request(pace="100x", select="key"))
    with pytest.raises(running.TooFewSlots, match="needs 3 tasks at once, .* found 2 slots"):
        runner(plan, source, ListTarget(), tmp_path, paced_slots=lambda: 2).run()


# --- reading back


def run_whole(tmp_path: Path, **how: Any) -> tuple[Plan, ListSource, ListTarget, Runner]:
    source, target = (
        ListSource([replace(e, partition=p) for p in (0, 1) for e in TEN]),
        ListTarget(),
    )
    plan = whole_plan(source, **how)
    one = runner(plan, source, target, tmp_path)
    one.run()
    return plan, source, target, one


@pytest.mark.parametrize("slots", [1, 2, 3, 20])
def test_what_was_replayed_is_verified(tmp_path, slots):
    plan, _, _, one = run_whole(tmp_path, from_ms=200, to_ms=850)
    jobs = Small(Limits(1))
    found = verify(plan, one.ends, jobs, slots)
    assert (found.agrees, [each.expected for each in found.partitions]) == (True, [7, 7])
    assert found.verdict() == "verified: 14 records read back, 0 differences"
    [job] = jobs.jobs
    compared = [slice_ for work in job.tasks for lane in work for slice_ in lane]
    assert compared == sorted(job.compares)
    assert len(job.tasks) == min(slots, 10)
    json.dumps(found.as_document())


def test_a_lost_record_is_found(tmp_path):
    plan, _, target, one = run_whole(tmp_path)
    target.lose(target.records[3])
    found = verify(plan, one.ends, play_all, 2)
    assert not found.agrees
    assert found.verdict() == "DIFFERENT: 20 records read back, 1 differences"
    [difference] = found.differences
    assert (difference["kind"], difference["offset"]) == ("missing", 3)


def test_what_nobody_has_looked_at_does_not_agree(tmp_path):
    plan, _, _, one = run_whole(tmp_path)
    found = verify(plan, one.ends, lambda job: play_all(replace(job, tasks=job.tasks[:1])), 2)
    assert (found.agrees, found.uncovered) == (False, 10)


def test_what_is_not_replayed_yet_is_said(tmp_path):
    source, target = ListSource(TEN), ListTarget()
    one = runner(whole_plan(source), source, target, tmp_path)
    found = verify(whole_plan(source), one.ends, play_all, 2)
    assert (found.agrees, found.uncovered, found.partitions) == (False, 10, ())
    assert "10 offsets not replayed yet" in found.verdict()


def test_reading_back_from_a_server_that_is_away_is_no_verdict(tmp_path):
    source, target = ListSource([*TEN, Abort(), Abort(Unavailable("no broker"))]), ListTarget()
    plan = whole_plan(source)
    finished(plan, ListSource(TEN), target, tmp_path)
    with pytest.raises((Unavailable, Aborted)):
        verify(plan, runner(plan, source, target, tmp_path).ends, play_all, 2)


def test_progress_is_told_from_the_ledger(tmp_path):
    told: list[tuple[int, int]] = []
    source = ListSource(TEN)
    runner(
        whole_plan(source),
        source,
        ListTarget(),
        tmp_path,
        progress=lambda done, total, _: told.append((done, total)),
    ).run()
    assert (told[0], told[-1]) == ((0, 10), (10, 10))


class _Looked(ListTarget):
    """A target at which looks go as they are told to; what is not a look goes as ever."""

    def __init__(self, look: Callable[[], Sequence[Entry]]) -> None:
        super().__init__()
        self.look = look

    @contextmanager
    def watch(self, _replay_id: str, /) -> Iterator[Callable[[], Sequence[Entry]]]:
        yield self.look


def _played_during(look: Event, patience_s: float) -> Callable[[Job], list[Mapping[str, Any]]]:
    def run_job(job: Job) -> list[Mapping[str, Any]]:
        assert look.wait(patience_s), "nobody has looked"
        return play_all(job)

    return run_job


def test_a_look_that_hangs_keeps_nobody_waiting(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "_PROGRESS_EVERY_S", 0.01)
    looked, answered = Event(), Event()

    def hanging() -> Sequence[Entry]:
        looked.set()
        answered.wait(30)
        return []

    source, target = ListSource(TEN), _Looked(hanging)
    one = runner(whole_plan(source), source, target, tmp_path, run_job=_played_during(looked, 10))
    began = time.monotonic()
    proof = one.run()
    took_s = time.monotonic() - began
    answered.set()
    assert proof.total("written") == 10
    assert took_s < 10


def test_a_look_goes_on_when_the_target_was_away(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "_PROGRESS_EVERY_S", 0.01)
    told: list[int] = []
    looks, has_told = iter([Unavailable("away for one look")]), Event()

    def away_once() -> Sequence[Entry]:
        for failure in looks:
            raise failure
        return [entry(0, 3)]

    def tell(done: int, _total: int, _entries: object) -> None:
        told.append(done)
        if done == 3:
            has_told.set()

    source, target = ListSource(TEN), _Looked(away_once)
    job = _played_during(has_told, 10)
    runner(whole_plan(source), source, target, tmp_path, run_job=job, progress=tell).run()
    assert told[0] == 0
    assert told[-1] == 10


def test_a_look_that_fails_in_a_way_nobody_foresaw_ends_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "_PROGRESS_EVERY_S", 0.01)

    def broken() -> Sequence[Entry]:
        raise ZeroDivisionError("in a look")

    def slow(_: Job) -> list[Mapping[str, Any]]:
        assert is_cancelled.wait(10)
        return []

    is_cancelled = Event()
    source, target = ListSource(TEN), _Looked(broken)
    plan = whole_plan(source)
    one = runner(plan, source, target, tmp_path, run_job=slow, cancel_job=is_cancelled.set)
    with pytest.raises(ZeroDivisionError, match="in a look"):
        one.run()
    assert is_cancelled.is_set()


# --- ends


@pytest.mark.parametrize(
    ("source", "is_refused"),
    [
        ("kafka:laps", False),
        ("kafka:dead", True),
        ("kafka:laps,dead", True),
        ("kafka:/^de.*/", True),
        ("kafka:/^dea$/", False),
    ],
)
def test_dead_letters_never_go_where_they_come_from(source, is_refused, tmp_path):
    asked = Request(source=source, target=f"json:{tmp_path}", on_error="dlq:dead")
    configuration = configure({"bootstrap_servers": "127.0.0.1:1"})
    if not is_refused:
        assert ends(asked, configuration).dead_letters is not None
        return
    with pytest.raises(Refused, match="dead letters would go to dead, which is the source"):
        ends(asked, configuration)

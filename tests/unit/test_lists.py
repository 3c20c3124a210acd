"""The lists keep the contract, and fail where they are told to."""

import gc
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

import playhead.record
from playhead.account import Account, RecordRefused
from playhead.errors import Unavailable
from playhead.ledger import remaining
from playhead.record import Record, Slice, TimestampType
from playhead.records import Records
from playhead.source import Bounds, OutOfBounds, TopicFacts
from playhead.target import AlreadyCommitted, InUse
from playhead.testing import (
    Abort,
    Aborted,
    ListSource,
    ListTarget,
    exercise_source,
    exercise_target,
    sample_records,
)


def record(offset: int, partition: int = 0) -> Record:
    value = str(offset).encode()
    return Record("laps", partition, offset, -1, TimestampType.NONE, None, value)


R0, R1, R2 = map(record, range(3))
WHOLE = Slice("laps", 0, 0, 3)


def read(source: ListSource, slice_: Slice) -> list[Record]:
    with source.open() as reader:
        return [each for run in reader.read(slice_) for each in run]


def read_laps(source: ListSource, from_offset: int, to_offset: int) -> list[Record]:
    return read(source, Slice("laps", 0, from_offset, to_offset))


def commit(target: ListTarget, records: list[Record], slice_: Slice = WHOLE) -> None:
    account = Account(slice_)
    account.read = len(records)
    with target.open("r") as writer:
        writer.commit(account, [Records.of(records)] if records else [])


def committed(target: ListTarget) -> list[Slice]:
    return [entry.slice for entry in target.entries("r")]


# --- the source -------------------------------------------------------------------------------


@given(st.sets(st.integers(0, 30), min_size=1), st.integers(0, 30), st.integers(1, 30))
def test_reading_is_the_list_filtered(offsets, start, length):
    bounds = {("laps", 0): Bounds(0, 61, 61)}
    some = [record(offset, partition) for offset in sorted(offsets) for partition in (1, 0)]
    source, slice_ = ListSource(some, bounds=bounds), Slice("laps", 0, start, start + length)
    assert read(source, slice_) == [each for each in some if each in slice_]


@given(st.sets(st.integers(0, 30), min_size=1))
def test_bounds_reach_from_the_first_record_to_after_the_last(offsets):
    source = ListSource(map(record, sorted(offsets)))
    first, end = min(offsets), max(offsets) + 1
    assert source.bounds() == {("laps", 0): Bounds(first, end, end)}


def test_runs_are_short_and_end_before_an_abort():
    items = [record(offset) for offset in range(5)]
    source = ListSource([*items[:3], Abort(), *items[3:]])
    with source.open() as reader:
        reading = reader.read(Slice("laps", 0, 0, 5))
        assert [next(reading).offsets, next(reading).offsets] == [[0, 1], [2]]
        with pytest.raises(Aborted):
            next(reading)
        assert [run.offsets for run in reader.read(Slice("laps", 0, 0, 5))] == [[0, 1], [2], [3, 4]]


def test_an_abort_happens_once_though_the_source_was_copied():
    copy = pickle.dumps(ListSource([R0, Abort(), R1, R2]))
    with pytest.raises(Aborted):
        read(pickle.loads(copy), WHOLE)  # noqa: S301
    assert read(pickle.loads(copy), WHOLE) == [R0, R1, R2]  # noqa: S301


def test_an_abort_raises_what_it_was_given():
    with pytest.raises(Unavailable, match="away"):
        read(ListSource([R0, R1, R2, Abort(Unavailable("away"))]), WHOLE)


def test_a_reader_is_of_no_use_after_its_block():
    with ListSource([R0]).open() as reader:
        pass
    with pytest.raises(ValueError, match="found a reader after its block"):
        reader.read(Slice("laps", 0, 0, 1))


times = st.lists(st.integers(-1, 6), min_size=1, max_size=8)


@given(times, st.integers(0, 8), st.integers(0, 7))
def test_an_instant_is_found_as_its_law_says(found_times, end, instant_ms):
    some = [replace(record(n), timestamp_ms=time) for n, time in enumerate(found_times)]
    end = min(end, len(some))
    source = ListSource(some, bounds={("laps", 0): Bounds(0, end, len(some))})
    due = [n for n, time in enumerate(found_times[:end]) if time >= instant_ms]
    assert source.offsets_at(instant_ms) == {("laps", 0): due[0] if due else end}


def test_facts_name_every_topic_and_two_lists_of_the_same_records_are_one_system():
    bounds = {("empty", 0): Bounds(0, 0, 0)}
    one, other = ListSource([R0], bounds=bounds), ListSource([R0, Abort()], bounds=bounds)
    assert set(one.facts().topics) == {"laps", "empty"}
    assert one.facts() == other.facts()
    assert one.facts().identity != ListSource([R1]).facts().identity
    known = TopicFacts(sets_log_append_time=True)
    assert ListSource([R0], topics={"laps": known}).facts().topics == {"laps": known}


def test_two_aborts_happen_twice():
    source = ListSource([Abort(), Abort(), R0])
    for _ in range(2):
        with pytest.raises(Aborted):
            read_laps(source, 0, 1)
    assert read_laps(source, 0, 1) == [R0]


def test_only_who_reads_the_record_behind_it_meets_an_abort():
    source = ListSource([R0, Abort(), record(0, partition=1), R1, R2, Abort()])
    assert read_laps(source, 0, 2) == [R0, R1]
    with pytest.raises(Aborted):
        read_laps(source, 2, 3)
    with pytest.raises(Aborted):
        read(source, Slice("laps", 1, 0, 1))


@pytest.mark.parametrize(
    ("slice_", "why"),
    [
        (Slice("laps", 0, 0, 2), "the partition holds 1-2"),
        (Slice("laps", 0, 1, 3), "the partition holds 1-2"),
        (Slice("laps", 1, 0, 1), "the partition holds 0-0"),
        (Slice("laps", 2, 0, 1), "the topic has no such partition"),
    ],
)
def test_a_slice_outside_the_bounds_is_refused(slice_, why):
    # Offset 2 belongs to a transaction that is still open.
    bounds = {("laps", 0): Bounds(1, 2, 3), ("laps", 1): Bounds(0, 0, 0)}
    source = ListSource([R1, R2], bounds=bounds)
    with pytest.raises(OutOfBounds, match=f"cannot read {slice_}: {why}"):
        read(source, slice_)


def test_offsets_must_rise_and_lie_within_the_bounds():
    with pytest.raises(ValueError, match="found offset 0 of laps:0, needed 1 or more"):
        ListSource([R0, R0])
    with pytest.raises(ValueError, match="found offset 2, needed one within Bounds"):
        ListSource([R2], bounds={("laps", 0): Bounds(0, 1, 2)})


@pytest.mark.parametrize("numbers", [(-1, 0, 0), (2, 1, 3), (0, 3, 2)])
def test_bounds_are_in_order(numbers):
    with pytest.raises(ValueError, match="needed 0 <= earliest <= stable_end <= high_watermark"):
        Bounds(*numbers)


# --- the target -------------------------------------------------------------------------------


def test_a_failure_before_the_commit_leaves_nothing():
    target = ListTarget()
    target.fail_before_commit()
    with pytest.raises(Aborted, match="before"):
        commit(target, [R0])
    assert (target.records, committed(target)) == ((), [])
    commit(target, [R0])
    assert (target.records, committed(target)) == ((R0,), [WHOLE])


def test_a_failure_after_the_commit_leaves_all_of_it():
    target = ListTarget()
    target.fail_after_commit(Unavailable("the answer got lost"))
    with pytest.raises(Unavailable, match="got lost"):
        commit(target, [R0])
    assert (target.records, committed(target)) == ((R0,), [WHOLE])
    with pytest.raises(AlreadyCommitted, match="replay r cannot commit laps:0:0-3: it has"):
        commit(target, [R0])


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ([R0, R2], "found offset 2, needed one of laps:0:0-2"),
        ([R1, R0], "found offset 0, needed 2 or more"),
    ],
)
def test_a_record_from_elsewhere_or_out_of_order_is_refused(records, text):
    target = ListTarget()
    with pytest.raises(ValueError, match=text):
        commit(target, records, Slice("laps", 0, 0, 2))
    assert target.records == ()


def test_a_writer_is_of_no_use_after_an_error_or_after_its_block():
    target = ListTarget(refuses=lambda each: "bad" if each == R1 else None)
    with target.open("r") as writer:
        with pytest.raises(RecordRefused):
            writer.commit(Account(WHOLE), [Records.of([R1])])
        with pytest.raises(ValueError, match="after its block or an error"):
            writer.commit(Account(WHOLE), [])
    with target.open("r") as writer:
        writer.commit(Account(WHOLE), [])
        with pytest.raises(AlreadyCommitted):
            writer.commit(Account(WHOLE), [])
        writer.commit(Account(Slice("laps", 0, 3, 4)), [])
    with pytest.raises(ValueError, match="after its block or an error"):
        writer.commit(Account(Slice("laps", 0, 4, 5)), [])


def test_comparing_tells_what_is_missing_extra_and_changed():
    target = ListTarget()
    commit(target, [R0, R1, R2])
    target.lose(R2)
    [entry] = target.entries("r")
    given = [Records.of([replace(R1, value=b"x"), R2])]
    with target.open("r") as writer:
        found = writer.compare(entry, given)
    kinds = [(each.kind, each.offset) for each in found.differences]
    assert kinds == [("extra", 0), ("changed", 1), ("missing", 2)]
    assert (found.expected, found.found, found.different) == (2, 2, 3)
    assert found.expected_checksum != found.found_checksum


def test_one_run_of_a_replay_holds_the_target():
    target = ListTarget()
    refused = pytest.raises(InUse, match=r"replay r is running already \(this process\)")
    with target.hold("r"), target.hold("s"), refused, target.hold("r"):
        pass
    with target.hold("r"):
        pass


def test_a_run_that_fails_lets_go_of_the_target():
    target = ListTarget()
    with pytest.raises(Aborted), target.hold("r"):
        Abort().happen()
    with target.hold("r"):
        pass


def test_a_copy_is_the_same_target_while_it_lives_in_this_process():
    target = ListTarget()
    copy = pickle.dumps(target)
    assert pickle.loads(copy) is target  # noqa: S301
    del target
    gc.collect()
    with pytest.raises(ValueError, match="can be used in its own process only"):
        pickle.loads(copy)  # noqa: S301


def test_of_many_threads_one_commits():
    target, barrier, refused = ListTarget(), Barrier(8), []

    def commit_at_once() -> None:
        barrier.wait(10)
        try:
            commit(target, [R0, R1])
        except AlreadyCommitted as error:
            refused.append(error)

    threads = [Thread(target=commit_at_once) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert (target.records, len(refused)) == ((R0, R1), 7)


def test_recovery_reads_like_its_specification():
    source, target = ListSource([R0, R1, Abort(), R2]), ListTarget()

    def run() -> None:
        for left in remaining([WHOLE], committed(target)):
            for offset in range(left.from_offset, left.to_offset):
                slice_ = Slice("laps", 0, offset, offset + 1)
                commit(target, read(source, slice_), slice_)

    with pytest.raises(Aborted):
        run()
    assert target.records == (R0, R1)
    run()
    assert target.records == (R0, R1, R2)


# --- the contract suites ----------------------------------------------------------------------


def test_the_list_source_keeps_the_contract():
    exercise_source(lambda: ListSource(sample_records()), sample_records())


def test_the_list_target_keeps_the_contract():
    target = ListTarget()
    commit(target, [R0, R1])
    exercise_target(lambda: target, lambda: target.records, exclusive=True)


def test_the_kit_loads_no_test_framework_and_no_client():
    code = "import sys, playhead.testing; print(*sys.modules)"
    source_root = str(Path(playhead.record.__file__).parent.parent)
    loaded = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": source_root},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    ).stdout.split()
    assert not {"pytest", "pyspark", "confluent_kafka", "psycopg", "hypothesis"} & set(loaded)

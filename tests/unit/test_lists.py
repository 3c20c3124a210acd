"""The lists keep the contract and fail where they are told to; the suites see who does not."""

import pickle
import subprocess
import sys
from pathlib import Path
from threading import Barrier, Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

import playhead.record
from playhead.record import Record, Slice, TimestampType
from playhead.source import Bounds, OutOfBounds
from playhead.target import AlreadyCommitted
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


def read_laps(source: ListSource, from_offset: int, to_offset: int) -> list[Record]:
    return list(source.read(Slice("laps", 0, from_offset, to_offset)))


# --- the source -------------------------------------------------------------------------------


@given(st.sets(st.integers(0, 30), min_size=1), st.integers(0, 30), st.integers(1, 30))
def test_reading_is_the_list_filtered(offsets, start, length):
    bounds = {("laps", 0): Bounds(0, 61, 61)}
    some = [record(offset, partition) for offset in sorted(offsets) for partition in (1, 0)]
    source, slice_ = ListSource(some, bounds=bounds), Slice("laps", 0, start, start + length)
    assert list(source.read(slice_)) == [each for each in some if each in slice_]


@given(st.sets(st.integers(0, 30), min_size=1))
def test_bounds_reach_from_the_first_record_to_after_the_last(offsets):
    source = ListSource(map(record, sorted(offsets)))
    first, end = min(offsets), max(offsets) + 1
    assert source.bounds() == {("laps", 0): Bounds(first, end, end)}


def test_an_abort_happens_once_at_its_place():
    source = ListSource([R0, R1, Abort(), R2])
    reading = source.read(WHOLE)
    assert [next(reading), next(reading)] == [R0, R1]
    with pytest.raises(Aborted):
        next(reading)
    assert list(source.read(WHOLE)) == [R0, R1, R2]


def test_an_abort_happens_once_though_the_source_was_copied():
    copy = pickle.dumps(ListSource([R0, Abort(), R1, R2]))
    with pytest.raises(Aborted):
        list(pickle.loads(copy).read(WHOLE))  # noqa: S301
    assert list(pickle.loads(copy).read(WHOLE)) == [R0, R1, R2]  # noqa: S301


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
        list(source.read(Slice("laps", 1, 0, 1)))


@pytest.mark.parametrize(
    ("slice_", "held"),
    [
        (Slice("laps", 0, 0, 2), "1-2"),
        (Slice("laps", 0, 1, 3), "1-2"),
        (Slice("laps", 1, 0, 1), "0-0"),
        (Slice("laps", 2, 0, 1), "no such partition"),
    ],
)
def test_a_slice_outside_the_bounds_is_refused(slice_, held):
    # Offset 2 belongs to a transaction that is still open.
    bounds = {("laps", 0): Bounds(1, 2, 3), ("laps", 1): Bounds(0, 0, 0)}
    source = ListSource([R1, R2], bounds=bounds)
    with pytest.raises(OutOfBounds, match=f"cannot read {slice_}: the partition holds {held}"):
        source.read(slice_)


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
        target.commit("r", WHOLE, [R0])
    assert (target.records, target.committed("r")) == ((), ())
    target.commit("r", WHOLE, [R0])
    assert (target.records, target.committed("r")) == ((R0,), (WHOLE,))


def test_a_failure_after_the_commit_leaves_all_of_it():
    target = ListTarget()
    target.fail_after_commit()
    with pytest.raises(Aborted, match="after"):
        target.commit("r", WHOLE, [R0])
    assert (target.records, target.committed("r")) == ((R0,), (WHOLE,))
    with pytest.raises(AlreadyCommitted, match="replay r cannot commit laps:0:0-3: it has"):
        target.commit("r", WHOLE, [R0])


def test_a_record_from_elsewhere_is_refused():
    target = ListTarget()
    with pytest.raises(ValueError, match="found offset 2, needed one of laps:0:0-2"):
        target.commit("r", Slice("laps", 0, 0, 2), [R0, R2])
    assert target.records == ()


def test_of_many_threads_one_commits():
    target, barrier, refused = ListTarget(), Barrier(8), []

    def commit() -> None:
        barrier.wait(10)
        try:
            target.commit("r", WHOLE, [R0, R1])
        except AlreadyCommitted as error:
            refused.append(error)

    threads = [Thread(target=commit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert (target.records, len(refused)) == ((R0, R1), 7)


def test_recovery_reads_like_its_specification():
    source, target = ListSource([R0, R1, Abort(), R2]), ListTarget()

    def run() -> None:
        for offset in range(3):
            slice_ = Slice("laps", 0, offset, offset + 1)
            if slice_ not in target.committed("r"):
                target.commit("r", slice_, source.read(slice_))

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
    target.commit("an earlier replay", WHOLE, [R0, R0])
    exercise_target(lambda: target, lambda: target.records)


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

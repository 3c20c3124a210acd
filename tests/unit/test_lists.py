"""The lists keep the contract and fail where they are told to; the suites see who does not."""

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


class ClosedEnd(ListSource):
    def read(self, slice_, /):
        held = self.bounds()[slice_.topic, slice_.partition]
        end = min(slice_.to_offset + 1, held.stable_end)
        return super().read(replace(slice_, to_offset=max(end, slice_.to_offset)))


class OpenStart(ListSource):
    def read(self, slice_, /):
        return (each for each in super().read(slice_) if each.offset != slice_.from_offset)


class InclusiveBounds(ListSource):
    def bounds(self):
        return {
            place: Bounds(held.earliest, held.stable_end - 1, held.stable_end - 1)
            for place, held in super().bounds().items()
        }


class Backwards(ListSource):
    def read(self, slice_, /):
        return reversed(list(super().read(slice_)))


class FillsGaps(ListSource):
    def read(self, slice_, /):
        held = {each.offset: each for each in super().read(slice_)}
        filler = replace(R0, topic=slice_.topic, partition=slice_.partition)
        for offset in range(slice_.from_offset, slice_.to_offset):
            yield held.get(offset, replace(filler, offset=offset))


class EmptyForNull(ListSource):
    def read(self, slice_, /):
        return (replace(each, key=each.key or b"") for each in super().read(slice_))


class HeadersAsDict(ListSource):
    def read(self, slice_, /):
        for each in super().read(slice_):
            yield replace(each, headers=tuple(dict(each.headers).items()))


class SilentlyShort(ListSource):
    def read(self, slice_, /):
        return self._walk(slice_)


class KeepsAConnection(ListSource):
    def read(self, slice_, /):
        self.connection = sys.stdout
        return super().read(slice_)


@pytest.mark.parametrize(
    ("broken", "error", "text"),
    [
        (ClosedEnd, AssertionError, "gave offsets"),
        (OpenStart, AssertionError, "gave offsets"),
        (InclusiveBounds, AssertionError, "is not half-open"),
        (Backwards, AssertionError, "gave offsets"),
        (FillsGaps, AssertionError, "gave offsets"),
        (EmptyForNull, AssertionError, "found Record.*key=b'', .*needed Record.*key=None"),
        (HeadersAsDict, AssertionError, "found Record.*needed Record"),
        (SilentlyShort, AssertionError, "reaches outside"),
        (KeepsAConnection, TypeError, "pickle"),
    ],
)
def test_the_source_contract_sees_a_breach(broken, error, text):
    with pytest.raises(error, match=text):
        exercise_source(lambda: broken(sample_records()), sample_records())


def test_the_source_contract_wants_every_case_shown_or_named_as_lacking():
    plain = [R0, R1]
    with pytest.raises(AssertionError, match=r"expected_records show no .*absent offset"):
        exercise_source(lambda: ListSource(plain), plain)
    with pytest.raises(AssertionError, match=r"lacks names \{'nul key'\}"):
        exercise_source(lambda: ListSource(plain), plain, lacks=["nul key"])
    lacks = ["empty key", "null value", "empty value", "repeated header", "null header"]
    exercise_source(lambda: ListSource(plain), plain, lacks=[*lacks, "absent offset"])


class SaysNothing(ListTarget):
    """Keeps records."""


class Forgets(ListTarget):
    __doc__ = ListTarget.__doc__

    def committed(self, replay_id, /):
        return ()


class SkipsEmptySlices(ListTarget):
    __doc__ = ListTarget.__doc__

    def commit(self, replay_id, slice_, records, /):
        drawn = list(records)
        if drawn:
            super().commit(replay_id, slice_, drawn)


class TakesOverlaps(ListTarget):
    __doc__ = ListTarget.__doc__

    def _refuse_overlap(self, replay_id, slice_):
        if slice_ in self._ledger.get(replay_id, ()):
            super()._refuse_overlap(replay_id, slice_)


class RefusesNeighbours(ListTarget):
    __doc__ = ListTarget.__doc__

    def _refuse_overlap(self, replay_id, slice_):
        super()._refuse_overlap(replay_id, replace(slice_, to_offset=slice_.to_offset + 1))


class ForgetsThePartition(ListTarget):
    __doc__ = ListTarget.__doc__

    def _refuse_overlap(self, replay_id, slice_):
        super()._refuse_overlap(replay_id, replace(slice_, partition=0))


class WritesAsItDraws(ListTarget):
    __doc__ = ListTarget.__doc__

    def commit(self, replay_id, slice_, records, /):
        self._refuse_overlap(replay_id, slice_)
        for each in records:
            self._records.append(each)
        super().commit(replay_id, slice_, [])


class LedgerFirst(ListTarget):
    __doc__ = ListTarget.__doc__

    def commit(self, replay_id, slice_, records, /):
        super().commit(replay_id, slice_, [])
        self._records += list(records)


class CommitsWhatItGot(ListTarget):
    __doc__ = ListTarget.__doc__

    def commit(self, replay_id, slice_, records, /):
        drawn = []
        try:
            drawn.extend(each for each in records if not drawn.append(each))
        finally:
            super().commit(replay_id, slice_, dict.fromkeys(drawn))


class SwallowsErrors(ListTarget):
    __doc__ = ListTarget.__doc__

    def commit(self, replay_id, slice_, records, /):
        try:
            drawn = list(records)
        except Exception:
            return
        super().commit(replay_id, slice_, drawn)


class OneLedgerForAll(ListTarget):
    __doc__ = ListTarget.__doc__

    def committed(self, replay_id, /):
        return sorted({slice_ for ledger in self._ledger.values() for slice_ in ledger})


class NullForEmpty(ListTarget):
    __doc__ = ListTarget.__doc__

    def commit(self, replay_id, slice_, records, /):
        super().commit(
            replay_id, slice_, [replace(each, value=each.value or None) for each in records]
        )


class Unordered(ListTarget):
    __doc__ = ListTarget.__doc__

    def committed(self, replay_id, /):
        return super().committed(replay_id)[::-1]


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        (SaysNothing, "has no 'ordering:'"),
        (Forgets, "after a commit: the ledger says"),
        (SkipsEmptySlices, "after a slice without records: the ledger says"),
        (TakesOverlaps, "overlaps a committed slice, and was not refused"),
        (WritesAsItDraws, "while records are still being given: nobody committed"),
        (LedgerFirst, "after a failed commit: the ledger says"),
        (CommitsWhatItGot, "after a failed commit: nobody committed"),
        (SwallowsErrors, "the error of the records ended in None"),
        (OneLedgerForAll, "the ledger says"),
        (NullForEmpty, "after a commit: nobody committed"),
        (Unordered, "not in order"),
    ],
)
def test_the_target_contract_sees_a_breach(broken, text):
    target = broken()
    with pytest.raises(AssertionError, match=text):
        exercise_target(lambda: target, lambda: target.records)


@pytest.mark.parametrize("broken", [RefusesNeighbours, ForgetsThePartition])
def test_the_target_contract_sees_a_slice_refused_without_reason(broken):
    target = broken()
    with pytest.raises(AlreadyCommitted):
        exercise_target(lambda: target, lambda: target.records)


def test_the_target_contract_sees_a_ledger_that_does_not_last():
    store = ListTarget()

    def make_target() -> ListTarget:
        opened = ListTarget()
        opened._records = store._records
        return opened

    with pytest.raises(AssertionError, match="reopened: the ledger says"):
        exercise_target(make_target, lambda: store.records)


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

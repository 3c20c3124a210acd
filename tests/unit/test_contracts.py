"""The contract suites see every source and target that breaks the contract."""

import sys
from dataclasses import replace

import pytest

from playhead.record import Record, TimestampType
from playhead.source import Bounds
from playhead.target import AlreadyCommitted
from playhead.testing import (
    ListSource,
    ListTarget,
    exercise_source,
    exercise_target,
    sample_records,
)

R0, R1 = (
    Record("laps", 0, offset, 1_000, TimestampType.CREATE_TIME, None, b"lap") for offset in range(2)
)


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

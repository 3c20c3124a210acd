"""Shared out and split, every offset is there once; and what paced tasks must know of the records' times."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from playhead.pace import Share
from playhead.record import Slice
from playhead.replay.partition_work import (
    partition_works,
    shared_out,
    shares_of,
    silences,
    split,
    times_of,
)
from playhead.source import Bounds
from playhead.task.job import PartitionWork
from playhead.testing import ListSource
from tests.unit.replaying import TOPIC, partition_plan, plan_of, record

slots = st.integers(1, 9)


@st.composite
def lefts(draw: st.DrawFn) -> list[Slice]:
    """What may be left of a plan: slices that do not overlap, in no order."""
    found = []
    for partition in range(draw(st.integers(0, 5))):
        cuts = sorted(draw(st.sets(st.integers(0, 600_000), min_size=2, max_size=7)))
        found += [
            Slice(TOPIC, partition, a, b)
            for a, b in list(pairwise(cuts))[:: draw(st.integers(1, 2))]
        ]
    return draw(st.permutations(found))


def offsets(lanes: list[PartitionWork] | tuple[PartitionWork, ...]) -> list[Slice]:
    """All slices, those that touch made one: the same for the same offsets."""
    joined: list[Slice] = []
    for slice_ in sorted(slice_ for lane in lanes for slice_ in lane):
        last = joined[-1] if joined else None
        if last and (last.partition, last.to_offset) == (slice_.partition, slice_.from_offset):
            joined[-1] = Slice(TOPIC, last.partition, last.from_offset, slice_.to_offset)
        else:
            joined.append(slice_)
    return joined


def length(lane: PartitionWork) -> int:
    return sum(map(len, lane))


@given(lefts())
def test_a_lane_is_one_partition_in_order(left):
    lanes = partition_works(left)
    assert sorted(slice_ for lane in lanes for slice_ in lane) == sorted(left)
    assert len({lane[0].partition for lane in lanes}) == len(lanes)
    assert all(list(lane) == sorted(lane) for lane in lanes)


@given(lefts(), slots)
def test_pieces_cover_the_lanes_exactly_and_none_is_much_longer_than_a_slots_part(left, slots):
    lanes = partition_works(left)
    pieces = split(lanes, slots)
    assert offsets(pieces) == offsets(lanes)
    assert sum(map(length, pieces)) == sum(map(length, lanes))
    part = max(50_000, -(-sum(map(length, lanes)) // slots))
    assert all(length(piece) <= part for piece in pieces)
    assert len(pieces) <= len(lanes) + slots


def test_lanes_of_one_length_stay_whole():
    lanes = [(Slice(TOPIC, partition, 0, 200_000),) for partition in range(4)]
    assert split(lanes, 2) == lanes


def test_one_long_partition_among_many_is_taken_apart():
    lanes = [(Slice(TOPIC, 0, 0, 1_000_000),), (Slice(TOPIC, 1, 0, 10),), (Slice(TOPIC, 2, 0, 10),)]
    assert [length(piece) for piece in split(lanes, 2)] == [500_000, 500_000, 10, 10]


def test_little_is_not_split():
    assert split([(Slice(TOPIC, 0, 0, 50_000),)], 8) == [(Slice(TOPIC, 0, 0, 50_000),)]


@given(lefts(), slots)
def test_works_hold_every_lane_once(left, tasks):
    lanes = partition_works(left)
    works = shared_out(lanes, tasks)
    assert sorted(lane for work in works for lane in work) == sorted(lanes)
    assert len(works) == min(tasks, len(lanes))
    assert all(works)
    assert all(list(work) == sorted(work) for work in works)


@given(lefts(), slots)
def test_no_work_is_much_longer_than_another(left, tasks):
    works = shared_out(partition_works(left), tasks)
    loads = sorted(sum(map(length, work)) for work in works)
    for work in works:
        if len(work) > 1:
            assert sum(map(length, work)) - min(map(length, work)) <= loads[0]


@given(lefts())
def test_shares_are_by_what_is_left(left):
    shares = shares_of(left)
    assert set(shares) == {(each.topic, each.partition) for each in left}
    for (_, partition), share in shares.items():
        mine = sum(len(each) for each in left if each.partition == partition)
        assert share.planned[share.index] == mine
    assert len({share.index for share in shares.values()}) == len(shares)


def test_equal_partitions_have_equal_shares():
    left = [Slice(TOPIC, 0, 0, 5), Slice(TOPIC, 1, 7, 12)]
    assert shares_of(left) == {(TOPIC, 0): Share((5, 5), 0), (TOPIC, 1): Share((5, 5), 1)}


# --- times


def test_times_are_of_the_first_and_the_last_record_of_the_span():
    """Around them is what is read and not played: before the span, late, and a transaction's marker."""
    times = [1, 20, 30, 90, 100, 110]
    source = ListSource(
        [record(offset, ms) for offset, ms in enumerate(times)],
        bounds={(TOPIC, 0): Bounds(0, 9, 9)},
    )
    plan = plan_of(partition_plan(0, 9, span_end=5), from_ms=10, to_ms=95)
    assert times_of(source, plan.slices(), plan) == [20, 90]


def test_times_of_a_resume_are_of_what_is_left():
    source = ListSource([record(offset, 10 * offset) for offset in range(10)])
    plan = plan_of(partition_plan(0, 10))
    left = [Slice(TOPIC, 0, 2, 4), Slice(TOPIC, 0, 6, 8)]
    assert times_of(source, left, plan) == [20, 70]


def test_a_partition_without_records_has_no_times():
    source = ListSource([], bounds={(TOPIC, 0): Bounds(0, 9, 9)})
    plan = plan_of(partition_plan(0, 9))
    assert times_of(source, plan.slices(), plan) == []


def test_what_is_left_after_the_spans_end_has_its_first_time_only():
    source = ListSource([record(offset, 5) for offset in range(9)])
    plan = plan_of(partition_plan(0, 9, span_end=3), from_ms=0, to_ms=10)
    assert times_of(source, [Slice(TOPIC, 0, 5, 9)], plan) == [5]


def test_times_that_cannot_be_are_not_counted():
    """A start of 1970 would be waited for 50 years, and so would an end of 2100."""
    times = [-1, 4_102_444_800_000, 1_600_000_000_000, 1_600_000_005_000, 4_102_444_800_000]
    source = ListSource([record(offset, ms) for offset, ms in enumerate(times)])
    plan = plan_of(partition_plan(0, 5))
    assert times_of(source, plan.slices(), plan) == [1_600_000_000_000, 1_600_000_005_000]
    future = ListSource([record(offset, times[1] + offset) for offset in range(3)])
    assert times_of(future, [Slice(TOPIC, 0, 0, 3)], plan) == [times[1], times[1] + 2]


def test_silences_are_those_that_all_partitions_have():
    both = [record(offset, ms) for offset, ms in enumerate([0, 10, 9_000, 9_010])]
    other = [record(0, 20, partition=1), record(1, 4_000, partition=1)]
    source = ListSource([*both, *other])
    found = silences(source, [0, 9_010], 1_000)
    assert found
    for start, end in found:
        assert not any(start <= each.timestamp_ms < end for each in (*both, *other))
        assert end - start >= 1_000
    assert sum(end - start for start, end in found) >= 9_000 - 2 * 1_000 - 2 * 1_000


def test_a_silence_is_found_with_its_own_edges():
    """Ten hours with a silence of an hour in them: asked for every few minutes, it was too short."""
    times = [*range(0, 18_000_000, 60_000), *range(21_600_000, 36_000_000, 60_000)]
    source = ListSource([record(offset, ms) for offset, ms in enumerate(times)])
    [(start, end)] = silences(source, [times[0], times[-1]], 1_800_000)
    assert 17_940_000 <= start <= 17_941_000
    assert 21_599_000 <= end <= 21_600_000


def test_without_a_longest_gap_or_times_nobody_is_asked():
    assert silences(ListSource([]), [1, 2], None) == ()
    assert silences(ListSource([]), [], 1_000) == ()


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=20), st.integers(1, 20_000))
def test_in_a_silence_there_is_no_record(times, max_gap_ms):
    times.sort()
    source = ListSource([record(offset, ms) for offset, ms in enumerate(times)])
    for start, end in silences(source, times, max_gap_ms):
        assert not any(start <= ms < end for ms in times)

"""The cutter's laws: portions tile the slice, keep to their limits, and do not depend on how runs came."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.account import Account
from playhead.record import Record, Slice
from playhead.records import Records
from playhead.task.slicer import FILTERED, KEPT, OUTSIDE, Filter, Limits, OpenSlice, Slicer
from tests.unit.replaying import TOPIC, record, runs_of

PLACE = (TOPIC, 0)
KIND = {KEPT: "kept", FILTERED: "filtered", OUTSIDE: "outside"}

offsets = st.sets(st.integers(0, 40), max_size=30).map(sorted)
chops = st.lists(st.integers(1, 7), max_size=20)
limits = st.builds(Limits, st.integers(1, 8), st.integers(1, 400))
sides = st.none() | st.integers(0, 20)


@st.composite
def logs(draw) -> list[Record]:
    return [
        record(offset, draw(st.integers(-1, 20)), size=draw(st.integers(1, 120)))
        for offset in draw(offsets)
    ]


@st.composite
def filters(draw) -> Filter:
    end = draw(st.integers(0, 41))
    return Filter(draw(sides), draw(sides), {PLACE: end})


def open_slices(
    records: list[Record],
    *,
    chopped: list[int] | None = None,
    limits: Limits | None = None,
    filter_: Filter | None = None,
    verdicts: list[int] | None = None,
) -> list[OpenSlice]:
    """What the cutter makes of the records of [0, 41); with verdicts, as after a transform."""
    drawn = []
    given = iter(verdicts or [])
    for run in runs_of(records, chopped or []):
        decided = [next(given) for _ in run.offsets] if verdicts is not None else None
        drawn.append((run, decided))
    slicer = Slicer(limits or Limits(), filter_ or Filter(), Account)
    return list(slicer.open_slices(Slice(TOPIC, 0, 0, 41), drawn))


def counts(open_slice: OpenSlice) -> dict[str, object]:
    entry = open_slice.account.close()
    return {name: getattr(entry, name) for name in ("slice", "read", "written", "filtered")} | {
        name: getattr(entry, name)
        for name in ("outside", "outside_at", "late", "first_ms", "last_ms", "last_late_ms")
    }


def kept(open_slice: OpenSlice) -> list[Record]:
    return [each for run in open_slice.runs for each in run]


def size(records: list[Record]) -> int:
    return Records.of(records).size_bytes() if records else 0


@given(logs(), chops, limits, filters())
def test_portions_tile_the_slice(records, chopped, limits, filter_):
    found = open_slices(records, chopped=chopped, limits=limits, filter_=filter_)
    slices = [open_slice.account.slice for open_slice in found]
    ends = [0] + [slice_.to_offset for slice_ in slices]
    assert [slice_.from_offset for slice_ in slices] == ends[:-1]
    assert ends[-1] == 41
    for open_slice in found:
        assert all(each in open_slice.account.slice for each in kept(open_slice))


@given(logs(), chops, limits, filters())
def test_no_limit_is_exceeded_by_more_than_one_record(records, chopped, limits, filter_):
    for open_slice in open_slices(records, chopped=chopped, limits=limits, filter_=filter_):
        assert open_slice.account.read <= limits.max_records
        held = kept(open_slice)
        assert open_slice.size_bytes == size(held)
        assert size(held[:-1]) < limits.max_bytes


@given(logs(), limits, filters())
def test_a_portion_ends_only_when_it_is_full(records, limits, filter_):
    found = open_slices(records, limits=limits, filter_=filter_)
    for open_slice in found[:-1]:
        is_full = open_slice.account.read == limits.max_records
        assert is_full or open_slice.size_bytes >= limits.max_bytes


@given(logs(), chops, chops, limits, filters())
def test_portions_do_not_depend_on_how_the_records_came(records, one, other, limits, filter_):
    both = [open_slices(records, chopped=c, limits=limits, filter_=filter_) for c in (one, other)]
    assert [counts(p) for p in both[0]] == [counts(p) for p in both[1]]
    assert [kept(p) for p in both[0]] == [kept(p) for p in both[1]]


@given(logs(), chops, limits, filters())
def test_what_is_kept_is_what_the_span_says(records, chopped, limits, filter_):
    found = open_slices(records, chopped=chopped, limits=limits, filter_=filter_)
    first = filter_.from_ms if filter_.from_ms is not None else -(10**9)
    end = filter_.to_ms if filter_.to_ms is not None else 10**9
    inside = [each for each in records if first <= each.timestamp_ms < end]
    assert [each for open_slice in found for each in kept(open_slice)] == inside
    assert sum(p.account.outside for p in found) == len(records) - len(inside)
    listed = {at for p in found for run in p.account.outside_at for at in range(*run)}
    outside = {each.offset for each in records} - {each.offset for each in inside}
    assert outside <= listed
    assert listed.isdisjoint({each.offset for each in inside})
    assert sum(p.account.read for p in found) == len(records)
    assert sum(p.account.filtered for p in found) == 0


@given(logs(), chops, limits, st.data())
def test_given_verdicts_count_and_the_span_is_not_asked_again(records, chopped, limits, data):
    some = st.lists(st.sampled_from(list(KIND)), min_size=len(records), max_size=len(records))
    verdicts = data.draw(some)
    found = open_slices(
        records, chopped=chopped, limits=limits, verdicts=verdicts, filter_=Filter(10**6, None)
    )
    sums = {
        "kept": sum(len(kept(p)) for p in found),
        "filtered": sum(p.account.filtered for p in found),
        "outside": sum(p.account.outside for p in found),
    }
    assert sums == {name: verdicts.count(verdict) for verdict, name in KIND.items()}
    whole = {
        verdict: [r for r, v in zip(records, verdicts, strict=True) if v == verdict]
        for verdict in KIND
    }
    assert [each for p in found for each in kept(p)] == whole[KEPT]


@given(logs(), chops, limits, filters())
def test_times_and_late_records_by_a_plain_loop(records, chopped, limits, filter_):
    """Late: of the span by its time, and after the place where the log reached the span's end."""
    for open_slice in open_slices(records, chopped=chopped, limits=limits, filter_=filter_):
        times = [each.timestamp_ms for each in kept(open_slice)]
        account = open_slice.account
        assert (account.first_ms, account.last_ms) == (
            (min(times), max(times)) if times else (None, None)
        )
        end, to_ms = filter_.span_ends[PLACE], filter_.to_ms
        late = [r for r in kept(open_slice) if to_ms is not None and r.offset >= end]
        assert account.late == len(late)
        before = [r.timestamp_ms for r in records if late and end <= r.offset <= late[-1].offset]
        assert account.last_late_ms == (max(*before, to_ms, to_ms) - to_ms if late else None)


def test_records_that_a_transform_left_out_are_late_too():
    records = [record(0, 5), record(1, 30), record(2, 6), record(3, 7)]
    filter_ = Filter(0, 10, {PLACE: 1})
    [open_slice] = open_slices(records, filter_=filter_, verdicts=[KEPT, OUTSIDE, FILTERED, KEPT])
    assert (open_slice.account.late, open_slice.account.last_late_ms) == (2, 20)


def test_how_late_is_remembered_from_slice_to_slice():
    slicer = Slicer(Limits(1), Filter(0, 10, {PLACE: 0}), Account)
    drawn = [(Records.of([record(0, 100), record(1, 5)]), None)]
    found = list(slicer.open_slices(Slice(TOPIC, 0, 0, 2), drawn))
    found += slicer.open_slices(Slice(TOPIC, 0, 2, 3), [(Records.of([record(2, 5)]), None)])
    assert [open_slice.account.last_late_ms for open_slice in found] == [None, 90, 90]


@pytest.mark.parametrize("drawn", [[], [(Records(TOPIC, 0), None)], [(Records(TOPIC, 0), [])]])
def test_a_slice_without_records_is_one_portion(drawn):
    planned = Slice(TOPIC, 0, 3, 9)
    [open_slice] = Slicer(Limits(), Filter(1, 2), Account).open_slices(planned, drawn)
    assert (open_slice.account.slice, open_slice.runs) == (planned, [])
    assert open_slice.account.absent == [(3, 9)]
    assert open_slice.account.close().unexplained == 6, "nobody has looked for a reason"


@pytest.mark.parametrize(
    "records",
    [
        [record(2)],
        [record(9)],
        [record(4), record(3)],
        [record(3, partition=1)],
        [replace(record(3), topic="others")],
    ],
    ids=["before", "after", "backwards", "another partition", "another topic"],
)
def test_records_of_elsewhere_are_not_committed_under_the_slice(records):
    drawn = [(Records.of(records), None)]
    with pytest.raises(ValueError, match="needed some of laps:0:3-9 from 3 on"):
        list(Slicer(Limits(), Filter(), Account).open_slices(Slice(TOPIC, 0, 3, 9), drawn))


def test_a_run_that_comes_again_is_noticed():
    drawn = [(Records.of([record(3), record(4)]), None)] * 2
    with pytest.raises(ValueError, match="from 5 on"):
        list(Slicer(Limits(), Filter(), Account).open_slices(Slice(TOPIC, 0, 3, 9), drawn))


def test_verdicts_that_do_not_fit_are_noticed():
    drawn = [(Records.of([record(0), record(1)]), [KEPT])]
    with pytest.raises(ValueError, match="found 1 verdicts, needed 2"):
        list(Slicer(Limits(), Filter(), Account).open_slices(Slice(TOPIC, 0, 0, 2), drawn))


def test_a_run_of_which_all_is_kept_is_handed_on_as_it_came():
    """The way of most records: nothing is copied, so nothing is done for each."""
    run = Records.of([record(offset, 5) for offset in range(100)])
    planned = Slice(TOPIC, 0, 0, 100)
    for filter_, verdicts in ((Filter(), None), (Filter(0, 6), None), (Filter(), [KEPT] * 100)):
        [open_slice] = Slicer(Limits(), filter_, Account).open_slices(planned, [(run, verdicts)])
        assert len(open_slice.runs) == 1
        assert open_slice.runs[0] is run

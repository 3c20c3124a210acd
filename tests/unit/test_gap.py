"""What a gap is: its records and times, what is late, what is gone, and how all of it is told."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.gaps.gap import Gap, Gaps, GapScan, GracePeriod, share, touching
from playhead.record import Record, Slice, TimestampType
from playhead.records import Records

T = 1_628_080_200_000
NOW = T + 1_000_000


def records(*rows: tuple[int, int]) -> Records:
    """Offsets and times."""
    kind = TimestampType.CREATE_TIME
    return Records.of(Record("laps", 0, at, time, kind, None, b"v") for at, time in rows)


def gaps(*found: Gap, duplicates: int | None = 0, absent: int = 0) -> Gaps:
    spans = (Slice("laps", 0, 0, 1_000), Slice("laps", 1, 0, 1_000))
    return Gaps("kafka:laps", "postgres:laps", spans, found, "offsets", absent, duplicates)


# --- sightings


@given(st.sets(st.integers(0, 60), min_size=1), st.integers(0, 60), st.integers(0, 60), st.data())
def test_a_sighting_counts_just_the_records_inside_its_run(there, start, other, data):
    start, end = sorted((start, other))
    slice_ = Slice("laps", 0, start, end + 1)
    young = data.draw(st.none() | st.integers(0, 61))
    at = sorted(there)
    cut = data.draw(st.integers(0, len(at)))
    sighting = GapScan(slice_, young)
    for part in (at[:cut], at[cut:]):
        if part:
            sighting.see(records(*((offset, T + offset) for offset in part)))
    inside = [each for each in at if each in slice_]
    split = 10**9 if young is None else young
    wanted = {
        "missing": [each for each in inside if each < split],
        "settling": [each for each in inside if each >= split],
    }
    found = {each.kind: each for each in sighting.gaps()}
    assert set(found) == {kind for kind, held in wanted.items() if held}
    for kind, held in wanted.items():
        if held:
            gap = found[kind]
            assert (gap.slice.from_offset, gap.slice.to_offset) == (held[0], held[-1] + 1)
            assert (gap.records, gap.first_ms, gap.last_ms) == (
                len(held),
                T + held[0],
                T + held[-1],
            )
    assert sighting.records == len(inside)


def test_times_out_of_order_are_told_by_the_earliest_and_the_latest():
    sighting = GapScan(Slice("laps", 0, 0, 10))
    sighting.see(records((1, T + 5), (2, T), (7, T + 3)))
    [gap] = sighting.gaps()
    assert (gap.first_ms, gap.last_ms, gap.records) == (T, T + 5, 3)


def test_offsets_without_a_record_are_no_gap():
    sighting = GapScan(Slice("laps", 0, 3, 6))
    sighting.see(records((1, T), (9, T)))
    assert (sighting.gaps(), sighting.records) == ([], 0)


@given(
    st.lists(st.integers(0, 60), min_size=2, max_size=9, unique=True),
    st.integers(0, 60),
    st.integers(1, 9),
)
def test_what_touches_shares_an_offset(edges, start, length):
    cuts = sorted(edges)
    held = [Slice("laps", 0, one, other) for one, other in pairwise(cuts)][::2]
    asked = Slice("laps", 0, start, start + length)
    assert touching(held)(asked) == any(each.overlaps(asked) for each in held)
    assert not touching(held)(Slice("laps", 1, start, start + length))


# --- late or missing


@pytest.mark.parametrize(
    ("time_ms", "is_young"),
    [(NOW, True), (NOW - 29_999, True), (NOW - 30_000, False), (NOW + 30_000, True)],
)
def test_what_is_young_may_be_on_its_way(time_ms, is_young):
    assert GracePeriod(NOW, 30_000).is_young(time_ms) is is_young


def test_a_time_of_the_far_future_is_not_believed():
    settling = GracePeriod(NOW, 30_000)
    assert not settling.is_young(NOW + 30_001)
    assert settling.first_young(records((1, T), (2, NOW + 10**9), (3, NOW - 5), (4, T))) == 3
    assert settling.first_young(records((1, T), (2, NOW + 10**9))) is None


def test_with_nothing_to_wait_for_nothing_is_young():
    assert GracePeriod(NOW, 0).first_young(records((1, NOW), (2, NOW + 1), (3, NOW - 1))) is None


# --- how it is told


def test_nothing_missing_is_whole():
    found = gaps()
    assert found.is_whole
    assert (
        found.verdict() == "0 missing, 0 duplicates of 2,000 offsets in postgres:laps, by offsets"
    )


def test_gaps_are_counted_in_records_and_shown_with_their_share():
    found = gaps(
        Gap(Slice("laps", 0, 10, 30), records=15, first_ms=T, last_ms=T + 14),
        Gap(Slice("laps", 1, 0, 5), records=5, first_ms=T, last_ms=T),
        Gap(Slice("laps", 1, 990, 1_000), "settling", 10, T, T),
        duplicates=3,
    )
    assert not found.is_whole
    assert found.verdict() == (
        "2 gaps: 20 records missing (1.00 %), 3 duplicates, 10 settling of 2,000 offsets in postgres:laps, "
        "by offsets"
    )
    assert found.missing_slices() == [Slice("laps", 0, 10, 30), Slice("laps", 1, 0, 5)]
    assert found.rows()[0] == {
        "topic": "laps",
        "partition": 0,
        "from_offset": 10,
        "to_offset": 30,
        "offsets": 20,
        "records": 15,
        "first": "2021-08-04T12:30:00.000Z",
        "last": "2021-08-04T12:30:00.014Z",
        "share": "0.75 %",
        "state": "missing",
    }


def test_what_only_settles_is_whole_so_far():
    found = gaps(Gap(Slice("laps", 0, 990, 1_000), "settling", 10, T, T))
    assert found.is_whole
    assert found.verdict().startswith("0 missing, 0 duplicates, 10 settling of ")


def test_what_has_expired_is_missing_for_good():
    found = gaps(Gap(Slice("laps", 0, 0, 10), "expired"), duplicates=None)
    assert not found.is_whole
    assert found.missing_slices() == []
    assert "missing, 10 expired (in neither the target nor the log) of " in found.verdict()


def test_what_nobody_looked_at_is_counted_in_offsets():
    found = gaps(Gap(Slice("laps", 0, 0, 10)))
    assert found.verdict().startswith("1 gap: 10 offsets missing (0.50 %)")
    assert found.rows()[0]["records"] is None


def test_the_document_is_json():
    found = gaps(Gap(Slice("laps", 0, 0, 10), records=9, first_ms=T, last_ms=T), absent=1)
    document = json.loads(json.dumps(found.as_document()))
    assert (document["missing"], document["absent"], document["is_whole"]) == (9, 1, False)
    assert document["gaps"][0]["state"] == "missing"


@pytest.mark.parametrize(
    ("count", "whole", "told"),
    [
        (0, 10, "0 %"),
        (0, 0, "0 %"),
        (1, 10**9, "< 0.01 %"),
        (1, 3, "33.33 %"),
        (10**9 - 1, 10**9, "99.99 %"),
        (5, 5, "100.00 %"),
    ],
)
def test_a_share_is_never_told_as_nothing_nor_as_all(count, whole, told):
    assert share(count, whole) == told

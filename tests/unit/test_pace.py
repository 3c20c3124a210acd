"""Laws of pace: doubled speed is half the wait, nothing is early, a rate is never exceeded, partitions stay aligned."""

import json
import math
import pickle
from bisect import bisect_left
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from playhead.errors import UsageError
from playhead.grammar.cursor import NotUnderstood
from playhead.pace import Pace, ScheduleError, Share, silences_of
from playhead.schedule import joined

MS, SECOND = 1_000_000, 1_000_000_000
times = st.integers(0, 10**6).map(lambda ms: 1_628_080_200_000 + ms)
speeds = st.fractions(Fraction(1, 100), 100, max_denominator=1000)
rates = st.fractions(Fraction(1, 60), 100_000, max_denominator=60)
planned = st.lists(st.integers(0, 40), min_size=1, max_size=6)
silences = st.lists(
    st.tuples(times, st.integers(0, 50_000)).map(lambda pair: (pair[0], sum(pair))), max_size=5
)
delays = st.lists(st.integers(-(10**6), 10**10), max_size=60)


def dues(pace: Pace, timestamps: list[int], **plan: object) -> list[int]:
    schedule = pace.schedule(**plan)  # type: ignore[arg-type]
    return [schedule.due_ns(ordinal, ms) for ordinal, ms in enumerate(timestamps)]


def all_dues(pace: Pace, counts: list[int], beyond: int = 0) -> list[int]:
    """The due times of all partitions' records, in order."""
    found: list[int] = []
    for index, count in enumerate(counts):
        share = Share(tuple(counts), index)
        found += dues(pace, [0] * (count + beyond), share=share)
    return sorted(found)


# --- the grammar


@pytest.mark.parametrize(
    ("text", "pace", "shown"),
    [
        ("max", Pace.max(), "max"),
        ("2x", Pace.speed(2.0), "2x"),
        (" 0.5x ", Pace.speed(0.5), "0.5x"),
        ("1.5X", Pace.speed(1.5), "1.5x"),
        ("0.1×", Pace.speed(0.1), "0.1x"),
        ("10x", Pace.speed(10), "10x"),
        ("5000/s", Pace.rate(5000), "5000/s"),
        ("0.5/s", Pace.rate(0.5), "0.5/s"),
        ("1000/m", Pace.rate(Fraction(1000, 60)), "1000/m"),
        ("60/m", Pace.rate(1), "1/s"),
        ("100/h", Pace.rate(Fraction(100, 3600)), "100/h"),
    ],
)
def test_a_pace_is_read_and_shown(text, pace, shown):
    assert Pace.parse(text) == pace
    assert str(pace) == shown
    assert Pace.parse(shown) == pace
    assert pickle.loads(pickle.dumps(pace)) == pace  # noqa: S301
    assert pace.is_max is (text == "max")


@given(st.from_regex(r"[0-9]{1,4}(\.[0-9]{1,6})?(x|/s|/m|/h)", fullmatch=True))
def test_what_is_shown_reads_as_the_same_pace(text):
    assume(float(text.rstrip("xsmh/")) > 0)
    assert Pace.parse(str(Pace.parse(text))) == Pace.parse(text)


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        ("", 0, "the end"),
        ("fast", 0, "'f'"),
        ("2", 1, "the end"),
        ("-2x", 0, "'-'"),
        ("2xx", 1, "'x'"),
        ("0x", 0, "never"),
        ("0.0/s", 0, "never"),
        ("5000/d", 5, "'d', needed s, m or h"),
        ("5000/", 5, "the end"),
        ("5,000/s", 1, "','"),
        ("1e3/s", 1, "'e'"),
        ("٢x", 0, "needed a pace"),
        ("inf", 0, "needed a pace"),
        ("nanx", 0, "needed a pace"),
    ],
)
def test_a_pace_that_is_none_is_pointed_at(text, at, says):
    with pytest.raises(NotUnderstood) as caught:
        Pace.parse(text)
    assert caught.value.at == at
    assert says in caught.value.reason
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("number", [0, -1, 0.0, -0.5])
def test_a_pace_needs_a_number_above_zero(number):
    for make in (Pace.speed, Pace.rate, lambda n: Pace.rate(1).schedule(share=n)):
        with pytest.raises(ValueError, match="needed more than 0"):
            make(number)


@pytest.mark.parametrize("text", ["max", "5000/s"])
def test_a_gap_can_be_capped_at_a_speed_only(text):
    with pytest.raises(UsageError, match=f"--max-gap needs a speed, but the pace is {text}"):
        Pace.parse(text, max_gap_ms=1000)
    with pytest.raises(UsageError, match="needed 0 or more"):
        Pace.speed(1, max_gap_ms=-1)
    assert Pace.parse("2x", max_gap_ms=0).max_gap_ms == 0


# --- at a speed


@given(st.lists(times), speeds, silences, st.none() | st.integers(0, 60_000))
def test_doubling_the_speed_halves_every_delay(timestamps, speed, quiet, gap):
    plan = {"first_ms": min(timestamps, default=0), "silences": quiet}
    slow = dues(Pace.speed(speed, max_gap_ms=gap), timestamps, **plan)
    fast = dues(Pace.speed(2 * speed, max_gap_ms=gap), timestamps, **plan)
    assert fast == [
        -(-due // 2) for due in slow
    ]  # a nanosecond is not halved, and nothing is early


@given(st.lists(times, min_size=1), speeds)
def test_at_a_speed_nothing_is_early_nor_later_than_it_must(timestamps, speed):
    first = min(timestamps)
    reached = first
    for due, ms in zip(
        dues(Pace.speed(speed), timestamps, first_ms=first), timestamps, strict=True
    ):
        reached = max(reached, ms)
        assert 0 <= due - Fraction((reached - first) * MS) / speed < 1


@given(st.lists(st.integers(-10, 10**6)), speeds, silences, st.none() | st.integers(0, 60_000))
def test_due_times_never_decrease(timestamps, speed, quiet, gap):
    found = dues(
        Pace.speed(speed, max_gap_ms=gap),
        [1_628_080_200_000 + ms for ms in timestamps],
        first_ms=1_628_080_200_000,
        silences=quiet,
    )
    assert found == sorted(found)
    assert all(due >= 0 for due in found)


def test_a_record_with_an_earlier_time_is_due_at_once():
    assert dues(Pace.speed(1), [1000, 3000, 2000, -1, 3001], first_ms=1000) == [
        ms * MS for ms in (0, 2000, 2000, 2000, 2001)
    ]


def test_odd_speeds_are_real():
    assert dues(Pace.parse("0.5x"), [0, 3], first_ms=0) == [0, 6 * MS]
    assert dues(Pace.parse("1.5x"), [0, 3], first_ms=0) == [0, 2 * MS]
    assert dues(Pace.parse("3x"), [0, 1], first_ms=0) == [0, 333_334]


def test_without_a_first_time_the_partitions_own_first_record_counts():
    assert dues(Pace.speed(2), [5000, 7000]) == [0, 1000 * MS]


def test_at_maximum_everything_is_due_at_once():
    assert dues(Pace.max(), [5000, 7000, -1], first_ms=0) == [0, 0, 0]


# --- long silences


def test_a_long_silence_is_played_as_one_of_the_allowed_length():
    pace = Pace.parse("2x", max_gap_ms=1000)
    quiet = [(10_000, 70_000), (80_000, 80_900)]
    found = dues(pace, [9_000, 10_000, 70_000, 71_000, 81_000], first_ms=9_000, silences=quiet)
    assert found == [ms * MS // 2 for ms in (0, 1000, 2000, 3000, 13_000)]


def test_silences_are_played_whole_when_no_gap_is_set():
    assert dues(Pace.speed(1), [0, 60_000], first_ms=0, silences=[(1, 60_000)])[1] == 60_000 * MS


def test_a_record_inside_of_a_silence_is_due_with_its_allowed_part():
    pace = Pace.speed(1, max_gap_ms=1000)
    found = dues(pace, [0, 500, 5000, 60_000], first_ms=0, silences=[(0, 60_000)])
    assert found == [ms * MS for ms in (0, 500, 1000, 1000)]


@given(st.lists(times, min_size=1), st.lists(times, min_size=1), silences, st.integers(0, 60_000))
def test_partitions_stay_aligned(one, other, quiet, gap):
    """Records of the same time are due at the same time, whatever else their partitions hold."""
    pace, both = Pace.speed(1, max_gap_ms=gap), sorted(one) + sorted(other)
    plan = {"first_ms": min(both), "silences": quiet}
    due_of: dict[int, int] = {}
    for partition in (sorted(one), sorted(other)):
        for ms, due in zip(partition, dues(pace, partition, **plan), strict=True):
            assert due_of.setdefault(ms, due) == due


@given(st.lists(times, min_size=2), st.integers(0, 60_000))
def test_no_wait_is_longer_than_the_allowed_gap_and_shorter_ones_stay(timestamps, gap):
    """With the exact silences of the records, every wait is the silence or the allowed gap."""
    timestamps = sorted(timestamps)
    waits = [after - before for before, after in pairwise(timestamps)]
    # A record is there at the silence's first instant, so it begins one millisecond later.
    quiet = [(a + 1, b) for a, b in pairwise(timestamps) if b > a + 1]
    pace = Pace.speed(1, max_gap_ms=gap)
    found = dues(pace, timestamps, first_ms=timestamps[0], silences=quiet)
    played = [(b - a) // MS for a, b in pairwise(found)]
    assert played == [min(wait, gap + 1) for wait in waits]


def test_silences_that_touch_are_one():
    assert joined([(5, 9), (0, 5), (20, 30), (7, 7)]) == [(0, 9), (20, 30)]


@given(silences)
def test_joined_silences_hold_the_same_times(quiet):
    found = joined(quiet)
    assert all(end < start for (_, end), (start, _) in pairwise(found))
    for ms in {edge + by for pair in quiet for edge in pair for by in (-1, 0, 1)}:
        assert any(a <= ms < b for a, b in found) == any(a <= ms < b for a, b in quiet)


@given(st.lists(st.lists(times, max_size=12), min_size=1, max_size=3))
def test_silences_are_found_from_offsets_of_instants(partitions):
    first = 1_628_080_200_000
    edges = list(range(first, first + 10**6 + 1, 50_000))
    logs = [sorted(partition) for partition in partitions]
    found = silences_of(edges, [[bisect_left(log, edge) for log in logs] for edge in edges])
    for log in logs:
        assert not [ms for ms in log for a, b in found if a <= ms < b]
    for a, b in pairwise(edges):
        silent = not any(a <= ms < b for log in logs for ms in log)
        assert silent == any(start <= a and b <= end for start, end in found)


# --- at a rate


@given(planned, rates, st.integers(1, 3 * SECOND), st.integers(0, 3))
def test_a_rate_is_never_exceeded_in_any_interval_by_all_partitions_together(
    counts, rate, length, beyond
):
    found = all_dues(Pace.rate(rate), counts, beyond)
    most = math.floor(rate * length / SECOND) + 1
    for index, due in enumerate(found):
        assert bisect_left(found, due + length) - index <= most


@given(planned, rates)
def test_a_rate_is_reached_when_every_record_of_the_plan_comes(counts, rate):
    counts = [count + 1 for count in counts]
    found = all_dues(Pace.rate(rate), counts)
    assert found == [math.ceil(turn * SECOND / rate) for turn in range(sum(counts))]


@given(planned)
def test_every_record_has_a_turn_of_its_own(counts):
    counts = [count + 1 for count in counts]
    shares = [Share(tuple(counts), index) for index in range(len(counts))]
    turns = [[share.turn(n) for n in range(2 * share.planned[share.index])] for share in shares]
    assert sorted(turn for each in turns for turn in each) == list(range(2 * sum(counts)))
    assert all(each == sorted(each) for each in turns)


@given(planned, st.integers(0, 5))
def test_a_partitions_turns_are_spread_over_the_whole_run(counts, index):
    """Partitions end together: at any moment each has played its part of all, up to a few records."""
    counts = [count + 1 for count in counts]
    share = Share(tuple(counts), index % len(counts))
    own, total = counts[share.index], sum(counts)
    for n in range(own):
        assert abs(share.turn(n) - Fraction((2 * n + 1) * total, 2 * own)) <= len(counts)


@given(rates, st.fractions(Fraction(1, 100), 1), st.integers(1, 3 * SECOND))
def test_a_part_given_as_a_number_is_that_part_of_the_rate(rate, part, length):
    found = dues(Pace.rate(rate), [0] * 50, share=part)
    most = math.floor(rate * part * length / SECOND) + 1
    assert all(bisect_left(found, due + length) - index <= most for index, due in enumerate(found))


@given(st.lists(times, min_size=1), rates)
def test_a_rate_does_not_look_at_times(timestamps, rate):
    assert dues(Pace.rate(rate), timestamps) == dues(Pace.rate(rate), [0] * len(timestamps))


def test_a_share_of_nobody_is_refused():
    for counts, index in (((1, 2), 2), ((), 0), ((1, -1), 0), ((1,), -1)):
        with pytest.raises(ValueError, match="no partition"):
            Share(counts, index)


@given(rates, st.lists(st.integers(0, SECOND), min_size=1, max_size=20))
def test_what_is_put_off_stays_put_off_and_the_rate_holds(rate, standstills):
    schedule, plain = Pace.rate(rate).schedule(), Pace.rate(rate).schedule()
    latest = -SECOND
    for ordinal, standstill in enumerate(standstills):
        due = schedule.due_ns(ordinal, 0)
        assert due == plain.due_ns(ordinal, 0) + sum(standstills[:ordinal])
        assert ordinal == 0 or due - latest >= math.floor(SECOND / rate)
        latest = due
        schedule.put_off(standstill)
    with pytest.raises(ValueError, match="needed 0 or more"):
        schedule.put_off(-1)


# --- how well it was kept


def noted(late: list[int]) -> ScheduleError:
    error = ScheduleError()
    for index, late_ns in enumerate(late):
        error.note(late_ns=late_ns, due_ns=index * MS)
    return error


@given(delays, delays)
def test_merged_histograms_are_that_of_the_union(one, other):
    merged, union = noted(one), noted(one)
    merged.merge(noted(other))
    for index, late_ns in enumerate(other):
        union.note(late_ns=late_ns, due_ns=index * MS)
    assert merged == union


@given(st.lists(st.integers(0, 10**12), min_size=1), st.sampled_from([1, 50, 90, 99, 99.9, 100]))
def test_a_percentile_is_off_by_two_percent_at_most(late, percent):
    exact = sorted(ns // 1000 for ns in late)[
        math.ceil(len(late) * Fraction(str(percent)) / 100) - 1
    ]
    found = noted(late).percentile_us(percent)
    assert found is not None
    assert abs(found - exact) <= exact * 0.02
    assert exact >= 64 or found == exact


@given(delays)
def test_the_maximum_is_exact(late):
    assert noted(late).max_us == max((max(0, ns) // 1000 for ns in late), default=0)


@given(delays)
def test_a_document_holds_all_of_it(late):
    error = noted(late)
    assert ScheduleError.from_document(json.loads(json.dumps(error.as_document()))) == error
    assert pickle.loads(pickle.dumps(error)) == error  # noqa: S301


def test_its_size_is_bounded():
    error = ScheduleError()
    for bits in range(80):
        for step in range(200):
            error.note(late_ns=(1 << bits) * (200 + step) // 200)
    assert len(error.counts) < 1600
    assert error.max_us == 1 << 50


def test_what_was_early_is_counted_as_such():
    error = noted([-5_000, 0, 5_000])
    assert (error.early, error.count, error.max_us) == (1, 3, 5)


def test_wanted_and_achieved_rates_are_those_of_due_and_done():
    error = ScheduleError()
    for n in range(11):
        error.note(due_ns=n * 100 * MS, late_ns=n * 100 * MS)
    assert error.wanted_per_second == pytest.approx(10)
    assert error.achieved_per_second == pytest.approx(5)
    assert error.summary()["records"] == 11


def test_nothing_noted_has_no_percentiles_and_no_rates():
    summary = ScheduleError().summary()
    assert summary.pop("records") == summary.pop("early") == 0
    assert set(summary.values()) == {None}


def test_without_due_times_there_are_no_rates():
    error = ScheduleError()
    error.note(late_ns=1)
    assert error.wanted_per_second is error.achieved_per_second is None


def test_a_record_of_the_future_does_not_hold_back_those_behind_it():
    schedule = Pace.speed(1).schedule(first_ms=1_000, latest_ms=10_000)
    times = [1_000, 3_000, 4_102_444_800_000, -1, 4_000]
    assert [schedule.due_ns(n, ms) // MS for n, ms in enumerate(times)] == [
        0,
        2_000,
        2_000,
        2_000,
        3_000,
    ]


def test_where_all_is_of_the_future_it_is_played_in_its_time():
    schedule = Pace.speed(1).schedule(first_ms=20_000, latest_ms=10_000)
    assert [schedule.due_ns(n, ms) // MS for n, ms in enumerate([20_000, 21_000])] == [0, 1_000]

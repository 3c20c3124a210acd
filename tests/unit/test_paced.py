"""Paced slices: nothing early, nothing lost, order kept, stops seen while waiting, no flood after a standstill."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.account import Account
from playhead.host.clock import Clock, SystemClock, wait_until
from playhead.pace import Pace, ScheduleError, Share
from playhead.record import Record, Slice
from playhead.records import Records
from playhead.task.pacer import COMMIT_EVERY_NS, Pacer, ahead
from playhead.task.slicer import FILTERED, KEPT, OUTSIDE, Filter, Limits, ReadRun, Slicer
from playhead.testing import ManualClock
from tests.unit.replaying import TOPIC, record, runs_of

SECOND = 1_000_000_000

times = st.lists(st.integers(0, 5_000), min_size=1, max_size=25)
chops = st.lists(st.integers(1, 7), max_size=10)
paces = st.sampled_from(["1x", "2x", "0.5x", "10/s", "1000/s", "1/s", "1.5x"])
limits = st.builds(Limits, st.integers(1, 8), st.integers(80, 400))


class LeapingClock(Clock):
    """Time passes by sleeping, exactly as long as was asked for, and by `pass_`."""

    def __init__(self) -> None:
        self.ns = 0
        self.longest_s = 0.0

    def now_ns(self) -> int:
        return 10**18 + self.ns

    def monotonic_ns(self) -> int:
        return self.ns

    def sleep(self, seconds: float, /) -> None:
        self.longest_s = max(self.longest_s, seconds)
        self.ns += max(1, round(seconds * 1e9))

    def pass_(self, seconds: float) -> None:
        self.ns += round(seconds * 1e9)


@dataclass
class Played:
    """What a lane gave out: each record, and when, after the start."""

    given: list[tuple[Record, int]] = field(default_factory=list)
    slices: list[Slice] = field(default_factory=list)
    accounts: list[Account] = field(default_factory=list)
    errors: ScheduleError = field(default_factory=ScheduleError)

    @property
    def records(self) -> list[Record]:
        return [each for each, _ in self.given]

    @property
    def at_ms(self) -> list[float]:
        return [at / 1e6 for _, at in self.given]


def play(
    drawn: list[ReadRun],
    pace: str,
    *,
    clock: LeapingClock | None = None,
    filter_: Filter | None = None,
    limits: Limits | None = None,
    until: int = 1_000,
    share: Share | int = 1,
    is_stopped: Callable[[], bool] = lambda: False,
    commit: Callable[[], None] = lambda: None,
) -> Played:
    clock, played = clock or LeapingClock(), Played()
    filter_ = filter_ or Filter()
    started, parsed = clock.now_ns(), Pace.parse(pace)
    pacer = Pacer(
        parsed.schedule(first_ms=0, share=share),
        filter_,
        clock,
        start=lambda: started,
        errors=played.errors,
        is_stopped=is_stopped,
        keeps_rate=parsed.per_second is not None,
    )
    slicer = Slicer(limits or Limits(), filter_, Account)
    for open_slice in pacer.open_slices(slicer, Slice(TOPIC, 0, 0, until), drawn):
        for run in pacer.release(open_slice):
            played.given += [(each, clock.now_ns() - started) for each in run]
        commit()
        played.slices.append(open_slice.account.slice)
        played.accounts.append(open_slice.account)
    return played


def records_at(timestamps: list[int]) -> list[Record]:
    return [record(2 * index, ms) for index, ms in enumerate(timestamps)]


def undecided(records: list[Record], chopped: list[int] | None = None) -> list[ReadRun]:
    return [(run, None) for run in runs_of(records, chopped or [])]


def dues(records: list[Record], pace: str) -> list[int]:
    schedule = Pace.parse(pace).schedule(first_ms=0)
    return [schedule.due_ns(ordinal, each.timestamp_ms) for ordinal, each in enumerate(records)]


@given(times, chops, paces, limits)
def test_every_record_comes_in_order_and_none_early(timestamps, chopped, pace, limits):
    records = records_at(timestamps)
    played = play(undecided(records, chopped), pace, limits=limits)
    assert played.records == records
    for (_, at), due in zip(played.given, dues(records, pace), strict=True):
        assert due <= at < due + 1_000_000
    assert (played.errors.count, played.errors.early) == (len(records), 0)
    assert played.errors.max_us < 1_000


@given(times, chops, paces, limits, st.integers(50, 60))
def test_slices_tile_what_was_planned(timestamps, chopped, pace, limits, until):
    filter_ = Filter(1_000, 4_000)
    played = play(
        undecided(records_at(timestamps), chopped),
        pace,
        limits=limits,
        until=until,
        filter_=filter_,
    )
    ends = [0] + [slice_.to_offset for slice_ in played.slices]
    assert [slice_.from_offset for slice_ in played.slices] == ends[:-1]
    assert ends[-1] == until
    inside = [ms for ms in timestamps if 1_000 <= ms < 4_000]
    assert [each.timestamp_ms for each in played.records] == inside
    assert sum(account.read for account in played.accounts) == len(timestamps)
    assert sum(account.outside for account in played.accounts) == len(timestamps) - len(inside)


@given(times, paces)
def test_what_commits_together_is_due_together(timestamps, pace):
    played = play(undecided(records_at(timestamps)), pace)
    at = {each.offset: when for each, when in played.given}
    for slice_ in played.slices:
        moments = [when for offset, when in at.items() if offset in slice_]
        assert not moments or max(moments) - min(moments) <= COMMIT_EVERY_NS


def slices(timestamps: list[int], pace: str = "1x") -> list[tuple[int, int]]:
    found = play(undecided(records_at(timestamps)), pace, until=2 * len(timestamps)).slices
    return [(each.from_offset, each.to_offset) for each in found]


def test_a_burst_is_one_slice_and_ends_where_nothing_is_due():
    assert slices([0, 10, 20, 99, 198, 500]) == [(0, 9), (9, 11), (11, 12)]
    assert slices([0, 10, 20, 99, 198, 500], "4x") == [(0, 11), (11, 12)]


def test_a_stream_without_a_pause_is_cut_now_and_then():
    found = slices([50 * step for step in range(23)])
    assert found[0] == (0, 19)
    assert [end for _, end in found][-1] == 46


@pytest.mark.parametrize(("commit_s", "every_s"), [(0, 0.2), (0.01, 0.6), (1, 2)])
def test_the_longer_a_commit_takes_the_fewer_there_are(commit_s, every_s):
    clock = LeapingClock()
    drawn = undecided(records_at([20 * index for index in range(3_000)]))
    played = play(drawn, "1x", clock=clock, until=6_000, commit=lambda: clock.pass_(commit_s))
    lengths = [len(each) for each in played.slices][20:-2]
    records = 50 * (every_s + (commit_s if commit_s >= 1 else 0))
    assert all(abs(length / 2 - records) <= 2 for length in lengths), (lengths, records)


def test_a_commit_that_takes_longer_than_a_stretch_does_not_make_it_later_and_later():
    """Each takes a second and a half; what has come due meanwhile goes with the next."""
    clock = LeapingClock()
    records = records_at([20 * index for index in range(500)])
    played = play(undecided(records), "1x", clock=clock, commit=lambda: clock.pass_(1.5))
    assert (
        max(at - due / 1e6 for at, due in zip(played.at_ms, dues(records, "1x"), strict=True))
        <= 1_500
    )
    assert played.at_ms[-1] <= 10_000 + 1_500


def test_lanes_commit_one_after_the_other():
    clock, found = LeapingClock(), []
    pacer = Pacer(
        Pace.parse("1x").schedule(first_ms=0),
        Filter(),
        clock,
        start=clock.now_ns,
        errors=ScheduleError(),
        is_stopped=lambda: False,
        first_commit_ns=COMMIT_EVERY_NS // 4,
    )
    slicer = Slicer(Limits(), Filter(), Account)
    drawn = undecided(records_at([25 * index for index in range(40)]))
    for open_slice in pacer.open_slices(slicer, Slice(TOPIC, 0, 0, 79), drawn):
        list(pacer.release(open_slice))
        found.append(clock.ns // 1_000_000)
    assert found[0] == 100
    assert found[1] - found[0] > 250


def test_what_is_not_started_gives_nothing():
    pacer = Pacer(
        Pace.parse("1x").schedule(),
        Filter(),
        LeapingClock(),
        start=lambda: None,
        errors=ScheduleError(),
        is_stopped=lambda: True,
    )
    slicer = Slicer(Limits(), Filter(), Account)
    for drawn in (undecided(records_at([0, 1])), []):
        assert list(pacer.open_slices(slicer, Slice(TOPIC, 0, 0, 9), drawn)) == []


# --- fetching ahead


def test_the_next_run_is_fetched_while_one_is_played():
    fetched: list[int] = []

    def fetching():
        for each in records_at([0, 1, 2]):
            fetched.append(each.offset)
            yield Records.of([each]), None

    runs = ahead(fetching())
    assert next(runs)[0].offsets == [0]
    assert wait_until(lambda: fetched == [0, 2], deadline_s=5, clock=SystemClock(), every_s=0.001)
    runs.close()
    assert fetched == [0, 2]


def test_what_fetching_raises_is_raised_in_its_place():
    def broken():
        yield Records.of(records_at([0])), None
        raise OSError("gone")

    runs = ahead(broken())
    assert next(runs)[0].offsets == [0]
    with pytest.raises(OSError, match="gone"):
        next(runs)
    assert list(ahead(undecided(records_at([0, 1])))) == undecided(records_at([0, 1]))


def test_what_is_not_played_waits_for_nobody_and_takes_no_turn():
    records = records_at([0, 0, 0, 0])
    verdicts = [FILTERED, KEPT, OUTSIDE, KEPT]
    played = play([(Records.of(records), verdicts)], "1/s", until=8)
    assert played.records == [records[1], records[3]]
    assert played.at_ms == [0, 1_000]
    assert played.slices[0] == Slice(TOPIC, 0, 0, 1)


def test_records_of_the_past_are_due_at_once_in_their_place():
    played = play(undecided(records_at([0, 1_000, 500, 1_500])), "1x")
    assert played.at_ms == [0, 1_000, 1_000, 1_500]


def test_a_stop_is_seen_while_waiting_and_nothing_of_the_rest_is_given_out():
    clock = LeapingClock()
    played = play(
        undecided(records_at([0, 60_000])),
        "1x",
        clock=clock,
        is_stopped=lambda: clock.ns >= 5 * SECOND,
    )
    assert [each.offset for each in played.records] == [0]
    assert played.slices == [Slice(TOPIC, 0, 0, 1)]
    assert clock.ns <= 5.5 * SECOND
    assert clock.longest_s <= 0.5


def test_the_absent_tail_is_not_committed_after_a_stop():
    played = play(undecided(records_at([0, 60_000])), "1x", until=50, is_stopped=lambda: True)
    assert [slice_.to_offset for slice_ in played.slices] == [1]


def test_waiting_is_by_the_monotonic_clock():
    """NTP moves the wall clock while a task waits; nothing comes early, nothing late."""
    clock, at = ManualClock(), []

    def lane() -> None:
        pacer = Pacer(
            Pace.parse("1x").schedule(first_ms=0),
            Filter(),
            clock,
            start=clock.now_ns,
            errors=ScheduleError(),
            is_stopped=lambda: False,
        )
        drawn = undecided(records_at([0, 1_000]))
        for open_slice in pacer.open_slices(
            Slicer(Limits(), Filter(), Account), Slice(TOPIC, 0, 0, 3), drawn
        ):
            for run in pacer.release(open_slice):
                at.extend([clock.monotonic_ns()] * len(run))

    thread = Thread(target=lane)
    thread.start()
    for step in range(10):
        clock.wait_for_sleepers()
        clock.step_wall(3600 if step % 2 else -3600)
        clock.advance(0.1)
        while step == 9 and thread.is_alive():
            clock.advance(0.1)  # the lane looks for a stop now and then
            thread.join(0.01)
    thread.join()
    assert at[0] == 0
    assert SECOND <= at[1] <= 1.3 * SECOND


def standstill(pace: str, stalls_s: list[float], count: int = 12) -> Played:
    """Each commit takes so long; later ones take no time."""
    clock, left = LeapingClock(), list(stalls_s)
    records = records_at([100 * index for index in range(count)])
    return play(
        undecided(records, [4] * 5),
        pace,
        clock=clock,
        commit=lambda: clock.pass_(left.pop(0) if left else 0),
    )


def test_after_a_standstill_a_rate_is_not_exceeded():
    at = standstill("10/s", [0, 60.0]).at_ms
    assert at[:2] == [0, 100]
    assert at[2] >= 60_000
    assert all(later - sooner >= 100 for sooner, later in itertools.pairwise(at))


def test_after_a_standstill_a_speed_goes_on_where_it_would_be():
    at = standstill("1x", [0, 0.65]).at_ms
    assert at == [0, 100] + [750] * 6 + [800, 900, 1_000, 1_100]


def test_a_late_start_does_not_exceed_a_rate():
    clock = LeapingClock()
    start = clock.now_ns()
    clock.pass_(30)
    pacer = Pacer(
        Pace.parse("10/s").schedule(),
        Filter(),
        clock,
        start=lambda: start,
        errors=ScheduleError(),
        is_stopped=lambda: False,
        keeps_rate=True,
    )
    at = []
    slicer = Slicer(Limits(), Filter(), Account)
    for open_slice in pacer.open_slices(
        slicer, Slice(TOPIC, 0, 0, 12), undecided(records_at([0] * 6))
    ):
        for run in pacer.release(open_slice):
            at += [clock.ns] * len(run)
    assert at == [30 * SECOND + step * SECOND // 10 for step in range(6)]


def test_a_slow_source_does_not_slow_a_rate_that_is_kept():
    """Behind is who misses the next record's time, and not who has long had nothing to do."""
    clock = LeapingClock()
    records = records_at([0, 0, 0])

    def slowly():
        for each in records:
            yield Records.of([each]), None
            clock.pass_(1.5)

    played = play(slowly(), "0.1/s", clock=clock)
    assert played.at_ms == [0, 10_000, 20_000]


@pytest.mark.parametrize("pace", ["10/s", "1000/s"])
def test_shares_of_a_rate_never_exceed_it_together(pace):
    counts = (5, 3, 9)
    moments = sorted(
        at
        for index, count in enumerate(counts)
        for _, at in play(
            undecided(records_at([0] * count)), pace, share=Share(counts, index)
        ).given
    )
    apart = SECOND // int(pace.removesuffix("/s"))
    assert all(at >= turn * apart for turn, at in enumerate(moments))

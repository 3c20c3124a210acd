"""Waiting polls at once and ends at its deadline; the manual clock moves only when it is moved."""

import time
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.host.clock import Backoff, SystemClock, sleep_unless, wait_until
from playhead.replay.patience import Patience
from playhead.testing import ManualClock


class SleeperClock(ManualClock):
    """Moves itself by what it is asked to sleep, so that one thread is enough."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    def sleep(self, seconds: float, /) -> None:
        self.slept.append(seconds)
        self.advance(seconds)


def test_a_probe_is_asked_before_any_waiting():
    clock = SleeperClock()
    assert wait_until(lambda: "ready", deadline_s=0, clock=clock, every_s=1) == "ready"
    assert clock.slept == []


def test_the_first_truthy_answer_is_returned():
    clock, answers = SleeperClock(), iter([None, 0, "", "third time", "too far"])
    found = wait_until(lambda: next(answers), deadline_s=60, clock=clock, every_s=2)
    assert (found, clock.slept) == ("third time", [2, 2, 2])


def test_the_last_probe_is_at_the_deadline_and_no_sleep_passes_it():
    clock = SleeperClock()
    asked_at: list[float] = []
    probe = lambda: asked_at.append(clock.monotonic_ns() / 1e9)  # noqa: E731
    assert wait_until(probe, deadline_s=2.5, clock=clock, every_s=1) is None
    assert asked_at == [0, 1, 2, 2.5]


@given(st.integers(0, 10**7), st.integers(1, 10**6))
def test_waiting_ends_exactly_at_the_deadline(deadline_ms, every_ms):
    clock = SleeperClock()
    every_s = max(every_ms, deadline_ms // 50) / 1e3
    wait_until(lambda: None, deadline_s=deadline_ms / 1e3, clock=clock, every_s=every_s)
    assert clock.monotonic_ns() == deadline_ms * 1_000_000


def test_polling_without_a_pause_is_refused():
    with pytest.raises(ValueError, match="every_s: found 0, needed more than 0"):
        wait_until(lambda: None, deadline_s=1, clock=SleeperClock(), every_s=0)


def test_the_system_clock_is_the_machines():
    clock = SystemClock()
    before = time.time_ns(), time.monotonic_ns()
    clock.sleep(0.001)
    assert clock.now_ns() >= before[0]
    assert clock.monotonic_ns() - before[1] >= 1_000_000


def test_time_stands_still_until_it_is_advanced():
    clock = ManualClock(now_ns=10)
    assert (clock.now_ns(), clock.monotonic_ns()) == (10, 0)
    clock.advance(1.5)
    assert (clock.now_ns(), clock.monotonic_ns()) == (1_500_000_010, 1_500_000_000)


def test_only_the_wall_clock_jumps():
    clock = ManualClock(now_ns=10_000_000_000)
    clock.step_wall(-5)
    assert (clock.now_ns(), clock.monotonic_ns()) == (5_000_000_000, 0)
    with pytest.raises(ValueError, match="found -1, needed 0 or more"):
        clock.advance(-1)


def test_sleepers_wake_when_their_time_has_come_and_not_before():
    clock, woken = ManualClock(), []

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        woken.append(seconds)

    threads = [Thread(target=sleep, args=(seconds,)) for seconds in (1, 3)]
    for thread in threads:
        thread.start()
    clock.wait_for_sleepers(2)
    clock.advance(2.999)
    threads[0].join(10)
    clock.step_wall(3600)  # the wall clock wakes nobody
    clock.wait_for_sleepers(1)
    assert woken == [1]
    clock.advance(0.001)
    threads[1].join(10)
    assert woken == [1, 3]


def test_a_sleep_that_nobody_ends_says_so(monkeypatch):
    monkeypatch.setattr("playhead.testing.clock._PATIENCE_S", 0.01)
    with pytest.raises(
        TimeoutError, match=r"the clock was not advanced to the end of a sleep\(5\)"
    ):
        ManualClock().sleep(5)
    with pytest.raises(TimeoutError, match="0 threads sleep, needed 1"):
        ManualClock().wait_for_sleepers()


def test_waits_double_up_to_the_longest_and_start_over():
    backoff = Backoff(0.5, 3.0)
    assert [backoff.take() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    backoff.start_over()
    assert backoff.take() == 0.5


def test_the_first_wait_may_be_none_at_all():
    backoff = Backoff(0.25, 1.0, at_once=True)
    assert [backoff.take() for _ in range(4)] == [0, 0.25, 0.5, 1.0]


def test_a_sleep_ends_with_its_time_or_with_a_stop():
    assert sleep_unless(lambda: False, 0.01) is False
    assert sleep_unless(lambda: True, 60) is True


def test_a_wait_for_a_server_says_how_long_it_still_takes():
    patience = Patience(120.0)
    assert patience.left_s == 120.0
    waited = patience.take() + patience.take()
    assert patience.left_s == 120.0 - waited
    assert patience.heed(done=7)
    assert patience.left_s == 120.0

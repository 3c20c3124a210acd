"""Lanes that meet start together, whoever comes last, and nobody waits for ever."""

from pathlib import Path
from threading import Thread

from playhead.host.clock import SystemClock
from playhead.task.start_barrier import StartBarrier
from playhead.testing import ManualClock

SOON = 100_000_000
FAR = 1 << 62


def test_the_start_is_said_when_the_last_has_come(tmp_path):
    clock = ManualClock()
    barrier = StartBarrier(tmp_path, 2)
    barrier.arrive()
    assert barrier.start_ns(clock, latest_ns=FAR) is None
    barrier.arrive()
    assert barrier.start_ns(clock, latest_ns=FAR) is None
    said = clock.now_ns() + SOON
    clock.advance(5)
    assert [barrier.start_ns(clock, latest_ns=FAR) for _ in range(3)] == [said] * 3


def test_after_a_while_it_starts_without_those_that_are_missing(tmp_path):
    clock = ManualClock()
    barrier = StartBarrier(tmp_path, 2)
    latest = clock.now_ns() + 1_000_000_000
    barrier.arrive()
    assert barrier.start_ns(clock, latest_ns=latest) is None
    clock.advance(1)
    barrier.start_ns(clock, latest_ns=latest)
    assert barrier.start_ns(clock, latest_ns=latest) == clock.now_ns() + SOON


def test_all_are_told_one_start(tmp_path):
    found: list[int] = []

    def lane() -> None:
        barrier, clock = StartBarrier(tmp_path, 8), SystemClock()
        barrier.arrive()
        while (start := barrier.start_ns(clock, latest_ns=FAR)) is None:
            pass
        found.append(start)

    threads = [Thread(target=lane) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(found) == 8
    assert len(set(found)) == 1


def test_who_cannot_go_on_ends_it_for_all(tmp_path):
    one, other = StartBarrier(tmp_path, 2), StartBarrier(tmp_path, 2)
    assert not other.is_over
    one.end()
    assert other.is_over


def test_a_folder_that_is_gone_harms_nobody():
    barrier = StartBarrier(Path("/nowhere/at/all"), 1)
    barrier.arrive()
    barrier.end()
    assert barrier.start_ns(SystemClock(), latest_ns=0) is None

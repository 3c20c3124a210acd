"""A run that goes on is due at once, silences are cut, and a rate does not catch up on silence."""

import time

import pytest

from playhead.pace import Pace
from playhead.queries.column import Column
from playhead.queries.due_list import DueList
from playhead.queries.filters import Filters
from playhead.queries.tape import Tape, TapeWriter
from playhead.querylog.statement import Act, Statement

SECOND_US = 1_000_000


def tape_of(*seconds: float) -> Tape:
    statements = [
        Statement("a.1", at + 1, at, Act.QUERY, int(each * SECOND_US), "SELECT 1", done_place=at)
        for at, each in enumerate(seconds)
    ]
    return TapeWriter(Filters().reason, "commit").write(statements)


def due_after_s(pace: Pace, tape: Tape, outcomes: bytes | None = None) -> dict[int, float]:
    column = Column("B")
    column.extend(outcomes or bytes(len(tape)))
    due = DueList(tape, pace, column)
    due.add(range(len(tape)))
    found = {}
    while due.next is not None:
        at, due_ns = due.take()
        found[at] = (due_ns - due.start_ns) / 1e9
    return found


def test_the_recorded_times_are_kept() -> None:
    assert due_after_s(Pace.speed(2), tape_of(10, 12, 20)) == {0: 0, 1: 1, 2: 5}


@pytest.mark.parametrize("pace", [Pace.speed(1), Pace.rate(1)])
def test_what_has_its_outcome_takes_no_time(pace: Pace) -> None:
    assert due_after_s(pace, tape_of(0, 1_000, 2_000, 2_001), b"\1\1\0\0") == {2: 0, 3: 1}


def test_silences_are_cut() -> None:
    pace = Pace.speed(1, max_gap_ms=2_000)
    assert due_after_s(pace, tape_of(0, 1, 100, 101, 200)) == {0: 0, 1: 1, 2: 3, 3: 4, 4: 6}


def test_a_rate_does_not_catch_up_on_a_silence() -> None:
    tape, column = tape_of(0, 0, 0, 0), Column("B")
    column.extend(bytes(4))
    due = DueList(tape, Pace.rate(10), column)
    due.add([0, 1])
    due.take()
    due.take()
    assert due.next is None
    time.sleep(0.3)
    due.add([2, 3])
    times = [due.take()[1] for _ in range(2)]
    assert times[0] >= time.monotonic_ns() - 200_000_000
    assert times[1] - times[0] == pytest.approx(100_000_000, rel=0.01)

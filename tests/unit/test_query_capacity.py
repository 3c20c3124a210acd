"""The ladder of paces ends close to what holds, and a limit that cannot be measured is refused."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.errors import BadValue
from playhead.queries.capacity import until_of
from playhead.queries.stretches import Ladder, Stretch


@given(st.fractions(min_value=Fraction(1, 8), max_value=1_000))
def test_the_ladder_ends_within_a_tenth_of_what_holds(most: Fraction) -> None:
    ladder, tried = Ladder(), []
    while (pace := ladder.next()) is not None:
        tried.append(pace)
        ladder.note(Stretch(pace, broke="too fast" if pace > most else ""))
    assert len(set(tried)) == len(tried)
    assert len(tried) < 20
    assert ladder.held is not None
    assert ladder.broke is not None
    assert ladder.held <= most < ladder.broke <= ladder.held * Fraction(11, 10)


def test_if_nothing_holds_the_ladder_ends() -> None:
    ladder = Ladder()
    while (pace := ladder.next()) is not None:
        ladder.note(Stretch(pace, broke="too fast"))
    assert (ladder.held, ladder.broke) == (None, Fraction(1, 8))


def test_a_stretch_breaks_by_its_latency_or_by_what_was_not_sent() -> None:
    until = until_of("p99 > 50ms")
    for late_ms, unsent, broke in ((40, 0, ""), (40, 2, ""), (60, 0, "p99 was"), (40, 3, "3 st")):
        stretch = Stretch(Fraction(1), statements=100, unsent=unsent)
        stretch.latency.note(late_ns=late_ms * 1_000_000)
        stretch.judge(until)
        assert stretch.broke.startswith(broke)
        assert bool(stretch.broke) == bool(broke)


@pytest.mark.parametrize("text", ["p99 > 2x", "divergences > 0", "p99 < 50ms", "p98 > 50ms", ""])
def test_a_limit_is_a_percentile_above_a_time(text: str) -> None:
    with pytest.raises(BadValue, match="--until"):
        until_of(text)

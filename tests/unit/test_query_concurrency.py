"""How many statements ran at once, compared with a sum over each microsecond."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.queries.concurrency import Concurrency

RUNS = st.lists(
    st.tuples(st.integers(-2_000, 400_000), st.integers(0, 300_000)), min_size=1, max_size=12
)


def noted(runs: list[tuple[int, int]]) -> Concurrency:
    found = Concurrency()
    for start, took in runs:
        found.note(start, took)
    return found


@given(RUNS)
def test_each_statement_counts_in_the_intervals_in_which_it_ran(runs) -> None:
    document = noted(runs).as_document()
    length, counts = document["interval_us"], document["statements"]
    first = runs[0][0]
    assert len(counts) <= 240
    for at, count in enumerate(counts):
        start, end = first + at * length, first + (at + 1) * length
        busy = sum(max(0, min(end, begin + took) - max(start, begin)) for begin, took in runs)
        assert count == pytest.approx(busy / length, abs=0.001)
    last = max(begin + took for begin, took in runs) - first
    assert len(counts) * length >= last, "nothing is cut off at the end"


@given(RUNS)
def test_the_average_and_the_peak_are_those_of_the_intervals(runs) -> None:
    found = noted(runs)
    counts = found.as_document()["statements"]
    assert bool(found) == bool(counts)
    assert found.peak == pytest.approx(max(counts, default=0), abs=0.001)
    assert found.average == pytest.approx(sum(counts) / max(1, len(counts)), abs=0.001)


def test_a_run_of_a_day_has_few_long_intervals() -> None:
    found = noted([(second * 1_000_000, 2_000_000) for second in range(86_400)])
    document = found.as_document()
    assert 120 <= len(document["statements"]) <= 240
    assert found.average == pytest.approx(2, rel=0.01)
    assert found.seconds == pytest.approx(86_401, rel=0.01)

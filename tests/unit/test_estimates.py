"""Estimates come from the work of comparable runs, and progress shows the rate of the work."""

import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from playhead.cli.output import Output
from playhead.cli.replay.render import ProgressText
from playhead.ledger import Entry
from playhead.record import Slice
from playhead.replay.estimate import LEAST_RECORDS, known_rate
from playhead.replay.journal import DONE, Journal
from tests.unit.replaying import TOPIC, partition_plan, plan_of, request

BIG = LEAST_RECORDS


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path)


def keep(journal: Journal, number: int, records: int, run_s: float, **asked: object) -> None:
    plan = plan_of(
        partition_plan(0, 5), replay_id=f"r{number}", made_at_ms=number, request=request(**asked)
    )
    journal.keep(plan, {})
    took = {"wall_s": 100.0, "run_s": run_s, "records": records, "records_per_second": 1}
    journal.note(plan.replay_id, DONE, proof={"took": took})


def rate(journal: Journal, **asked: object) -> float | None:
    return known_rate(journal, request(**asked), [])


def test_the_rate_is_that_of_the_work_and_not_of_the_wait_for_the_engine(journal):
    assert rate(journal) is None
    keep(journal, 1, BIG, 2.0)
    assert rate(journal) == BIG / 2


def test_tiny_runs_and_runs_that_found_nothing_to_do_tell_nothing(journal):
    keep(journal, 1, BIG - 1, 0.1)
    keep(journal, 2, 0, 0.0)
    assert rate(journal) is None


@pytest.mark.parametrize(
    "asked",
    [
        {"target": "postgres:t"},
        {"pace": "2x"},
        {"where": "value:car = 1"},
        {"decode": "avro"},
        {"on_conflict": "newer"},
    ],
)
def test_another_kind_of_work_tells_nothing(journal, asked):
    keep(journal, 1, BIG, 1.0, **asked)
    assert rate(journal) is None
    assert rate(journal, **asked) == BIG


def test_of_several_it_is_the_middle_of_the_latest(journal):
    for number, seconds in enumerate((0.001, 0.001, 1.0, 2.0, 4.0, 5.0, 10.0)):
        keep(journal, number, BIG, seconds)
    assert rate(journal) == BIG / 4


# --- progress


class Screen(StringIO):
    named = "utf-8"

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.named


class Clock:
    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def entry(last_ms: int | None) -> Entry:
    return Entry(Slice(TOPIC, 0, 0, 100), 1, 1, first_ms=last_ms, last_ms=last_ms)


def test_progress_says_that_nothing_is_committed_and_then_the_rate_of_the_work():
    clock = Clock()
    text = ProgressText(clock)
    assert text(500, 2_000, []) == "waiting for the first commit"
    assert ProgressText(clock)(2_000, 2_000, []) == "nothing is left to do"
    clock.at = 15.0
    assert text(500, 2_000, []) == "waiting for the first commit"
    clock.at = 17.0
    assert text(1_500, 2_000, [entry(1_600_000_000_000)]) == "500/s, at 2020-09-13T12:26:40.000Z"


@pytest.mark.parametrize("last_ms", [None, -1])
def test_records_without_a_time_are_of_no_year(last_ms):
    clock = Clock()
    text = ProgressText(clock)
    text(0, 10, [])
    clock.at = 1.0
    assert text(10, 10, [entry(last_ms)]) == "10/s"


@pytest.mark.parametrize(
    ("encoding", "bar"), [("utf-8", "█" * 8 + "░" * 12), ("ascii", "#" * 8 + "." * 12)]
)
def test_a_terminal_shows_a_bar(monkeypatch, encoding, bar):
    screen = Screen()
    screen.named = encoding
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "100")
    progress = replace(Output(), progress_form="line").progress("replay r1")
    progress.count("10/s", 40, 100)
    assert screen.getvalue() == f"\rreplay r1: {bar}  40 %  40 of 100 offsets  10/s"

"""The verdict of a replay of queries claims no more than the order that was kept."""

from types import SimpleNamespace
from typing import Any

import pytest

from playhead.note import Note
from playhead.queries import report
from playhead.queries.filters import Filters
from playhead.queries.tape import TapeWriter
from playhead.queries.workload import notes_of
from playhead.querylog.counts import Counts
from playhead.querylog.statement import Act, Statement


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ("commit", "equal: there was no statement to play"),
        ("strict", "equal: there was no statement to play"),
        ("session", "equal, but the tables can differ: there was no statement to play"),
    ],
)
def test_without_an_order_between_sessions_the_tables_can_differ(
    order: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "_counted", lambda _: [])
    outcome: Any = SimpleNamespace(
        is_divergent=False,
        missing=0,
        is_idle=False,
        count=lambda _: 0,
        beside=None,
        rules=SimpleNamespace(order=order),
    )
    assert report.verdict(outcome) == said


@pytest.mark.parametrize(
    ("users", "is_noted"), [(["me"], False), (["alice"], True), (["me", "alice"], True)]
)
def test_a_plan_names_users_that_are_not_the_one_of_the_target(
    users: list[str], *, is_noted: bool
) -> None:
    given = [
        Statement(f"a.{at}", 1, at, Act.QUERY, at, "SELECT 1", done_place=at, user=user)
        for at, user in enumerate(users)
    ]
    notes = [note.text for note in _notes(given) if note.code == "one-user"]
    assert (
        notes
        == [f"all sessions log in as me; on the source they were {', '.join(sorted(users))}"]
        * is_noted
    )


@pytest.mark.parametrize(
    ("durations_us", "is_noted"),
    [
        ([5_000 + at for at in range(60)], True),
        ([5_000] * 59 + [20], False),
        ([5_000] * 20, False),
        ([None] * 60, False),
    ],
)
def test_a_plan_says_if_only_slow_statements_were_logged(
    durations_us: list[int | None], *, is_noted: bool
) -> None:
    given = [
        Statement("a.1", at, at, Act.QUERY, at, "SELECT 1", done_place=at, duration_us=duration_us)
        for at, duration_us in enumerate(durations_us)
    ]
    notes = [note.text for note in _notes(given) if note.code == "threshold"]
    text = "no statement of the log took less than 5 ms: "
    assert (
        notes == [f"{text}with log_min_duration_statement above 0, others are missing"] * is_noted
    )


def _notes(given: list[Statement]) -> list[Note]:
    reader = SimpleNamespace(counts=Counts())
    workload: Any = SimpleNamespace(
        tape=TapeWriter(Filters().reason, "commit").write(given),
        skipped={},
        log=SimpleNamespace(reader=reader, misplaced=0),
    )
    server: Any = SimpleNamespace(
        user="me", subscriptions=(), foreign_servers=(), is_standby=False, rights=()
    )
    return [*notes_of(workload, "commit", server)]

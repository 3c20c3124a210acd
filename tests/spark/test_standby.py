"""Standbys between real servers: each run its own, the live group untouched, files as triggers."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from playhead import Replay, Span, Standby, kafka, postgres
from playhead.errors import MissingPiece, Refused, UsageError
from playhead.kafka.groups.commit import commit
from playhead.kafka.groups.describe import committed, listed
from playhead.kafka.groups.plan import CommittedOffset
from playhead.standby.folder_watch import Watch
from playhead.standby.history import History
from playhead.standby.store import Standbys
from tests.fix_replay import T0_MS, Deck, new_name

KEYED = "seq int PRIMARY KEY, car text"


@pytest.fixture
def name() -> Iterator[str]:
    found = new_name("standby")
    yield found
    for each in Standbys().names():
        if each.startswith(found):
            Standbys().remove(each)


@pytest.fixture(autouse=True)
def _on_the_servers(deck: Deck, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in deck.environment().items():
        monkeypatch.setenv(variable, value)


def test_each_run_is_a_replay_of_its_own_and_the_live_group_stays(
    deck: Deck, laps: str, name: str
) -> None:
    copy, live = deck.topic("copy", 3), new_name("live")
    with deck.admin() as admin:
        commit(admin, live, {(laps, 0): CommittedOffset(7)})
    Standby.of(name, Replay(kafka(laps), kafka(copy))).save()
    found = Standby.named(name)
    first = found.run(Span.parse(f"{T0_MS}..{T0_MS + 10_000}"))
    second = found.run(Span.of(offsets=f"{laps}:1:0-4"), trigger="pager", again=True)
    assert (first.total("written"), second.total("written")) == (10, 4)
    assert len(deck.records(copy)) == 14
    rows = [each.as_row() for each in History().of(name)]
    assert [(row["trigger"], row["outcome"], row["written"]) for row in rows] == [
        ("pager", "done", 4),
        ("python", "done", 10),
    ]
    with deck.admin() as admin:
        groups = {each.group for each in listed(admin)}
        assert {f"playhead.{proof.replay_id}" for proof in (first, second)} <= groups
        assert {place: each.offset for place, each in committed(admin, live).items()} == {
            (laps, 0): 7
        }


def test_a_table_that_does_not_fit_is_refused_when_the_standby_is_made(
    deck: Deck, laps: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = deck.table(KEYED)
    told = Replay(kafka(laps), postgres(f"{deck.schema}.nowhere"))
    with pytest.raises((Refused, UsageError), match="nowhere"):
        Standby.of(name, told)
    no_function = Replay(kafka(laps), postgres(table), where="nosuch(value:seq)")
    with pytest.raises(UsageError, match="nosuch"):
        Standby.of(name, no_function)
    monkeypatch.delenv("DATABASE_URL")
    with pytest.raises(MissingPiece, match="database"):
        Standby.of(name, Replay(kafka(laps), postgres(table)), check=False)
    assert name not in Standbys().names()


def test_files_trigger_runs_into_a_table(deck: Deck, laps: str, name: str, tmp_path: Path) -> None:
    table = deck.table(KEYED)
    rules = {"on_conflict": "ignore", "lateness_ms": 0}
    where = "value:seq::int % 2 = 0"
    Standby.of(name, Replay(kafka(laps), postgres(table), where=where, **rules)).save()
    spans = [
        {"from": T0_MS, "to": T0_MS + 10_000},
        {"from": "2021-08-04T12:30:05", "for": "10s"},
        {"from": "2021-08-04T12:30:05", "for": "-10s"},
    ]
    for number, span in enumerate(spans):
        (tmp_path / f"{name}-{number}.json").write_text(json.dumps(span))
    told: dict[str, dict[str, object]] = {}
    Watch(tmp_path, tell=lambda outcome: told.update({outcome["file"]: dict(outcome)})).run(
        once=True
    )
    outcomes = [told[f"{name}-{number}.json"]["outcome"] for number in range(3)]
    assert outcomes == ["done", "done", "failed"]
    assert deck.rows(table, "seq", "ORDER BY 1") == [(n,) for n in range(0, 15, 2)]
    assert len([*(tmp_path / "done").iterdir()]) == 4

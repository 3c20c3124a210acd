"""The list of runs: pages and filters, damage that it survives, and journals of earlier versions."""

import json
import sqlite3
from pathlib import Path

import pytest

from playhead.cli.app import main
from playhead.config.context import configure
from playhead.errors import UsageError
from playhead.kafka.groups import describe
from playhead.replay import old_groups
from playhead.replay.journal import DONE, RUNNING, STOPPED
from playhead.source import SourceFacts
from playhead.standby.history import History
from playhead.target import Inspection
from tests.unit.replaying import partition_plan, plan_of


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> History:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return History()


def keep(journal: History, *ids: str) -> None:
    for made_at_ms, replay_id in enumerate(ids, start=1):
        plan = plan_of(partition_plan(0, 5), replay_id=replay_id, made_at_ms=made_at_ms)
        journal.keep(plan, {})


def change(journal: History, statement: str) -> None:
    connection = sqlite3.connect(journal.file)
    with connection:
        connection.execute(statement)
    connection.close()


def listed(journal: History, **asked: object) -> list[str]:
    return [run.replay_id for run in journal.listed(**asked)]


def test_a_page_holds_the_latest(journal):
    keep(journal, "a", "b", "c")
    assert listed(journal) == ["c", "b", "a"]
    assert listed(journal, most=2) == ["c", "b"]
    assert listed(journal, since_ms=2) == ["c", "b"]
    assert listed(journal, replay_id="b") == ["b"]


def test_runs_of_a_standby_are_a_kind(journal):
    keep(journal, "a", "b")
    journal.note_trigger("b", "laps", "command", "start..end")
    assert listed(journal, kind="standby") == ["b"]
    assert listed(journal, kind="replay") == ["a"]
    [run] = journal.listed(kind="standby")
    assert (run.standby, run.trigger) == ("laps", "command")


def test_a_line_says_what_the_plan_and_the_proof_say(journal):
    keep(journal, "a")
    journal.note("a", DONE, proof={"totals": {"written": 4, "missing": 1}})
    [run], plan = journal.listed(), journal.get("a").plan
    assert (run.source, run.target) == (
        plan.request.source_endpoint.shown(),
        plan.request.target_endpoint.shown(),
    )
    assert (run.planned, run.state, dict(run.totals)) == (5, DONE, {"written": 4, "missing": 1})


def test_a_journal_of_an_earlier_version_is_listed_alike(journal):
    keep(journal, "a", "b")
    first = journal.listed()
    change(journal, "DROP TABLE summaries")
    change(journal, "DROP INDEX replays_by_time")
    assert journal.listed() == first
    change(journal, "UPDATE replays SET plan = 'no longer read'")
    assert journal.listed() == first


def test_another_plan_of_the_same_id_does_not_change_the_line(journal):
    keep(journal, "a")
    first = journal.listed()
    change(journal, "DELETE FROM summaries")
    other = plan_of(partition_plan(0, 9), replay_id="a", made_at_ms=1)
    with pytest.raises(Exception, match="another plan"):
        journal.keep(other, {})
    assert journal.listed() == first


@pytest.mark.parametrize("damage", ["plan = 'x'", "plan = x'ff'", "plan = '{}'"])
def test_a_damaged_plan_does_not_hide_the_others(journal, damage):
    keep(journal, "bad", "good")
    change(journal, "DELETE FROM summaries")
    change(journal, f"UPDATE replays SET {damage} WHERE id = 'bad'")
    good, bad = journal.listed()
    assert (good.replay_id, good.planned) == ("good", 5)
    assert (bad.replay_id, bad.source, bad.planned) == ("bad", None, None)


@pytest.mark.parametrize("proof", ["half of {", "[1]", '{"totals": 3}', "null"])
def test_a_damaged_proof_does_not_hide_the_others(journal, proof):
    keep(journal, "bad", "good")
    change(journal, f"UPDATE replays SET proof = '{proof}' WHERE id = 'bad'")
    assert [dict(run.totals) for run in journal.listed()] == [{}, {}]


@pytest.mark.parametrize(
    "damage",
    ["id = NULL", "id = 7", "made_at_ms = 'yesterday'", "error = x'00ff'", "proof = x'00'"],
)
def test_a_row_with_values_of_another_kind_hides_no_other(journal, capsys, damage):
    keep(journal, "a", "b")
    change(journal, f"UPDATE replays SET {damage} WHERE id = 'b'")
    code, rows, said = shown(capsys)
    assert (code, "a" in rows, "fault" in said) == (0, True, False)
    with pytest.raises(UsageError):
        journal.find("c")


def test_a_run_whose_process_died_is_listed_as_stopped(journal):
    keep(journal, "a", "b")
    journal.note("a", RUNNING)
    journal.note("b", RUNNING)
    with journal.held("b"):
        assert [run.state for run in journal.listed()] == [RUNNING, STOPPED]


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str], str]:
    with pytest.raises(SystemExit) as end:
        main(["runs", *words, "-o", "json"])
    out, err = capsys.readouterr()
    found = [row["id"] for row in json.loads(out)["runs"]] if out else []
    return int(end.value.code or 0), found, err


def test_the_command_says_when_it_shows_a_part(journal, capsys):
    keep(journal, "a", "b", "c")
    assert shown(capsys, "--limit", "3")[1:] == (["c", "b", "a"], "")
    code, found, said = shown(capsys, "--limit", "2")
    assert (code, found) == (0, ["c", "b"])
    assert "the latest 2 runs" in said
    assert "--limit 0" in said
    assert shown(capsys, "--limit", "0")[1:] == (["c", "b", "a"], "")
    assert shown(capsys, "--since", "now-2h")[:2] == (0, [])
    assert shown(capsys, "--since", "never")[0] == 2
    assert shown(capsys, "--kind", "standby")[1] == []


# --- forgotten


def test_a_run_is_forgotten_with_its_group(journal, monkeypatch, capsys):
    keep(journal, "a", "b")
    asked = []
    monkeypatch.setattr(
        old_groups, "remove_group", lambda plan, _: asked.append(plan.replay_id) or []
    )
    with pytest.raises(SystemExit) as ended:
        main(["runs", "a", "--forget", "--yes", "-o", "json"])
    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out)["state"] == "forgotten"
    assert (asked, listed(journal), journal.get("a")) == (["a"], ["b"], None)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--forget"], 2, "needs the ID"),
        (["b", "--forget", "--yes"], 6, "in the history of standby laps"),
        (["a", "--forget"], 6, "needs a confirmation"),
    ],
)
def test_what_is_still_needed_is_not_forgotten(journal, capsys, words, code, said):
    keep(journal, "a", "b")
    journal.note_trigger("b", "laps", "command", "start..end")
    with pytest.raises(SystemExit) as ended:
        main(["runs", *words])
    assert ended.value.code == code
    assert said in capsys.readouterr().err
    assert listed(journal) == ["b", "a"]


def test_groups_go_a_day_after_the_end_of_their_replays(journal, monkeypatch):
    asked = []
    monkeypatch.setattr(
        describe, "remove_groups", lambda _, ids: asked.append(list(ids)) or list(ids)
    )
    one_cluster = {"source": SourceFacts("here", {}), "target": Inspection("here")}
    for replay_id, changes in {"a": one_cluster, "b": one_cluster, "c": {}}.items():
        journal.keep(plan_of(partition_plan(0, 5), replay_id=replay_id, **changes), {})
        if replay_id != "b":
            journal.note(replay_id, DONE)
    ended_ms = journal.get("a").ended_at_ms
    plan = plan_of(partition_plan(0, 5), replay_id="d", **one_cluster)
    where = configure({})
    remove = old_groups.remove_old_groups
    assert remove(plan, where, journal, now_ms=ended_ms + old_groups.KEPT_MS) == []
    assert remove(plan, where, journal, now_ms=ended_ms + old_groups.KEPT_MS + 1) == ["a"]
    elsewhere = plan_of(partition_plan(0, 5), replay_id="e")
    assert remove(elsewhere, where, journal, now_ms=ended_ms * 2) == []
    assert asked == [["a"]]

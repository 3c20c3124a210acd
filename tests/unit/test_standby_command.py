"""`playhead standby` as a person meets it: what is said, what is data, what the exit code is."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import pytest

from playhead.cli.app import main
from playhead.cli.replay import run_replay, runs
from playhead.config.saved_servers import configuration_of
from playhead.errors import Unavailable
from playhead.files.target import FilesTarget
from playhead.replay.api import Planned
from playhead.replay.journal import STOPPED, Journal
from playhead.standby.runner import held
from playhead.standby.store import Standbys
from tests.unit.standbys import COUNT, NoEngine, Room, furnished

Call = Callable[..., "Said"]


class Said(NamedTuple):
    code: int
    out: str
    err: str

    def data(self) -> Any:
        return json.loads(self.out)


@pytest.fixture(autouse=True)
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    return furnished(tmp_path, monkeypatch)


@pytest.fixture(autouse=True)
def _no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    from playhead.replay import api

    monkeypatch.setattr(api, "_engine", lambda configuration, *_: NoEngine(configuration))


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    def call(*words: str) -> Said:
        with pytest.raises(SystemExit) as end:
            main(["standby", *words])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Said(int(end.value.code or 0), out, err)

    return call


@pytest.fixture
def laps(call: Call) -> Call:
    """With a standby of that name."""
    assert call("add", "laps", "json:tape", "json:copy", "--lateness", "0s").code == 0
    return call


def test_the_life_of_a_standby(laps, room):
    [row] = laps("list", "-o", "json").data()["standbys"]
    assert (row["name"], row["runs"], row["last"], row["error"]) == ("laps", 0, None, None)
    shown = laps("show", "laps", "-o", "json").data()
    assert shown["request"]["lateness_ms"] == 0
    assert shown["request"]["source"] == f"json:{room.tape}"
    done = laps("run", "laps", "--from", "1970-01-01T00:00:02Z", "--yes", "-o", "json")
    assert done.code == 0, done.err
    assert done.data()["totals"]["written"] == COUNT - 2
    assert "span     [1970-01-01T00:00:02" in done.err
    [row] = laps("history", "laps", "-o", "json").data()["runs"]
    assert (row["trigger"], row["outcome"], row["written"]) == ("command", "done", COUNT - 2)
    [row] = laps("list", "-o", "json").data()["standbys"]
    assert (row["runs"], row["last"]) == (1, "done")
    assert laps("remove", "laps", "--yes").code == 0
    assert laps("list", "-o", "json").data()["standbys"] == []
    assert len(laps("history", "laps", "-o", "json").data()["runs"]) == 1
    assert laps("run", "laps", "--last", "2h", "--yes").code == 2


def test_runs_say_which_standby_and_who_triggered_it(laps, capsys):
    laps("run", "laps", "--offsets", "t:0:0-1", "--yes")
    with pytest.raises(SystemExit):
        main(["runs", "-o", "json"])
    [row] = json.loads(capsys.readouterr().out)["runs"]
    assert (row["standby"], row["trigger"]) == ("laps", "command")


@pytest.fixture
def stopped(laps: Call) -> str:
    """The id of a run that has committed all, and stopped before it could say so."""
    laps("run", "laps", "--offsets", "t:0:0-2", "--yes")
    [run] = Journal().runs()
    Journal().note(run.replay_id, STOPPED)
    return run.replay_id


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> Said:
    with pytest.raises(SystemExit) as end:
        main(["runs", *words, "-o", "json"])
    return Said(int(end.value.code or 0), *capsys.readouterr())


def test_how_far_a_run_is_its_ledger_says(stopped, capsys):
    said = shown(capsys, stopped)
    assert said.code == 0
    assert "so far   2 of 2 offsets are committed" in said.err
    assert (said.data()["committed"], said.data()["written"]) == (2, 2)


def test_a_ledger_that_is_away_or_silent_is_said_and_keeps_nobody(stopped, capsys, monkeypatch):
    def away(*_: Any) -> Any:
        raise Unavailable("it is away", hint="wait")

    def silent(*_: Any) -> Any:
        Event().wait()

    monkeypatch.setattr(runs, "_ANSWERS_WITHIN_S", 0.2)
    for entries, reason in ((away, "it is away"), (silent, "did not answer within 0.2 s")):
        monkeypatch.setattr(FilesTarget, "entries", entries)
        said = shown(capsys, stopped)
        assert said.code == 0
        assert "its target was not reached: " in said.err
        assert reason in said.err
        assert ("hint: wait" in said.err) is (entries is away)
        assert "committed" not in said.data()
        assert shown(capsys).code == 0


def test_nothing_is_written_without_a_yes(laps, room):
    refused = laps("run", "laps", "--offsets", "t:0:0-1")
    assert (refused.code, room.offsets()) == (6, [])
    assert "--dry-run" in refused.err
    dry = laps("run", "laps", "--offsets", "t:0:0-1", "--dry-run", "-o", "json")
    assert (dry.code, dry.data()["planned"], room.offsets()) == (0, 1, [])
    assert laps("remove", "laps").code == 6
    assert laps("remove", "laps", "--dry-run").code == 0
    assert laps("watch", "dropped").code == 6
    assert Standbys().names() == ["laps"]


def test_what_add_refuses_and_what_it_only_shows(laps, call):
    taken = call("add", "laps", "json:tape", "json:other")
    assert (taken.code, "--replace" in taken.err) == (6, True)
    assert call("add", "laps", "json:tape", "json:other", "--replace").code == 0
    assert Standbys().get("laps").request.target.endswith("/other")
    assert call("add", "a.b", "json:tape", "json:copy").code == 2
    assert call("add", "new", "json:nowhere", "json:copy").code == 1
    assert call("add", "new", "json:nowhere", "json:copy", "--no-check").code == 0
    assert call("add", "dry", "json:tape", "json:copy", "--dry-run").code == 0
    assert Standbys().names() == ["laps", "new"]
    assert call("add", "new", "json:tape", "json:copy", "--from", "now").code == 2


@pytest.mark.parametrize(
    "words",
    [("--key", "x"), ("--on-conflict", "newer"), ("--version-column", "z"), ("--tombstones", "skip"),
     ("--redrive",), ("--partition", "key"), ("--headers", "foo"), ("--provenance",)],
)  # fmt: skip
@pytest.mark.parametrize("more", [(), ("--no-check",)])
def test_a_rule_that_means_nothing_for_the_target_is_refused(call, words, more):
    said = call("add", "laps", "json:tape", "json:copy", *words, *more)
    assert (said.code, said.out, Standbys().names()) == (2, "", [])
    assert f"error: {words[0]} is a rule for t" in said.err
    assert f"hint: leave {words[0]} out" in said.err


def test_the_options_of_captures_and_of_the_registry_are_kept(call):
    words = ("--filter", '(command IS "Fetch")', "--times", "pair", "--topic-map", "a=b",
             "--schema-registry", "http://127.0.0.1:1")  # fmt: skip
    added = call("add", "laps", "rrpair:snap", "kafka:t", *words, "-b", "127.0.0.1:1", "--no-check")
    assert added.code == 0, added.err
    kept = Standbys().get("laps")
    assert (kept.request.filter, kept.request.times) == ('(command IS "Fetch")', "pair")
    assert kept.request.topic_map == ("a=b",)
    assert configuration_of(kept.servers).get("schema_registry") == "http://127.0.0.1:1"


def test_a_capture_is_kept_by_its_whole_path_and_a_snapshot_by_its_id(call, room, tmp_path):
    (tmp_path / "snap").mkdir()
    for source in ("rrpair:snap", "gor:other", "rrpair:a/b", "rrpair:some-id"):
        assert call("add", "laps", source, "csv:out", "--no-check", "--replace").code == 0
        kept = Standbys().get("laps").request.source
        system, _, name = source.partition(":")
        assert kept == (source if name == "some-id" else f"{system}:{tmp_path / name}")


def test_a_standby_that_cannot_be_read_is_listed_with_the_reason(laps):
    Standbys().file("bad").write_text("{")
    rows = laps("list", "-o", "json").data()["standbys"]
    assert [(row["name"], bool(row["error"])) for row in rows] == [("bad", True), ("laps", False)]


def test_a_run_needs_a_span_and_its_turn(laps):
    assert "none was given" in laps("run", "laps", "--yes").err
    with held("laps"):
        busy = laps("run", "laps", "--last", "1h", "--yes")
    assert (busy.code, "--wait" in busy.err) == (6, True)


def test_the_zone_of_a_time_is_the_standbys_unless_another_is_named(call):
    call("add", "east", "json:tape", "json:copy", "--timezone", "+05:00")
    words = ("run", "east", "--from", "2021-08-04T12:00", "--dry-run")
    assert "2021-08-04T07:00:00" in call(*words).err
    assert "2021-08-04T12:00:00.000+01:00" in call(*words, "--timezone", "+01:00").err


def test_a_folder_is_watched_once(laps, room):
    room.drop("laps-1.json", '{"offsets": "t:0:0-2"}')
    room.drop("lap.json", '{"offsets": "t:0:0-2"}')
    meant = laps("watch", "dropped", "--dry-run", "-o", "json").data()["files"]
    assert {(row["file"], row["standby"], row["span"]) for row in meant} == {
        ("laps-1.json", "laps", "t:0:0-2"),
        ("lap.json", None, None),
    }
    assert room.names() == ["lap.json", "laps-1.json"]
    done = laps("watch", "dropped", "--once", "--yes", "-o", "jsonl")
    assert done.code == 1
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert {row["file"]: row["outcome"] for row in rows} == {
        "laps-1.json": "done",
        "lap.json": "failed",
    }
    again = laps("watch", "dropped", "--once", "--yes", "-o", "json")
    assert (again.code, again.data()["files"]) == (0, [])
    assert laps("watch", "nowhere", "--once", "--yes").code == 1


def test_a_run_that_stopped_is_resumed_when_it_is_its_turn(laps, room, monkeypatch, capsys):
    def dies(planned: Planned, **_: Any) -> None:
        planned.journal.keep(planned.plan, planned.servers)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run_replay.Planned, "run", dies)
        assert laps("run", "laps", "--offsets", "t:0:0-2", "--yes").code == 130
    [row] = laps("history", "laps", "-o", "json").data()["runs"]
    with held("laps"), pytest.raises(SystemExit) as end:
        main(["resume", row["id"], "--yes"])
    assert (end.value.code, room.offsets()) == (6, [])
    with pytest.raises(SystemExit) as end:
        main(["resume", row["id"], "--yes"])
    assert (end.value.code, room.offsets()) == (0, [0, 1])
    capsys.readouterr()
    [row] = laps("history", "laps", "-o", "json").data()["runs"]
    assert (row["outcome"], row["error"]) == ("done", None)
    with sqlite3.connect(Journal().file) as connection:
        connection.execute("UPDATE replays SET plan = 'x'")
    connection.close()
    shown = laps("history", "laps")
    assert (shown.code, "1 of 1 runs cannot be read; their errors say why" in shown.err) == (
        0,
        True,
    )

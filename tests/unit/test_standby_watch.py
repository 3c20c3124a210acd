"""Files that trigger standbys: which they mean, what they say, and where they end up, whoever dies on the way."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

import playhead
from playhead import Standby
from playhead.errors import Stopped, Unavailable, UsageError
from playhead.host.faults import abort_points
from playhead.standby import folder_watch
from playhead.standby.folder_watch import FolderLost, Watch, WatchedAlready, WatchStopped
from playhead.standby.history import History
from playhead.standby.runner import RunHooks, held, plan, run
from playhead.standby.store import Standbys
from playhead.standby.trigger_file import Claim, read_words, span_of, standby_of
from tests.unit.standbys import COUNT, Room, furnished, played

ROOT = Path(__file__).parents[2]
POINTS = sorted(
    name
    for name in abort_points(Path(playhead.__file__).parent)
    if name.startswith("standby.") and name != "standby.saved"
)


@pytest.fixture(autouse=True)
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    monkeypatch.setattr(folder_watch, "_SETTLES_WITHIN_S", 0.1)
    monkeypatch.setattr(folder_watch, "_LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(folder_watch, "_FIRST_WAIT_S", 0.02)
    found = furnished(tmp_path, monkeypatch)
    found.standby()
    return found


# --- names and words


@pytest.mark.parametrize(
    ("stem", "meant"),
    [
        ("laps", "laps"),
        ("laps-monday", "laps"),
        ("laps-all-monday", "laps-all"),
        ("laps-all", "laps-all"),
        ("laps-", "laps"),
        ("lapsus", None),
        ("laps.monday", None),
        ("Laps", None),
        ("", None),
        ("-laps", None),
    ],
)
def test_the_longest_name_that_fits_is_meant(stem, meant):
    assert standby_of(stem, ["laps", "laps-all", "x"]) == meant


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ('{"from": "2021-08-04T12:30", "to": "13:30"}', "2021-08-04T12:30..13:30"),
        ('{"from": "2021-08-04T12:30", "for": "1h"}', "2021-08-04T12:30..1h"),
        ('{"last": "2h"}', "last 2h"),
        ('{"offsets": "t:0:1-3"}', "t:0:1-3"),
        ('{"from": 1628080200000, "to": null}', "1628080200000..end"),
        ('{"span": "start..end"}', "start..end"),
        ('"last 2h"', "last 2h"),
        ('\ufeff{"last": "2h"}\n', "last 2h"),
    ],
)
def test_the_words_of_a_file(room, text, span):
    file = room.drop("laps.json", text)
    from playhead import Span

    assert span_of(read_words(file, file.name), timezone="UTC") == Span.parse(span)


BAD = [
    ("", "not JSON"),
    ('{"from": "2021-08-0', "not JSON"),
    ("[" * 60_000, "not JSON"),
    ("[]", "not an object"),
    ("null", "not an object"),
    ("{}", "none was given"),
    ('{"from": null}', "none was given"),
    ('{"form": "now-2h"}', "unknown key 'form'"),
    ('{"from": 1.5}', "is 1.5; needed"),
    ('{"from": true}', "is True; needed"),
    ('{"from": {"a": 1}}', "needed: a text"),
    ('{"last": "2h", "last": "3h"}', "occurs twice"),
    ('{"last": "2h", "span": "start..end"}', "span is complete"),
    ('{"last": "2h", "from": "now-3h"}', "contradict"),
    ('{"from": "yesterday"}', "cannot be understood"),
    ('{"from": "2021-08-04", "to": "2021-08-03"}', "is after its to"),
    ('{"offsets": "t:0:1-99"}', "partition holds 0-6"),
    ('{"offsets": "u:0:1-2"}', "no partition u:0"),
    ('{"last": "\\ud800"}', "cannot be understood"),
    ('{"\\ud800": "1"}', "unknown key"),
    (json.dumps({"span": "x" * 70_000}), "bytes"),
]


@pytest.mark.parametrize(("text", "reason"), BAD, ids=range(len(BAD)))
def test_a_file_that_says_no_span_fails_with_the_reason(room, text, reason):
    room.drop("laps-1.json", text)
    [outcome] = room.watch()
    assert outcome["outcome"] == "failed"
    assert reason in outcome["error"]
    [file, beside] = room.names("failed")
    assert (room.folder / "failed" / file).read_text() == text
    written = json.loads((room.folder / "failed" / beside).read_text())
    assert written == outcome
    assert beside == file.removesuffix(".json") + ".outcome.json"
    assert (room.names(), room.offsets()) == ([], [])


@given(st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
def test_whatever_a_file_holds_it_is_words_or_an_error_of_ours(tmp_path_factory, content):
    file = tmp_path_factory.getbasetemp() / "laps.json"
    file.write_bytes(content)
    with suppress(UsageError):
        span_of(read_words(file, file.name), timezone="UTC")


@given(st.from_regex(r"[^/\0\ud800-\udfff]{1,90}", fullmatch=True))
def test_a_claim_is_found_again_by_its_name(stem):
    claim = Claim.of(Path("/x") / f"{stem}.json", "laps-0a1b2c3d")
    found = Claim.found(claim.file)
    assert found == claim
    assert len(os.fsencode(found.outcome)) <= 255


# --- from the file to its outcome


def test_a_file_is_run_and_put_away_with_its_proof(room):
    room.drop("laps-monday.json", '{"offsets": "t:0:1-4"}')
    [outcome] = room.watch()
    assert outcome["outcome"] == "done"
    assert (outcome["standby"], outcome["span"], outcome["file"]) == (
        "laps",
        "t:0:1-4",
        "laps-monday.json",
    )
    assert outcome["proof"]["totals"]["written"] == 3
    replay_id = outcome["replay_id"]
    assert room.names("done") == [
        f"laps-monday.{replay_id}.json",
        f"laps-monday.{replay_id}.outcome.json",
    ]
    assert room.names() == []
    assert sorted(room.offsets()) == [1, 2, 3]
    [triggered] = History().of("laps")
    assert (triggered.trigger, triggered.outcome) == ("file laps-monday.json", "done")


def test_the_same_name_again_is_another_run(room):
    for span in ("t:0:0-2", "t:0:2-3"):
        room.drop("laps.json", json.dumps({"offsets": span}))
        [outcome] = room.watch()
        assert outcome["outcome"] == "done"
    assert len(room.names("done")) == 4
    assert len({each.replay_id for each in History().of("laps")}) == 2
    assert sorted(room.offsets()) == [0, 1, 2]


def test_files_are_taken_in_the_order_of_their_coming_and_one_failure_stops_nobody(room):
    room.standby("other")
    names = ["laps-c.json", "nobody.json", "other-b.json", "laps-a.json"]
    for number, name in enumerate(names):
        file = room.drop(name, '{"offsets": "t:0:1-2"}')
        os.utime(file, ns=(0, number))
    told = room.watch()
    assert [each["file"] for each in told] == names
    assert [each["outcome"] for each in told] == ["done", "failed", "done", "done"]
    assert "matches no standby" in told[1]["error"]
    assert "laps, other" in told[1]["hint"]


def test_what_is_no_request_is_left_alone(room, tmp_path):
    (room.folder / "laps.txt").write_text("x")
    (room.folder / ".laps.json").write_text('{"last": "2h"}')
    (room.folder / "laps-folder.json").mkdir()
    assert room.watch() == []
    assert room.names() == ["laps.txt"]
    secret = tmp_path / "secret"
    secret.write_text('{"offsets": "t:0:1-2"}')
    (room.folder / "laps-link.json").symlink_to(secret)
    os.mkfifo(room.folder / "laps-pipe.json")
    assert {each["error"].partition(": ")[2] for each in room.watch()} == {
        "it is not a regular file"
    }
    assert room.offsets() == []


def test_a_name_as_long_as_names_can_be(room):
    room.drop("laps-" + "x" * 240 + ".json", '{"offsets": "t:0:1-2"}')
    [outcome] = room.watch()
    assert outcome["outcome"] == "done"
    assert len(room.names("done")) == 2


def test_a_name_that_is_no_text(room):
    file = room.drop("x.json", '{"offsets": "t:0:1-2"}')
    file.rename(room.folder / os.fsdecode(b"laps-\xff.json"))
    [outcome] = room.watch()
    assert (outcome["outcome"], outcome["file"]) == ("done", "laps-\ufffd.json")


def test_a_file_that_is_written_in_place_gets_a_moment_to_be_whole(room, monkeypatch):
    monkeypatch.setattr(folder_watch, "_SETTLES_WITHIN_S", 5.0)
    file = room.folder / "laps.json"
    stream = file.open("w")
    stream.write('{"offsets":')
    stream.flush()
    told = []
    watcher = Thread(target=lambda: told.extend(room.watch()))
    watcher.start()
    until(lambda: not file.exists())
    stream.write('"t:0:1-2"}')
    stream.close()
    watcher.join(20)
    assert [each["outcome"] for each in told] == ["done"]


def test_a_file_that_is_written_on_and_on_does_not_keep_the_others_waiting(room, monkeypatch):
    monkeypatch.setattr(folder_watch, "_SETTLES_WITHIN_S", 60.0)
    monkeypatch.setattr(folder_watch, "_WAITS_AT_MOST_S", 0.5)
    room.drop("laps.json", '{"offsets":')
    [outcome] = room.watch()
    assert outcome["outcome"] == "failed"


def test_the_outcome_repeats_no_secret(room, monkeypatch):
    from playhead import secrets

    secrets.remember("verysecret")
    room.drop("laps.json", '{"from": "verysecret"}')
    [outcome] = room.watch()
    assert "verysecret" not in json.dumps(outcome)
    assert all(
        b"verysecret" not in file.read_bytes()
        for file in (room.folder / "failed").glob("*.outcome.json")
    )


def test_a_run_that_dies_of_our_own_fault_is_told_and_the_next_is_taken(room):
    def broken(planned):
        if planned.plan.planned == 1:
            raise ZeroDivisionError("of ours")
        return played(planned)

    room.drop("laps-1.json", '{"offsets": "t:0:1-2"}')
    room.drop("laps-2.json", '{"offsets": "t:0:2-4"}')
    first, second = room.watch(play=broken)
    assert (first["outcome"], first["error"]) == ("failed", "ZeroDivisionError: of ours")
    assert second["outcome"] == "done"


def test_a_source_that_is_away_is_waited_for(room, monkeypatch):
    from playhead.errors import BrokerUnavailable
    from playhead.standby import runner as running

    tries, known = [], running.plan

    def plan(*words, **more):
        tries.append(words)
        if len(tries) < 3:
            raise BrokerUnavailable("h:1", waited_s=1, reason="away")
        return known(*words, **more)

    monkeypatch.setattr(running, "plan", plan)
    room.drop("laps.json", '{"offsets": "t:0:1-2"}')
    said = []
    [outcome] = room.watch(say=said.append)
    assert outcome["outcome"] == "done"
    assert sum("waiting" in line for line in said) == 2
    tries.clear()
    room.drop("laps.json", '{"offsets": "t:0:1-2"}')
    [outcome] = room.watch(patience_s=0)
    assert outcome["outcome"] == "failed"
    assert "no Kafka broker answered" in outcome["error"]


def test_while_the_standby_runs_elsewhere_a_file_waits(room):
    room.drop("laps.json", '{"offsets": "t:0:1-2"}')
    told = []
    watcher = Thread(target=lambda: told.extend(room.watch()))
    with held("laps"):
        watcher.start()
        until(lambda: room.names() != ["laps.json"])
        time.sleep(0.7)
        assert (told, room.offsets()) == ([], [])
    watcher.join(20)
    assert [each["outcome"] for each in told] == ["done"]


def test_a_cancelled_run_is_no_failure_of_the_watcher_but_of_its_file(room):
    def cancelled(planned):
        raise Stopped("cancelled by somebody", hint="playhead resume x")

    room.drop("laps.json", '{"offsets": "t:0:1-2"}')
    [outcome] = room.watch(play=cancelled)
    assert (outcome["outcome"], outcome["hint"]) == ("stopped", "playhead resume x")
    assert len(room.names("failed")) == 2


# --- the folder


def test_one_watcher_for_each_folder(room, tmp_path):
    watcher = Watch(room.folder, play=played)
    thread = Thread(target=watcher.run)
    thread.start()
    try:
        until((room.folder / "failed").is_dir)
        with pytest.raises(WatchedAlready, match=f"process {os.getpid()}"):
            Watch(room.folder).run(once=True)
        other = tmp_path / "other"
        other.mkdir()
        Watch(other).run(once=True)
    finally:
        watcher.stop()
        thread.join(20)
    assert not thread.is_alive()
    Watch(room.folder).run(once=True)


def test_a_file_that_somebody_takes_away_while_it_runs_is_no_end_of_watching(room):
    def taken(planned):
        [running] = room.folder.glob("*.running")
        running.unlink()
        return played(planned)

    room.drop("laps-1.json", '{"offsets": "t:0:1-2"}')
    [outcome] = room.watch(play=taken)
    assert outcome["outcome"] == "done"
    assert len(room.names("done")) == 1


def test_a_folder_that_goes_ends_the_watcher(room):
    def moved(planned):
        room.folder.rename(room.folder.with_name("elsewhere"))
        return played(planned)

    room.drop("laps-1.json", '{"offsets": "t:0:1-2"}')
    with pytest.raises(FolderLost, match="No such file"):
        room.watch(play=moved)
    assert not room.folder.exists()
    room.folder.with_name("elsewhere").rename(room.folder)
    [outcome] = room.watch()
    assert outcome["outcome"] == "done"
    assert len(History().of("laps")) == 1


def test_a_folder_that_is_not_there_is_not_made(tmp_path):
    with pytest.raises(FolderLost, match="No such file"):
        Watch(tmp_path / "nowhere").run(once=True)
    assert not (tmp_path / "nowhere").exists()


# --- stopping, dying, going on


def test_a_stop_leaves_the_run_to_the_next_watcher(room):
    room.drop("laps-1.json", '{"offsets": "t:0:1-3"}')
    room.drop("laps-2.json", '{"offsets": "t:0:3-4"}')
    watcher = Watch(room.folder)

    def stops(planned):
        planned.journal.keep(planned.plan, planned.servers)
        watcher.stop()
        raise Stopped("at a slice boundary")

    watcher.play = stops
    with pytest.raises(WatchStopped, match="stopped during .*laps-1.json") as caught:
        watcher.run()
    assert caught.value.exit_code == 5
    replay_id = caught.value.replay_id
    assert room.names() == [f"laps-1.{replay_id}.running", "laps-2.json"]
    Standbys().remove("laps")
    (room.folder / f"laps-1.{replay_id}.running").write_text("rubbish by now")
    first, second = room.watch()
    assert (first["outcome"], first["replay_id"]) == ("done", replay_id)
    assert second["outcome"] == "failed"
    assert sorted(room.offsets()) == [1, 2]


def test_a_watcher_with_nothing_to_do_stops_at_once(room):
    watcher = Watch(room.folder, play=played)
    watcher.stop()
    watcher.run()


@pytest.mark.parametrize("trigger", ["python", "file laps-2.json", None])
def test_a_file_goes_on_with_no_run_but_its_own(room, trigger):
    if trigger is not None:
        run("laps", "t:0:0-1", trigger=trigger, replay_id="laps-1", face=RunHooks(play=played))
    else:
        planned = plan(Standbys().get("laps"), "t:0:0-1", replay_id="laps-1")
        planned.journal.keep(planned.plan, {})
    room.drop("laps.laps-1.running", '{"offsets": "t:0:1-3"}')
    [outcome] = room.watch()
    assert (outcome["outcome"], outcome["proof"], outcome["span"]) == ("failed", None, None)
    assert "replay laps-1 was not started" in outcome["error"]
    assert room.offsets() == ([0] if trigger else [])


def test_a_run_that_had_come_to_its_end_is_put_away_and_not_run_again(room):
    face = RunHooks(play=played)
    proof = run("laps", "t:0:1-3", trigger="file laps-1.json", replay_id="laps-1", face=face)
    room.drop("laps-1.laps-1.running", "{}")
    room.tape.rename(room.tape.with_name("gone"))

    def never(planned):
        raise AssertionError("run again")

    [outcome] = room.watch(play=never)
    assert (outcome["outcome"], outcome["span"]) == ("done", "t:0:1-3")
    assert outcome["proof"]["verdict"] == proof.verdict()
    assert room.names("done") == ["laps-1.laps-1.json", "laps-1.laps-1.outcome.json"]


def test_a_proof_that_does_not_add_up_is_a_failure(room):
    def short(planned):
        proof = played(planned)
        partitions = tuple(replace(each, written=0, missing=1) for each in proof.partitions)
        return replace(proof, partitions=partitions)

    room.drop("laps-1.json", '{"offsets": "t:0:1-2"}')
    [outcome] = room.watch(play=short)
    assert (outcome["outcome"], outcome["proof"]["adds_up"]) == ("different", False)
    assert len(room.names("failed")) == 2


def test_all_runs_of_a_watcher_are_of_one_engine(room):
    made = room.standby("other", target=f"json:{room.copy}-2")
    Standbys().add(
        Standby(name="other", request=made.request, servers={"spark_memory": "3g"}), replace=True
    )
    for number, name in enumerate(["laps", "other", "laps"]):
        file = room.drop(f"{name}-{number}.json", json.dumps({"offsets": f"t:0:{number}-3"}))
        os.utime(file, ns=(0, number))
    told = room.watch()
    assert [each["outcome"] for each in told] == ["done", "failed", "done"]
    assert "spark_memory 3g" in told[1]["error"]


def test_a_file_that_failed_can_be_put_back_and_its_run_goes_on(room):
    def away(planned):
        planned.journal.keep(planned.plan, planned.servers)
        raise Unavailable("gave up after 120 s")

    room.drop("laps-1.json", '{"offsets": "t:0:1-3"}')
    [failed] = room.watch(play=away)
    replay_id = failed["replay_id"]
    back = room.folder / "failed" / f"laps-1.{replay_id}.json"
    back.rename(room.folder / f"laps-1.{replay_id}.running")
    [outcome] = room.watch()
    assert (outcome["outcome"], outcome["replay_id"]) == ("done", replay_id)
    assert len(History().of("laps")) == 1


def until(condition, *, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_no_point_is_left_out():
    assert {f"standby.{name}" for name in ("claimed", "triggered", "planned", "proved")} <= {
        *POINTS
    }
    assert len(POINTS) == 6


@pytest.mark.parametrize(
    "point", [*POINTS, "run.prepared", "job.committed", "run.proved", "files.data_published"]
)
def test_killed_anywhere_the_next_watcher_brings_it_to_the_same_end(room, tmp_path, point):
    room.drop("laps-1.json", '{"offsets": "t:0:0-6"}')
    room.drop("laps-2.json", '{"offsets": "t:0:0-6"}')
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    died = subprocess.run(
        [sys.executable, "-m", "tests.unit.standbys", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path, "PLAYHEAD_ABORT_AT": point},
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
    )
    assert died.returncode == -signal.SIGKILL, f"{point} was not passed: {died.stderr}"
    room.watch()
    assert room.names() == []
    files = room.names("done")
    assert len(files) == 4, files
    assert room.names("failed") == []
    history = History().of("laps")
    assert sorted(each.trigger for each in history) == ["file laps-1.json", "file laps-2.json"]
    for each in history:
        assert each.outcome == "done"
        assert sum(len(entry.slice) for entry in room.entries(each.replay_id)) == COUNT
        [beside] = (room.folder / "done").glob(f"*.{each.replay_id}.outcome.json")
        assert json.loads(beside.read_text())["proof"]["totals"]["written"] == COUNT

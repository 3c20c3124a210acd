"""Standbys as files: what is kept, what is refused, and who wins when two come at once."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from threading import Barrier, Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead import Replay, Span, Standby, files
from playhead.config.context import configure
from playhead.config.saved_servers import configuration_of, kept_servers, not_kept
from playhead.errors import PlayheadError, Refused, UsageError
from playhead.host.atomic_file import write_new, write_whole
from playhead.request import Request
from playhead.standby.create import make
from playhead.standby.history import NOT_RUN, History
from playhead.standby.runner import (
    OtherServers,
    RunHooks,
    StandbyBusy,
    held,
    is_held,
    plan,
    run,
)
from playhead.standby.store import (
    BadName,
    StandbyExists,
    Standbys,
    StandbyUnreadable,
    UnknownStandby,
)
from tests.unit.standbys import COUNT, Room, furnished, played

ROOT = Path(__file__).parents[2]
_HOLDER = """
import sys
from playhead.standby.runner import held
with held("laps"):
    print("held", flush=True)
    sys.stdin.read()
"""
PLAYED = RunHooks(play=played)
_ADDER = """
import sys
from playhead.request import Request
from playhead import Standby
from playhead.standby.store import StandbyExists, Standbys
made = 0
for number in range(20):
    standby = Standby(name=f"n{number}", request=Request(source="kafka:a", target=f"kafka:{sys.argv[1]}"))
    try:
        Standbys().add(standby)
        made += 1
    except StandbyExists:
        pass
print(made)
"""


@pytest.fixture(autouse=True)
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    """Servers, state and configuration of this test alone."""
    return furnished(tmp_path, monkeypatch)


def standby(name: str = "laps", **changes: str) -> Standby:
    given = {"source": "kafka:laps", "target": "postgres:laps"}
    return Standby(name=name, request=Request(**given), **changes)


# --- files


requests = st.builds(
    Request,
    source=st.sampled_from(["kafka:a", "kafka:/a.*/", "parquet:/x", "kafka://h:1/a"]),
    target=st.sampled_from(
        ["postgres:s.t", "kafka:b", "csv:s3://x/y", "postgresql://u@h/d?table=t"]
    ),
    lateness_ms=st.integers(0, 2**40),
    where=st.none() | st.text(),
    select=st.none() | st.text(),
    pace=st.sampled_from(["max", "2x", "5000/s"]),
    max_gap_ms=st.none() | st.integers(0, 2**40),
    key=st.lists(st.text(min_size=1), max_size=3).map(tuple),
    create=st.booleans(),
    headers=st.lists(st.text(), max_size=3).map(tuple),
)


@given(
    requests,
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,47}", fullmatch=True),
    st.dictionaries(st.sampled_from(["context", "database", "timezone"]), st.text()),
    st.none() | st.text(),
)
def test_what_is_kept_comes_back_as_it_was(request, name, servers, identity):
    kept = Standby(name=name, request=request, servers=servers, source_identity=identity)
    document = json.loads(json.dumps(kept.as_document()))
    assert Standby.from_document(document) == kept
    assert "span" not in document["request"]


def test_a_standby_is_a_file_of_the_configuration_that_its_owner_reads(tmp_path):
    Standbys().add(standby())
    [file] = (tmp_path / "config" / "playhead" / "standby").iterdir()
    assert file.name == "laps.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert Standbys().get("laps").request == standby().request
    assert Standbys().names() == ["laps"]
    Standbys().remove("laps")
    assert Standbys().names() == []


@pytest.mark.parametrize(
    "name", ["", "-a", "_a", "a.b", "a/b", "..", "ä", "a b", "a" * 49, "a\n", "a\0"]
)
def test_a_name_that_cannot_be_one(name):
    with pytest.raises(BadName, match="cannot be a standby's name"):
        standby(name)
    for look in (Standbys().get, Standbys().remove):
        with pytest.raises(UnknownStandby):
            look(name)


def test_a_name_that_is_taken_is_refused_unless_it_is_meant():
    Standbys().add(standby(source_identity="one"))
    with pytest.raises(StandbyExists, match="laps already exists") as caught:
        Standbys().add(standby(source_identity="two"))
    assert caught.value.exit_code == 6
    assert Standbys().get("laps").source_identity == "one"
    Standbys().add(standby(source_identity="two"), replace=True)
    assert Standbys().get("laps").source_identity == "two"
    assert list(Standbys().folder.glob(".*")) == []


def test_a_name_that_nobody_has_and_the_nearest_one():
    Standbys().add(standby("evening"))
    with pytest.raises(UnknownStandby, match="no standby 'evenign'") as caught:
        Standbys().get("evenign")
    assert caught.value.hint == "did you mean evening?"


GOOD = standby().as_document()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "Expecting value"),
        (b"{", "Expecting"),
        (b"\xff\xfe", "codec can't decode"),
        (b"[]", "indices must be"),
        (b"null", "not subscriptable"),
        (b"[" * 100_000, "recursion"),
        ({"version": 2}, "version 2; this Playhead knows 1"),
        ({"version": "1"}, "version '1'"),
        ({"name": "other"}, "it is of 'other'"),
        ({"name": 1}, "expected string"),
        ({"more": 1}, "unknown more"),
        ({"servers": []}, "needed names with texts"),
        ({"servers": {"a": 1}}, "needed names with texts"),
        ({"made_at_ms": "x"}, "a number of milliseconds"),
        ({"source_identity": 3}, "a text or null"),
        ({"request": {"source": "kafka:a"}}, "target"),
        ({"request": {"source": "kafka:a", "target": "b"}}, "names no system"),
        ({"request": GOOD["request"] | {"span": "a..b"}}, "must not have one"),
        ({"request": GOOD["request"] | {"lateness_ms": -1}}, "a number of milliseconds"),
        ({"request": 5}, "not iterable|argument"),
    ],
)
def test_a_damaged_file_is_named_and_hides_no_other(content, reason):
    Standbys().add(standby("other"))
    text = content if isinstance(content, bytes) else json.dumps(GOOD | content).encode()
    Standbys().file("laps").write_bytes(text)
    with pytest.raises(StandbyUnreadable, match=reason) as caught:
        Standbys().get("laps")
    assert str(Standbys().file("laps")) in str(caught.value)
    assert Standbys().get("other").name == "other"
    assert Standbys().names() == ["laps", "other"]
    Standbys().add(standby(), replace=True)
    assert Standbys().get("laps").request == standby().request


@pytest.mark.parametrize("field", [*GOOD, *(f"request.{name}" for name in ("source", "target"))])
def test_a_file_without_something_it_needs(field):
    document = json.loads(json.dumps(GOOD))
    inner, name = (document["request"], field[8:]) if "." in field else (document, field)
    del inner[name]
    Standbys().folder.mkdir(parents=True)
    Standbys().file("laps").write_text(json.dumps(document))
    with pytest.raises(StandbyUnreadable, match=name):
        Standbys().get("laps")


def test_of_two_processes_that_add_the_same_names_one_wins_each():
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    adders = [
        subprocess.Popen(
            [sys.executable, "-c", _ADDER, target],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        for target in ("x", "y")
    ]
    made = [int(each.communicate(timeout=60)[0]) for each in adders]
    assert sum(made) == 20
    found = [Standbys().get(name).request.target for name in Standbys().names()]
    assert [found.count(f"kafka:{target}") for target in ("x", "y")] == made


def test_whoever_dies_after_saving_has_saved_it():
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    died = subprocess.run(
        [sys.executable, "-c", _ADDER, "x"],
        env={**os.environ, "PYTHONPATH": path, "PLAYHEAD_ABORT_AT": "standby.saved#2"},
        timeout=60,
    )
    assert died.returncode == -signal.SIGKILL
    assert [Standbys().get(name).name for name in Standbys().names()] == ["n0", "n1"]


def test_whoever_reads_while_it_is_written_sees_one_or_the_other(tmp_path):
    file, begin, seen = tmp_path / "file", Barrier(2), set()
    texts = {"a" * 100_000, "b" * 200_000}
    write_new(file, "a" * 100_000)

    def look() -> None:
        begin.wait()
        for _ in range(200):
            seen.add(file.read_text())

    reader = Thread(target=look)
    reader.start()
    begin.wait()
    for _ in range(50):
        for text in texts:
            write_whole(file, text)
    reader.join()
    assert seen <= texts
    with pytest.raises(FileExistsError):
        write_new(file, "c")
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []


# --- making


def test_a_folder_is_kept_by_its_whole_path(room, tmp_path):
    request = Request(source="json:tape", target="json:copy")
    made = make("laps", request, configure({}))
    assert (made.request.source, made.request.target) == (f"json:{room.tape}", f"json:{room.copy}")
    s3 = Request(source="json:s3://bucket/tape", target="kafka:b")
    assert make("laps", s3, configure({"bootstrap_servers": "h:1"}), check=False).request == s3


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"where": "value:a ="}, None),
        ({"where": "(value:a"}, "is not closed"),
        ({"select": "value:a,"}, "no expression follows"),
        ({"pace": "fast"}, "pace"),
        ({"on_error": "ignore"}, "error"),
        ({"target": "json:tape"}, "into itself"),
        ({"source": "postgres:laps"}, "cannot be a source"),
    ],
)
def test_what_could_not_run_later_is_refused_at_once(room, changes, reason):
    asked = room.request(**{"source": "json:tape", "target": "json:copy", **changes})
    if reason is None:
        make("laps", asked, configure({}), check=False)  # only Spark knows that this is no SQL
        return
    with pytest.raises((UsageError, Refused), match=reason):
        make("laps", asked, configure({}), check=False)


def test_a_source_that_is_not_there_is_refused_unless_nobody_looks(room):
    asked = room.request(source="json:nowhere")
    with pytest.raises(PlayheadError, match="is not an archive"):
        make("laps", asked, configure({}))
    assert make("laps", asked, configure({}), check=False).source_identity is None


def contexts(tmp_path: Path, text: str) -> None:
    (tmp_path / "config" / "playhead").mkdir(parents=True, exist_ok=True)
    (tmp_path / "config" / "playhead" / "config.toml").write_text(text)


def test_a_context_is_kept_by_its_name_and_followed_when_it_changes(tmp_path):
    contexts(
        tmp_path, '[contexts.home]\nbootstrap_servers = "a:1"\ndatabase = "postgresql://u:pw@h/d"'
    )
    kept = kept_servers(configure({}, context="home"))
    assert kept == {"context": "home"}
    contexts(tmp_path, '[contexts.home]\nbootstrap_servers = "b:2"')
    assert configuration_of(kept).kafka().bootstrap_servers == "b:2"


def test_the_context_that_is_chosen_now_is_the_one_that_counts_later(tmp_path):
    contexts(
        tmp_path,
        '[contexts.home]\nbootstrap_servers = "a:1"\n[contexts.away]\nbootstrap_servers = "b:2"',
    )
    chosen = tmp_path / "config" / "playhead" / "current-context"
    chosen.write_text("home\n")
    kept = kept_servers(configure({}))
    chosen.write_text("away\n")
    assert configuration_of(kept).kafka().bootstrap_servers == "a:1"


def test_what_the_environment_says_is_kept_but_no_secret(monkeypatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "a:1")
    monkeypatch.setenv("DATABASE_URL", "postgresql://u:topsecret@h/d")
    sasl = ["sasl.mechanism=PLAIN", "sasl.username=u", "sasl.password=${PW}"]
    said = ["client.id=me", "security.protocol=SASL_SSL", *sasl]
    found = configure({}, assignments=said)
    kept = kept_servers(found)
    assert "topsecret" not in json.dumps(kept)
    assert not_kept(found, kept) == ["database"]
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "other:1")
    monkeypatch.setenv("PW", "x")
    again = configuration_of(kept)
    assert again.kafka().bootstrap_servers == "a:1"
    assert again.kafka_properties["client.id"].value == "me"
    monkeypatch.setenv("DATABASE_URL", "postgresql://u:${PW}@h/d")
    assert kept_servers(configure({}))["database"] == "postgresql://u:${PW}@h/d"


@pytest.mark.parametrize("before", ["", "//"])
@pytest.mark.parametrize("variable", ["DATABASE_URL", "SCHEMA_REGISTRY_URL", "SPARK_REMOTE"])
def test_no_login_is_kept_where_the_scheme_was_forgotten(monkeypatch, variable, before):
    monkeypatch.setenv(variable, f"{before}u:topsecret@h:1/d")
    found = configure({})
    kept = kept_servers(found)
    assert "topsecret" not in json.dumps(kept)
    assert len(not_kept(found, kept)) == 1


# --- running


def test_a_run_has_an_id_of_its_own_and_a_place_in_the_history(room):
    room.standby()
    first = run("laps", Span.parse("1970-01-01T00:00:01Z..1970-01-01T00:00:03Z"), face=PLAYED)
    second = run("laps", "t:0:4-5", trigger="rest", face=PLAYED)
    assert (first.total("written"), second.total("written")) == (2, 1)
    assert sorted(room.offsets()) == [1, 2, 4]
    assert first.replay_id.startswith("laps-")
    assert first.replay_id != second.replay_id
    rows = [each.as_row() for each in History().of("laps")]
    assert [(row["id"], row["trigger"], row["outcome"], row["written"]) for row in rows] == [
        (second.replay_id, "rest", "done", 1),
        (first.replay_id, "python", "done", 2),
    ]
    assert rows[0]["span"] == "t:0:4-5"
    assert History().of("other") == []


def test_a_run_that_came_to_nothing_is_in_the_history_with_its_reason(room):
    room.standby()
    with pytest.raises(Refused, match="partition holds 0-6"):
        run("laps", "t:0:4-99", face=PLAYED)
    [row] = [each.as_row() for each in History().of("laps")]
    assert (row["outcome"], row["planned"], row["written"]) == (NOT_RUN, None, None)
    assert "0-6" in row["error"]
    with pytest.raises(UnknownStandby):
        run("lap", "start..end", face=PLAYED)
    assert History().of("lap") == []


def test_a_run_whose_row_is_damaged_hides_no_other(room):
    room.standby()
    bad = run("laps", "t:0:1-2", face=PLAYED).replay_id
    good = run("laps", "t:0:2-3", face=PLAYED).replay_id
    history = History()
    with sqlite3.connect(history.file) as connection:
        connection.execute("UPDATE replays SET plan = 'x' WHERE id = ?", (bad,))
    connection.close()
    after, before = [each.as_row() for each in history.of("laps")]
    assert (after["id"], after["outcome"], after["error"]) == (good, "done", None)
    assert (before["id"], before["outcome"], before["written"]) == (bad, "unreadable", None)
    assert f"row of {bad} cannot be read" in before["error"]
    with sqlite3.connect(history.file) as connection:
        connection.execute("UPDATE replays SET proof = '[1]' WHERE id = ?", (good,))
    connection.close()
    assert [each.as_row()["written"] for each in history.of("laps")] == [None, None]
    with pytest.raises(UsageError, match="cannot be read"):
        run("laps", "t:0:1-2", replay_id=bad, face=PLAYED)


def test_one_run_at_a_time(room):
    room.standby()
    room.standby("other", target=f"json:{room.copy}-2")
    with held("laps"):
        assert is_held("laps")
        with pytest.raises(StandbyBusy, match=f"process {os.getpid()} on ") as caught:
            run("laps", "start..end", face=PLAYED)
        assert "--wait" in str(caught.value.hint)
        assert run("other", "start..end", face=PLAYED).total("written") == COUNT
    assert not is_held("laps")
    assert len(History().of("laps")) == 0


def test_who_waits_runs_when_the_other_has_ended(room):
    room.standby()
    asked = []
    first = held("laps")
    first.__enter__()

    def keep_waiting() -> bool:
        asked.append(True)
        first.__exit__(None, None, None)
        return True

    proof = run("laps", "start..end", face=RunHooks(play=played, keep_waiting=keep_waiting))
    assert (proof.total("written"), asked) == (COUNT, [True])


def test_the_turn_of_a_process_that_was_killed_is_over():
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StandbyBusy, match=f"process {holder.pid}"), held("laps"):
            raise AssertionError("held by two")
    finally:
        holder.kill()
        holder.communicate()
    with held("laps"):
        pass


def test_a_run_that_stopped_goes_on_by_its_own_plan(room):
    room.standby()

    def dies(planned):
        planned.journal.keep(planned.plan, planned.servers)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("laps", "t:0:1-3", replay_id="laps-1", face=RunHooks(play=dies))
    Standbys().remove("laps")  # what it is, its plan says
    proof = run("laps", "start..end", replay_id="laps-1", face=PLAYED)
    assert proof.total("planned") == 2
    [row] = [each.as_row() for each in History().of("laps")]
    assert (row["outcome"], row["error"], row["span"]) == ("done", None, "t:0:1-3")


def test_the_run_of_somebody_else_is_not_gone_on_with(room):
    room.standby()
    room.standby("other")
    run("other", "start..end", replay_id="other-1", face=PLAYED)
    with pytest.raises(Refused, match="other-1 was not started by standby laps"):
        run("laps", "start..end", replay_id="other-1", face=PLAYED)


def test_other_servers_than_it_was_made_for_are_refused(room, tmp_path):
    made = room.standby()
    room.tape.rename(tmp_path / "elsewhere")
    moved = Request(source=f"json:{tmp_path / 'elsewhere'}", target=made.request.target)
    identities = {"source_identity": made.source_identity, "target_identity": made.target_identity}
    Standbys().add(Standby(name="laps", request=moved, **identities), replace=True)
    with pytest.raises(OtherServers, match="was made for the source") as caught:
        run("laps", "start..end", face=PLAYED)
    assert str(made.source_identity) in str(caught.value)
    assert room.offsets() == []


@pytest.mark.slow  # the first of a run loads what a plan needs
@pytest.mark.parametrize(
    ("guard", "reason"), [("read_only", "is read-only"), ("production", "no name was given")]
)
def test_a_guard_of_the_context_holds_where_nobody_can_be_asked(room, tmp_path, guard, reason):
    contexts(tmp_path, f"[contexts.home]\n{guard} = true")
    asked = Standby(name="laps", request=room.request(), servers={"context": "home"})
    Standbys().add(asked)
    with pytest.raises(Refused, match=reason):
        run("laps", "start..end", face=PLAYED)
    assert room.offsets() == []

    face = RunHooks(play=lambda planned: planned.run(consent=str(room.copy)))
    if guard == "production":
        assert run("laps", "start..end", face=face).adds_up
        return
    with pytest.raises(Refused, match=reason):
        run("laps", "start..end", face=face)
    assert room.offsets() == []


def test_a_look_leaves_nothing_behind(room):
    made = room.standby()
    planned = plan(made, "t:0:1-3")
    assert planned.plan.planned == 2
    assert History().of("laps") == []
    assert History().get(planned.plan.replay_id) is None


def test_the_whole_story_in_python(room):
    replay = Replay(files(str(room.tape), form="json"), files(str(room.copy), form="json"))
    Standby.of("evening", replay).save()
    found = Standby.named("evening")
    assert found.plan("t:0:0-2").plan.planned == 2
    with pytest.raises(StandbyExists):
        found.save()
    found.save(replace=True)

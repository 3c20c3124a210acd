"""The journal: what it keeps, who runs now, and what happens to its file."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

from playhead import secrets
from playhead.errors import UsageError
from playhead.host.clock import SystemClock, wait_until
from playhead.plan import Plan
from playhead.replay import journal as module
from playhead.replay.journal import (
    DONE,
    FAILED,
    PLANNED,
    RUNNING,
    STOPPED,
    Journal,
    JournalBusy,
    JournalDamaged,
    UnknownReplay,
    on_unreadable,
)
from playhead.target import InUse
from tests.unit.replaying import partition_plan, plan_of

_HOLDER = """
import sys
from pathlib import Path
from playhead.replay.journal import Journal
with Journal(Path(sys.argv[1])).held(sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""
_WRITER = """
import sys
from pathlib import Path
from playhead.replay.journal import Journal, DONE, RUNNING
from tests.unit.replaying import partition_plan, plan_of
journal = Journal(Path(sys.argv[1]))
for number in range(20):
    replay_id = f"{sys.argv[2]}-{number}"
    journal.keep(plan_of(partition_plan(0, 5), replay_id=replay_id), {})
    journal.note(replay_id, RUNNING)
    journal.note(replay_id, DONE, proof={"number": number})
"""
ROOT = Path(__file__).parents[2]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "state")


def plan(replay_id: str, made_at_ms: int = 1) -> Plan:
    return plan_of(partition_plan(0, 5), replay_id=replay_id, made_at_ms=made_at_ms)


def python(code: str, *words: str) -> "subprocess.Popen[str]":
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    return subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


@pytest.fixture
def holder(journal):
    """Another process that runs replay `a`."""
    process = python(_HOLDER, str(journal.file.parent), "a")
    try:
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_plan_is_kept_as_it_is(journal):
    journal.keep(plan("a"), {"context": "home"})
    journal.keep(plan("a", made_at_ms=2), {"context": "away"})
    run = journal.get("a")
    assert (run.plan, run.servers, run.state) == (plan("a"), {"context": "home"}, PLANNED)
    assert (run.started_at_ms, run.ended_at_ms, run.error, run.proof) == (None,) * 4
    assert journal.get("b") is None


def test_states_come_one_after_the_other_and_a_proof_stays(journal):
    journal.keep(plan("a"), {})
    journal.note("a", DONE, proof={"adds_up": True})
    first = journal.get("a")
    assert (first.state, first.proof) == (DONE, {"adds_up": True})
    assert first.ended_at_ms is not None
    with journal.held("a"):
        journal.note("a", RUNNING)
        again = journal.get("a")
        assert (again.state, again.ended_at_ms) == (RUNNING, None)
        assert again.started_at_ms >= first.ended_at_ms
        journal.note("a", FAILED, error="no broker")
    last = journal.get("a")
    assert (last.state, last.error, last.proof) == (FAILED, "no broker", {"adds_up": True})
    journal.note_verification("a", {"agrees": True})
    assert journal.get("a").verification == {"agrees": True}


def test_an_error_is_kept_without_passwords(journal):
    secrets.remember("opensesame")
    journal.keep(plan("a"), {})
    journal.note("a", FAILED, error="no opensesame here")
    assert journal.find("a").error == f"no {secrets.HIDDEN} here"
    assert b"opensesame" not in journal.file.read_bytes()


def test_the_latest_stands_first(journal):
    for replay_id, made_at_ms in (("a", 1), ("c", 3), ("b", 2), ("d", 3)):
        journal.keep(plan(replay_id, made_at_ms), {})
    assert [run.replay_id for run in journal.runs()] == ["c", "d", "b", "a"]


def test_a_beginning_is_enough_where_it_is_one(journal):
    for replay_id in ("7f3a", "7f3b", "7f", "9_%"):
        journal.keep(plan(replay_id.replace("%", "x")), {})
    assert journal.find("7f3a").replay_id == "7f3a"
    assert journal.find("7f").replay_id == "7f"
    assert journal.find("9").replay_id == "9_x"
    with pytest.raises(UnknownReplay, match="several replays begin with '7f3'") as caught:
        journal.find("7f3")
    assert caught.value.candidates == ("7f3a", "7f3b")
    assert "7f3a, 7f3b" in caught.value.hint
    for unknown in ("x", "7F", "%", "_", "7f3ab"):
        with pytest.raises(UnknownReplay, match=f"no replay '{unknown}' here"):
            journal.find(unknown)


def test_an_empty_beginning_means_nobody(journal):
    journal.keep(plan("a"), {})
    with pytest.raises(UnknownReplay):
        journal.find("")


def test_one_damaged_plan_does_not_hide_the_others(journal):
    for replay_id in ("good", "bad"):
        journal.keep(plan(replay_id), {})
    with closing(sqlite3.connect(journal.file)) as connection, connection:
        connection.execute("UPDATE replays SET plan = 'x' WHERE id = 'bad'")
    assert journal.find("go").replay_id == "good"


# --- who runs


def test_a_second_run_is_refused_and_told_who_runs(journal, holder):
    with pytest.raises(InUse, match=f"process {holder.pid} on "), journal.held("a"):
        raise AssertionError("held by two")
    assert journal.is_held("a")
    assert not journal.is_held("b")
    with journal.held("b"):
        pass


def test_two_in_one_process_are_two(journal):
    with journal.held("a"), pytest.raises(InUse), journal.held("a"):
        raise AssertionError("held by two")
    with journal.held("a"):
        pass


def test_a_run_whose_process_died_is_stopped_and_can_run_again(journal, holder):
    journal.keep(plan("a"), {})
    journal.note("a", RUNNING)
    assert journal.get("a").state == RUNNING
    holder.kill()
    holder.wait()
    assert (journal.get("a").state, journal.is_held("a")) == (STOPPED, False)
    assert [run.state for run in journal.runs()] == [STOPPED]
    with journal.held("a"):
        assert journal.get("a").state == RUNNING


def test_asking_to_stop_leaves_a_file_that_goes_with_the_run(journal):
    assert not journal.ask_to_stop("a")
    assert not journal.stop_file("a").exists()
    with journal.held("a"):
        assert journal.ask_to_stop("a")
        assert journal.stop_file("a").exists()
    assert not journal.stop_file("a").exists()


def test_a_request_of_an_earlier_run_does_not_stop_the_next(journal):
    with journal.held("a"):
        pass
    journal.stop_file("a").touch()
    with journal.held("a"):
        assert not journal.stop_file("a").exists()


def test_who_only_looks_keeps_nobody_out(journal):
    with journal.held("a"):
        pass
    stop, looks = [], []

    def look() -> None:
        while not stop:
            looks.append(journal.is_held("b"))

    threads = [Thread(target=look) for _ in range(3)]
    with journal.held("b"):
        pass
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            with journal.held("b"):
                pass
    finally:
        stop.append(True)
        for thread in threads:
            thread.join()
    assert looks


# --- the file


def test_only_its_owner_reads_it(journal):
    before = os.umask(0)
    try:
        journal.runs()
    finally:
        os.umask(before)
    assert journal.file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"not a database, at all\n" * 100, b"SQLite format 3\0" * 50])
def test_a_file_that_is_no_journal_is_named(journal, content):
    journal.file.parent.mkdir()
    journal.file.write_bytes(content)
    with pytest.raises(JournalDamaged, match=str(journal.file)) as caught:
        journal.runs()
    assert "move it away" in caught.value.hint
    assert journal.file.read_bytes() == content


def test_a_journal_is_not_moved_away_because_the_disk_is_full(journal, monkeypatch):
    monkeypatch.setattr(module, "_SCHEMA", f"PRAGMA max_page_count = 1; {module._SCHEMA}")
    with pytest.raises(JournalDamaged, match="disk is full") as caught:
        journal.runs()
    assert caught.value.hint.startswith("free some space")


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(JournalDamaged, match="Not a directory"):
        Journal(tmp_path / "file").runs()


def test_a_journal_that_another_keeps_to_itself_is_not_called_damaged(journal, monkeypatch):
    monkeypatch.setattr(module, "_WAIT_FOR_LOCK_S", 0.05)
    journal.runs()
    other = sqlite3.connect(journal.file, isolation_level=None)
    try:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(JournalBusy, match="another process has locked") as caught:
            journal.keep(plan("a"), {})
        assert "move" not in caught.value.hint
    finally:
        other.close()


def test_two_processes_write_at_once(journal):
    """The first to come make the file, at the same time."""
    writers = [python(_WRITER, str(journal.file.parent), name) for name in ("x", "y")]
    try:
        is_over = wait_until(
            lambda: all(each.poll() is not None for each in writers),
            deadline_s=60,
            clock=SystemClock(),
            every_s=0.05,
        )
        assert is_over
        assert [each.returncode for each in writers] == [0, 0]
    finally:
        for each in writers:
            each.kill()
            each.communicate()
    runs = journal.runs()
    assert len(runs) == 40
    assert {(run.state, run.proof["number"]) for run in runs} == {(DONE, n) for n in range(20)}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("plan", "{}"),
        ("servers", "{"),
        ("proof", "no JSON"),
        ("proof", "[" * 100_000),
        ("proof", "[1]"),
        ("made_at_ms", "yesterday"),
        ("ended_at_ms", 1.5),
        ("error", b"bytes"),
    ],
)
def test_a_row_that_cannot_be_read_is_left_out_and_named(journal, column, value):
    for replay_id in ("a", "b", "c"):
        journal.keep(plan(replay_id), {})
    with closing(sqlite3.connect(journal.file)) as connection, connection:
        connection.execute(f"UPDATE replays SET {column} = ? WHERE id = 'b'", (value,))
    unreadable: list[str] = []
    assert [run.replay_id for run in journal.runs(unreadable=unreadable)] == ["a", "c"]
    assert unreadable == ["b"]
    [note] = on_unreadable(unreadable)
    assert note.text == "this machine's journal has 1 run that cannot be read, left out here: b"
    assert on_unreadable([]) == []
    with pytest.raises(UsageError, match="of b"):
        journal.get("b")


def test_a_pipe_in_the_place_of_the_journal_keeps_nobody_waiting(journal: Journal) -> None:
    journal.file.parent.mkdir()
    os.mkfifo(journal.file)
    failed: list[BaseException] = []

    def look() -> None:
        try:
            journal.ids()
        except JournalDamaged as exc:
            failed.append(exc)

    looking = Thread(target=look, daemon=True)
    looking.start()
    looking.join(10)
    assert [str(each).endswith("it is not a regular file") for each in failed] == [True]


def test_a_thread_that_looks_leaves_the_locks_of_another_one(journal: Journal) -> None:
    """Whoever closes a file loses all locks on it, also those that SQLite holds in another thread."""
    journal.ids()
    code = (
        "import sqlite3, sys; link = sqlite3.connect(sys.argv[1], timeout=0); "
        "link.execute('BEGIN IMMEDIATE')"
    )
    with closing(sqlite3.connect(journal.file)) as writing:
        writing.execute("BEGIN IMMEDIATE")
        looking = Thread(target=journal.ids)
        looking.start()
        looking.join(20)
        asked = [sys.executable, "-c", code, str(journal.file)]
        other = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert "database is locked" in other.stderr

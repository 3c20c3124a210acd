"""A server is known by pid, start time and marker, and nothing else is ever taken for it or killed."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from playhead.errors import SandboxError, ServerDidNotStart
from playhead.host.clock import SystemClock, wait_until
from playhead.sandbox import process as module
from playhead.sandbox.process import Server, User, await_server, environment, run_to_end, tail
from tests.fix_strangers import NEEDS_A_STRANGER

DEAF = 'trap "" TERM; echo deaf; while :; do sleep 0.05; done'


def eventually(probe: Callable[[], object]) -> None:
    assert wait_until(probe, deadline_s=10, clock=SystemClock(), every_s=0.005), "not in time"


@pytest.fixture
def server(tmp_path):
    (tmp_path / "own").mkdir()
    server = Server("sleeper", tmp_path / "own", f"marker-{uuid.uuid4().hex}")
    yield server
    server.stop(graceful=signal.SIGKILL, patience_s=5)


def spawn(server: Server, script: str) -> "subprocess.Popen[bytes]":
    """A shell that runs the script and has the server's marker among its words; no `exec` in it."""
    process = server.spawn(["/bin/sh", "-c", f"{script} # {server.marker}"])
    eventually(server.pid)
    return process


@pytest.fixture
def sleeping(server):
    """`/bin/sleep` itself, with a marker that is its own argument."""
    seconds = f"600.{uuid.uuid4().int % 10**12}"
    sleeper = Server("sleeper", server.directory, seconds)
    process = sleeper.spawn(["/bin/sleep", seconds])
    # The shell before it has the marker, too, and while it becomes `sleep` no command line can be read.
    eventually(lambda: module._command_line(process.pid)[:1] == ["/bin/sleep"])
    assert sleeper.pid() == process.pid
    yield sleeper, process
    process.kill()
    process.wait(10)


def is_alive(process: "subprocess.Popen[bytes]") -> bool:
    return process.poll() is None


def noted(server: Server) -> list[str]:
    return server.pid_file.read_text().splitlines()


def test_another_command_knows_the_process(sleeping):
    sleeper, process = sleeping
    other = Server("sleeper", sleeper.directory, sleeper.marker)
    assert other.pid() == process.pid


def test_the_process_is_in_a_session_of_its_own(sleeping):
    _, process = sleeping
    assert os.getsid(process.pid) == process.pid


def test_without_a_pid_file_there_is_none(server):
    assert server.pid() is None


@pytest.mark.parametrize(
    "text", ["", "\n", "x\n", "12", "-1\n1", "0\n1", "1\n)", "1\n(sh) S 1", "999999999\n5\n"]
)
def test_a_torn_pid_file_means_none_and_is_cleared_away(server, text):
    server.pid_file.write_text(text)
    assert server.pid() is None
    assert server.stop(graceful=signal.SIGTERM, patience_s=1) is False
    assert not server.pid_file.exists()


def test_the_pid_file_of_a_dead_process_is_stale(sleeping):
    sleeper, process = sleeping
    process.kill()
    process.wait(10)
    assert sleeper.pid_file.exists()
    assert sleeper.pid() is None


def test_a_zombie_is_not_alive(sleeping):
    sleeper, process = sleeping
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert sleeper.pid() is None


def test_a_recycled_pid_is_not_ours_and_is_left_alone(sleeping):
    sleeper, process = sleeping
    start = module._start_time(process.pid)
    assert start
    sleeper.pid_file.write_text(f"{process.pid}\n{int(start) - 1}\n")
    assert sleeper.pid() is None
    assert sleeper.stop(graceful=signal.SIGKILL, patience_s=1) is False
    assert is_alive(process)


def test_a_process_without_our_marker_is_not_ours_and_is_left_alone(sleeping):
    sleeper, process = sleeping
    stranger = Server("other", sleeper.directory, "another marker")
    assert stranger.pid() is None
    assert stranger.stop(graceful=signal.SIGKILL, patience_s=1) is False
    assert is_alive(process)


@NEEDS_A_STRANGER
def test_a_process_of_another_user_is_not_the_servers_and_is_left_alone(sleeping):
    """A note that the servers' user has forged names a process of root's with all the right signs."""
    sleeper, process = sleeping
    forged = replace(sleeper, user=User("nobody", 65_534, 65_534))
    assert sleeper.pid() == process.pid
    assert forged.pid() is None
    assert forged.stop(graceful=signal.SIGKILL, patience_s=1) is False
    forged.end_strays()
    assert is_alive(process)


@NEEDS_A_STRANGER
def test_a_process_of_another_user_with_our_marker_keeps_nobody_waiting(server):
    """Another user can start hundreds, each of which a start would await for ten seconds."""
    words = ["java", "-c", "read line", server.marker]
    stranger = subprocess.Popen(words, executable="/bin/sh", stdin=subprocess.PIPE)
    try:
        forged = replace(server, user=User("nobody", 65_534, 65_534))
        began = time.monotonic()
        forged.end_strays()
        assert time.monotonic() - began < 5
        assert is_alive(stranger)
    finally:
        stranger.communicate()


def test_a_note_that_is_a_link_or_a_pipe_is_none(server, tmp_path):
    (tmp_path / "elsewhere").write_text("1\n1\n")
    server.pid_file.symlink_to(tmp_path / "elsewhere")
    assert server.pid() is None
    server.pid_file.unlink()
    os.mkfifo(server.pid_file)
    assert server.pid() is None


def test_the_start_time_alone_is_understood_too(sleeping):
    sleeper, process = sleeping
    sleeper.pid_file.write_text(f"{process.pid}\n{module._start_time(process.pid)}\n")
    assert sleeper.pid() == process.pid


def test_the_notes_are_the_kernels(sleeping):
    sleeper, process = sleeping
    pid, stat = noted(sleeper)
    assert int(pid) == process.pid
    assert module._field_of_stat(stat) == module._start_time(process.pid)


def test_a_name_with_blanks_and_brackets_does_not_confuse_the_start_time():
    fields = " ".join(str(number) for number in range(3, 53))
    assert module._field_of_stat(f"12 (a) b (c) {fields}") == "22"


def test_a_polite_request_is_enough_for_most(sleeping):
    sleeper, process = sleeping
    assert sleeper.stop(graceful=signal.SIGTERM, patience_s=10) is True
    assert sleeper.pid() is None
    assert not sleeper.pid_file.exists()
    assert process.wait(10) in (-signal.SIGTERM, 0)  # 0: already reaped by stop


def test_the_graceful_signal_is_the_one_that_was_asked_for(server):
    spawn(server, "trap 'echo INT; exit' INT; echo ready; while :; do sleep 0.05; done")
    eventually(lambda: "ready" in server.output.read_text())
    assert server.stop(graceful=signal.SIGINT, patience_s=10)
    assert server.output.read_text().splitlines() == ["ready", "INT"]


def test_who_does_not_listen_is_killed(server):
    process = spawn(server, DEAF)
    eventually(lambda: "deaf" in server.output.read_text())
    assert server.stop(graceful=signal.SIGTERM, patience_s=0.1) is True
    assert server.pid() is None
    process.wait(10)


def test_stopping_twice_stops_once(sleeping):
    sleeper, _ = sleeping
    assert sleeper.stop(graceful=signal.SIGTERM, patience_s=10) is True
    assert sleeper.stop(graceful=signal.SIGTERM, patience_s=10) is False


def test_a_process_that_is_not_our_child_is_stopped_too(server):
    """Started by one command, stopped by another."""
    program = (
        "import os, sys; from pathlib import Path; from playhead.sandbox.process import Server;"
        "Server('sleeper', Path(sys.argv[1]), sys.argv[2]).spawn("
        "['/bin/sh', '-c', 'while :; do sleep 0.05; done # ' + sys.argv[2]])"
    )
    source_folder = Path(module.__file__).parents[2]
    subprocess.run(
        [sys.executable, "-c", program, str(server.directory), server.marker],
        env=os.environ | {"PYTHONPATH": str(source_folder)},
        check=True,
        timeout=20,
    )
    eventually(server.pid)
    assert server.stop(graceful=signal.SIGTERM, patience_s=10) is True
    assert server.pid() is None


def test_what_it_printed_is_kept_after_its_end(server):
    process = spawn(server, "echo out; echo err >&2; while :; do sleep 0.05; done")
    eventually(lambda: "err" in server.output.read_text())
    server.stop(graceful=signal.SIGTERM, patience_s=10)
    process.wait(10)
    assert server.output.read_text().splitlines()[:2] == ["out", "err"]


def test_its_files_are_its_own(sleeping):
    server, process = sleeping
    assert server.output.stat().st_mode & 0o777 == 0o600
    assert server.pid_file.stat().st_mode & 0o077 == 0
    assert Path(f"/proc/{process.pid}/cwd").readlink() == server.directory


def test_a_server_gets_nothing_of_our_environment_that_could_change_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PGPASSWORD", "x")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "x")
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.delenv("TMPDIR", raising=False)
    assert environment(tmp_path) == {"PATH": "/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}


def test_a_program_that_fails_says_so_with_its_last_lines(tmp_path):
    command = ["/bin/sh", "-c", "echo much; echo the reason >&2; echo more; echo tidying; exit 3"]
    with pytest.raises(SandboxError, match="initdb failed: the reason; more; tidying"):
        run_to_end("initdb", command, directory=tmp_path, user=None)
    with pytest.raises(SandboxError, match="initdb failed: status 4"):
        run_to_end("initdb", ["/bin/sh", "-c", "exit 4"], directory=tmp_path, user=None)
    run_to_end("initdb", ["/bin/sh", "-c", "echo fine"], directory=tmp_path, user=None)


def test_a_program_that_does_not_end_in_time_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_PREPARED_WITHIN_S", 0.2)
    with pytest.raises(SandboxError, match=r"initdb did not end within 0\.2 s"):
        run_to_end("initdb", ["/bin/sleep", "60"], directory=tmp_path, user=None)


def test_waiting_ends_when_the_server_is_ready(sleeping):
    server, process = sleeping
    answers = iter([False, False, True])
    awaited = SimpleNamespace(title="Sleeper", log=server.output)
    await_server(awaited, process, lambda: next(answers))
    assert next(answers, None) is None


def test_waiting_ends_when_the_server_does_and_shows_its_log(tmp_path):
    log = tmp_path / "log"
    log.write_text("one\ntwo\n")
    with subprocess.Popen(["/bin/sh", "-c", "exit 7"]) as process:
        awaited = SimpleNamespace(title="Sleeper", log=log)
        with pytest.raises(ServerDidNotStart, match="status 7\n    one\n    two"):
            await_server(awaited, process, lambda: False)


def test_waiting_ends_at_its_deadline(sleeping, monkeypatch):
    server, process = sleeping
    monkeypatch.setattr(module, "_READY_WITHIN_S", 0.1)
    awaited = SimpleNamespace(title="Sleeper", log=server.directory / "none")
    with pytest.raises(ServerDidNotStart, match=r"no answer within 0\.1 s"):
        await_server(awaited, process, lambda: False)


def test_the_tail_is_the_last_lines(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"".join(b"line %d\n" % number for number in range(40)) + b"\xff\n")
    assert tail(log, 3) == ["line 38", "line 39", "\ufffd"]
    assert len(tail(log)) == 15
    assert tail(tmp_path / "none") == []

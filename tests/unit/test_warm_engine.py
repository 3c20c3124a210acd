"""The doors of the warm engine: who gets in, what is handed over, and what never is."""

import fcntl
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import ModuleType

import pytest

from playhead import references
from playhead.cli.warm import client, handover, priority
from playhead.cli.warm.handover import Asked, KeepsToItself
from playhead.errors import Refused, RunsAlone
from playhead.host import local_socket
from playhead.host.local_socket import Gone
from playhead.spark import attached
from tests.fix_commands import Playhead
from tests.fix_strangers import NEEDS_A_STRANGER, STRANGER, as_stranger

WORDS = ["replay", "kafka:laps", "postgres:laps", "--yes"]
CONNECT = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.recv(1)"


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment in which a command may be handed over."""
    for name in list(os.environ):
        if handover._KEPT.fullmatch(name) or name.startswith("AWS_"):
            monkeypatch.delenv(name)
    return monkeypatch


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "engine"
    path.mkdir(mode=0o700)
    return path


# --- the socket


def test_the_socket_is_its_owners_alone_whatever_the_umask(folder):
    before = os.umask(0)
    try:
        with local_socket.private_folder(folder, make=True) as handle:
            local_socket.listening(handle, folder).close()
    finally:
        os.umask(before)
    status = (folder / local_socket.SOCKET).lstat()
    assert stat.S_IMODE(status.st_mode) & 0o077 == 0
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_folder_that_others_can_enter_is_refused(folder):
    folder.chmod(0o750)
    with (
        pytest.raises(Refused, match="others can enter"),
        local_socket.private_folder(folder, make=False),
    ):
        pass


def test_a_link_in_the_folders_place_is_refused(folder, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(folder)
    with pytest.raises(OSError), local_socket.private_folder(link, make=False):
        pass


@NEEDS_A_STRANGER
def test_a_strangers_folder_is_refused(folder):
    os.chown(folder, STRANGER.pw_uid, STRANGER.pw_gid)
    with (
        pytest.raises(Refused, match="belongs to user"),
        local_socket.private_folder(folder, make=False),
    ):
        pass


@NEEDS_A_STRANGER
def test_a_socket_that_a_stranger_has_put_there_is_refused(folder):
    with local_socket.private_folder(folder, make=False) as handle:
        listener = local_socket.listening(handle, folder)
        os.chown(folder / local_socket.SOCKET, STRANGER.pw_uid, STRANGER.pw_gid)
        with listener, pytest.raises(Refused, match="another user created what is in its place"):
            local_socket.connected(handle, folder, within_s=1)


@NEEDS_A_STRANGER
def test_a_stranger_who_connects_is_known_by_the_kernels_word():
    with tempfile.TemporaryDirectory() as open_folder, socket.socket(socket.AF_UNIX) as listener:
        path = Path(open_folder) / "open"
        path.parent.chmod(0o755)
        listener.bind(str(path))
        path.chmod(0o777)
        listener.listen()
        listener.settimeout(15)
        command = ("/usr/bin/python3", "-c", CONNECT, str(path))
        thread = threading.Thread(target=as_stranger, args=command)
        thread.start()
        connection, _ = listener.accept()
        with connection, pytest.raises(Refused, match=f"user {STRANGER.pw_uid}"):
            local_socket.need_own(connection, path)
        thread.join()


def test_a_socket_that_a_dead_engine_left_is_nobody_and_is_replaced(folder):
    with local_socket.private_folder(folder, make=False) as handle:
        local_socket.listening(handle, folder).close()
        assert local_socket.connected(handle, folder, within_s=1) is None
        with local_socket.listening(handle, folder):
            connection = local_socket.connected(handle, folder, within_s=1)
            assert connection is not None
            assert local_socket.peer(connection) == (os.getpid(), os.geteuid())
            connection.close()


def test_a_long_path_is_no_matter(tmp_path):
    deep = tmp_path / ("a" * 100) / ("b" * 100)
    with (
        local_socket.private_folder(deep, make=True) as handle,
        local_socket.listening(handle, deep),
    ):
        connection = local_socket.connected(handle, deep, within_s=1)
        assert connection is not None
        connection.close()


def test_frames_arrive_whole_with_their_handles(tmp_path):
    ours, theirs = socket.socketpair()
    content = bytes(range(256)) * 40_000
    with ours, theirs, (tmp_path / "file").open("w+") as file:
        sending = threading.Thread(
            target=local_socket.send, args=(ours, b"C", content, [file.fileno()])
        )
        sending.start()
        kind, received, handles = local_socket.receive_handles(theirs, 4)
        sending.join()
        assert (kind, received) == (b"C", content)
        assert os.path.samestat(os.fstat(handles[0]), os.fstat(file.fileno()))
        os.close(handles[0])


def test_an_end_that_is_gone_is_said_and_not_waited_for():
    ours, theirs = socket.socketpair()
    ours.sendall(b"C\0\0")
    ours.close()
    with theirs, pytest.raises(Gone):
        local_socket.receive(theirs)


# --- what is handed over


def test_no_secret_is_handed_over(clean):
    clean.setenv("MY_PASSWORD", "hunter2-hunter2")
    clean.setenv("NO_COLOR", "1")
    asked = handover.asked(WORDS)
    assert b"hunter2" not in asked.as_bytes()
    assert asked.variables["NO_COLOR"] == "1"
    assert Asked.of_bytes(asked.as_bytes()) == asked


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "postgresql://u:hunter2-hunter2@h/d"),
        ("SCHEMA_REGISTRY_URL", "https://u:hunter2-hunter2@h"),
        ("HTTPS_PROXY", "http://u:hunter2-hunter2@proxy:3128"),
        ("KAFKA_BOOTSTRAP_SERVERS", "${BROKERS}"),
        ("PGPASSWORD", "hunter2-hunter2"),
        ("PGSERVICE", "mine"),
        ("LD_PRELOAD", "/lib/x.so"),
        ("PYTHONPATH", "/somewhere"),
        ("HOSTALIASES", "/names"),
        ("PLAYHEAD_ABORT_AT", "x"),
    ],
)
def test_who_has_it_only_in_his_environment_runs_alone_and_says_so(clean, name, value):
    clean.setenv(name, value)
    with pytest.raises(KeepsToItself) as kept:
        handover.asked(WORDS)
    assert name in str(kept.value.reason)
    assert "hunter2" not in str(kept.value.reason)


def test_what_pyspark_writes_into_the_process_of_a_session_is_of_no_command(clean):
    clean.setenv("SPARK_AUTH_SOCKET_TIMEOUT", "15")
    clean.setenv("SPARK_BUFFER_SIZE", "65536")
    assert not {name for name in handover.asked(WORDS).variables if name.startswith("SPARK_")}


@pytest.mark.parametrize(
    "words",
    [
        ["--database", "postgresql://u:hunter2-hunter2@h/d"],
        ["-X", "sasl.password=hunter2"],
        ["-Xssl.key.password=hunter2"],
        ["--schema-registry=https://u:hunter2-hunter2@h"],
    ],
)
def test_who_has_it_on_his_command_line_runs_alone_and_says_so(clean, words):
    with pytest.raises(KeepsToItself, match="command line"):
        handover.asked([*WORDS, *words])


def test_a_long_word_is_looked_through_for_a_secret_in_a_moment(clean):
    started = time.process_time()
    handover.asked([*WORDS, "--where", "ssl.key" * 20_000, "password" * 20_000])
    assert time.process_time() - started < 2


def test_a_server_that_is_named_without_a_secret_is_handed_over(clean):
    clean.setenv("DATABASE_URL", "postgresql://reader@db/laps")
    clean.setenv("KAFKA_BOOTSTRAP_SERVERS", "kafka:9092")
    asked = handover.asked([*WORDS, "-X", "sasl.password=file:/run/secrets/kafka"])
    assert asked.variables["DATABASE_URL"] == "postgresql://reader@db/laps"
    assert asked.variables["KAFKA_BOOTSTRAP_SERVERS"] == "kafka:9092"


@pytest.mark.parametrize("words", [["--master", "local[2]"], ["--spark-remote=sc://h"], ["--help"]])
def test_who_names_an_engine_has_it_and_nothing_is_said(clean, words):
    with pytest.raises(KeepsToItself) as kept:
        handover.asked([*WORDS, *words])
    assert kept.value.reason is None


def test_credentials_of_s3_keep_only_what_may_be_of_s3(clean):
    clean.setenv("AWS_PROFILE", "mine")
    handover.asked(WORDS)
    for words in (["replay", "kafka:laps", "s3://bucket/laps"], ["resume", "ab12"]):
        with pytest.raises(KeepsToItself, match="AWS_PROFILE"):
            handover.asked(words)


def test_the_engine_is_started_with_a_short_list(clean):
    clean.setenv("MY_PASSWORD", "hunter2-hunter2")
    clean.setenv("HTTP_PROXY", "http://u:hunter2-hunter2@proxy")
    clean.setenv("DATABASE_URL", "postgresql://reader@db/laps")
    environment = handover.engine_environment()
    assert set(environment) <= set(handover._STARTED_WITH)
    assert "hunter2" not in repr(environment)


@pytest.mark.parametrize(
    ("words", "value", "is_wanted"),
    [
        ([], "on", True),
        ([], "off", False),
        ([], "", True),
        (["--warm"], "off", True),
        (["--no-warm"], "on", False),
        (["--no-warm"], "", False),
        (["--no-warm", "--warm"], "off", True),
    ],
)
def test_the_command_line_counts_before_the_environment(monkeypatch, words, value, is_wanted):
    monkeypatch.setenv(handover.SWITCH, value)
    assert handover.is_wanted([*WORDS, *words]) == is_wanted


def test_a_command_with_other_variables_than_the_engine_names_them(clean):
    clean.setenv("JAVA_HOME", "/one/java")
    of_engine = handover.surroundings()
    handover.refuse_other_surroundings(of_engine)
    clean.setenv("PATH", "/elsewhere")  # has no part in it
    handover.refuse_other_surroundings(of_engine)
    clean.setenv("JAVA_HOME", "/another/java")
    clean.setenv("no_proxy", "localhost")
    with pytest.raises(KeepsToItself, match="it differs from the engine in JAVA_HOME, no_proxy "):
        handover.refuse_other_surroundings(of_engine)
    for greeting in (None, [], "x"):
        with pytest.raises(KeepsToItself, match="user and groups"):
            handover.refuse_other_surroundings(greeting)


def test_the_code_changes_with_any_file_of_playhead(clean, tmp_path):
    before = handover.code()
    assert handover.code() == before
    folder = tmp_path / "playhead"
    folder.mkdir()
    clean.setattr(handover, "__file__", str(folder / "cli" / "warm" / "handover.py"))
    empty = handover.code()
    (folder / "new.py").touch()
    assert len({before, empty, handover.code()}) == 3


# --- the command


def test_an_engine_that_starts_has_the_lock_and_its_process_number_in_it(clean, tmp_path):
    clean.setenv("XDG_STATE_HOME", str(tmp_path))
    assert client.starting() is None
    with local_socket.private_folder(handover.folder(), make=True):
        lock = (handover.folder() / handover.LOCK).open("w+b")
        with lock:
            assert client.starting() is None
            fcntl.flock(lock, fcntl.LOCK_EX)
            assert client.starting() == 0
            lock.write(b"4711")
            lock.flush()
            assert client.starting() == 4711
    assert client.starting() is None


def test_a_pipe_in_the_place_of_the_lock_keeps_nobody_waiting(clean, tmp_path):
    clean.setenv("XDG_STATE_HOME", str(tmp_path))
    with local_socket.private_folder(handover.folder(), make=True):
        os.mkfifo(handover.folder() / handover.LOCK)
    found: list[object] = []
    looking = threading.Thread(target=lambda: found.append(client.starting()), daemon=True)
    looking.start()
    looking.join(10)
    assert found == [None]


@pytest.mark.skipif(not priority._may_give_back(), reason="needs CAP_SYS_NICE or RLIMIT_NICE")
def test_an_engine_that_starts_in_the_background_is_hurried_by_who_waits_for_it(clean, tmp_path):
    """On a busy machine it would get no processor time until that command gave up."""
    clean.setenv("XDG_STATE_HOME", str(tmp_path))
    program = (
        "import os, subprocess; os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0)); "
        "below = subprocess.Popen(['sleep', '60']); print(below.pid, flush=True); below.wait()"
    )
    command = [sys.executable, "-c", program]
    with (
        local_socket.private_folder(handover.folder(), make=True),
        (handover.folder() / handover.LOCK).open("w+b") as lock,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as starting,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(b"%d" % starting.pid)
        lock.flush()
        below = int(starting.stdout.readline())
        classes = lambda: [os.sched_getscheduler(pid) for pid in (starting.pid, below)]  # noqa: E731
        try:
            assert client.start_engine(at_once=True).process is None
            assert classes() == [os.SCHED_IDLE] * 2
            client.hurry()
            assert classes() == [os.SCHED_OTHER] * 2
        finally:
            os.kill(below, signal.SIGKILL)


@pytest.mark.parametrize("act", ["status", "stop"])
def test_an_engine_that_runs_and_does_not_answer_is_left_alone(playhead: Playhead, tmp_path, act):
    path = tmp_path / "playhead" / handover.FOLDER
    path.mkdir(parents=True, mode=0o700)
    with (path / handover.LOCK).open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = playhead("engine", act, XDG_STATE_HOME=str(tmp_path))
    assert "an engine runs, but does not answer within 3 s" in done.stderr
    assert done.returncode == (1 if act == "status" else 0)


@pytest.mark.parametrize("act", ["status", "start"])
def test_a_wrong_idle_time_is_refused(playhead: Playhead, tmp_path, act):
    done = playhead("engine", act, PLAYHEAD_ENGINE_IDLE="5q", XDG_STATE_HOME=str(tmp_path))
    assert done.returncode == 2
    assert "5q" in done.stderr


def test_without_an_engine_the_command_runs_here(playhead: Playhead, tmp_path):
    done = playhead(
        "runs", "--limit", "1", PLAYHEAD_WARM="on", XDG_STATE_HOME=str(tmp_path / "state")
    )
    assert done.returncode == 0
    status = playhead("engine", "status", XDG_STATE_HOME=str(tmp_path / "state"))
    assert status.returncode == 1
    assert "no engine runs" in status.stderr
    assert playhead("engine", "stop", XDG_STATE_HOME=str(tmp_path / "state")).returncode == 0


def test_a_socket_that_greets_as_another_version_is_asked_to_end(clean, tmp_path):
    clean.setenv("XDG_STATE_HOME", str(tmp_path))
    path = handover.folder()
    heard = []
    with (
        local_socket.private_folder(path, make=True) as handle,
        local_socket.listening(handle, path) as listener,
    ):

        def greet() -> None:
            connection, _ = listener.accept()
            with connection:
                local_socket.send(connection, client.HELLO, b'{"code": "another"}')
                heard.append(local_socket.receive(connection)[0])

        thread = threading.Thread(target=greet)
        thread.start()
        assert client._connection() is None
        thread.join()
    assert heard == [client.STOP]


@pytest.mark.parametrize(
    "greeting",
    [b"[]", b"5", b'"x"', b"null", b"{", b'{"pid": "1"}', b'{"pid": null}', b'{"pid": 1e30}', b'{"jvm": -1}',
     b'{"idle_s": NaN}', b'{"started_ms": 1e20}', b"[" * 100_000, b"\xff"],
)  # fmt: skip
def test_who_greets_as_no_engine_does_is_none(clean, tmp_path, greeting):
    clean.setenv("XDG_STATE_HOME", str(tmp_path))
    path = handover.folder()
    with (
        local_socket.private_folder(path, make=True) as handle,
        local_socket.listening(handle, path) as listener,
    ):

        def greet() -> None:
            connection, _ = listener.accept()
            with connection:
                local_socket.send(connection, client.HELLO, greeting)

        thread = threading.Thread(target=greet)
        thread.start()
        assert client.greeted() is None
        thread.join()


def test_a_reference_that_the_engine_cannot_follow_ends_the_command_there(monkeypatch):

    def elsewhere(reason: str) -> None:
        raise RunsAlone(reason)

    monkeypatch.setattr(references, "ask_elsewhere", elsewhere)
    with pytest.raises(RunsAlone, match="KAFKA_SECRET"):
        references.resolve("${KAFKA_SECRET}", key="sasl.password", where="context prod")
    with pytest.raises(RunsAlone, match="terminal"):
        references.resolve("prompt:", key="sasl.password", where="context prod")


def test_this_process_has_nothing_of_another_ones_engine():
    assert attached.lent() is None
    assert "pyspark" in sys.modules or attached.mark() is None


def test_a_command_that_ends_while_spark_is_still_imported_leaves_no_engine(monkeypatch):
    half_imported = ModuleType("playhead.spark.session")
    monkeypatch.setitem(sys.modules, "playhead.spark.session", half_imported)
    monkeypatch.setattr(client, "start_engine", lambda **_: pytest.fail("an engine started"))
    client.leave_engine(["replay"])


def test_an_engine_that_may_not_start_says_why(playhead: Playhead, tmp_path):
    everybodys = tmp_path / "everybodys"
    everybodys.mkdir()
    everybodys.chmod(0o777)
    done = playhead(
        "engine",
        "start",
        TMPDIR=str(everybodys),
        SPARK_LOCAL_DIRS=str(everybodys),
        XDG_STATE_HOME=str(tmp_path / "state"),
    )
    assert done.returncode == 1
    why = (
        "the engine has ended while it was starting: other users can change the folder for engines"
    )
    assert why in done.stderr
    assert "read its log in" in done.stderr

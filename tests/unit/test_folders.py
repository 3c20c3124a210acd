"""Folders that others can change are refused, and no link in one is followed, however it came there."""

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from playhead.capture.snapshot_writer import Rotation, Snapshot
from playhead.errors import PlayheadError, Refused, SandboxError, ServerDidNotStart
from playhead.files.archive import settled
from playhead.files.errors import LinkInside
from playhead.files.stores.local import LocalStore
from playhead.host import file_lock, jars, private_files
from playhead.host.clock import SystemClock, wait_until
from playhead.host.folder_tree import folders_below, remove_tree
from playhead.host.folders import exposed, of_another, open_plain, opened, read_plain
from playhead.host.paths import cache_dir, config_file, state_dir
from playhead.sandbox import Sandbox
from playhead.sandbox.folder import (
    SandboxState,
    expect_made_here,
    new_memory,
    note_made_here,
    recall,
    remember,
)
from playhead.sandbox.process import Server
from playhead.spark.engine_folder import EngineFolder
from playhead.spark.task_secrets import Handover
from tests.fix_deep_folders import folder_of_many_levels
from tests.fix_strangers import NEEDS_A_STRANGER, as_stranger, strangers_folder

# --- who else can change it


def test_a_folder_of_our_own_is_ours(tmp_path):
    assert exposed(tmp_path) is None
    (tmp_path / "way").symlink_to(tmp_path)
    assert exposed(tmp_path / "way") is None


@pytest.mark.parametrize(("mode", "is_exposed"), [(0o777, True), (0o1777, True), (0o755, False)])
def test_a_folder_that_others_can_write_to(tmp_path, mode, is_exposed):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(mode)
    assert (exposed(tmp_path / "open") is not None) is is_exposed


@pytest.mark.parametrize(("mode", "is_exposed"), [(0o777, True), (0o1777, False)])
def test_what_lies_above_counts_too_unless_only_owners_can_rename_there(tmp_path, mode, is_exposed):
    inner = tmp_path / "open" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "open").chmod(mode)
    assert (exposed(inner) is not None) is is_exposed
    assert (exposed(inner / "not there yet") is not None) is is_exposed


@NEEDS_A_STRANGER
def test_a_strangers_folder_and_a_strangers_link_are_exposed(servers_folder, tmp_path):
    theirs = strangers_folder(servers_folder / f"theirs-{tmp_path.name}")
    assert "belongs to" in (exposed(theirs) or "")
    assert exposed(theirs / "below") is not None
    ours = servers_folder / f"ours-{tmp_path.name}"
    ours.mkdir()
    shared = servers_folder / f"shared-{tmp_path.name}"
    shared.mkdir()
    shared.chmod(0o1777)
    assert as_stranger("ln", "-s", str(ours), str(shared / "link")).returncode == 0
    assert exposed(ours) is None
    assert "belongs to" in (exposed(shared / "link") or "")


@NEEDS_A_STRANGER
def test_a_strangers_link_in_the_middle_of_others_is_exposed(servers_folder, tmp_path):
    """`way` leads to a link of the stranger, and that one to a folder of ours."""
    theirs = strangers_folder(servers_folder / f"theirs-{tmp_path.name}")
    ours = servers_folder / f"ours-{tmp_path.name}"
    (ours / "below").mkdir(parents=True)
    assert as_stranger("ln", "-s", str(ours), str(theirs / "link")).returncode == 0
    (tmp_path / "way").symlink_to(os.path.relpath(theirs / "link", tmp_path))
    for check in (exposed, of_another):
        assert check(ours / "below") is None
        assert "belongs to" in (check(tmp_path / "way" / "below") or "")


def test_a_link_to_itself_is_nobodys(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    assert of_another(tmp_path / "loop" / "below") is None


# --- handles


def test_a_link_on_the_way_is_an_error(tmp_path):
    (tmp_path / "real" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with opened(tmp_path, "real/inner") as handle:
        assert os.listdir(handle) == []  # noqa: PTH208
    for below in ("link", "link/inner", "real/../real", ".."):
        with pytest.raises(OSError) as caught, opened(tmp_path, below):
            pass
        assert caught.value.errno == errno.ELOOP
    with opened(tmp_path / "link", "inner"):
        pass  # the root may be a link: the operator named it


@pytest.mark.parametrize("kind", ["link", "dangling", "pipe", "folder"])
def test_only_a_plain_file_is_opened(tmp_path, kind):
    place = tmp_path / "place"
    (tmp_path / "elsewhere").write_text("secret")
    if kind in ("link", "dangling"):
        place.symlink_to(tmp_path / ("elsewhere" if kind == "link" else "nothing"))
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.mkdir()
    for flags in (os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, os.O_RDWR | os.O_CREAT):
        with pytest.raises(OSError):
            os.close(open_plain(place, flags))
    assert (tmp_path / "elsewhere").read_text() == "secret"
    assert not (tmp_path / "nothing").exists()


def test_the_end_of_a_long_file(tmp_path):
    (tmp_path / "log").write_bytes(b"x" * 10_000 + b"end")
    assert read_plain(tmp_path / "log", most=5) == b"xxend"
    assert len(read_plain(tmp_path / "log")) == 10_003


# --- locks


def test_a_lock_that_is_a_link_writes_nothing_where_it_leads(tmp_path):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError), file_lock.held(tmp_path / "lock", Refused):
        pass
    assert (tmp_path / "victim").read_text() == "precious"


def test_the_folders_above_a_lock_are_their_owners_under_umask_0(tmp_path):
    """Who can write a folder above can put another in its place: the state's folder, and all of ~/.local."""
    before = os.umask(0)
    try:
        with file_lock.held(tmp_path / "local" / "state" / "x.lock", lambda _: Refused("held")):
            pass
    finally:
        os.umask(before)
    for folder in (tmp_path / "local", tmp_path / "local" / "state"):
        assert folder.stat().st_mode & 0o066 == 0


@pytest.mark.parametrize("mask", [0, 0o022])
def test_a_lock_is_its_owners_whatever_the_umask(tmp_path, mask):
    before = os.umask(mask)
    try:
        with file_lock.held(tmp_path / "made" / "lock", Refused):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "made" / "lock").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o700


# --- archives


@pytest.mark.parametrize("name", [".lock", ".hold", ".data.aside", "data"])
def test_a_planted_link_in_an_archive_is_not_written_through(tmp_path, name):
    (tmp_path / "victim").write_text("precious")
    folder = tmp_path / "archive" / "topic"
    folder.mkdir(parents=True)
    (folder / name).symlink_to(tmp_path / "victim")
    store = LocalStore(tmp_path / "archive")
    with suppress(PlayheadError), store.held("r", "topic"), store.alone("topic"):
        store.publish("topic/data", [b"new"])
    assert (tmp_path / "victim").read_text() == "precious"


def test_an_archive_in_a_link_to_itself_has_a_root(tmp_path):
    """Before Python 3.13, Path.resolve raises an error that is no OSError."""
    (tmp_path / "loop").symlink_to("loop")
    root = settled(str(tmp_path / "loop"))
    assert root == LocalStore(tmp_path / "loop").identity == str(tmp_path / "loop")


def test_folders_of_the_root_are_known_by_their_own_paths(monkeypatch):
    asked = []
    monkeypatch.setattr(os.path, "commonpath", lambda paths: asked.append(paths[1]) or paths[0])
    below = folders_below("/")
    assert [next(below), next(below), next(below)][0] == "/"
    assert not [each for each in asked if each.startswith("//")]


def test_a_tree_of_thousands_of_levels_is_removed_and_no_link_is_followed(tmp_path):
    """The user of the sandbox's servers could make one, and `up --fresh` ended with a fault of Playhead's."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    with folder_of_many_levels(tmp_path / "top") as top:
        (top / "link").symlink_to(tmp_path / "kept")
        remove_tree(top)
        assert not top.exists()
    assert (tmp_path / "kept" / "file").exists()


@pytest.mark.parametrize("name", [".lock", ".hold"])
def test_a_pipe_in_a_locks_place_keeps_nobody_waiting(tmp_path, name):
    (tmp_path / "topic").mkdir()
    os.mkfifo(tmp_path / "topic" / name)
    store = LocalStore(tmp_path)
    with pytest.raises(PlayheadError), store.held("r", "topic"), store.alone("topic"):
        pass


@pytest.mark.slow  # races against itself for seconds
def test_a_folder_swapped_for_a_link_between_check_and_use(tmp_path):
    """The swap happens at every instant; nothing may ever appear, or be removed, outside."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "data").write_text("precious")
    folder, parked = tmp_path / "archive" / "topic", tmp_path / "parked"
    folder.mkdir(parents=True)
    is_over = threading.Event()

    def swap() -> None:
        while not is_over.is_set():
            with suppress(OSError):
                folder.rename(parked)
                folder.symlink_to(outside)
                folder.unlink()
                parked.rename(folder)

    swapping = threading.Thread(target=swap)
    swapping.start()
    store, refused = LocalStore(tmp_path / "archive"), 0
    try:
        for number in range(400):
            try:
                with store.alone("topic"):
                    store.publish("topic/data", [b"%d" % number])
                store.read("topic/data")
                store.remove("topic/data")
            except (LinkInside, PlayheadError):
                refused += 1
    finally:
        is_over.set()
        swapping.join(20)
    assert [path.name for path in outside.iterdir()] == ["data"]
    assert (outside / "data").read_text() == "precious"


def test_an_archive_written_under_umask_0_is_not_everybodys(tmp_path):
    before = os.umask(0)
    try:
        store = LocalStore(tmp_path / "archive")
        with store.held("r", "a/b"), store.alone("a/b"):
            store.publish("a/b/data", [b"x"])
    finally:
        os.umask(before)
    found = list((tmp_path / "archive").rglob("*"))
    assert len(found) == 5
    assert [path for path in found if path.stat().st_mode & stat.S_IWOTH] == []


# --- the sandbox's folder


@NEEDS_A_STRANGER
def test_a_sandbox_in_a_strangers_folder_is_refused_by_every_command(servers_folder, tmp_path):
    theirs = strangers_folder(servers_folder / f"trap-{tmp_path.name}")
    for act in (lambda box: box.up(), lambda box: box.down(), lambda box: box.status()):
        with pytest.raises(SandboxError, match="cannot be in"):
            act(Sandbox(theirs))
    assert list(theirs.iterdir()) == []


@NEEDS_A_STRANGER
@pytest.mark.parametrize("found", [state_dir, config_file, cache_dir])
@pytest.mark.parametrize("way", ["above", "itself", "link"])
def test_a_state_below_a_strangers_folder_is_refused(
    monkeypatch, servers_folder, tmp_path, way, found
):
    """Its owner could put links there, or contexts that lead to other servers and name files of ours."""
    theirs = strangers_folder(servers_folder / f"trap-{tmp_path.name}")
    (tmp_path / "link").symlink_to(theirs)
    place = {"above": theirs / "state", "itself": theirs, "link": tmp_path / "link"}[way]
    for variable in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(place))
    with pytest.raises(Refused, match="under another user's control"):
        found()


def test_a_state_on_a_volume_that_is_open_to_everyone_is_used(monkeypatch, tmp_path):
    """Orchestrators mount volumes so, into containers that have one user."""
    tmp_path.chmod(0o777)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_dir() == tmp_path / "playhead"


@NEEDS_A_STRANGER
def test_a_sandbox_that_is_refused_makes_nothing_behind_a_strangers_link(servers_folder, tmp_path):
    theirs = strangers_folder(servers_folder / f"theirs-{tmp_path.name}")
    assert as_stranger("ln", "-s", str(tmp_path), str(theirs / "way")).returncode == 0
    with pytest.raises(SandboxError, match="belongs to"):
        Sandbox(theirs / "way" / "box").up()
    assert list(tmp_path.iterdir()) == []


def test_a_sandbox_in_a_folder_that_others_can_write_to_is_refused(tmp_path):
    box = tmp_path / "box"
    box.mkdir()
    box.chmod(0o777)
    with pytest.raises(SandboxError, match="everyone can write") as caught:
        Sandbox(box).up()
    assert "--dir" in (caught.value.hint or "")
    assert list(box.iterdir()) == []


def a_clones_sandbox(box: Path) -> SandboxState:
    """Make a folder with a database whose settings run a program, as a clone may bring one."""
    memory = new_memory()
    (box / "postgres" / "data").mkdir(parents=True, mode=0o700)
    (box / "postgres" / "data" / "PG_VERSION").write_text("17\n")
    (box / "postgres" / "data" / "postgresql.conf").write_text("archive_command = 'touch ran'\n")
    remember(box, memory)
    return memory


@pytest.fixture
def started(monkeypatch):
    """The commands of servers that were started; none is."""
    found = []

    def start(_, command):
        found.append(command)
        raise ServerDidNotStart("none", reason="this is a test", log=Path("/none"), log_tail=[])

    monkeypatch.setattr(Server, "spawn", start)
    return found


def test_a_sandbox_that_came_with_a_clone_starts_nothing(
    monkeypatch, servers_folder, tmp_path, started
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    box = servers_folder / f"clone-{tmp_path.name}"
    a_clones_sandbox(box)
    with pytest.raises(SandboxError, match="not made by you") as caught:
        Sandbox(box).up()
    assert started == []
    assert "--fresh" in (caught.value.hint or "")


@pytest.mark.parametrize("is_link", [False, True])
def test_nor_are_programs_used_that_lie_in_a_new_sandbox(monkeypatch, tmp_path, is_link):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (tmp_path / "box").mkdir()
    if is_link:
        (tmp_path / "box" / "programs").symlink_to(theirs)
    else:
        (tmp_path / "box" / "programs").mkdir()
    note_made_here(tmp_path / "box", new_memory())
    assert list((tmp_path / "box").iterdir()) == []
    assert theirs.exists()


def test_a_sandbox_that_was_made_here_is_started_again(monkeypatch, tmp_path, started):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    box = tmp_path / "box"
    note_made_here(box, a_clones_sandbox(box))
    expect_made_here(box, recall(box))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    with pytest.raises(SandboxError, match="not made by you"):
        expect_made_here(box, recall(box))
    own = tmp_path / "other" / "playhead" / "sandbox"  # Of a version that noted nothing.
    a_clones_sandbox(own)
    expect_made_here(own, recall(own))


# --- captures and jars


def test_a_captures_folder_swapped_for_a_link_gets_what_follows(tmp_path):
    """The lines after the first go where the first went, wherever the path leads by now."""
    folder, outside = tmp_path / "out", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    snapshot = Snapshot(folder, Rotation(bytes=10))
    snapshot.write(b"first line of it\n")
    snapshot.flush()
    folder.rename(tmp_path / "parked")
    folder.symlink_to(outside)
    snapshot.write(b"second line of it\n")
    snapshot.close()
    assert list(outside.iterdir()) == []
    assert len(list((tmp_path / "parked").iterdir())) == 2


@pytest.mark.parametrize("kind", ["file", "nothing"])
def test_a_captures_file_is_never_a_link_that_somebody_put_there(tmp_path, kind):
    (tmp_path / "file").write_text("precious")
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "raw.jsonl").symlink_to(tmp_path / kind)
    snapshot = Snapshot(folder, Rotation())
    snapshot.write(b"line\n")
    with pytest.raises(PlayheadError):
        snapshot.flush()
    assert (tmp_path / "file").read_text() == "precious"
    assert not (tmp_path / "nothing").exists()


def test_jars_from_a_cache_that_others_can_write_to_are_not_run(tmp_path, monkeypatch):
    """A stamp beside a jar says that its bytes were looked at: who can write it can put any jar there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jars.jar_dir().mkdir(parents=True)
    jars.jar_dir().chmod(0o777)
    with pytest.raises(Refused, match="other users can change the cache") as caught:
        jars.ensure("engine")
    assert "XDG_CACHE_HOME" in (caught.value.hint or "")


# --- an engine's folder


@pytest.mark.parametrize("variable", ["SPARK_LOCAL_DIRS", "TMPDIR"])
def test_an_engine_is_not_put_where_others_can_swap_its_folder(tmp_path, monkeypatch, variable):
    """Its tasks unpickle what lies there: in a folder of somebody else's that is his program."""
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv(variable, str(tmp_path))
    tmp_path.chmod(0o777)
    with pytest.raises(Refused, match="other users can change") as caught:
        EngineFolder()
    assert variable in (caught.value.hint or "")
    assert list(tmp_path.iterdir()) == []
    tmp_path.chmod(0o1777)  # as /tmp is
    EngineFolder().remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("variable", ["SPARK_LOCAL_DIRS", "TMPDIR"])
def test_an_engine_is_not_put_where_kafka_cannot_read_its_secrets(tmp_path, monkeypatch, variable):
    place = tmp_path / "a:b"
    place.mkdir()
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(place))
    monkeypatch.setenv(variable, str(place))
    with pytest.raises(Refused, match="has a colon") as caught:
        EngineFolder()
    assert variable in (caught.value.hint or "")
    with pytest.raises(Refused, match="has a colon"):
        Handover(place).kafka({"sasl.jaas.config": "secret"})
    assert list(place.iterdir()) == []


_LAUNCHED = """
import os, signal, sys
from pathlib import Path
from playhead.host.runtimes import Java
from playhead.spark.jvm import JvmCommand, launch

home = Path(sys.argv[1])
begun = launch(JvmCommand(Java(home, "17", "a test"), home, (), (), "1g"), {})
print(begun.process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_folder_is_not_taken_from_a_jvm_that_outlives_its_command(tmp_path, monkeypatch):
    """It would make the folder again: open to others, or in one that another user has put there meanwhile."""
    home, place = tmp_path / "java", tmp_path / "place"
    (home / "bin").mkdir(parents=True)
    place.mkdir()
    (home / "bin" / "java").write_text("#!/bin/sh\nexec sleep 600\n")
    (home / "bin" / "java").chmod(0o700)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(place))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    command = [sys.executable, "-c", _LAUNCHED, str(home)]
    jvm = int(subprocess.run(command, capture_output=True, check=False).stdout)
    try:
        (left,) = place.iterdir()
        EngineFolder().remove()
        assert left.is_dir()
        assert stat.S_IMODE(left.stat().st_mode) == 0o700
    finally:
        os.kill(jvm, signal.SIGKILL)
    ended = wait_until(
        lambda: not file_lock.is_held(left / "lock"),
        deadline_s=20,
        every_s=0.05,
        clock=SystemClock(),
    )
    assert ended
    EngineFolder().remove()
    assert list(place.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's folders are passed by others")
def test_a_folder_has_its_mode_from_the_beginning(tmp_path, monkeypatch):
    """A second `sandbox up` asks at any moment whether root's servers can enter it."""
    monkeypatch.setattr(os, "fchmod", lambda *_: None)
    before = os.umask(0o022)
    try:
        private_files.folder(tmp_path / "state" / "sandbox", is_passed=True)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o711

"""A sandbox's folder: ports nobody has, a memory that survives tearing, one command at a time."""

import json
import os
import socket
import threading
from contextlib import ExitStack
from dataclasses import asdict, astuple
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playhead.errors import SandboxError
from playhead.sandbox import folder as ground
from playhead.sandbox.folder import SandboxState
from playhead.sandbox.process import User

MEMORY = SandboxState("cluster", "password", 20_001, 20_002, 20_003)
AS_ROOT = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can make a folder closed to itself"
)
NOBODY = User("nobody", 65_534, 65_534)


def ports(memory: SandboxState) -> tuple[int, int, int]:
    return memory.broker_port, memory.controller_port, memory.database_port


# --- ports


def test_a_port_somebody_listens_on_is_taken_and_is_free_again_after():
    with socket.create_server((ground.LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        assert not ground.is_free(port)
    assert ground.is_free(port)


def test_a_free_port_is_free():
    assert ground.is_free(ground.free_port())


def test_a_port_whose_connections_linger_is_free():
    """A server that was just stopped leaves connections in TIME_WAIT; its port can be used again."""
    with socket.create_server((ground.LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection((ground.LOOPBACK, port)):
            server.accept()[0].close()  # closed first by the server's side
    assert ground.is_free(port)


few_ports = st.sampled_from([0, 20_001, 20_002, 20_003])


@settings(deadline=None)
@given(few_ports, few_ports, few_ports, st.sets(st.sampled_from([20_001, 20_002, 20_003])))
def test_ports_to_use_are_free_all_different_and_kept_where_they_can_be(
    broker, controller, database, taken
):
    before = SandboxState("c", "p", broker, controller, database)
    with pytest.MonkeyPatch.context() as patch:
        fresh = iter(range(30_000, 30_010))
        patch.setattr(ground, "is_free", lambda port: port not in taken)
        patch.setattr(ground, "free_port", lambda: next(fresh))
        found = ground.with_usable_ports(before, broker=True, database=True)
    assert len(set(ports(found))) == 3
    assert not set(ports(found)) & (taken | {0})
    for position, (old, new) in enumerate(zip(ports(before), ports(found), strict=True)):
        could_stay = old and old not in taken and old not in ports(before)[:position]
        assert (old == new) is bool(could_stay)
    assert (found.cluster_id, found.database_password) == ("c", "p")


@given(few_ports, few_ports, few_ports, st.booleans(), st.booleans())
def test_the_ports_of_what_runs_are_not_changed(broker, controller, database, starts, starts_too):
    before = SandboxState("c", "p", broker, controller, database)
    with pytest.MonkeyPatch.context() as patch:
        fresh = iter(range(30_000, 30_010))
        patch.setattr(ground, "is_free", lambda port: port >= 30_000)
        patch.setattr(ground, "free_port", lambda: next(fresh))
        found = ground.with_usable_ports(before, broker=starts, database=starts_too)
    changed = [old != new for old, new in zip(ports(before), ports(found), strict=True)]
    assert changed == [starts, starts, starts_too]


def test_a_port_taken_between_runs_is_given_up():
    with ExitStack() as stack:
        servers = [
            stack.enter_context(socket.create_server((ground.LOOPBACK, 0))) for _ in range(3)
        ]
        before = SandboxState("c", "p", *(server.getsockname()[1] for server in servers))
        found = ground.with_usable_ports(before, broker=True, database=True)
        assert not set(ports(before)) & set(ports(found))
        assert all(ground.is_free(port) for port in ports(found))


# --- memory


def test_what_is_remembered_is_recalled(tmp_path):
    ground.remember(tmp_path, MEMORY)
    assert ground.recall(tmp_path) == MEMORY


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        json.dumps(asdict(MEMORY))[:-5],
        "[]",
        "null",
        '{"cluster_id": "x"}',
        json.dumps(asdict(MEMORY) | {"more": 1}),
        "\x00\x00",
    ],
)
def test_a_missing_torn_or_foreign_memory_is_none(tmp_path, text):
    if text is not None:
        (tmp_path / "sandbox.json").write_text(text)
    assert ground.recall(tmp_path) is None


def test_a_memory_that_is_not_text_is_none(tmp_path):
    (tmp_path / "sandbox.json").write_bytes(b"\xff\xfe{}")
    assert ground.recall(tmp_path) is None


def test_new_memories_are_all_different_and_safe_on_a_command_line():
    made = [ground.new_memory() for _ in range(300)]
    assert len({memory.cluster_id for memory in made}) == 300
    assert len({memory.database_password for memory in made}) == 300
    assert all(len(memory.cluster_id) == 22 and "-" not in memory.cluster_id for memory in made)


# --- folders


def test_a_folder_is_made_with_its_parents(tmp_path):
    ground.prepare(tmp_path / "a" / "b", None)
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_said_plainly(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SandboxError, match=f"cannot write to {tmp_path}/file/below") as caught:
        ground.prepare(tmp_path / "file" / "below", None)
    assert "--dir" in (caught.value.hint or "")


@AS_ROOT
def test_the_folders_that_are_made_are_open_whatever_the_umask(servers_folder):
    directory = servers_folder / f"made-{os.urandom(4).hex()}" / "deep"
    before = os.umask(0o077)
    try:
        ground.prepare(directory, NOBODY)
    finally:
        os.umask(before)
    assert ground.first_closed_folder(directory, NOBODY) is None
    made = {directory.stat().st_mode & 0o777, directory.parent.stat().st_mode & 0o777}
    assert made == {0o711}, "another user can enter it, and not list it"


@AS_ROOT
def test_the_rights_of_folders_that_were_there_are_not_changed(servers_folder):
    theirs = servers_folder / f"theirs-{os.urandom(4).hex()}"
    theirs.mkdir()
    theirs.chmod(0o711)
    ground.prepare(theirs / "ours", NOBODY)
    ground.prepare(theirs, NOBODY)
    assert theirs.stat().st_mode & 0o777 == 0o711


@AS_ROOT
def test_a_folder_that_the_servers_cannot_enter_is_named(servers_folder):
    closed = servers_folder / f"closed-{os.urandom(4).hex()}"
    inside = closed / "open" / "deep"
    inside.mkdir(parents=True)
    assert ground.first_closed_folder(inside, NOBODY) is None
    closed.chmod(0o700)
    assert ground.first_closed_folder(inside, NOBODY) == closed
    with pytest.raises(SandboxError, match=f"nobody, who cannot enter {closed}") as caught:
        ground.prepare(inside, NOBODY)
    assert f"chmod o+x {closed}" in (caught.value.hint or "")


@AS_ROOT
@pytest.mark.parametrize(
    ("owner", "mode", "closed"),
    [
        ((NOBODY.uid, 0), 0o700, False),
        ((NOBODY.uid, 0), 0o077, True),
        ((0, NOBODY.gid), 0o710, False),
        ((0, NOBODY.gid), 0o701, True),
        ((0, 0), 0o701, False),
        ((0, 0), 0o776, True),
    ],
)
def test_owner_group_and_others_each_have_their_own_right(servers_folder, owner, mode, closed):
    folder = servers_folder / f"rights-{os.urandom(4).hex()}"
    folder.mkdir()
    os.chown(folder, *owner)
    folder.chmod(mode)
    assert (ground.first_closed_folder(folder, NOBODY) == folder) is closed


@AS_ROOT
def test_a_servers_folder_is_made_for_its_user_and_what_is_in_it_is_not_touched(tmp_path):
    ground.give(tmp_path / "data", NOBODY)
    assert (tmp_path / "data").stat().st_uid == NOBODY.uid
    (tmp_path / "data" / "roots").write_text("")
    ground.give(tmp_path / "data", NOBODY)
    assert (tmp_path / "data" / "roots").stat().st_uid == 0


def test_only_root_gives_folders_away(tmp_path):
    ground.give(tmp_path / "data", None)
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "data").stat().st_uid == os.geteuid()


def test_servers_run_as_ourselves_unless_we_are_root(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert ground.server_user() is None


def test_roots_servers_run_as_an_unprivileged_user(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.delenv("PLAYHEAD_SANDBOX_USER", raising=False)
    user = ground.server_user()
    assert user is not None
    assert (user.name, user.uid > 0) == ("nobody", True)
    monkeypatch.setenv("PLAYHEAD_SANDBOX_USER", "nobody-has-this-name")
    with pytest.raises(SandboxError, match=r"nobody-has-this-name.*does not exist") as caught:
        ground.server_user()
    assert "PLAYHEAD_SANDBOX_USER" in (caught.value.hint or "")


@pytest.mark.parametrize("there", [0, 1, 3])
def test_a_folder_moved_aside_gets_the_first_free_number(tmp_path, there):
    for number in range(1, there + 1):
        (tmp_path / f"data.broken-{number}").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "precious").write_text("kept")
    aside = ground.move_aside(tmp_path / "data")
    assert aside == tmp_path / f"data.broken-{there + 1}"
    assert (aside / "precious").read_text() == "kept"
    assert not (tmp_path / "data").exists()


# --- programs within reach


@pytest.fixture
def programs(servers_folder):
    """Two pieces of an installation, in a folder that is open to everybody."""
    root = servers_folder / f"site-{os.urandom(4).hex()}"
    for name in ("server/bin/run", "server.libs/lib.so"):
        file = root / name
        file.parent.mkdir(parents=True)
        file.write_text(name)
    (root / "server" / "bin" / "run").chmod(0o700)
    (root / "server" / "bin" / "link").symlink_to("run")
    (root / "not-a-piece").write_text("")
    return root


def pieces(root: Path) -> tuple[Path, Path]:
    return root / "server", root / "server.libs"


def test_programs_that_can_be_reached_stay_where_they_are(programs, tmp_path):
    assert ground.within_reach(programs, pieces(programs), tmp_path, NOBODY) == programs
    assert ground.within_reach(programs, pieces(programs), tmp_path, None) == programs
    assert list(tmp_path.iterdir()) == []


@AS_ROOT
@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_programs_that_cannot_be_reached_are_copied_once(programs, servers_folder, mask):
    programs.chmod(0o700)
    directory = servers_folder / f"sandbox-{os.urandom(4).hex()}"
    directory.mkdir()
    before = os.umask(mask)
    try:
        copy = ground.within_reach(programs, pieces(programs), directory, NOBODY)
    finally:
        os.umask(before)
    assert copy.is_relative_to(directory)
    assert sorted(path.name for path in copy.iterdir()) == ["server", "server.libs"]
    assert ground.first_closed_folder(copy / "server" / "bin", NOBODY) is None
    modes = {path.name: path.stat().st_mode & 0o777 for path in copy.rglob("*") if path.is_file()}
    assert modes == {"run": 0o755, "link": 0o755, "lib.so": 0o644}
    assert (copy / "server" / "bin" / "link").is_symlink()
    inode = copy.stat().st_ino
    assert ground.within_reach(programs, pieces(programs), directory, NOBODY) == copy
    assert copy.stat().st_ino == inode


@AS_ROOT
def test_programs_that_have_changed_are_copied_anew(programs, servers_folder):
    programs.chmod(0o700)
    directory = servers_folder / f"sandbox-{os.urandom(4).hex()}"
    directory.mkdir()
    first = ground.within_reach(programs, pieces(programs), directory, NOBODY)
    os.utime(programs / "server", (2_000_000_000, 2_000_000_000))
    assert ground.within_reach(programs, pieces(programs), directory, NOBODY) != first


# --- one at a time


def test_a_second_command_waits_for_the_first_and_says_so_once(tmp_path):
    told, waiting, order = [], threading.Event(), []

    def say(text: str) -> None:
        told.append(text)
        waiting.set()

    def second() -> None:
        with ground.only_one(tmp_path, say):
            order.append("second")

    thread = threading.Thread(target=second)
    with ground.only_one(tmp_path, told.append):
        thread.start()
        assert waiting.wait(10)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]
    assert len(told) == 1
    assert "waiting for another command" in told[0]


def test_the_lock_is_free_again_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), ground.only_one(tmp_path, pytest.fail):
        raise ZeroDivisionError
    with ground.only_one(tmp_path, pytest.fail):
        pass


def test_waiting_for_another_command_has_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(ground, "_WAIT_FOR_OTHER_S", 0.01)
    with (
        ground.only_one(tmp_path, pytest.fail),
        pytest.raises(SandboxError, match=r"has been using .* for 0\.01 s"),
        ground.only_one(tmp_path, lambda _: None),
    ):
        pytest.fail("two at once")


def test_two_folders_do_not_wait_for_each_other(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with (
        ground.only_one(tmp_path / "a", pytest.fail),
        ground.only_one(tmp_path / "b", pytest.fail),
    ):
        assert astuple(MEMORY)

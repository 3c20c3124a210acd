"""A sandbox's folder: its owner, its saved state, and the programs that its servers can reach."""

import hashlib
import json
import os
import pwd
import secrets
import shlex
import shutil
import socket
import stat
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from playhead.errors import SandboxError
from playhead.host import file_lock, paths, private_files
from playhead.host.atomic_file import write_whole
from playhead.host.clock import wait_until
from playhead.host.folder_tree import remove_tree
from playhead.host.folders import exposed, open_plain
from playhead.sandbox.process import User

LOOPBACK = "127.0.0.1"
_PROGRAMS = "programs"
_WAIT_FOR_OTHER_S = 120.0


@dataclass(frozen=True, slots=True)
class SandboxState:
    """What a sandbox stores between runs, so that its addresses and data stay the same."""

    cluster_id: str
    database_password: str
    broker_port: int
    controller_port: int
    database_port: int


def server_user() -> User | None:
    """Return the servers' user: an unprivileged one if we are root, else None."""
    if os.geteuid() != 0:
        return None
    name = os.environ.get("PLAYHEAD_SANDBOX_USER", "nobody")
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise SandboxError(
            f"user {name}, who should run the sandbox's servers, does not exist",
            hint="set PLAYHEAD_SANDBOX_USER to an unprivileged user",
        ) from None
    return User(name, entry.pw_uid, entry.pw_gid)


def prepare(directory: Path, user: User | None) -> None:
    """Make the folder; refuse one that we cannot write, or the servers cannot enter."""
    # Before anything is made: what is made in a folder of another user may be exchanged for a link.
    expect_own(directory)
    try:
        if not directory.is_dir():
            # Root's servers must be able to enter it, whatever the umask is; nobody lists it.
            private_files.folder(directory, is_passed=True)
        expect_own(directory)
        probe = directory / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink(missing_ok=True)  # Another thread may be checking too.
    except OSError as exc:
        raise SandboxError(
            f"cannot write to {directory}: {exc.strerror}",
            hint="choose another folder with --dir or PLAYHEAD_SANDBOX_DIR",
        ) from exc
    closed = None if user is None else first_closed_folder(directory, user)
    if user is not None and closed is not None:
        raise SandboxError(
            f"root's servers run as {user.name}, who cannot enter {closed}",
            hint=f"choose a folder outside it with --dir or PLAYHEAD_SANDBOX_DIR, or chmod o+x {closed}",
        )


def expect_own(directory: Path) -> None:
    """Refuse a folder in which another user could put links, pid files or programs."""
    reason = exposed(directory)
    if reason is not None:
        raise SandboxError(
            f"a sandbox cannot be in {directory}: {reason}",
            hint="choose a folder of your own with --dir or PLAYHEAD_SANDBOX_DIR",
        )


def first_closed_folder(path: Path, user: User) -> Path | None:
    """Return the outermost folder on the way to `path` that `user` may not enter."""
    for folder in [*reversed(path.parents), path]:
        if not _may_enter(folder, user):
            return folder
    return None


def _may_enter(folder: Path, user: User) -> bool:
    status = folder.stat()
    if not stat.S_ISDIR(status.st_mode):
        return True
    if status.st_uid == user.uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid == user.gid:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)


def give(path: Path, user: User | None) -> None:
    """Make a server's own folder; the content of an existing one is the server's, and stays."""
    if not path.exists():
        new = path.with_name(f"{path.name}.{os.getpid()}.new")
        new.mkdir(mode=0o700)
        if user is not None:
            os.chown(new, user.uid, user.gid)
        new.rename(path)
    found = path.lstat()
    owner = os.geteuid() if user is None else user.uid
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner:
        raise SandboxError(
            f"{path} does not belong to the user who runs the sandbox's servers",
            hint="`playhead sandbox up --fresh` removes it with its content",
        )


def hand(file: Path, text: str, user: User | None) -> None:
    """Write a file for a server beside its folder; only its user can read it."""
    write_whole(file, text)
    if user is not None:
        os.chown(file, user.uid, user.gid, follow_symlinks=False)


def within_reach(root: Path, pieces: tuple[Path, ...], directory: Path, user: User | None) -> Path:
    """Return `root`, or a copy of its pieces inside the sandbox if the servers' user cannot read it."""
    if user is None or all(_is_open(piece, user) for piece in pieces):
        return root
    made = max(int(piece.stat().st_mtime) for piece in pieces)
    copy = directory / _PROGRAMS / f"{root.name}-{pieces[0].name}-{made}"
    if copy.exists():
        return copy
    unfinished = copy.with_name(f"{copy.name}.{os.getpid()}.new")
    copy.parent.mkdir(mode=0o700, exist_ok=True)
    unfinished.mkdir(mode=0o700)
    for piece in pieces:
        shutil.copytree(piece, unfinished / piece.relative_to(root), symlinks=True)
    copy.parent.chmod(0o755)
    _open_up(unfinished)
    unfinished.rename(copy)
    return copy


def _is_open(piece: Path, user: User) -> bool:
    return piece.exists() and first_closed_folder(piece.resolve(), user) is None


def _open_up(tree: Path) -> None:
    """Make the copy readable for everyone, as packaged programs are."""
    for folder, _, files in os.walk(tree):
        Path(folder).chmod(0o755)
        for name in files:
            file = Path(folder) / name
            if not file.is_symlink():
                file.chmod(0o755 if file.stat().st_mode & stat.S_IXUSR else 0o644)


@contextmanager
def only_one(directory: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the sandbox's lock; a second `up` or `down` waits for the first."""
    with os.fdopen(open_plain(directory / "lock", os.O_RDWR | os.O_CREAT), "r+b") as lock:
        if not file_lock.take(lock):
            say("waiting for another command on this sandbox")
            ours = wait_until(
                lambda: file_lock.take(lock), deadline_s=_WAIT_FOR_OTHER_S, every_s=0.05
            )
            if not ours:
                raise SandboxError(
                    f"another command has been using {directory} for {_WAIT_FOR_OTHER_S:g} s",
                    hint="look for a hanging `playhead sandbox`, or use another --dir",
                )
        yield


def free_port() -> int:
    """Return a loopback port that is free at this moment."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _memory_file(directory: Path) -> Path:
    return directory / "sandbox.json"


def recall(directory: Path) -> SandboxState | None:
    """Return the saved state of this folder's sandbox; None if there is none, or its file is incomplete."""
    try:
        return SandboxState(**json.loads(_memory_file(directory).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def remember(directory: Path, memory: SandboxState) -> None:
    write_whole(_memory_file(directory), json.dumps(asdict(memory), indent=1) + "\n")


def _note(memory: SandboxState) -> Path:
    made = f"{memory.cluster_id} {memory.database_password}"
    return paths.state_dir() / "sandboxes" / hashlib.sha256(made.encode()).hexdigest()[:32]


def note_made_here(directory: Path, memory: SandboxState) -> None:
    """Note among the user's own files that a new sandbox is the user's, and drop programs that were there before."""
    if (programs := directory / _PROGRAMS).is_symlink():
        programs.unlink()
    remove_tree(programs)
    note = _note(memory)
    private_files.folder(note.parent)
    private_files.write(note, f"{directory}\n")


def expect_made_here(directory: Path, memory: SandboxState) -> None:
    """Refuse the servers of a sandbox that this user did not make, as in a clone.

    The settings in PostgreSQL's data folder name programs to run and libraries to load.
    """
    note = _note(memory)
    if note.exists() or directory.resolve().is_relative_to(paths.state_dir().resolve()):
        return
    touch = f"mkdir -p {shlex.quote(str(note.parent))} && touch {shlex.quote(str(note))}"
    raise SandboxError(
        f"the sandbox in {directory} was not made by you on this machine, and its database's settings can "
        "run programs",
        hint=f"`playhead sandbox up --fresh` starts with empty servers; if you know what is in it: {touch}",
    )


def new_memory() -> SandboxState:
    cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    # Kafka's format tool would read a leading dash as an option.
    return SandboxState(cluster_id.replace("-", "x"), secrets.token_urlsafe(12), 0, 0, 0)


def with_usable_ports(memory: SandboxState, *, broker: bool, database: bool) -> SandboxState:
    """Return the state with new ports for servers to start whose old port is taken."""
    taken: set[int] = set()

    def usable(port: int, wanted: bool) -> int:
        while wanted and (port == 0 or port in taken or not is_free(port)):
            port = free_port()
        taken.add(port)
        return port

    return replace(
        memory,
        broker_port=usable(memory.broker_port, broker),
        controller_port=usable(memory.controller_port, broker),
        database_port=usable(memory.database_port, database),
    )


def new_unfinished(data: Path) -> Path:
    """Return a temporary folder for new data, after removing those of earlier attempts.

    It has this process's own name: the program that a killed `up` had started may still write to
    the old one.
    """
    for left in data.parent.glob(f"{data.name}.*.new"):
        remove_tree(left)
    return data.with_name(f"{data.name}.{os.getpid()}.new")


def move_aside(folder: Path) -> Path:
    """Keep an unusable folder under another name, because it may contain data."""
    number = 1
    while (aside := folder.with_name(f"{folder.name}.broken-{number}")).exists():
        number += 1
    folder.rename(aside)
    return aside

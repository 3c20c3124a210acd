"""A Unix socket between processes of one user: its folder, its frames, and who is at the other end."""

import os
import socket
import stat
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from playhead.errors import Refused
from playhead.host import private_files
from playhead.host.folders import exposed

SOCKET = "socket"
_FRAME = struct.Struct(">cI")
# A command line of Linux has 2 MiB at most; answers are what a command prints.
_LONGEST = 1 << 30
_CREDENTIALS = struct.Struct("3i")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Stranger(Refused):
    """Another user is, or could be, at the other end of a socket."""

    def __init__(self, path: Path, *, reason: str) -> None:
        super().__init__(
            f"the engine's socket {path} is not used: {reason}",
            hint="remove the folder, or do without: --no-warm",
        )


class Gone(ConnectionError):
    """The other end has closed, or has died."""


@contextmanager
def private_folder(path: Path, *, make: bool) -> Iterator[int]:
    """A handle on a folder that is ours alone; what lies in it is reached by the handle, not by its name."""
    if make:
        private_files.folder(path)
    handle = os.open(path, _FOLDER)
    try:
        status = os.fstat(handle)
        if status.st_uid != os.geteuid():
            raise Stranger(path, reason=f"its folder belongs to user {status.st_uid}")
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise Stranger(path, reason="others can enter its folder")
        reason = exposed(path)
        if reason is not None:
            raise Stranger(path, reason=reason)
        yield handle
    finally:
        os.close(handle)


def listening(folder: int, path: Path) -> socket.socket:
    """Return a new socket in the folder, in place of a left-over one; only this user can connect."""
    with suppress(FileNotFoundError):
        os.unlink(SOCKET, dir_fd=folder)
    listener = socket.socket(socket.AF_UNIX)
    try:
        before = os.umask(0o177)
        try:
            listener.bind(_name(folder, path))
        finally:
            os.umask(before)
        listener.listen(64)
    except BaseException:
        listener.close()
        raise
    return listener


def connected(folder: int, path: Path, *, within_s: float) -> socket.socket | None:
    """Connect to the process that listens there, which must be this user's; None if there is none."""
    try:
        status = os.stat(SOCKET, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISSOCK(status.st_mode) or status.st_uid != os.geteuid():
        raise Stranger(path, reason="another user created what is in its place")
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(within_s)
    try:
        connection.connect(_name(folder, path))
        need_own(connection, path)
    except OSError:  # of a process that is gone, or has no time
        connection.close()
        return None
    except BaseException:
        connection.close()
        raise
    return connection


def need_own(connection: socket.socket, path: Path) -> None:
    """Return when a process of this very user is at the other end; the kernel says who it is."""
    user = peer(connection)[1]
    if user != os.geteuid():
        raise Stranger(path, reason=f"user {user} is at its other end")


def peer(connection: socket.socket) -> tuple[int, int]:
    """The process and the user at the other end: who connected, or who began to listen."""
    asked = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(asked)
    return process, user


def send(
    connection: socket.socket, kind: bytes, content: bytes = b"", handles: Sequence[int] = ()
) -> None:
    """One frame; handles of open files travel with its head."""
    head = _FRAME.pack(kind, len(content))
    if handles:
        socket.send_fds(connection, [head], handles)
        connection.sendall(content)
    else:
        connection.sendall(head + content)


def receive(connection: socket.socket) -> tuple[bytes, bytes]:
    """The next frame."""
    kind, length = _FRAME.unpack(_exactly(connection, _FRAME.size))
    return kind, _exactly(connection, _checked(length))


def receive_handles(connection: socket.socket, most: int) -> tuple[bytes, bytes, list[int]]:
    """The next frame, with the handles that came with it."""
    head, handles, _, _ = socket.recv_fds(connection, _FRAME.size, most)
    try:
        if not head:
            raise Gone("the other end is gone")
        kind, length = _FRAME.unpack(head + _exactly(connection, _FRAME.size - len(head)))
        return kind, _exactly(connection, _checked(length)), list(handles)
    except BaseException:
        for handle in handles:
            os.close(handle)
        raise


def _checked(length: int) -> int:
    if length > _LONGEST:
        raise Gone(f"a frame of {length:,} bytes; at most {_LONGEST:,} are valid")
    return length


def _exactly(connection: socket.socket, count: int) -> bytes:
    content = bytearray()
    while len(content) < count:
        part = connection.recv(min(count - len(content), 1 << 20))
        if not part:
            raise Gone("the other end is gone")
        content += part
    return bytes(content)


def _name(folder: int, path: Path) -> str:
    """The socket by its folder's handle: a path has 107 bytes, and what it names could be exchanged."""
    by_handle = f"/proc/self/fd/{folder}/{SOCKET}"
    return by_handle if Path(f"/proc/self/fd/{folder}").exists() else str(path / SOCKET)

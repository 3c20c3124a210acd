"""Folders and files opened so that no link is followed, and which folders somebody else can change."""

import errno
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# A pipe in a file's place must not keep us waiting.
_NO_LINK = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def exposed(folder: Path) -> str | None:
    """Who else can change what lies in a folder, or put another one in its place; None when nobody can.

    Root and ourselves are trusted, and folders like /tmp, where only the owner of a name can change it.
    """
    for path in (folder.absolute(), folder.resolve()):
        for each in (path, *path.parents):
            with suppress(FileNotFoundError, NotADirectoryError):
                reason = _exposure(each, is_last=each == path)
                if reason is not None:
                    return reason
    return None


def _exposure(path: Path, *, is_last: bool) -> str | None:
    found = path.lstat()
    reason = why_not_ours(found)
    is_writers = reason is not None and found.st_uid in _trusted()
    if is_writers and (
        stat.S_ISLNK(found.st_mode) or (found.st_mode & stat.S_ISVTX and not is_last)
    ):
        return None
    return reason and f"{path}: {reason}"


def why_not_ours(found: os.stat_result) -> str | None:
    """Who else than the user (and root, who can do anything) may write this; None when nobody may."""
    if found.st_uid not in _trusted():
        return f"it belongs to {_user(found.st_uid)}"
    if found.st_mode & stat.S_IWOTH:
        return "everybody can write it"
    if found.st_mode & stat.S_IWGRP and not _is_private(found.st_gid):
        return "its group can write it"
    return None


def _trusted() -> tuple[int, ...]:
    """In a user namespace root's files may have another owner's number: the one of "/"."""
    return (0, os.geteuid(), Path("/").stat().st_uid)


def _is_private(gid: int) -> bool:
    """Whether it is a group of the user alone, as many systems give each user one of its own."""
    try:
        me, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return group.gr_name == me.pw_name and set(group.gr_mem) <= {me.pw_name}


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


@contextmanager
def opened(root: Path | int, below: str = "", *, mode: int | None = None) -> Iterator[int]:
    """A handle on a folder below `root`, reached name by name: a link on the way is an error (ELOOP).

    The root itself may be a link, or a handle. With a mode, folders that are missing are made.
    """
    handle = os.dup(root) if isinstance(root, int) else os.open(root, _FOLDER)
    try:
        for name in filter(None, below.split("/")):
            if name == "..":
                raise OSError(errno.ELOOP, "it leads out of the folder", below)
            if mode is not None:
                _make(name, mode, handle)
            inner = _open_folder(name, handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def _make(name: str, mode: int, handle: int) -> None:
    with suppress(FileExistsError):
        os.mkdir(name, mode, dir_fd=handle)
        os.fsync(handle)  # the new name is to last as long as what is written below it


def _open_folder(name: str, handle: int) -> int:
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
    except NotADirectoryError:  # which Linux says of a link as well
        refuse_link(name, handle)
        raise


def refuse_link(name: str, handle: int) -> None:
    """An error (ELOOP) when the name in this folder is a link's."""
    with suppress(FileNotFoundError):
        if stat.S_ISLNK(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)


def open_plain(
    name: str | Path, flags: int, mode: int = 0o600, *, folder: int | None = None
) -> int:
    """A handle on a plain file; a link, a pipe, a device or a folder in its place is an error."""
    handle = os.open(name, flags | _NO_LINK, mode, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is no plain file", str(name))
    except BaseException:
        os.close(handle)
        raise
    return handle


def read_plain(name: str | Path, *, most: int | None = None, folder: int | None = None) -> bytes:
    """What a plain file holds, or the last `most` bytes of it."""
    with os.fdopen(open_plain(name, os.O_RDONLY, folder=folder), "rb") as file:
        if most is not None:
            file.seek(max(0, os.fstat(file.fileno()).st_size - most))
        return file.read() if most is None else file.read(most)


def move(name: str | Path, new: str | Path, folder: int | None, other: int | None) -> None:
    """Give a file another name, in the place of what had it, in one folder or from one to another."""
    os.replace(name, new, src_dir_fd=folder, dst_dir_fd=other)

"""Opens files and folders without following links, and checks who else can change a folder."""

import errno
import grp
import os
import pwd
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Do not block on a pipe in a file's place.
_NO_LINK = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# As many as Linux follows before it refuses a path.
MOST_LINKS = 40
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

Make = Callable[[str, int], None]
"""Creates the missing folder of this name in the folder of the handle; it may exist by then."""


def exposed(folder: Path) -> str | None:
    """Return which other user can change or replace the content of a folder; None if none can.

    Root and the current user are trusted, and so are folders like /tmp, where only the owner of a file
    can replace it.
    """
    for path in _ways(folder):
        for each in (path, *path.parents):
            with suppress(FileNotFoundError, NotADirectoryError):
                reason = _exposure(each, is_last=each == path)
                if reason is not None:
                    return reason
    return None


def of_another(path: Path) -> str | None:
    """Return which folder on the way, or this path, belongs to a user who is not trusted; None if none does."""
    for way in _ways(path):
        for each in (way, *way.parents):
            with suppress(OSError):  # what cannot be looked at cannot be used either
                owner = each.lstat().st_uid
                if owner not in _trusted():
                    return f"{each}: it belongs to {user_name(owner)}"
    return None


def _ways(path: Path) -> Iterator[Path]:
    """Yield the path with its first link read, then that path likewise, until it is one without links."""
    way = path.absolute()
    for _ in range(MOST_LINKS):
        yield way
        for each in (*reversed(way.parents), way):
            try:
                pointed = each.readlink()
            except OSError:  # no link, or nothing there
                continue
            way = each.parent / pointed / way.relative_to(each)
            break
        else:
            break
    yield Path(os.path.realpath(path))


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
    """Return who else, besides the user and root, may write this file or folder; None if no one may."""
    if found.st_uid not in _trusted():
        return f"it belongs to {user_name(found.st_uid)}"
    if found.st_mode & stat.S_IWOTH:
        return "everyone can write it"
    if found.st_mode & stat.S_IWGRP and not _is_private(found.st_gid):
        return "its group can write it"
    return None


def is_of_system(found: os.stat_result) -> bool:
    """Return whether it is in /proc, as what /dev/stdout leads to: a name of an open file."""
    try:
        return found.st_dev == Path("/proc").stat().st_dev
    except OSError:  # as in some containers
        return False


def is_trusted(found: os.stat_result) -> bool:
    """Return whether it belongs to the user or to root."""
    return found.st_uid in _trusted()


def _trusted() -> tuple[int, ...]:
    """Return the trusted owners. In a user namespace, root's files may belong to the owner of "/"."""
    return (0, os.geteuid(), Path("/").stat().st_uid)


def _is_private(gid: int) -> bool:
    """Return whether the group is the user's private group, which many systems create."""
    try:
        me, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return group.gr_name == me.pw_name and set(group.gr_mem) <= {me.pw_name}


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


@contextmanager
def opened(root: Path | int | str, below: str = "", *, make: Make | None = None) -> Iterator[int]:
    """Return a handle on a folder below `root`, opened name by name: a link on the way is an error
    (ELOOP).

    The root itself may be a link or a handle. Missing folders are created with `make`.
    """
    handle = os.dup(root) if isinstance(root, int) else os.open(root, _FOLDER)
    try:
        for name in filter(None, below.split("/")):
            if name == "..":
                raise OSError(errno.ELOOP, "the path leads out of the folder", below)
            if make is not None:
                make(name, handle)
            inner = _open_folder(name, handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def make_durably(name: str, handle: int, *, mode: int) -> None:
    """Create a folder if it does not exist, with a name as durable as what is written below it."""
    with suppress(FileExistsError):
        os.mkdir(name, mode, dir_fd=handle)
        # The handle itself may be one that cannot be synced.
        above = os.open(".", _FOLDER, dir_fd=handle)
        try:
            os.fsync(above)
        finally:
            os.close(above)


def _open_folder(name: str, handle: int) -> int:
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
    except NotADirectoryError:  # Linux reports a link in this way too.
        refuse_link(name, handle)
        raise


def refuse_link(name: str, handle: int) -> None:
    """Return an error (ELOOP) if the name in this folder is a link."""
    with suppress(FileNotFoundError):
        if stat.S_ISLNK(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)


def open_plain(
    name: str | Path, flags: int, mode: int = 0o600, *, folder: int | None = None
) -> int:
    """Return a handle on a regular file; a link, a pipe, a device or a folder in its place is an error."""
    handle = os.open(name, flags | _NO_LINK, mode, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(name))
    except BaseException:
        os.close(handle)
        raise
    return handle


def read_plain(name: str | Path, *, most: int | None = None, folder: int | None = None) -> bytes:
    """Return the content of a regular file, or its last `most` bytes."""
    with os.fdopen(open_plain(name, os.O_RDONLY, folder=folder), "rb") as file:
        if most is not None:
            file.seek(max(0, os.fstat(file.fileno()).st_size - most))
        return file.read() if most is None else file.read(most)


def move(name: str | Path, new: str | Path, folder: int | None, other: int | None) -> None:
    """Rename a file within a folder or to another folder, replacing a file of that name."""
    os.replace(name, new, src_dir_fd=folder, dst_dir_fd=other)

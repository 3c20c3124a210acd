"""Opens files and folders to which no link of another user leads, and no pipe of one."""

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playhead.host.folders import (
    MOST_LINKS,
    Make,
    is_of_system,
    is_trusted,
    opened,
    user_name,
    why_not_ours,
)

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_WAY = getattr(os, "O_PATH", 0) | os.O_NOFOLLOW | os.O_CLOEXEC
_AGAIN_S = 0.05

IsReplaced = Callable[[os.stat_result], bool]
"""Whether a new file takes the place of this one; raises an error if it is not to be written at all."""


@contextmanager
def opened_by_own_links(
    path: Path, *, to_list: bool = True, make: Make | None = None
) -> Iterator[int]:
    """Return a handle on a folder to which no link of another user leads: such a link is an error (EACCES).

    A handle that is not to list it needs no right to read the folder, only to enter it. Missing folders are
    created with `make`.

    Each name is opened before it is judged, so a link that is exchanged meanwhile changes nothing. Without
    Linux's handles on links, the folder is opened as it is.
    """
    if not hasattr(os, "O_PATH"):
        with opened("/", "/".join(path.resolve().parts[1:]), make=make) as handle:
            yield handle
        return
    here, missing = _walked(path, make)
    try:
        if missing:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        kind = _FOLDER if to_list else _WAY | os.O_DIRECTORY
        folder = os.open(".", kind, dir_fd=here)
    except NotADirectoryError as exc:
        raise NotADirectoryError(exc.errno, exc.strerror, str(path)) from exc
    finally:
        os.close(here)
    try:
        yield folder
    finally:
        os.close(folder)


def real_path(path: Path) -> Path:
    """Return the path without links, of which the end may be missing; a link of another user on the way is an
    error (EACCES).
    """
    if not hasattr(os, "O_PATH"):
        return path.resolve()
    here, missing = _walked(path, None)
    try:
        # What was opened, and not what the path leads to by now.
        found = Path(f"/proc/self/fd/{here}").readlink()
    finally:
        os.close(here)
    return Path(os.path.normpath(Path(found, *missing)))


def _walked(path: Path, make: Make | None) -> tuple[int, list[str]]:
    """Return a handle on the last file or folder of a path that exists, and the names after it."""
    # Folders above the current one may be closed to us.
    here, names, links = os.open("/" if path.is_absolute() else ".", _WAY), [*path.parts[::-1]], 0
    try:
        while names:
            try:
                inner = _on_the_way(names[-1], here, make)
            except FileNotFoundError:
                if make is not None:
                    raise
                break
            names.pop()
            if stat.S_ISLNK(os.fstat(inner).st_mode):
                names += reversed(_closed(inner, path).parts)
                links = _counted(links, path)
            else:
                os.close(here)
                here = inner
    except BaseException as exc:
        os.close(here)
        if isinstance(exc, NotADirectoryError):
            raise NotADirectoryError(exc.errno, exc.strerror, str(path)) from exc
        raise
    return here, names[::-1]


def open_by_own_links(
    path: Path, flags: int, mode: int = 0o600, *, is_replaced: IsReplaced = lambda _: False
) -> int:
    """Return a handle on a file to which no link of another user leads: such a link is an error (EACCES), and so
    is a pipe of another user, who would read from it, or let us wait.

    A file to empty is replaced by a new one where others can write its folder, because it may be a second name of
    a file elsewhere, and where `is_replaced` says so.
    """
    if not path.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not hasattr(os, "O_PATH"):
        return _opened_in_place(path, flags, mode, None, is_replaced)
    links = 0
    while True:
        with opened_by_own_links(path.parent, to_list=False) as folder:
            try:
                return _opened_inside(path.name, flags, mode, folder, is_replaced)
            except OSError as exc:
                if exc.errno != errno.ELOOP:
                    raise
            link = os.open(path.name, _WAY, dir_fd=folder)
            if is_of_system(os.fstat(link)):
                # As /dev/stdout is; it can lead to a pipe without a name, or to a file somewhere.
                os.close(link)
                return _opened_in_place(path.name, flags, mode, folder, is_replaced)
            path = path.parent / _closed(link, path)
            links = _counted(links, path)


def _opened_in_place(
    name: Path | str, flags: int, mode: int, folder: int | None, is_replaced: IsReplaced
) -> int:
    handle = os.open(name, flags & ~os.O_TRUNC, mode, dir_fd=folder)
    _judged(handle, is_replaced)
    return _emptied(handle, flags)


def _opened_inside(name: str, flags: int, mode: int, folder: int, is_replaced: IsReplaced) -> int:
    kept = flags & ~os.O_TRUNC | os.O_NOFOLLOW
    handle = _no_strangers_pipe(name, kept, mode, folder)
    is_others = why_not_ours(os.fstat(folder)) is not None
    if _judged(handle, lambda found: is_replaced(found) or is_others) and flags & os.O_TRUNC:
        try:
            os.unlink(name, dir_fd=folder)
        except OSError as exc:
            if exc.errno == errno.EBUSY:  # Root mounted this one file here, as containers do.
                return _emptied(handle, flags)
            os.close(handle)
            raise
        os.close(handle)
        return os.open(name, kept | os.O_EXCL, mode, dir_fd=folder)
    return _emptied(handle, flags)


def _judged(handle: int, is_replaced: IsReplaced) -> bool:
    """Return what is decided about an open file; a pipe or a device is never replaced."""
    found = os.fstat(handle)
    try:
        return stat.S_ISREG(found.st_mode) and is_replaced(found)
    except BaseException:
        os.close(handle)
        raise


def _emptied(handle: int, flags: int) -> int:
    if flags & os.O_TRUNC and stat.S_ISREG(os.fstat(handle).st_mode):
        os.ftruncate(handle, 0)
    return handle


def _no_strangers_pipe(name: str, flags: int, mode: int, folder: int) -> int:
    handle = _opened_when_read(name, flags, mode, folder)
    try:
        _expect_own_pipe(name, os.fstat(handle))
        os.set_blocking(handle, True)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _opened_when_read(name: str, flags: int, mode: int, folder: int) -> int:
    """Open a file; wait for the reader of a pipe, but not in the system: another user may exchange it."""
    while True:
        try:
            return os.open(name, flags | os.O_NONBLOCK, mode, dir_fd=folder)
        except (
            BlockingIOError
        ):  # Another program has a lease on the file, which the system now ends.
            pass
        except OSError as exc:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if exc.errno != errno.ENXIO or not stat.S_ISFIFO(found.st_mode):
                raise
            _expect_own_pipe(name, found)
        time.sleep(_AGAIN_S)


def _expect_own_pipe(name: str, found: os.stat_result) -> None:
    if stat.S_ISFIFO(found.st_mode) and not is_trusted(found):
        raise OSError(errno.EACCES, f"it is a pipe of {user_name(found.st_uid)}", name)


def _on_the_way(name: str, here: int, make: Make | None) -> int:
    try:
        return _open_way(name, here)
    except FileNotFoundError:
        if make is None:
            raise
    make(name, here)
    return _open_way(name, here)


def _open_way(name: str, here: int) -> int:
    try:
        # As a folder, because only then the system mounts what is mounted on demand, such as a home.
        return os.open(name, _WAY | os.O_DIRECTORY, dir_fd=here)
    except NotADirectoryError:
        return os.open(name, _WAY, dir_fd=here)


def _closed(link: int, path: Path) -> Path:
    """Return where an open link leads, if its owner is trusted; closes it."""
    try:
        found = os.fstat(link)
        if not is_trusted(found):
            raise OSError(
                errno.EACCES, f"a link of {user_name(found.st_uid)} leads to it", str(path)
            )
        return Path(os.readlink("", dir_fd=link))
    finally:
        os.close(link)


def _counted(links: int, path: Path) -> int:
    if links >= MOST_LINKS:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return links + 1

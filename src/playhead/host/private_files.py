"""Files and folders that only their owner can read, whatever the umask is."""

import errno
import os
import stat
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from playhead.host import folders
from playhead.host.own_links import open_by_own_links, opened_by_own_links

_OWNERS_FILE, _OWNERS_FOLDER = 0o600, 0o700
# Servers of root's sandbox run as another user, who must enter Playhead's folders and read the
# jars.
_PASSED_FOLDER, _PUBLIC_FILE = 0o711, 0o644


def folder(path: Path, *, is_passed: bool = False) -> Path:
    """Create a folder and its parents, or close our existing one to other users.

    A folder that root's servers pass through can be entered, but not listed. A link of another user on the
    way is an error.
    """
    passed = _PASSED_FOLDER if os.geteuid() == 0 else _OWNERS_FOLDER
    mode = passed if is_passed else _OWNERS_FOLDER
    with opened_by_own_links(path.parent, to_list=False, make=partial(_make, mode=passed)):
        pass
    with opened_by_own_links(path, to_list=False, make=partial(_make, mode=mode)) as handle:
        _narrow(handle, mode)
    return path


def folder_in(first: Path, *names: str) -> Path:
    """Create folders inside each other, all closed to other users: root's servers pass through none of them."""
    found = folder(first)
    for name in names:
        found = folder(found / name)
    return found


def opened(file: Path, mode: str) -> Any:
    """Open a file for writing; from its creation on, no other user can read it.

    A file that another user has put there is refused, because its owner would read it.
    """
    encoding = None if "b" in mode else "utf-8"
    return open(file, mode, encoding=encoding, opener=_opener)


def write(file: Path, text: str) -> None:
    """Write the text to a file that only its owner can read."""
    with opened(file, "w") as stream:
        stream.write(text)


def touch(file: Path) -> None:
    """Create an empty file if it does not exist."""
    opened(file, "ab").close()


def public_file_mode() -> int:
    """Return the mode of a file that is not secret and that root's servers must read."""
    return _PUBLIC_FILE if os.geteuid() == 0 else _OWNERS_FILE


def _opener(name: str, flags: int) -> int:
    def is_replaced(found: os.stat_result) -> bool:
        """Put a new file in its place: who has opened the old one would read what is written into it."""
        if found.st_uid not in (os.geteuid(), 0):
            raise PermissionError(errno.EACCES, "the file belongs to another user", name)
        return _is_open_to_others(found)

    opened = open_by_own_links(Path(name), flags, _OWNERS_FILE, is_replaced=is_replaced)
    if _is_open_to_others(os.fstat(opened)):
        os.fchmod(opened, _OWNERS_FILE)
    return opened


def _is_open_to_others(found: os.stat_result) -> bool:
    """Return whether it is a file of ours that others may read; not a terminal, or a pipe."""
    is_ours = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
    return is_ours and bool(found.st_mode & 0o077)


def _make(name: str, handle: int, *, mode: int) -> None:
    with suppress(FileExistsError):
        # At once, because a second command may already ask whether root's servers can enter it.
        os.mkdir(name, mode, dir_fd=handle)
        # The umask may have narrowed the mode.
        with folders.opened(handle, name) as made:
            os.fchmod(made, mode)


def _narrow(handle: int, mode: int) -> None:
    status = os.fstat(handle)
    if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) & ~mode:
        with folders.opened(handle, ".") as listed:
            os.fchmod(listed, stat.S_IMODE(status.st_mode) & mode)

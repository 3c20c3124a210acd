"""Files and folders that only their owner can read, whatever the umask is."""

import errno
import os
import stat
from pathlib import Path
from typing import Any

_OWNERS_FILE, _OWNERS_FOLDER = 0o600, 0o700
# Servers of root's sandbox run as another user, who must enter Playhead's folders and read the
# jars.
_PASSED_FOLDER, _PUBLIC_FILE = 0o711, 0o644


def folder(path: Path, *, is_passed: bool = False) -> Path:
    """Create a folder and its parents, or close our existing one to other users.

    A folder that root's servers pass through can be entered, but not listed.
    """
    for above in reversed(path.parents):
        _make(above, is_passed=True)
    mode = _make(path, is_passed=is_passed)
    status = path.stat()
    if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) & ~mode:
        path.chmod(stat.S_IMODE(status.st_mode) & mode)
    return path


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
    # Not emptied before it is known whose it is.
    opened = os.open(name, flags & ~os.O_TRUNC, _OWNERS_FILE)
    status = os.fstat(opened)
    # Leave a terminal or a pipe in the file's place as it is.
    if stat.S_ISREG(status.st_mode):
        if status.st_uid not in (os.geteuid(), 0):
            os.close(opened)
            raise PermissionError(errno.EACCES, "the file belongs to another user", name)
        if status.st_uid == os.geteuid() and status.st_mode & 0o077:
            os.fchmod(opened, _OWNERS_FILE)
        if flags & os.O_TRUNC:
            os.ftruncate(opened, 0)
    return opened


def _make(path: Path, *, is_passed: bool) -> int:
    mode = _PASSED_FOLDER if is_passed and os.geteuid() == 0 else _OWNERS_FOLDER
    if not path.is_dir():
        path.mkdir(mode=_OWNERS_FOLDER, exist_ok=True)
        path.chmod(mode)  # The umask may have narrowed the mode.
    return mode

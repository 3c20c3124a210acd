"""Files and folders that only their owner can read, whatever the umask says."""

import os
import stat
from pathlib import Path
from typing import Any

_OWNERS_FILE, _OWNERS_FOLDER = 0o600, 0o700
# Root's sandbox runs as another user, who has to come through Playhead's own folders, and reads the jars.
_PASSED_FOLDER, _PUBLIC_FILE = 0o711, 0o644


def folder(path: Path, *, is_passed: bool = False) -> Path:
    """Make a folder, with those above it; one that is there is closed to others when it is ours.

    One that root's servers have to come through can be entered and not listed.
    """
    for above in reversed(path.parents):
        _make(above, is_passed=True)
    mode = _make(path, is_passed=is_passed)
    status = path.stat()
    if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) & ~mode:
        path.chmod(stat.S_IMODE(status.st_mode) & mode)
    return path


def opened(file: Path, mode: str) -> Any:
    """Open a file of our own to write; nobody else reads it, from its first instant on."""
    encoding = None if "b" in mode else "utf-8"
    return open(file, mode, encoding=encoding, opener=_opener)


def write(file: Path, text: str) -> None:
    """Have the text in a file that only its owner reads."""
    with opened(file, "w") as stream:
        stream.write(text)


def touch(file: Path) -> None:
    """Have the file there."""
    opened(file, "ab").close()


def public_file_mode() -> int:
    """The mode of a file that is no secret, and that root's servers have to read."""
    return _PUBLIC_FILE if os.geteuid() == 0 else _OWNERS_FILE


def _opener(name: str, flags: int) -> int:
    opened = os.open(name, flags, _OWNERS_FILE)
    status = os.fstat(opened)
    # A terminal or a pipe that was named in a file's place stays as it is.
    if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_mode & 0o077:
        os.fchmod(opened, _OWNERS_FILE)
    return opened


def _make(path: Path, *, is_passed: bool) -> int:
    mode = _PASSED_FOLDER if is_passed and os.geteuid() == 0 else _OWNERS_FOLDER
    if not path.is_dir():
        path.mkdir(mode=_OWNERS_FOLDER, exist_ok=True)
        path.chmod(mode)  # which a umask may have narrowed
    return mode

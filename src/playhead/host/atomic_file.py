"""Writes files so that a reader or a crash never sees a partial file."""

import os
import stat
from pathlib import Path
from uuid import uuid4

from playhead.host import private_files
from playhead.host.folders import is_of_system, move
from playhead.host.own_links import opened_by_own_links

_OWNERS = 0o600


def write_whole(file: Path, text: str, *, mode: int = _OWNERS, folder: int | None = None) -> None:
    """Replace the content of a file atomically; by default, only its owner can read it.

    With a handle on a folder, the file is in that folder, wherever the path leads by now. Without one, a link
    of another user on the way to it is an error, and a device or a pipe in its place, such as /dev/stdout, stays
    and is written to.
    """
    if folder is None:
        with opened_by_own_links(file.parent, to_list=False) as handle:
            if _is_replaceable(file.name, handle):
                write_whole(Path(file.name), text, mode=mode, folder=handle)
                return
        private_files.write(file, text)
        return
    aside = _written_aside(file, text, mode, folder)
    try:
        move(aside, file, folder, folder)
    except BaseException:
        os.unlink(aside, dir_fd=folder)
        raise


def _is_replaceable(name: str, folder: int) -> bool:
    """Return whether it is missing, or a file or a link that is no name of a device, a pipe, or our output."""
    if not name:
        return False
    try:
        found, itself = (
            os.stat(name, dir_fd=folder, follow_symlinks=follows) for follows in (True, False)
        )
        is_link = stat.S_ISLNK(itself.st_mode)
        leads = Path(os.readlink(name, dir_fd=folder) if is_link else "")
        is_output = is_link and (is_of_system(itself) or leads.is_relative_to("/proc"))
    except OSError:
        return True
    return stat.S_ISREG(found.st_mode) and not is_output


def write_new(file: Path, text: str) -> None:
    """Create the file; raise `FileExistsError` if it exists, even if it was created just now."""
    aside = _written_aside(file, text, _OWNERS, None)
    try:
        os.link(aside, file)
    finally:
        aside.unlink(missing_ok=True)


def _written_aside(file: Path, text: str, mode: int, folder: int | None) -> Path:
    """Write a temporary file with a unique name in the same folder, so that a rename can put it in place."""
    aside = file.with_name(f".{uuid4().hex}.new")
    opened = os.open(aside, os.O_CREAT | os.O_WRONLY | os.O_EXCL, mode, dir_fd=folder)
    try:
        with open(opened, "w", encoding="utf-8") as stream:  # noqa: PTH123
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:  # such as a full disk
        os.unlink(aside, dir_fd=folder)
        raise
    return aside

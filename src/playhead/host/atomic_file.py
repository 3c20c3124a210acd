"""Writes files so that a reader or a crash never sees a partial file."""

import os
from pathlib import Path
from uuid import uuid4

from playhead.host.folders import move, opened_by_own_links

_OWNERS = 0o600


def write_whole(file: Path, text: str, *, mode: int = _OWNERS, folder: int | None = None) -> None:
    """Replace the content of a file atomically; by default, only its owner can read it.

    With a handle on a folder, the file is in that folder, wherever the path leads by now. Without one, a link
    of another user on the way to it is an error.
    """
    if folder is None:
        with opened_by_own_links(file.parent, to_list=False) as handle:
            write_whole(Path(file.name), text, mode=mode, folder=handle)
        return
    aside = _written_aside(file, text, mode, folder)
    try:
        move(aside, file, folder, folder)
    except BaseException:
        os.unlink(aside, dir_fd=folder)
        raise


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

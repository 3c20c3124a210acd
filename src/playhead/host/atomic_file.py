"""Files that are there whole or not at all, whenever somebody dies or looks."""

import os
from pathlib import Path
from uuid import uuid4

from playhead.host.folders import move

_OWNERS = 0o600


def write_whole(file: Path, text: str, *, mode: int = _OWNERS, folder: int | None = None) -> None:
    """Put the text in the place of whatever the file held; only its owner reads it, unless others may.

    With a handle on a folder, the file is one of that folder, wherever its path leads by now.
    """
    aside = _written_aside(file, text, mode, folder)
    try:
        move(aside, file, folder, folder)
    except BaseException:
        os.unlink(aside, dir_fd=folder)
        raise


def write_new(file: Path, text: str) -> None:
    """Make the file; `FileExistsError` when it is there, also when another made it just now."""
    aside = _written_aside(file, text, _OWNERS, None)
    try:
        os.link(aside, file)
    finally:
        aside.unlink(missing_ok=True)


def _written_aside(file: Path, text: str, mode: int, folder: int | None) -> Path:
    """In the same folder, so that it can be put in its place in one step; its name is nobody else's."""
    aside = file.with_name(f".{uuid4().hex}.new")
    opened = os.open(aside, os.O_CREAT | os.O_WRONLY | os.O_EXCL, mode, dir_fd=folder)
    with open(opened, "w", encoding="utf-8") as stream:  # noqa: PTH123
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    return aside

"""Files and folders that others may read if the umask lets them, and may never change."""

from functools import partial
from pathlib import Path
from typing import Any

from playhead.host.folders import is_trusted, make_durably
from playhead.host.own_links import open_by_own_links, opened_by_own_links

_FILE, _FOLDER = 0o644, 0o755


def folder(path: Path) -> Path:
    """Create a folder and its missing parents; a link of another user on the way is an error."""
    with opened_by_own_links(path, to_list=False, make=partial(make_durably, mode=_FOLDER)):
        return path


def opened(file: Path, mode: str) -> Any:
    """Open a text file for writing; one that exists keeps its mode, if others cannot write it or its folder."""
    return open(file, mode, encoding="utf-8", opener=_opener)


def write(file: Path, text: str) -> None:
    """Write the text to a file that only its owner can change."""
    with opened(file, "w") as stream:
        stream.write(text)


def _opener(name: str, flags: int) -> int:
    return open_by_own_links(
        Path(name), flags, _FILE, is_replaced=lambda found: not is_trusted(found)
    )

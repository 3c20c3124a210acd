"""Files and folders that others may read if the umask lets them, and may never change."""

import os
from pathlib import Path
from typing import Any

_FILE, _FOLDER = 0o644, 0o755


def folder(path: Path) -> Path:
    """Create a folder and its missing parents."""
    for each in (*reversed(path.parents), path):
        each.mkdir(_FOLDER, exist_ok=True)
    return path


def opened(file: Path, mode: str) -> Any:
    """Open a text file for writing; one that exists keeps its mode."""
    return open(file, mode, encoding="utf-8", opener=_opener)


def write(file: Path, text: str) -> None:
    """Write the text to a file that only its owner can change."""
    with opened(file, "w") as stream:
        stream.write(text)


def _opener(name: str, flags: int) -> int:
    return os.open(name, flags, _FILE)

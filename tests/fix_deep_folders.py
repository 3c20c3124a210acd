"""Folders that another user has nested deeper than Python calls itself."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LEVELS = 1_500


@contextmanager
def folder_of_many_levels(top: Path, name: str = "d") -> Iterator[Path]:
    """Make the folder; it is removed here, because shutil and pytest cannot remove it."""
    top.mkdir()
    handle = os.open(top, os.O_RDONLY)
    try:
        for _ in range(_LEVELS):
            os.mkdir(name, dir_fd=handle)
            inner = os.open(name, os.O_RDONLY, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield top
    finally:
        os.close(handle)
        subprocess.run(["rm", "-rf", str(top)], check=True)

"""Walks and removes the folders below one: however deep they are, and without going in circles."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def folders_below(top: str, *, by_links: bool = False) -> Iterator[str]:
    """Yield a folder and those below it, each once, without hidden ones.

    Links are followed only with `by_links`. Then a folder outside is yielded too, but not entered: there may be all
    files of the machine. `os.walk` calls itself for each level before Python 3.12, and another user may have made
    thousands.
    """
    inside = os.path.realpath(top)
    seen, waiting = set[str](), [(top, inside)]
    while waiting:
        folder, real = waiting.pop()
        if real in seen:
            continue
        seen.add(real)
        yield folder
        if os.path.commonpath((inside, real)) == inside:
            waiting += sorted(_inner(folder, real, by_links=by_links), reverse=True)


def _inner(folder: str, real: str, *, by_links: bool) -> Iterator[tuple[str, str]]:
    """Yield the paths and the real paths of the folders in this one; what cannot be read is left out."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") or not _is_folder(entry, by_links=by_links):
                continue
            is_link = entry.is_symlink()
            below = f"{real.rstrip('/')}/{entry.name}"
            yield entry.path, os.path.realpath(entry.path) if is_link else below


def _is_folder(entry: "os.DirEntry[str]", *, by_links: bool) -> bool:
    try:
        return entry.is_dir(follow_symlinks=by_links)
    except OSError:  # as for a link that leads to itself
        return False


def remove_tree(folder: Path) -> None:
    """Remove a folder with its content, as far as possible; links are not followed."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        # Python calls itself for each level, and another user can make thousands of levels.
        subprocess.run(["rm", "-rf", "--", folder], stderr=subprocess.DEVNULL, check=False)

"""Files that one process at a time holds; the lock goes with its holder, however that ends."""

import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from playhead.errors import PlayheadError
from playhead.host.clock import wait_until
from playhead.host.folders import open_plain


@contextmanager
def held(
    file: Path,
    refusal: Callable[[str], PlayheadError],
    *,
    keep_waiting: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Hold it; when another does, and nobody wants to wait any longer, raise what `refusal` makes of him."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(open_plain(file, os.O_RDWR | os.O_CREAT), "r+", encoding="utf-8") as opened:
        while not _locked(opened):
            if not keep_waiting():
                raise refusal(opened.read().strip() or "on this machine")
        opened.truncate(0)
        opened.write(f"process {os.getpid()} on {socket.gethostname()}")
        opened.flush()
        yield


def is_held(file: Path) -> bool:
    """Whether somebody holds it now."""
    try:
        opened = open_plain(file, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(opened)
    return False


def _locked(opened: TextIO) -> bool:
    """Whether the lock is ours; somebody who only looks has it for an instant, so that is waited out."""

    def try_it() -> bool:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    return bool(wait_until(try_it, deadline_s=0.5, every_s=0.05))

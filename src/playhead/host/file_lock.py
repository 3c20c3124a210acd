"""Locks on files, held by one process at a time; a lock ends with its process."""

import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TextIO

from playhead.errors import PlayheadError
from playhead.host import private_files
from playhead.host.clock import wait_until
from playhead.host.folders import open_plain


@contextmanager
def held(
    file: Path,
    refusal: Callable[[str], PlayheadError],
    *,
    keep_waiting: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Hold the lock; if another process has it and waiting ends, raise `refusal` with its description."""
    private_files.folder(file.parent)
    with os.fdopen(open_plain(file, os.O_RDWR | os.O_CREAT), "r+", encoding="utf-8") as opened:
        while not _locked(opened):
            if not keep_waiting():
                raise refusal(opened.read().strip() or "on this machine")
        opened.truncate(0)
        opened.write(f"process {os.getpid()} on {socket.gethostname()}")
        opened.flush()
        yield


def take(opened: int | IO[bytes] | TextIO) -> bool:
    """Lock an open file until it is closed, without waiting; return False if another process has it."""
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_held(file: Path) -> bool:
    """Return whether a process holds the lock now."""
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
    """Return whether we have the lock; a process that only checks holds it briefly, so retry."""

    def try_it() -> bool:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    return bool(wait_until(try_it, deadline_s=0.5, every_s=0.05))

"""Reads files that the user names, which may be the end of another user's link to something without an end."""

import errno
import os
import select
import stat
from pathlib import Path

from playhead.host.folders import is_trusted, user_name

MOST_LETTERS = 64 << 20


class PipeOfAnother(PermissionError):
    """The file is a pipe of another user, who would let us wait."""


def text_of(path: Path, *, encoding: str = "utf-8", errors: str = "strict") -> str:
    """Return the text of a file; one of more than 64 million letters is an error (EFBIG), and so is a pipe of
    another user (`PipeOfAnother`).
    """
    with open(path, encoding=encoding, errors=errors, opener=_opener) as file:
        text = file.read(MOST_LETTERS + 1)
    _refuse_more(len(text), path)
    return text


def bytes_of(path: Path) -> bytes:
    """Return the bytes of a file, with the same errors."""
    with open(path, "rb", opener=_opener) as file:
        content = file.read(MOST_LETTERS + 1)
    _refuse_more(len(content), path)
    return content


def _refuse_more(length: int, path: Path) -> None:
    if length > MOST_LETTERS:
        raise OSError(errno.EFBIG, f"it has more than {MOST_LETTERS >> 20} MiB", str(path))


def _opener(name: str, flags: int) -> int:
    handle = os.open(name, flags | os.O_NONBLOCK)
    try:
        found = os.fstat(handle)
        if stat.S_ISFIFO(found.st_mode):
            if not is_trusted(found) and _has_name(handle):
                raise PipeOfAnother(
                    errno.EACCES, f"it is a pipe of {user_name(found.st_uid)}", name
                )
            waiting = select.poll()  # for a writer
            waiting.register(handle, select.POLLIN)
            waiting.poll()
        os.set_blocking(handle, True)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _has_name(pipe: int) -> bool:
    """Return whether a pipe is a file; one without a name, as in /dev/stdin, is from the one who started us."""
    try:
        return Path(f"/proc/self/fd/{pipe}").readlink().is_absolute()
    except OSError:  # as without /proc
        return False

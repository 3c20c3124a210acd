"""Reads text files that the user names, which may be the end of another user's link to something without an end."""

import errno
from pathlib import Path

MOST_LETTERS = 64 << 20


def text_of(path: Path, *, encoding: str = "utf-8", errors: str = "strict") -> str:
    """Return the text of a file; one of more than 64 million letters is an error (EFBIG)."""
    with path.open(encoding=encoding, errors=errors) as file:
        text = file.read(MOST_LETTERS + 1)
    if len(text) > MOST_LETTERS:
        raise OSError(errno.EFBIG, f"it has more than {MOST_LETTERS >> 20} MiB", str(path))
    return text

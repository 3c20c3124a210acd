"""Reads files that gzip has packed; one with zeros without an end behind its data is damaged."""

import gzip
from io import BufferedReader, FileIO
from typing import Final

_MOST_ZEROS: Final = 1 << 20
"""Tapes are padded to their blocks, which have at most this size."""


class _Padded(BufferedReader):
    """Counts the zeros behind the data, which Python's gzip reads one after the other."""

    _zeros = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self._zeros = self._zeros + 1 if size == 1 and data == b"\0" else 0
        if self._zeros > _MOST_ZEROS:
            raise gzip.BadGzipFile(f"more than {_MOST_ZEROS:,} zeros are behind its end")
        return data


def unpacked(packed: FileIO) -> gzip.GzipFile:
    """Return what a file has unpacked; closing it closes the file."""
    padded = _Padded(packed)
    content = gzip.GzipFile(fileobj=padded)
    content.myfileobj = padded  # type: ignore[assignment]  # GzipFile closes it then.
    return content

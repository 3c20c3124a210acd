"""Stores the statements of a tape: in a file for a complete log, in memory for a followed log."""

import mmap
import tempfile
from array import array
from typing import Protocol


class Texts(Protocol):
    """The statements as bytes, by number."""

    def add(self, text: bytes, /) -> None: ...

    def __getitem__(self, number: int, /) -> bytes: ...

    def forget(self, before: int, /) -> None:
        """Allow the statements before this number to be removed."""
        ...


class FiledTexts(Texts):
    """Statements in a file, which is read after `close`.

    The file has no name, because a named file would be left by a killed run, with all values of the log.
    """

    def __init__(self) -> None:
        self._out = tempfile.TemporaryFile()  # noqa: SIM115  closed by `close`
        self._offsets = array("q", [0])
        self._bytes: mmap.mmap | bytes = b""

    def add(self, text: bytes, /) -> None:
        self._out.write(text)
        self._offsets.append(self._offsets[-1] + len(text))

    def close(self) -> None:
        """End writing, and prepare for reading."""
        with self._out:
            self._out.flush()
            if self._offsets[-1]:
                self._bytes = mmap.mmap(self._out.fileno(), 0, access=mmap.ACCESS_READ)

    def __getitem__(self, number: int, /) -> bytes:
        return self._bytes[self._offsets[number] : self._offsets[number + 1]]

    def forget(self, before: int, /) -> None:
        """Do nothing, because the file ends with the run."""


class HeldTexts(Texts):
    """Statements in memory, until they are forgotten."""

    def __init__(self) -> None:
        self._texts: dict[int, bytes] = {}
        self._next = self._first = 0

    def add(self, text: bytes, /) -> None:
        self._texts[self._next] = text
        self._next += 1

    def __getitem__(self, number: int, /) -> bytes:
        return self._texts[number]

    def forget(self, before: int, /) -> None:
        for number in range(self._first, before):
            del self._texts[number]
        self._first = max(self._first, before)

"""Stores the statements of a tape: in a file for a complete log, in memory for a followed log."""

import os
import tempfile
import weakref
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
        self._file = -1

    def add(self, text: bytes, /) -> None:
        self._out.write(text)
        self._offsets.append(self._offsets[-1] + len(text))

    def close(self) -> None:
        """End writing, and prepare for reading."""
        with self._out:
            self._out.flush()
            self._file = os.dup(self._out.fileno())
        weakref.finalize(self, os.close, self._file)

    def __getitem__(self, number: int, /) -> bytes:
        start, end = self._offsets[number], self._offsets[number + 1]
        # Not mapped: the pages that were read would stay in the memory of the process.
        return os.pread(self._file, end - start, start)

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

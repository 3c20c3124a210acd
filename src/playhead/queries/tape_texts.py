"""Where the statements of a tape are kept: in a file if the log has an end, in memory while it is followed."""

import mmap
import tempfile
from array import array
from typing import Protocol


class Texts(Protocol):
    """The statements as bytes, by their numbers."""

    def add(self, text: bytes, /) -> None: ...

    def __getitem__(self, number: int, /) -> bytes: ...

    def forget(self, before: int, /) -> None:
        """Allow that those before this number are not kept."""
        ...


class FiledTexts(Texts):
    """In a file, which is read when `close` was called.

    It has no name: that would stay behind a run that is killed, with all values of the log.
    """

    def __init__(self) -> None:
        self._out = tempfile.TemporaryFile()  # noqa: SIM115  closed by `close`
        self._offsets = array("q", [0])
        self._bytes: mmap.mmap | bytes = b""

    def add(self, text: bytes, /) -> None:
        self._out.write(text)
        self._offsets.append(self._offsets[-1] + len(text))

    def close(self) -> None:
        """Nothing more is added."""
        with self._out:
            self._out.flush()
            if self._offsets[-1]:
                self._bytes = mmap.mmap(self._out.fileno(), 0, access=mmap.ACCESS_READ)

    def __getitem__(self, number: int, /) -> bytes:
        return self._bytes[self._offsets[number] : self._offsets[number + 1]]

    def forget(self, before: int, /) -> None:
        """Keep all: the file ends with the run."""


class HeldTexts(Texts):
    """In memory, until they are forgotten."""

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

"""Notices that a file of a capture is written while it is read: its index describes other bytes then."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from playhead.errors import Refused
from playhead.traffic.snapshot import Snapshot, State, plain, state_of

_BLOCK: Final = 1 << 20


class CaptureChanged(Refused):
    """A file of the capture changed while it was read."""

    def __init__(self, id_: str) -> None:
        self.id = id_
        super().__init__(
            f"capture {id_} changed while it was read",
            hint="run the command again when the capture is complete",
        )


class Unchanged:
    """A capture as it was when its index was made."""

    def __init__(
        self, snapshot: Snapshot, stamp: Sequence[tuple[str, State]], identity: str
    ) -> None:
        self.snapshot = snapshot
        self._fingerprint = identity.rpartition(":")[2]
        self._states = [state for _, state in stamp]

    def expect(self, file: int, handle: int) -> None:
        """Return if an open file has the bytes of the index; to be called after each read of it.

        A backup or a new mode of the file changes its times too, so the fingerprint decides.
        """
        state = state_of(os.fstat(handle))
        if state == self._states[file]:
            return
        # Read before the fingerprint, which then holds for all files: after a chmod of a folder of thousands, it is
        # not computed again for each.
        states = [each for _, each in self.snapshot.stamp()]
        if fingerprint(self.snapshot, {file: handle}) != self._fingerprint:
            raise CaptureChanged(self.snapshot.id)
        states[file] = state
        self._states = states


@contextmanager
def read_once(snapshot: Snapshot, handle: int) -> Iterator[None]:
    """Raise CaptureChanged at the end of the block if an open file was written in it."""
    before = os.fstat(handle)
    yield
    now = os.fstat(handle)
    if (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise CaptureChanged(snapshot.id)


def fingerprint(snapshot: Snapshot, opened: Mapping[int, int] | None = None) -> str:
    """Return a hash of all bytes of all files, independent of their paths; some may be open already."""
    whole = hashlib.sha256()
    for index, file in enumerate(snapshot.files):
        if opened is not None and index in opened:
            whole.update(_digest(opened[index]))
            continue
        with plain(file) as content:
            whole.update(_digest(content.fileno()))
    return whole.hexdigest()[:32]


def _digest(handle: int) -> bytes:
    """Return the hash of an open file, whose position stays."""
    digest, at = hashlib.sha256(), 0
    while block := os.pread(handle, _BLOCK, at):
        digest.update(block)
        at += len(block)
    return digest.digest()

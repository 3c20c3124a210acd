"""Lets the paced partitions of a run, in several processes of one machine, start and end together."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from playhead.host.clock import Clock

# The time between the last arrival and the start, in which all must notice the arrival.
_SOON_NS = 100_000_000
_START, _OVER, _HERE = "start", "over", "here-"


@dataclass(frozen=True, slots=True)
class StartBarrier:
    """A folder that all tasks can access; the last partition to arrive sets the start."""

    folder: Path
    partitions: int

    def arrive(self) -> None:
        """Report that a partition has connected, has its first records, and could start."""
        with suppress(OSError):  # The run has ended meanwhile.
            (self.folder / f"{_HERE}{uuid4().hex}").touch()

    def start_ns(self, clock: Clock, *, latest_ns: int) -> int | None:
        """Return the common start by the wall clock; None while one is missing.

        After `latest_ns` the others start without the missing ones, whose records will be overdue.
        """
        with suppress(OSError, ValueError):
            return int((self.folder / _START).read_text())
        now = clock.now_ns()
        if now >= latest_ns or self._here() >= self.partitions:
            self._begin(now + _SOON_NS)
        return None

    def _here(self) -> int:
        with suppress(OSError):
            return sum(name.startswith(_HERE) for name in os.listdir(self.folder))  # noqa: PTH208
        return 0

    def _begin(self, start_ns: int) -> None:
        """Write the start once and atomically: a link appears with its full content or existed before."""
        own = self.folder / uuid4().hex
        with suppress(OSError):
            own.write_text(str(start_ns))
            os.link(own, self.folder / _START)

    def end(self) -> None:
        """End the run for all, because one cannot continue and the others would run ahead."""
        with suppress(OSError):
            (self.folder / _OVER).touch()

    @property
    def is_over(self) -> bool:
        return (self.folder / _OVER).exists()

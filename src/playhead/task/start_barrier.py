"""Lets the paced lanes of a run, in several processes of one machine, begin together and end together."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from playhead.host.clock import Clock

# From the moment at which the last has come until the start: all of them must have seen it by then.
_SOON_NS = 100_000_000
_START, _OVER, _HERE = "start", "over", "here-"


@dataclass(frozen=True, slots=True)
class StartBarrier:
    """A folder that all lanes see; who comes last says when it starts."""

    folder: Path
    lanes: int

    def arrive(self) -> None:
        """One more lane has connected, has its first records, and could begin."""
        with suppress(OSError):  # the run has ended meanwhile
            (self.folder / f"{_HERE}{uuid4().hex}").touch()

    def start_ns(self, clock: Clock, *, latest_ns: int) -> int | None:
        """The start by the wall clock, the same for all; None as long as somebody is missing.

        After `latest_ns` nobody is waited for: who comes late finds its records overdue.
        """
        with suppress(OSError, ValueError):
            return int((self.folder / _START).read_text())
        now = clock.now_ns()
        if now >= latest_ns or self._here() >= self.lanes:
            self._begin(now + _SOON_NS)
        return None

    def _here(self) -> int:
        with suppress(OSError):
            return sum(name.startswith(_HERE) for name in os.listdir(self.folder))  # noqa: PTH208
        return 0

    def _begin(self, start_ns: int) -> None:
        """Said once and whole: a link is there with all its content, or was there before."""
        own = self.folder / uuid4().hex
        with suppress(OSError):
            own.write_text(str(start_ns))
            os.link(own, self.folder / _START)

    def end(self) -> None:
        """A lane cannot go on: the others would run ahead of it."""
        with suppress(OSError):
            (self.folder / _OVER).touch()

    @property
    def is_over(self) -> bool:
        return (self.folder / _OVER).exists()

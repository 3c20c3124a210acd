"""Keeps other runs of a pipeline out, even after its connection was lost."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Self

from playhead.errors import Unavailable
from playhead.host.clock import sleep_unless
from playhead.live.backoff import RepeatedNotice, server_backoff
from playhead.target import InUse, Target

# The server may need a while to notice that our previous connection is gone.
_HELD_BY_A_GHOST_S = 120.0


@dataclass(slots=True)
class TargetLock:
    """The target's own lock, released at the end of the block."""

    target: Target
    pipeline_id: str
    say: Callable[[str], None]
    is_stopped: Callable[[], bool]
    _held: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def take(self) -> None:
        """Take the lock; raise `InUse` if another run has it."""
        self._held.close()
        self._held.enter_context(self.target.hold(self.pipeline_id))

    def renew(self) -> None:
        """Take the lock again, because the connection may have been lost with it."""
        until = time.monotonic() + _HELD_BY_A_GHOST_S
        told, backoff = RepeatedNotice(), server_backoff()
        while not self.is_stopped():
            try:
                self.take()
                return
            except Unavailable:
                return  # The next round meets the same error and reports it.
            except InUse as exc:
                if time.monotonic() > until:
                    raise
                if told.is_time():
                    self.say(f"{told.since()} for its lock: {exc}")
                sleep_unless(self.is_stopped, backoff.take())

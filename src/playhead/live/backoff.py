"""Intervals of repeated notices about a lasting wait, and waits for servers."""

import time
from collections.abc import Callable

from playhead.host.clock import Backoff

_FIRST_S, _LONGEST_S = 0.25, 5.0
_FIRST_SAID_S, _SELDOMEST_S = 5.0, 60.0


def server_backoff() -> Backoff:
    """Return the waits for a server that does not answer; the first attempt is repeated at once."""
    return Backoff(_FIRST_S, _LONGEST_S, at_once=True)


class RepeatedNotice:
    """Prints a lasting condition at once, and then at growing intervals."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._began: float | None = None
        self._next = 0.0
        self._pause_s = _FIRST_SAID_S

    def is_time(self) -> bool:
        """Return whether to print it now."""
        now = self._now()
        if self._began is None:
            self._began = now
        elif now < self._next:
            return False
        else:
            self._pause_s = min(2 * self._pause_s, _SELDOMEST_S)
        self._next = now + self._pause_s
        return True

    def since(self) -> str:
        """Return the beginning of the sentence: new, or still going."""
        lasted_s = self.lasted_s()
        return "WAITING" if lasted_s < 1 else f"STILL WAITING after {lasted_s:.0f} s"

    def lasted_s(self) -> float:
        return 0.0 if self._began is None else self._now() - self._began

    def start_over(self) -> None:
        self._began, self._pause_s = None, _FIRST_SAID_S

"""Closes connections whose unanswered requests fill the memory and hold all clients back.

While clients are held back, no request is accepted, so each one that still has no answer is at least as old
as the hold. It does not matter whether some answers come: one every few seconds would keep a connection, and
the hold, for as long as a client likes. So the time of the hold counts, and it adds up over several holds.
"""

import time
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from playhead.capture.frame_memory import Patience

MOST_S: Final = 20.0
"""How long unanswered requests may hold all clients back."""
BRIEF_S: Final = 1.0
"""Shorter holds are what a busy broker causes; they do not count."""
# A second of a hold is forgotten after four seconds without one.
_FORGOTTEN_AFTER: Final = 4.0


class Asking(Protocol):
    """A connection with requests that have no answer yet."""

    @property
    def unanswered_bytes(self) -> int: ...
    def give_up(self, why: str) -> None: ...


class UnansweredWatch:
    """Measures how long clients are held back; called by the forwarding thread only."""

    def __init__(self, most_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most_bytes, clock
        self._patience = Patience()
        self._looked_at_s = clock()
        self._held_since_s: float | None = None
        self._waited_s = 0.0
        """Time of all holds that count, since the last closing."""

    def hold(self, is_holding: bool) -> None:
        """Note that clients are held back from now on, or no more."""
        self._held_since_s = self._clock() if is_holding else None

    def look(self, relays: Iterable[Asking]) -> None:
        """Called now and then: close the largest if clients have waited for too long."""
        now_s = self._clock()
        passed_s, self._looked_at_s = now_s - self._looked_at_s, now_s
        if self._held_since_s is None:
            self._patience.had_room(passed_s)
            self._waited_s = max(self._waited_s - passed_s / _FORGOTTEN_AFTER, 0.0)
            return
        held_s = now_s - self._held_since_s
        if held_s < BRIEF_S:
            return
        asking = sorted(
            ((each.unanswered_bytes, n, each) for n, each in enumerate(relays)), reverse=True
        )
        left = sum(size for size, _, _ in asking)
        if left <= self._most // 2:
            return  # the recorder is slow, and no client
        self._waited_s += min(passed_s, held_s)
        if self._waited_s < MOST_S * self._patience.share:
            return
        self._waited_s = 0.0
        self._patience.closed()
        for size, _, relay in asking:
            if left <= self._most // 2:
                break
            left -= size
            relay.give_up("its unanswered requests fill the memory")

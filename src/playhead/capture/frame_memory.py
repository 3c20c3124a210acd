"""Limits the memory of buffered frames: incomplete ones, and those that the receiver does not read.

A frame is forwarded when it is complete, so incomplete frames are buffered. A client that sends partial frames,
or does not read its responses, could fill the memory. Above the limit, only the side that has buffered bytes
for the longest time may continue: it completes its frame, or its connection is closed, because it is stalled
or because the others have waited for too long. Each one that had to be closed halves the time of the next, and
after a few of them all are closed that fill the memory, the largest first: many connections cannot block the
others for longer, together, than twice the time of one. This is forgotten slowly, so that a client which fills
the memory again after each closing does not block the others for the whole time again.
"""

import time
from collections.abc import Callable
from typing import Final, Protocol

_WHY = "buffered frames fill the memory"
MOST_S: Final = 30.0
"""How long the first end may take while the memory is full; single bytes would keep it forever."""
STALLED_S: Final = 10.0
"""How long the first end may send or read nothing while the memory is full."""
_MOST_WAITED_FOR: Final = 5

FORGOTTEN_AFTER_S: Final = 300.0
# With six closings the time is a sixty-fourth. More would only be forgotten later.
_MOST_CLOSINGS: Final = 6


class Patience:
    """Each closing halves the time until the next one; five minutes with room double it again.

    Closings are not forgotten as soon as there is room: a client that fills the memory again and again
    would get the whole time each time.
    """

    def __init__(self) -> None:
        self.closings = 0
        self._room_s = 0.0

    @property
    def share(self) -> float:
        """The part of the whole time that is left."""
        return float(0.5**self.closings)

    def closed(self) -> None:
        self.closings = min(self.closings + 1, _MOST_CLOSINGS)

    def had_room(self, seconds: float) -> None:
        """Note that the memory was not full for so long."""
        self._room_s = self._room_s + seconds if self.closings else 0.0
        if self._room_s >= FORGOTTEN_AFTER_S:
            self._room_s = 0.0
            self.closings -= 1


class End(Protocol):
    """One side of a connection."""

    @property
    def held_bytes(self) -> int: ...
    def hold_back(self, why: str) -> None: ...
    def let_go(self, why: str) -> None: ...
    def give_up(self, why: str) -> None: ...


class Halves:
    """Counts the buffered bytes of each side; called by the forwarding thread only."""

    def __init__(
        self,
        most_bytes: int,
        warn: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._warn, self._clock = most_bytes, warn, clock
        self._first: End | None = None
        self._first_since_s = 0.0
        self._held: dict[End, int] = {}
        self._first_held = 0
        self._moved_at_s = 0.0
        self._looked_at_s = clock()
        self._patience = Patience()
        self.total_bytes = 0
        self.is_full = False

    def changed(self, end: End, source: End | None = None) -> None:
        """Update the buffered bytes of this side, which has been given a frame of `source`."""
        before, now = self._held.get(end, 0), end.held_bytes
        if now:
            if self.is_full and not before and source is next(iter(self._held), end):
                # Its turn lasts until the frame is read; otherwise each next side would add an unread frame.
                self._held = {end: now, **self._held}
            self._held[end] = now
        else:
            self._held.pop(end, None)
        self.total_bytes += now - before
        if self.total_bytes > self._most:
            self._fill(end)
        elif self.is_full and self.total_bytes <= self._most // 2:
            self._let_all_go()
        if self.is_full and not now:
            end.let_go(_WHY)
            self._let_first_go()
        self._note_first()

    def gone(self, end: End) -> None:
        """Forget this side, which is closed."""
        self.total_bytes -= self._held.pop(end, 0)
        if self.is_full:
            self._let_first_go()
        self._note_first()

    def look(self) -> None:
        """Called now and then: while memory is full, close the first end if it is stalled or too slow."""
        self._note_first()
        first, now_s = self._first, self._clock()
        passed_s, self._looked_at_s = now_s - self._looked_at_s, now_s
        if not self.is_full:
            self._patience.had_room(passed_s)
        if first is None:
            return
        if self._held[first] != self._first_held:
            self._first_held, self._moved_at_s = self._held[first], now_s
        share = self._patience.share
        if now_s - self._moved_at_s >= STALLED_S * share:
            why = f"it was stalled while {_WHY}"
        elif now_s - self._first_since_s >= MOST_S * share:
            why = f"its frame was not complete after {MOST_S * share:.3g} s, while {_WHY}"
        else:
            return
        self._patience.closed()
        first.give_up(why)
        for end in sorted(self._held, key=self._held.__getitem__, reverse=True):
            if not self.is_full or self._patience.closings <= _MOST_WAITED_FOR:
                break
            end.give_up(why)

    def _note_first(self) -> None:
        first = next(iter(self._held), None) if self.is_full else None
        if first is not self._first:
            self._first = first
            self._first_since_s = self._moved_at_s = self._clock()
            self._first_held = self._held[first] if first is not None else 0

    def _fill(self, end: End) -> None:
        if self.is_full:
            if end is not next(iter(self._held)):
                end.hold_back(_WHY)
            return
        self.is_full = True
        self._warn(f"{_WHY} (--max-memory): connections wait for each other")
        for each in [*self._held][1:]:
            each.hold_back(_WHY)

    def _let_first_go(self) -> None:
        first = next(iter(self._held), None)
        if first is not None:
            first.let_go(_WHY)
        if self.total_bytes <= self._most // 2:
            self._let_all_go()

    def _let_all_go(self) -> None:
        self.is_full = False
        for each in self._held:
            each.let_go(_WHY)

"""Bounds the memory of frames on their way: those that are not whole yet, and those that nobody takes.

A frame is passed on when it is whole, so half of one has to be held, and a client that sends halves, or
reads nothing of what it asked for, could fill the memory. When there is too much of it only the end that
holds some for the longest time may go on; it becomes whole, or it is ended for standing still.
"""

from typing import Protocol

_WHY = "frames on their way fill the memory"


class End(Protocol):
    """One side of a connection."""

    @property
    def held_bytes(self) -> int: ...
    def hold_back(self, why: str) -> None: ...
    def let_go(self, why: str) -> None: ...
    def give_up(self, why: str) -> None: ...


class Halves:
    """Who holds how much; only the thread that forwards calls it."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held: dict[End, int] = {}
        self._stood: tuple[End, int] | None = None
        self.total_bytes = 0
        self.is_full = False

    def changed(self, end: End) -> None:
        """This end holds more than before, or less."""
        before, now = self._held.get(end, 0), end.held_bytes
        if now:
            self._held[end] = now
        else:
            self._held.pop(end, None)
        self.total_bytes += now - before
        if self.total_bytes > self._most:
            self._fill(end)
        elif self.is_full and self.total_bytes <= self._most // 2:
            self.is_full = False
            self._stood = None
            for each in self._held:
                each.let_go(_WHY)
        if self.is_full and not now:
            end.let_go(_WHY)
            self._let_first_go()

    def gone(self, end: End) -> None:
        """It is closed, and holds nothing any more."""
        self.total_bytes -= self._held.pop(end, 0)
        if self.is_full:
            self._let_first_go()

    def look(self) -> None:
        """Called now and then: while memory is full, who stood still since the last time is ended."""
        first = next(iter(self._held), None) if self.is_full else None
        if first is None:
            self._stood = None
            return
        stands = (first, self._held[first])
        if stands == self._stood:
            self._stood = None
            first.give_up(f"it stood still while {_WHY}")
        else:
            self._stood = stands

    def _fill(self, end: End) -> None:
        if self.is_full:
            if end is not next(iter(self._held)):
                end.hold_back(_WHY)
            return
        self.is_full = True
        for each in [*self._held][1:]:
            each.hold_back(_WHY)

    def _let_first_go(self) -> None:
        first = next(iter(self._held), None)
        if first is not None:
            first.let_go(_WHY)
        if self.total_bytes <= self._most // 2:
            self.is_full = False
            for each in self._held:
                each.let_go(_WHY)

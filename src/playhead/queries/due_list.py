"""Says which statement is due next, and when, by the pace."""

import time

from playhead.pace import Pace
from playhead.queries.tape import Tape


class DueList:
    """The statements without an outcome, in the order in which they are due."""

    def __init__(self, tape: Tape, pace: Pace, outcomes: bytearray, first_us: int) -> None:
        self._tape, self._outcomes = tape, outcomes
        self._schedule = pace.schedule(first_ms=first_us // 1_000)
        self._due = tape.by_due()
        self._ordinal = 0
        self.start_ns = time.monotonic_ns()
        self.next: int | None = None
        """The next statement; None if there is no other."""
        self.next_due_ns = 0
        self._draw()

    def has_due(self, now_ns: int) -> bool:
        return self.next is not None and self.next_due_ns <= now_ns

    def take(self) -> tuple[int, int]:
        """Return the next statement and when it is due."""
        if self.next is None:
            raise ValueError("DueList.take: there is no other statement")
        taken = self.next, self.next_due_ns
        self._draw()
        return taken

    @property
    def waits_for_time(self) -> bool:
        """Whether a statement is due in the future."""
        return self.next is not None and self.next_due_ns > time.monotonic_ns()

    def _draw(self) -> None:
        """Find the next statement that has no outcome."""
        self.next = None
        for at in self._due:
            due = self._schedule.due_ns(self._ordinal, self._tape.due_us[at] // 1_000)
            self._ordinal += 1
            if not self._outcomes[at]:
                self.next, self.next_due_ns = at, self.start_ns + due
                return

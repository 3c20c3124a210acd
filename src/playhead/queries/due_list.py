"""Calculates which statement is due next and when, from the pace."""

import time
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from playhead.pace import Pace
from playhead.queries.column import Column
from playhead.queries.sorted_numbers import sorted_numbers
from playhead.queries.tape import Tape
from playhead.schedule import Schedule


class DueList:
    """The statements without an outcome, in the order in which they are due.

    The first one is due at once, also in a resumed run: statements with an outcome take no time.
    """

    def __init__(self, tape: Tape, pace: Pace, outcomes: Column) -> None:
        self._tape, self._outcomes, self._rule = tape, outcomes, pace
        self._waiting: list[tuple[int, int, Iterator[int]]] = []
        """The first of each group of added statements, by when it is due, with the rest of the group."""
        self._schedule: Schedule | None = None
        self._ordinal = 0
        self._latest_us = self._cut_us = 0
        """In the log's time: when the latest statement was due, and the length of the skipped pauses."""
        self._empty_since_ns: int | None = None
        self.start_ns = time.monotonic_ns()
        self.next: int | None = None
        """The next statement; None if there is none."""
        self.next_due_ns = 0

    def add(self, statements: Iterable[int]) -> None:
        """Add the statements without an outcome; the order within a session is kept."""
        added = (at for at in statements if not self._outcomes[at])
        self._wait(sorted_numbers(added, self._tape.due_us.__getitem__))
        if self.next is None:
            self._put_off()
            self._draw()

    def _put_off(self) -> None:
        """For a pace that is a rate, do not catch up on a time without statements."""
        since, self._empty_since_ns = self._empty_since_ns, None
        if self._schedule is not None and since is not None and self._rule.per_second is not None:
            self._schedule.put_off(time.monotonic_ns() - since)

    def has_due(self, now_ns: int) -> bool:
        return self.next is not None and self.next_due_ns <= now_ns

    def take(self) -> tuple[int, int]:
        """Return the next statement and when it is due."""
        if self.next is None:
            raise ValueError("DueList.take: there is no next statement")
        taken = self.next, self.next_due_ns
        self._draw()
        return taken

    @property
    def waits_for_time(self) -> bool:
        """Return whether the next statement is due in the future."""
        return self.next is not None and self.next_due_ns > time.monotonic_ns()

    def _drawn(self) -> int | None:
        if not self._waiting:
            return None
        _, at, rest = heappop(self._waiting)
        self._wait(rest)
        return at

    def _wait(self, rest: Iterator[int]) -> None:
        at = next(rest, None)
        if at is not None:
            heappush(self._waiting, (self._tape.due_us[at], at, rest))

    def _draw(self) -> None:
        self.next = self._drawn()
        if self.next is None:
            self._empty_since_ns = time.monotonic_ns()
        else:
            self.next_due_ns = self.start_ns + self._scheduled(self._tape.due_us[self.next])

    def _scheduled(self, due_us: int) -> int:
        """Return when the next statement is due, relative to the start."""
        if self._schedule is None:
            self._schedule = self._rule.schedule(first_ms=due_us // 1_000)
            self._latest_us = due_us
        most_ms, silent_us = self._rule.max_gap_ms, due_us - self._latest_us
        if most_ms is not None:
            self._cut_us += max(0, silent_us - most_ms * 1_000)
        self._latest_us = max(self._latest_us, due_us)
        due = self._schedule.due_ns(self._ordinal, (due_us - self._cut_us) // 1_000)
        self._ordinal += 1
        return due

"""The stretches of a log: consecutive parts, each played at its own pace and measured.

A stretch is followed by a run-out at the same pace, which is not measured, so that statements at its end are
answered under the same load, and transactions that are open there continue.
"""

import time
from array import array
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from playhead.pace import Pace, ScheduleError
from playhead.queries.checks import Check
from playhead.queries.column import Column
from playhead.queries.due_list import DueList
from playhead.queries.gate import Role
from playhead.queries.outcome import DIVERGENT, Played
from playhead.queries.tape import Tape

LEAST_STATEMENTS: Final = 100
"""Least number of statements of a stretch, as needed for a p99."""
_RUN_OUT: Final = 10
"""Length of the run-out as a fraction of the stretch: a tenth."""
_MOST_UNSENT: Final = 0.02
_CLOSE: Final = Fraction(11, 10)
"""A pace that held and one that broke the limit are close enough if they differ by a tenth."""
_SLOWEST: Final = Fraction(1, 8)
_NEVER_NS: Final = 1 << 62


@dataclass(slots=True)
class Stretch:
    """One stretch, and its measurements."""

    pace: Fraction
    seconds: float = 0.0
    """Its planned duration."""
    statements: int = 0
    unsent: int = 0
    """Statements that were not sent within its duration."""
    failed: int = 0
    """Statements with another result than on the source."""
    latency: ScheduleError = field(default_factory=ScheduleError)
    player_busy: float = 0.0
    """The share of a core that this process used."""
    broke: str = ""
    """Why it broke the limit; empty if it held."""

    @property
    def per_second(self) -> float:
        return self.statements / self.seconds if self.seconds else 0.0

    def judge(self, until: Check) -> None:
        """Decide whether it held."""
        latency_us = None if until.percent is None else self.latency.percentile_us(until.percent)
        if latency_us is None:
            self.broke = "no statement was answered"
        elif until.is_true(latency_us, until.limit):
            self.broke = f"{until.figure} was {latency_us / 1_000:,.2f} ms"
        elif self.unsent > self.statements * _MOST_UNSENT:
            self.broke = f"{self.unsent:,} statements could not be sent in time"


@dataclass(slots=True)
class Ladder:
    """Chooses the next pace: doubled until one breaks the limit, then between the two."""

    held: Fraction | None = None
    """The fastest pace that held."""
    broke: Fraction | None = None
    """The slowest pace that broke the limit."""

    def next(self) -> Fraction | None:
        """Return the next pace; None if the search has ended."""
        held, broke = self.held, self.broke
        if broke is None:
            return Fraction(1) if held is None else held * 2
        if held is None:
            return broke / 2 if broke / 2 >= _SLOWEST else None
        return (held + broke) / 2 if broke / held > _CLOSE else None

    def note(self, stretch: Stretch) -> None:
        if stretch.broke:
            self.broke = stretch.pace
        else:
            self.held = stretch.pace


class StretchList(DueList):
    """The due list of one stretch after the other; nothing is due between stretches."""

    def __init__(self, tape: Tape, outcomes: Column, step_ns: int) -> None:
        self._step_us = step_ns // 1_000
        self._of = array("L", [0]) * len(tape)
        """For each statement, the number of the stretch that measures it, from 1; 0 if none."""
        self._number = 0
        self._tried = Fraction(1)
        self._from_us, self._end_us, self._to_us = 0, 0, 0
        """In the log's time: the beginning of the stretch, its end, and the end of its run-out."""
        self._is_measured = False
        self.stretch = Stretch(self._tried)
        self.is_open = False
        super().__init__(tape, Pace.max(), outcomes)
        self.add(range(len(tape)))

    def open(self, pace: Fraction) -> None:
        """Begin the next stretch with the next statement of the log."""
        assert self.next is not None  # noqa: S101  a log that has ended has no next stretch
        self._number += 1
        self._tried, self._from_us = pace, self._tape.due_us[self.next]
        self._is_measured = self.is_open = True
        self.stretch = Stretch(pace)
        self.start_ns = self.next_due_ns = time.monotonic_ns()
        self._place()

    @property
    def is_cut_off(self) -> bool:
        """Whether the log ended before the stretch did."""
        return self._is_measured and self.next is None

    @property
    def end_ns(self) -> int:
        """When the stretch ends; infinite while the end is unknown."""
        return _NEVER_NS if self._is_measured else self._due_ns(self._end_us)

    @property
    def run_out_ns(self) -> int:
        """When its run-out ends."""
        return _NEVER_NS if self._is_measured else self._due_ns(self._to_us)

    def note(self, at: int, played: Played) -> None:
        """Count a statement that has its outcome."""
        if self.is_open and self._of[at] == self._number:
            self.stretch.failed += played.outcome in DIVERGENT
            if played.latency_ns:
                self.stretch.latency.note(late_ns=played.latency_ns)

    def is_of_stretch(self, at: int) -> bool:
        return self._of[at] == self._number

    def _due_ns(self, log_us: int) -> int:
        return self.start_ns + int((log_us - self._from_us) * 1_000 / self._tried)

    def _draw(self) -> None:
        self.next = self._drawn()
        self.next_due_ns = _NEVER_NS
        if self.is_open and self.next is not None:
            self._place()

    def _place(self) -> None:
        """Decide whether the next statement belongs to the stretch, to its run-out, or to the next stretch."""
        at = self.next
        assert at is not None  # noqa: S101  called where there is one
        due_us = self._tape.due_us[at]
        wanted_us = self._from_us + int(self._step_us * self._tried)
        if self._is_measured and (due_us < wanted_us or self.stretch.statements < LEAST_STATEMENTS):
            self._of[at] = self._number
            self.stretch.statements += self._tape.role(at) is not Role.FREE
        elif self._is_measured:
            self._is_measured = False
            self._end_us = max(wanted_us, due_us)
            took_us = self._end_us - self._from_us
            self._to_us = self._end_us + took_us // _RUN_OUT
            self.stretch.seconds = float(took_us / self._tried / 1_000_000)
        if self._is_measured or due_us < self._to_us:
            self.next_due_ns = self._due_ns(due_us)

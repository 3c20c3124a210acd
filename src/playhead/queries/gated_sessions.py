"""The sessions of a tape, their statements with an outcome, and the gate at which others wait."""

import heapq
from collections.abc import Sequence
from typing import Literal

from playhead.queries.due_list import DueList
from playhead.queries.gate import FIRST_INSIDE, FIRST_READ, LowWater, Owners, is_inside, is_read
from playhead.queries.outcome import Outcome
from playhead.queries.rules import Earlier, PlayRules
from playhead.queries.session import Session
from playhead.queries.settling import Settling
from playhead.queries.talk import Talk
from playhead.querylog.statement import Act

_Wait = Literal["at_gate", "awaits", "awaits_reads"]
"""What a session waits for, as an attribute of it."""


class GatedSessions(Talk):
    """The part of a player that tracks the statements, and decides which may be played."""

    def __init__(self, settling: Settling, rules: PlayRules, earlier: Earlier) -> None:
        super().__init__(settling.tape, rules)
        self.settling, self.results = settling, settling.results
        self.sessions: dict[int, Session] = {}
        self.due = DueList(settling.tape, rules.pace, settling.outcomes)
        self.water = LowWater()
        """The transactions that have ended."""
        self.inside = LowWater()
        """The statements inside transactions that have ended."""
        self.reads = LowWater()
        """The reads outside of transactions that have ended."""
        self.owners = Owners()
        self.first_us: int | None = None
        """When the first statement of the log was due."""
        self._earlier = earlier
        self._gate: list[tuple[int, int]] = []
        self._ends: list[tuple[int, int]] = []
        """The ends of transactions that wait for statements inside other transactions."""
        self._changes: list[tuple[int, int]] = []
        """The changes of the schema that wait for reads."""

    def extend(self, statements: Sequence[int]) -> None:
        """Add statements of the tape, in order; some have an outcome from an earlier run."""
        tape = self.tape
        if self.first_us is None:
            self.first_us = min(map(tape.due_us.__getitem__, statements), default=None)
        for at in statements:
            session, number = self._session(tape.session_of[at]), tape.numbers.numbers[at]
            session.last_place = max(session.last_place, tape.places[at])
            outcome = self.settling.outcome_before(at, self._earlier)
            if outcome is None:
                if (
                    session.is_sticky and session.link is None
                ):  # An earlier run has left state in it.
                    self.results.state_lost += 1
                    session.is_sticky = False
                session.left += 1
                self.owners.note(number, session.number)
                continue
            step = tape.step(at)
            session.is_over |= step.act is Act.DISCONNECT
            # A statement that was not played has left no state in its session.
            if outcome is Outcome.EARLIER and not tape.reasons[at]:
                session.note_earlier(step, tape.role(at))
            self.settling.skip(at, outcome)
            self.release(number)
        self.due.add(statements)

    def _session(self, number: int) -> Session:
        session = self.sessions.get(number)
        if session is None:
            session = self.sessions[number] = Session(number, self.tape.sessions[number], 0)
        return session

    def forget(self) -> list[str]:
        """Forget statements in the ledger; return the ended sessions that are completely in it."""
        self.settling.forget()
        self.owners.forget(self.water.low, self.inside.low, self.reads.low)
        ended = [
            each
            for each in self.sessions.values()
            if each.is_over and not each.left and not each.is_busy
            if each.last_place < self.settling.counted_rows
        ]
        for session in ended:
            del self.sessions[session.number], self.tape.sessions[session.number]
        return [each.id for each in ended]

    def wait_at_gate(self, session: Session, need: int) -> None:
        """Let a session wait until the first `need` numbers are released."""
        session.at_gate = need
        heapq.heappush(self._gate, (need, session.number))

    def wait_to_end(self, session: Session, awaits: int) -> None:
        """Let a session wait until the first `awaits` statements inside transactions are done."""
        session.awaits = awaits
        heapq.heappush(self._ends, (awaits, session.number))

    def wait_to_change(self, session: Session, reads: int) -> None:
        """Let a session wait until the first `reads` reads outside of transactions are done."""
        session.awaits_reads = reads
        heapq.heappush(self._changes, (reads, session.number))

    def release(self, number: int) -> None:
        """Release a number, and let the sessions pass that wait for it."""
        if is_inside(number):
            if self.inside.release((FIRST_INSIDE - number) // 2):
                self._wake(self._ends, self.inside.low, "awaits")
        elif is_read(number):
            if self.reads.release((FIRST_READ - number) // 2):
                self._wake(self._changes, self.reads.low, "awaits_reads")
        elif self.water.release(number):
            self._wake(self._gate, self.water.low, "at_gate")

    def first_number(self) -> int:
        """Return the first number that is not released, for which all others wait."""
        owner = self.owners.get(self.water.low)
        session = None if owner is None else self.sessions[owner]
        if session is not None and session.awaits > self.inside.low:
            return FIRST_INSIDE - 2 * self.inside.low
        if session is not None and session.awaits_reads > self.reads.low:
            return FIRST_READ - 2 * self.reads.low
        return self.water.low

    def _wake(self, waiting: list[tuple[int, int]], low: int, wait: _Wait) -> None:
        """Let the sessions continue whose numbers are released now."""
        while waiting and waiting[0][0] <= low:
            _, number = heapq.heappop(waiting)
            session = self.sessions.get(number)
            if session is not None and getattr(session, wait):
                setattr(session, wait, 0)
                self.ready.append(session)

"""Plays a tape: one loop for all sessions, each with its own connection.

Statements become due by the pace, and wait in the queue of their session until the session is free and the gate
lets them pass. A statement has its outcome when its transaction has ended: a transaction that was rolled
back or lost is played again from its beginning.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from playhead.host.faults import abort_point
from playhead.queries.connections import MS
from playhead.queries.flags import TIMING, Flag
from playhead.queries.gate import Role
from playhead.queries.gated_sessions import GatedSessions
from playhead.queries.outcome import NAMED, Outcome, Played
from playhead.queries.rules import Earlier, PlayRules
from playhead.queries.sending import outcome_of
from playhead.queries.session import Doing, Session
from playhead.queries.settling import Settling
from playhead.queries.tape import Step
from playhead.querylog.statement import Act
from playhead.server import Answer, LinkLost

_MOST_QUEUED: Final = 20_000
_STUCK_NS: Final = 200 * MS
_REPLACEABLE: Final = frozenset(("40P01", "40001"))
_MOST_ATTEMPTS: Final = 50
_INTEGRITY: Final = "23"
_ABORTED: Final = "25P02"
_READ_ONLY: Final = "25006"
_NOT_PREPARED: Final = "26000"
LONGEST_WAIT_S: Final = 0.02


class Player(GatedSessions):
    """One run over a tape; `turn` is called until `is_done`."""

    def __init__(
        self,
        settling: Settling,
        rules: PlayRules,
        earlier: Earlier | None = None,
        *,
        is_growing: bool = False,
    ) -> None:
        super().__init__(settling, rules, earlier or Earlier())
        self.queued = 0
        self.longest_wait_s = LONGEST_WAIT_S
        self._is_growing = is_growing
        self._due_at: dict[int, int] = {}

    # --- the run

    @property
    def is_done(self) -> bool:
        return not self.settling.left and not self._is_growing

    def turn(self) -> None:
        """Queue due statements, let sessions play, and wait for the server."""
        now = time.monotonic_ns()
        self._take_due(now)
        self._play_ready()
        for session in self.links.wait(self._patience(now)):
            if session.doing is Doing.CONNECTING:
                self.links.go_on_connecting(session)
            elif session.link is not None:
                self._hear(session)
        self._play_ready()

    def _play_ready(self) -> None:
        while self.ready:
            self.go_on(self.ready.popleft())

    def _patience(self, now: int) -> float:
        if self.due.next is None or not self._has_room():
            return self.longest_wait_s
        return min(self.longest_wait_s, (self.due.next_due_ns - now) / 1e9)

    def close(self) -> None:
        self.links.close_all(self.sessions.values())
        self.results.most_connections = self.links.most_seen

    # --- what is due

    def _take_due(self, now: int) -> None:
        due = self.due
        while due.has_due(now) and self._has_room():
            at, due_ns = due.take()
            session = self.sessions[self.tape.session_of[at]]
            session.queue.append(at)
            self.queued += 1
            if not self.rules.pace.is_max:
                self._due_at[at] = due_ns
            if not session.is_busy:
                self.ready.append(session)

    def _has_room(self) -> bool:
        if self.queued < _MOST_QUEUED:
            return True
        return time.monotonic_ns() - self.progress_ns > _STUCK_NS or not self.flying

    # --- one session

    def go_on(self, session: Session) -> None:
        """Play the next statement of a session, if it can be played now."""
        while session.queue and not session.is_busy:
            at = session.queue[0]
            need = max(self.tape.numbers.needs[at], session.needs)
            if need > self.water.low and session.passes != at:
                if session.at_gate != need:
                    self.wait_at_gate(session, need)
                self._make_room(session)
                return
            awaits = self.tape.numbers.awaits[at]
            if awaits > self.inside.low and session.passes != at:
                if session.awaits != awaits:
                    self.wait_to_end(session, awaits)
                return
            reads = self.tape.numbers.reads_before.get(at, 0)
            if reads > self.reads.low and session.passes != at:
                if session.awaits_reads != reads:
                    self.wait_to_change(session, reads)
                self._make_room(session)
                return
            session.go_free()
            self._play(session, at)
        if not session.is_busy and not session.queue:
            self._rest(session)

    def _rest(self, session: Session) -> None:
        """Close or pause the connection of a session that has nothing to play now."""
        if not session.left and not self._is_growing:
            self.links.close(session)  # The log has no end of its transaction.
            self._settle_transaction(session)
            return
        session.idle_since_ns = since = time.monotonic_ns()
        self._make_room(session)
        after = self.rules.idle_close_ns
        if after is not None and session.link is not None:
            self.links.later(since + after, lambda: self._close_idle(session, since))

    def make_room(self) -> bool:
        """Close one idle connection if a session waits for one; return whether one was closed."""
        for session in self.sessions.values() if self.links.waiting else ():
            if session.can_pause:
                self.links.close(session)
                return True
        return False

    def _play(self, session: Session, at: int) -> None:
        step = self.tape.step(at)
        if session.skips:
            self._take(session, at)
            self._finish(session, at, Played(Outcome.LOST, line=step.line))
            session.skips = self.tape.role(at) is not Role.END
        elif step.act is Act.DISCONNECT:
            self._take(session, at)
            session.is_over = True
            self.links.close(session)
            self._finish(session, at, Played(Outcome.REPLAYED))
        elif session.link is None:
            self.links.ask(session)
        elif step.act not in (Act.QUERY, Act.EXECUTE):
            self._take(session, at)
            self._finish(session, at, Played(Outcome.REPLAYED))
        else:
            self._take(session, at)
            session.playing, session.step, session.answer = at, step, None
            if self._is_marked_alone(session):
                self._mark_alone(session, before=True)
            else:
                self._send(session)

    def _take(self, session: Session, at: int) -> None:
        session.queue.popleft()
        self.queued -= 1
        due = self._due_at.pop(at, None)
        if due is not None:
            late = time.monotonic_ns() - due
            self.results.schedule.note(late_ns=late, due_ns=due - self.due.start_ns)

    # --- answers

    def _hear(self, session: Session) -> None:
        link = session.link
        assert link is not None  # noqa: S101
        try:
            if session.is_writing:
                self.links.watch_writing(session, is_wanted=not link.flush())
            answer = link.receive()
        except LinkLost as lost:
            self._lost(session, lost)
            return
        if answer is None:
            return
        if session.doing is Doing.IDLE:
            return  # A notice or a notification.
        self.after_cancel(session, lambda: self._answered(session, answer))

    def _answered(self, session: Session, answer: Answer) -> None:
        self.flying -= 1
        self.progress_ns = time.monotonic_ns()
        self.ready.append(session)
        doing, session.doing = session.doing, Doing.IDLE
        if doing is Doing.PREPARING:
            self._prepare(session)
        elif doing is Doing.ROLLING_BACK:
            self._again(session)
        elif doing is Doing.MARKING:
            self._marked(session, answer)
        elif doing is Doing.PLAYING:
            abort_point("queries.answered")
            self._played(session, answer)

    def _marked(self, session: Session, answer: Answer) -> None:
        """Continue after a mark of a statement that runs alone."""
        if answer.sqlstate is not None:
            self._mark_failed(session, answer)
        elif session.answer is None:
            self._send(session)
        else:
            session.was_marked()
            self._finish(session, session.playing, session.answer)

    def _played(self, session: Session, answer: Answer) -> None:
        step, at = session.step, session.playing
        assert step is not None  # noqa: S101
        if answer.sqlstate is not None and session.mark_at == answer.done:
            self._mark_failed(session, answer)
            return
        outcome, state = outcome_of(step, answer.sqlstate, answer.done, session.before)
        if state == _NOT_PREPARED and session.was_prepared(step):
            outcome, state = Outcome.REPLAYED, None
        if outcome is Outcome.UNEXPECTED_ERROR and state in _REPLACEABLE:
            session.attempts += 1
            if session.attempts < _MOST_ATTEMPTS:
                self.play_again(session)
                return
        if outcome is Outcome.UNEXPECTED_ERROR and self._is_ignored(session, state):
            outcome = Outcome.IGNORED
        latency = time.monotonic_ns() - session.sent_ns
        self.results.note_times(step, self.tape.due_us[at], session.sent_ns, latency)
        rows = answer.rows - (0 <= session.mark_at < answer.done)  # without the row of the mark
        played = Played(outcome, latency, rows, state, step.line, answer.checksum)
        if answer.sqlstate is not None:
            session.said = frozenset()
        elif session.mark_at >= 0:
            session.was_marked()
        self._note_state(session, answer)
        # A text that has ended a transaction has its mark in it.
        if session.mark_at < 0 and self._is_marked_alone(session):
            session.answer = played
            self._mark_alone(session, before=False)
            return
        self._finish(session, at, played)

    def _mark_failed(self, session: Session, answer: Answer) -> None:
        """Play a transaction again whose mark failed; without a mark if the transaction is read-only."""
        state = answer.sqlstate or ""
        if state == _READ_ONLY:
            session.is_marked = False
        elif state not in TIMING and self.rules.marks is not None:
            raise self.rules.marks.refused(answer.said)
        if session.answer is None:
            self.play_again(session)
        else:
            self._finish(session, session.playing, session.answer)

    def _is_ignored(self, session: Session, state: str | None) -> bool:
        """Whether an error of integrity is ignored, because what came before is missing; so is what it aborts."""
        seconds, at = self.rules.ignore_integrity_s, session.playing
        if state == _ABORTED:
            return any(each.outcome is Outcome.IGNORED for _, each in session.transaction)
        if not seconds or state is None or not state.startswith(_INTEGRITY):
            return False
        first_us = self.first_us or 0
        return seconds < 0 or self.tape.due_us[at] < first_us + seconds * 1_000_000

    def _note_state(self, session: Session, answer: Answer) -> None:
        """Note the state that the statement has left in its session."""
        step = session.step
        assert step is not None  # noqa: S101
        session.has_written |= bool(step.flags & Flag.WRITES)
        session.is_sticky |= bool(step.flags & Flag.STICKY)
        session.is_withdrawn |= bool(step.flags & Flag.WITHDRAWS)
        if step.name and answer.done >= session.before:
            session.prepared[step.name] = step.sql
        if answer.sqlstate is None:
            session.settings.note(step.changes)
            session.note_names(step)
        if step.flags & Flag.UNLOCKS and self.rules.marks is not None:
            session.texts.append(self.rules.marks.lock())

    def _finish(self, session: Session, at: int, played: Played) -> None:
        """Note the outcome, which is final when the transaction has ended."""
        session.transaction.append((at, played))
        step, session.playing, session.step = session.step, -1, None
        session.left -= 1
        self.release(self.tape.numbers.numbers[at])
        link = session.link
        if link is None or not link.in_transaction:
            self._settle_transaction(session, step)
        if link is not None and not link.is_aborted and (session.texts or link.encoding):
            self._prepare(session)

    def _settle_transaction(self, session: Session, last: Step | None = None) -> None:
        """Record the outcomes of a transaction that has ended; `last` is its last statement, if it is known."""
        session.settings.end(is_undone=self._is_undone(session))
        if session.is_withdrawn:
            session.transaction = [
                (at, replace(played, outcome=Outcome.NOT_REPLAYABLE))
                for at, played in session.transaction
            ]
        for at, played in session.transaction:
            is_last = last is not None and last.line == played.line
            self.settling.settle(at, played, last if is_last else None)
            if played.outcome in NAMED and played.line not in session.said:
                session.unsaid[played.line] = played.outcome
        session.said = frozenset()
        session.transaction.clear()
        session.has_written = session.is_withdrawn = False
        session.attempts = session.losses = 0
        session.is_marked = True

    def _is_undone(self, session: Session) -> bool:
        """Return whether the ended transaction was rolled back."""
        if session.link is None or session.was_aborted or not session.transaction:
            return True
        last, played = session.transaction[-1]
        is_rollback = self.tape.role(last) is Role.END and self.tape.step(last).commit_at < 0
        return is_rollback or played.sqlstate is not None

    def play_again(self, session: Session, *, needs: int = 0) -> None:
        """Roll a session's transaction back, and play it again when the gate has let `needs` through."""
        session.needs = max(session.needs, needs)
        if needs:
            self._hold_back_no_end(session)
        if session.link is not None and session.link.in_transaction:
            session.doing = Doing.ROLLING_BACK
            self._tell(session, "ROLLBACK")
        else:
            self._again(session)

    def let_pass(self, session: Session) -> None:
        """Let the next statement of a session go although the gate is closed: another session waits for its lock."""
        self.results.let_pass += 1
        session.passes = session.queue[0]
        session.go_free()
        self.ready.append(session)

    def _hold_back_no_end(self, session: Session) -> None:
        """Release the remaining numbers of a transaction that is played again later, which others must not await."""
        for at in session.queue:
            if self.tape.role(at) is not Role.BODY:
                break
            self.release(self.tape.numbers.numbers[at])

    def _again(self, session: Session) -> None:
        self.results.played_again += len(session.transaction) + (session.playing >= 0)
        self.queue_again(session)

    def queue_again(self, session: Session) -> None:
        """Return the statements of the open transaction to the front of the queue."""
        steps = [at for at, _ in session.transaction]
        session.left += len(steps)
        if session.playing >= 0:
            steps.append(session.playing)
        session.queue.extendleft(reversed(steps))
        self.queued += len(steps)
        session.transaction.clear()
        session.settings.forget_transaction()
        session.playing, session.step, session.answer = -1, None, None
        session.has_written = False
        session.go_free()
        session.doing = Doing.IDLE
        self.ready.append(session)

    def end_lost(self, session: Session, outcomes: Mapping[int, Outcome]) -> None:
        """Give the statements of a lost transaction these outcomes, and play the others again."""
        known = dict(session.transaction)
        done = [at for at in (*known, session.playing) if at in outcomes]
        for at in done:
            was = known.get(at, session.answer)
            is_as_was = outcomes[at] is Outcome.REPLAYED and was is not None
            self.settling.settle(at, was if is_as_was and was else Played(outcomes[at]))
            if outcomes[at] in NAMED:
                session.unsaid[self.tape.lines[at]] = outcomes[at]
            session.left -= at == session.playing
            self.release(self.tape.numbers.numbers[at])
        if session.playing in outcomes:
            if session.step is not None and outcomes[session.playing] is Outcome.REPLAYED:
                session.settings.note(session.step.changes)
                session.settings.end(is_undone=False)
            session.playing, session.step = -1, None
        session.transaction = [each for each in session.transaction if each[0] not in outcomes]
        self.queue_again(session)

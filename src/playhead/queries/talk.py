"""Sends the statements of a session, and restores its state on a new connection."""

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from playhead.host.faults import abort_point
from playhead.queries.connections import MS, Connections
from playhead.queries.flags import Flag
from playhead.queries.rules import PlayRules
from playhead.queries.sending import to_send
from playhead.queries.session import Doing, LostSession, Session
from playhead.queries.tape import Tape
from playhead.server import LinkLost

_CANCEL_SOON_NS: Final = 200 * MS
_CANCEL_STEP_NS: Final = 2 * MS
_CANCELED: Final = "57014"


class Talk:
    """The part of a player that sends to the server."""

    def __init__(self, tape: Tape, rules: PlayRules) -> None:
        self.tape, self.rules = tape, rules
        self.links = Connections(rules.connect, rules.most_connections, self._opened, self._lost)
        self.lost: deque[LostSession] = deque()
        """Sessions that have lost their connection."""
        self.flying = 0
        """Number of unanswered requests."""
        self.progress_ns = time.monotonic_ns()
        self.ready: deque[Session] = deque()
        """Sessions that may be able to continue."""

    def _is_marked_alone(self, session: Session) -> bool:
        step, link = session.step, session.link
        assert step is not None and link is not None  # noqa: S101, PT018
        is_alone = step.flags & Flag.ALONE != 0 and not link.in_transaction
        return is_alone and self.rules.marks is not None and session.is_marked

    def _mark_alone(self, session: Session, *, before: bool) -> None:
        marks, step = self.rules.marks, session.step
        assert marks is not None and step is not None  # noqa: S101, PT018
        session.doing = Doing.MARKING
        divergent = {} if before else session.divergent()
        session.said = frozenset(divergent)
        self._tell(session, marks.text(session.id, step.line, before=before, divergent=divergent))

    def _send(self, session: Session) -> None:
        """Send the statement itself."""
        step, link = session.step, session.link
        assert step is not None and link is not None  # noqa: S101, PT018
        marks = self.rules.marks
        sending = to_send(step, session, marks, self.tape.role(session.playing))
        session.was_aborted = link.is_aborted
        session.mark_at, session.before = sending.mark_at, sending.before
        session.doing = Doing.PLAYING
        session.sent_ns = time.monotonic_ns()
        self.flying += 1
        if step.expected_error == _CANCELED:
            self._cancel_later(session)
        abort_point("queries.before_send")
        try:
            is_sent = (
                link.send_bound(sending.bound) if sending.bound else link.send_text(sending.text)
            )
            if not is_sent:
                self.links.watch_writing(session, is_wanted=True)
        except LinkLost as lost:
            self._lost(session, lost)
            return
        abort_point("queries.sent")

    def _tell(self, session: Session, text: str) -> None:
        """Send a text that is not from the log."""
        assert session.link is not None  # noqa: S101
        self.flying += 1
        session.sent_ns = time.monotonic_ns()
        try:
            if not session.link.send_text(text.encode("utf-8", "surrogateescape")):
                self.links.watch_writing(session, is_wanted=True)
        except LinkLost as lost:
            self._lost(session, lost)

    def _cancel_later(self, session: Session) -> None:
        step, at = session.step, session.playing
        assert step is not None  # noqa: S101
        wait = _CANCEL_SOON_NS
        if self.rules.pace.times is not None and step.duration_us is not None:
            wait = int(step.duration_us * 1_000 / self.rules.pace.times)

        def cancel() -> None:
            if (
                session.playing == at
                and session.doing is Doing.PLAYING
                and session.link is not None
            ):
                self._go_on_canceling(session, session.link.cancel())

        self.links.later(time.monotonic_ns() + wait, cancel)

    def _go_on_canceling(self, session: Session, asked: Callable[[], bool]) -> None:
        session.is_canceling = not asked()
        if session.is_canceling:
            self.links.later(
                time.monotonic_ns() + _CANCEL_STEP_NS, lambda: self._go_on_canceling(session, asked)
            )

    def after_cancel(self, session: Session, then: Callable[[], None]) -> None:
        """Make the call when no request to cancel is under way: it would cancel the next statement instead.

        A connection that is lost in the meantime takes its answer with it.
        """
        link = session.link

        def go_on() -> None:
            if session.link is not link:
                return
            if session.is_canceling:
                self.links.later(time.monotonic_ns() + _CANCEL_STEP_NS, go_on)
            else:
                then()

        go_on()

    # --- new connections

    def _opened(self, session: Session) -> None:
        """Restore the state of the session on its new connection."""
        self.progress_ns = time.monotonic_ns()
        marks = self.rules.marks
        session.texts = [marks.lock()] if marks is not None else []
        session.texts += session.settings.texts()
        self._prepare(session)

    def _prepare(self, session: Session) -> None:
        link = session.link
        if not session.texts and link is not None and link.encoding and not link.is_aborted:
            session.texts = [f"SET client_encoding TO '{link.encoding}'"]
        if session.texts:
            session.doing = Doing.PREPARING
            self._tell(session, session.texts.pop(0))
        else:
            session.doing = Doing.IDLE
            self.ready.append(session)

    def _close_idle(self, session: Session, since_ns: int) -> None:
        if session.idle_since_ns == since_ns and not session.queue and session.can_pause:
            self.links.close(session)

    def _make_room(self, session: Session) -> None:
        """Close an idle connection if another session waits for one."""
        if self.links.waiting and session.can_pause:
            self.links.close(session)

    def _lost(self, session: Session, reason: LinkLost) -> None:
        """Note a lost connection; the watchdog finds out whether its transaction was committed."""
        doing = session.doing
        if doing not in (Doing.IDLE, Doing.CONNECTING):
            self.flying -= 1
        has_lost_state = session.is_sticky
        backend = self.links.close(session)
        session.doing = Doing.LOST
        self.lost.append(
            LostSession(session, doing, backend, reason, has_lost_state=has_lost_state)
        )

"""Opens and closes the connections of sessions, up to a limit, and returns the sessions that are ready."""

import heapq
import selectors
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from playhead.queries.session import Doing, Session
from playhead.server import Link, LinkLost

MS: Final = 1_000_000
_CONNECT_WITHIN_S: Final = 15.0
"""A session whose server is silent is given up, and tried again."""
_BOTH: Final = selectors.EVENT_READ | selectors.EVENT_WRITE


@dataclass(slots=True)
class Connections:
    """The connections of all sessions, on one selector."""

    connect: Callable[[], Link]
    most: int
    opened: Callable[[Session], None]
    """Callback for a session whose connection is open."""
    failed: Callable[[Session, LinkLost], None]
    most_seen: int = 0
    open: int = 0
    waiting: deque[Session] = field(default_factory=deque)
    """Sessions that wait for a connection of another session to close."""
    by_backend: dict[int, Session] = field(default_factory=dict)
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    _timers: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _timer: int = 0

    # --- opening and closing

    def ask(self, session: Session) -> None:
        """Open a connection for a session, at once or when another is closed."""
        if self.open >= self.most:
            session.doing = Doing.WAITING
            self.waiting.append(session)
            return
        self._open(session)

    def _open(self, session: Session) -> None:
        session.doing = Doing.CONNECTING
        self.open += 1
        self.most_seen = max(self.most_seen, self.open)
        try:
            session.link = link = self.connect()
            self.watch(session, selectors.EVENT_WRITE)
        except LinkLost as lost:
            self.failed(session, lost)
            return
        until = time.monotonic_ns() + int(_CONNECT_WITHIN_S * 1e9)
        self.later(until, lambda: self._give_up(session, link))

    def _give_up(self, session: Session, link: object) -> None:
        """End a connection that is still being opened: a server that is silent would hold the run without an end."""
        if session.link is link and session.doing is Doing.CONNECTING:
            self.failed(session, LinkLost(f"no connection within {_CONNECT_WITHIN_S:g} s"))

    def go_on_connecting(self, session: Session) -> None:
        link = session.link
        assert link is not None  # noqa: S101
        try:
            is_open = link.go_on_connecting()
        except LinkLost as lost:
            self.failed(session, lost)
            return
        if is_open:
            self.by_backend[link.backend] = session
            self.watch(session, selectors.EVENT_READ)
            self.opened(session)
        else:
            self.watch(session, _BOTH if link.wants_to_write else selectors.EVENT_READ)

    def close(self, session: Session) -> int:
        """Close a session's connection; return the server's process id, 0 for none."""
        link, session.link = session.link, None
        if link is None:
            return 0
        if session.registered >= 0:
            self._selector.unregister(session.registered)
            session.registered = -1
        backend = link.backend
        self.by_backend.pop(backend, None)
        link.close()
        self.open -= 1
        session.prepared.clear()
        session.is_sticky = session.is_writing = False
        while self.waiting and self.open < self.most:
            self._open(self.waiting.popleft())
        return backend

    def close_all(self, sessions: Iterable[Session]) -> None:
        self.waiting.clear()
        for session in sessions:
            if session.link is not None:
                session.link.close()
        self._selector.close()

    # --- waiting

    def watch(self, session: Session, events: int) -> None:
        """Wait for these events of a session; its descriptor may change while it connects."""
        assert session.link is not None  # noqa: S101
        descriptor = session.link.fileno
        if session.registered != descriptor:
            if session.registered >= 0:
                self._selector.unregister(session.registered)
            self._selector.register(descriptor, events, session)
            session.registered = descriptor
        else:
            self._selector.modify(descriptor, events, session)

    def watch_writing(self, session: Session, *, is_wanted: bool) -> None:
        """Start or stop waiting until more can be written."""
        if is_wanted != session.is_writing:
            session.is_writing = is_wanted
            self.watch(session, _BOTH if is_wanted else selectors.EVENT_READ)

    def later(self, at_ns: int, call: Callable[[], None]) -> None:
        """Schedule a call."""
        self._timer += 1
        heapq.heappush(self._timers, (at_ns, self._timer, call))

    def wait(self, patience_s: float) -> list[Session]:
        """Return the sessions that are ready; make the calls that are due."""
        if self._timers:
            patience_s = min(patience_s, (self._timers[0][0] - time.monotonic_ns()) / 1e9)
        found = self._selector.select(max(0.0, patience_s))
        now = time.monotonic_ns()
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2]()
        return [key.data for key, _ in found if key.data.link is not None]

"""Counts the writes of which a log cannot say in which order they changed a row, because they ran at the same time."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class _LatestEnd:
    """When the last of some writes ended, of any session but one."""

    _at: int = 0
    _session: int = -1
    _of_others: int = 0
    """The last end of a session that is not `_session`."""

    def note(self, session: int, at: int) -> None:
        if session == self._session:
            self._at = max(self._at, at)
        elif at > self._at:
            self._of_others, self._at, self._session = self._at, at, session
        else:
            self._of_others = max(self._of_others, at)

    def but_of(self, session: int) -> int:
        """Return the last end of other sessions: those of one session have an order."""
        return self._of_others if session == self._session else self._at


@dataclass(slots=True)
class Overlaps:
    """Is given the writes in the order in which the log shows their ends."""

    plain: int = 0
    """Writes outside of transactions that ran at the same time as others."""
    mixed: int = 0
    """Writes outside of transactions that ran while a transaction of another session was writing."""
    _ends: _LatestEnd = field(default_factory=_LatestEnd)
    _ends_of_transactions: _LatestEnd = field(default_factory=_LatestEnd)
    _open: dict[int, int] = field(default_factory=dict)
    """For each session with a transaction that has written, when its first write began."""

    def write(self, session: int, began: int, ended: int) -> None:
        """Take a write outside of a transaction."""
        self.plain += began < self._ends.but_of(session)
        self.mixed += began < self._ends_of_transactions.but_of(session) or any(
            first <= ended for each, first in self._open.items() if each != session
        )
        self._ends.note(session, ended)

    def write_inside(self, session: int, began: int) -> None:
        """Take a write inside a transaction."""
        if session not in self._open:
            self._open[session] = began
            self.mixed += began < self._ends.but_of(session)

    def end(self, session: int, ended: int, *, is_kept: bool) -> None:
        """Take the end of a transaction."""
        if self._open.pop(session, None) is not None and is_kept:
            self._ends_of_transactions.note(session, ended)

"""The gate: which transactions must have ended before a statement may be played.

A server releases a transaction's locks before it logs the COMMIT, so a statement that waited for a lock
can be logged before the COMMIT that let it go. To wait for commits that were logged earlier therefore
hangs. Transactions are numbered by readiness instead: by the row that shows the last statement before
their end done. A statement needs every transaction that was ready before its own row. If such a
transaction was still open then, both held their locks at the same time, and it can end first without the
statement; if it had ended, waiting for it repeats what the source did.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal

Order = Literal["session", "commit", "strict"]
ORDERS: tuple[Order, ...] = ("session", "commit", "strict")
UNNUMBERED = -1
_BEFORE_THE_LOG = -1.0
_NEVER = float("inf")


class Role(Enum):
    """What a statement means to transactions."""

    FREE = "free"
    """It waits for nothing: a connection, a disconnection outside of a transaction, a cancel."""
    READ = "read"
    """It is alone and changes nothing."""
    BODY = "body"
    """It belongs to a transaction and does not end it."""
    END = "end"
    """It ends its transaction, also by a rollback, an error or a disconnection."""
    WRITE = "write"
    """It is a transaction by itself, and may change something."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """For each statement, in the order in which they were added, its need and its own number."""

    needs: Sequence[int]
    """The count of first numbers that must have been released."""
    numbers: Sequence[int]
    """The number that the statement releases when it is done; `UNNUMBERED` if it has none."""
    total: int


class Numbering:
    """Collects the statements of a log, of each session in its order, and numbers its transactions."""

    def __init__(self) -> None:
        self._roles: list[Role] = []
        self._done = array("d")
        self._ready = array("d")
        self._last_done: dict[int, float] = {}

    def add(self, session: int, role: Role, done: int | None, *, ready: int | None = None) -> None:
        """Add a statement that the row `done` shows as done; None if the log ends before that.

        `ready` is for a `WRITE` whose end the log does not show, because it has only starts of statements.
        """
        at = _NEVER if done is None else float(done)
        self._roles.append(role)
        self._done.append(at)
        if role is Role.END:
            self._ready.append(self._last_done.get(session, _BEFORE_THE_LOG))
        else:
            self._ready.append(at if ready is None else float(ready))
        if role is not Role.FREE:
            self._last_done[session] = at

    def finish(self, order: Order) -> Numbers:
        """Return the needs and numbers of all statements."""
        if order == "session":
            nothing = array("q", bytes(8 * len(self._roles)))
            return Numbers(nothing, array("q", [UNNUMBERED]) * len(self._roles), 0)
        return self._by_readiness() if order == "commit" else self._one_by_one()

    def _by_readiness(self) -> Numbers:
        ending = [at for at, role in enumerate(self._roles) if role in (Role.END, Role.WRITE)]
        ending.sort(key=self._ready.__getitem__)
        readies = [self._ready[at] for at in ending]
        numbers = array("q", [UNNUMBERED]) * len(self._roles)
        for number, at in enumerate(ending):
            numbers[at] = number
        needs = array("q", bytes(8 * len(self._roles)))
        for at, role in enumerate(self._roles):
            if numbers[at] != UNNUMBERED:
                needs[at] = numbers[at]
            elif role is not Role.FREE:
                needs[at] = bisect_left(readies, self._done[at])
        return Numbers(needs, numbers, len(ending))

    def _one_by_one(self) -> Numbers:
        playing = [at for at, role in enumerate(self._roles) if role is not Role.FREE]
        # An end follows its transaction's last statement at once; a stable sort keeps the order of equals.
        playing.sort(key=lambda at: (self._ready[at], self._roles[at] is Role.END))
        numbers = array("q", [UNNUMBERED]) * len(self._roles)
        needs = array("q", bytes(8 * len(self._roles)))
        for number, at in enumerate(playing):
            numbers[at] = needs[at] = number
        return Numbers(needs, numbers, len(playing))


class LowWater:
    """How many of the first numbers have been released."""

    def __init__(self, total: int) -> None:
        self._released = bytearray(total)
        self.low = 0

    def release(self, number: int) -> bool:
        """Note that a number's statement is done; return whether the low-water rose."""
        if number == UNNUMBERED or self._released[number]:
            return False
        self._released[number] = 1
        before = self.low
        while self.low < len(self._released) and self._released[self.low]:
            self.low += 1
        return self.low > before

"""The gate: determines which transactions must have ended before a statement may be played.

A server releases a transaction's locks before it logs the COMMIT, so a statement that waited for a lock
can be logged before the COMMIT that released it. Waiting for commits that were logged earlier would therefore
hang. Transactions are numbered by readiness instead: by the row that shows the end of the last statement before
their end. A statement needs every transaction that was ready before its own row. If such a transaction was
still open then, both held their locks at the same time, and it can end first without the statement; if it had
ended, waiting for it repeats the order of the source.

A statement inside a transaction must not see what was committed after it: `INSERT ... SELECT` would write
other rows than on the source. So each end of a transaction waits for the statements of other transactions
that were done before it began. A COMMIT begins some time after its transaction was ready, while its client
thinks; statements that were done in that time did not see it, and do not need it.

A statement that changes the schema must not come before a read that used what it changes: after DROP TABLE the
read would fail. So it waits for the reads outside of transactions that began before it and were done before its
row. They held their locks already, so none of them waits for it.

In a growing log, the need of a statement is known when the log has been read for a while beyond its row: the
transactions it waited for had ended before, and are logged by then. A transaction that stays open gets its number
later, and statements that waited for it come later still.
"""

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Final, Literal

from playhead.queries.column import Column
from playhead.queries.sorted_numbers import sorted_numbers

Order = Literal["session", "commit", "strict"]
ORDERS: tuple[Order, ...] = ("session", "commit", "strict")
UNNUMBERED: Final = -1
FIRST_INSIDE: Final = -2
"""The number of the first statement inside a transaction; that of each later one is lower by 2."""
FIRST_READ: Final = -3
"""The number of the first read outside of transactions; that of each later one is lower by 2."""
_BEFORE_THE_LOG: Final = -1
_NEVER: Final = (1 << 62) - 1
_ROWS_BACK: Final = 1_000
_READS_BACK: Final = 20_000
_NOBODY: Final = -1


class Role(Enum):
    """The role of a statement in transactions."""

    FREE = "free"
    """It waits for nothing: a connection, a disconnection outside of a transaction, a cancel."""
    READ = "read"
    """It is outside of transactions and changes nothing."""
    BODY = "body"
    """It belongs to a transaction and does not end it."""
    END = "end"
    """It ends its transaction, also by a rollback, an error or a disconnection."""
    WRITE = "write"
    """It is a transaction by itself, and may change something."""


ROLES: Final = tuple(Role)
ROLE_NUMBER: Final = {role: number for number, role in enumerate(ROLES)}


class Numbering:
    """Collects the statements of a log, in the order of each session, and numbers the transactions."""

    def __init__(self, order: Order, due_us: Column) -> None:
        self._order, self._due_us = order, due_us
        self.needs = Column()
        """For each statement, how many of the first numbers must have been released."""
        self.numbers = Column()
        """The number that the statement releases when it is done; `UNNUMBERED` if it has none."""
        self.awaits = Column()
        """For each end, how many statements inside transactions must have been done."""
        self.reads_before: dict[int, int] = {}
        """For each change of the schema, how many reads outside of transactions must have been done."""
        self.total = self.inside = self.reads = 0
        """How many transactions, statements inside of them and reads outside of them have a number."""
        self._keys = Column()
        """For each statement, twice the place at which it is ready, and one more if others at this place go first."""
        self._roles = Column("B")
        self._added = array("q")
        """The statements without a final need and number."""
        self._has_sealed = False
        self._last_done: dict[int, int] = {}
        self._rows_inside: deque[int] = deque(maxlen=_ROWS_BACK)
        """The rows of the last statements that have a number inside."""
        self._last_reads: deque[int] = deque(maxlen=_READS_BACK)
        """When the last reads that have a number were due."""

    def add(
        self,
        session: int,
        role: Role,
        done: int | None,
        *,
        ready: int | None = None,
        before: int = _BEFORE_THE_LOG,
        sees: bool = False,
    ) -> None:
        """Add a statement that the row `done` shows as done; None if the log ends before that.

        `ready` is for a `WRITE` whose end the log does not show, because it has only starts of statements.
        `before` is for an end: a row that was written before it began. `sees` is for a `BODY` that depends
        on what others have committed.
        """
        end = _NEVER if done is None else done
        at = end if ready is None else ready
        # A server writes the row of a statement before it begins the next one of the session.
        before = max(before, self._last_done.get(session, _BEFORE_THE_LOG))
        if role is Role.END:
            at = before
        if role is not Role.FREE:
            self._last_done[session] = end
        # With `strict`, an end follows its transaction's last statement at once.
        is_later = role is Role.END or (role is Role.WRITE and self._order == "commit")
        self._added.append(len(self._keys))
        self._keys.append(2 * at + is_later)
        self._roles.append(ROLE_NUMBER[role])
        self.needs.append(0)
        is_inside = sees and role is Role.BODY and self._order == "commit"
        self.numbers.append(FIRST_INSIDE if is_inside else UNNUMBERED)
        is_end = role in (Role.END, Role.WRITE)
        self.awaits.append(before if is_end and self._order == "commit" else 0)

    def note_change(self) -> None:
        """Note that the statement that is added next changes the schema."""
        if self._order == "commit":
            self.reads_before[len(self.needs)] = 0

    def is_sealed(self, at: int) -> bool:
        """Return whether a statement may have been played already."""
        return self._has_sealed and at not in self._added

    def end_session(self, session: int) -> None:
        """Forget a session that has no further statement."""
        self._last_done.pop(session, None)

    def seal(self, before: int | None = None) -> Sequence[int]:
        """Give needs and numbers to the statements that were ready before this place (default: all); return them."""
        self._added = array("q", sorted_numbers(self._added, self._keys.__getitem__))
        self._has_sealed = True
        count = len(self._added)
        if before is not None and self._order != "session":
            count = bisect_left(self._added, 2 * before, key=self._keys.__getitem__)
        sealed, self._added = self._added[:count], self._added[count:]
        if self._order != "session":
            for at in sealed:
                self._seal(at, ROLES[self._roles[at]])
        if before is None:
            self._keys.forget(len(self._keys))
        return array("q", sorted_numbers(sealed, key=int))

    def _seal(self, at: int, role: Role) -> None:
        if role is Role.FREE:
            return
        self.needs[at] = self.total
        if at in self.reads_before:
            self.reads_before[at] = self._reads_before(self._due_us[at])
        if role is Role.READ and self._order == "commit":
            self.numbers[at] = FIRST_READ - 2 * self.reads
            self.reads += 1
            self._last_reads.append(self._due_us[at])
        elif self.numbers[at] == FIRST_INSIDE:
            self.numbers[at] -= 2 * self.inside
            self.inside += 1
            self._rows_inside.append(self._keys[at] >> 1)
        elif self._order == "strict" or role in (Role.END, Role.WRITE):
            self.numbers[at] = self.total
            self.total += 1
            self.awaits[at] = self._inside_before(at, role)

    def _reads_before(self, due_us: int) -> int:
        """Return how many reads are numbered up to the last one that began earlier."""
        count = self.reads
        for other_us in reversed(self._last_reads):
            if other_us < due_us:
                break
            count -= 1
        return count

    def _inside_before(self, at: int, role: Role) -> int:
        if role is Role.END or self._order == "strict":
            return self.inside
        # A write is numbered by its end; statements that ended while it ran may have waited for its lock.
        count = self.inside
        for row in reversed(self._rows_inside):
            if row <= self.awaits[at]:
                break
            count -= 1
        return count

    def forget(self, before: int) -> None:
        """Forget the statements before this one, which are sealed."""
        for column in (self.needs, self.numbers, self.awaits, self._keys, self._roles):
            column.forget(before)
        self.reads_before = {at: n for at, n in self.reads_before.items() if at >= before}


def is_inside(number: int) -> bool:
    """Return whether a number is that of a statement inside a transaction."""
    return number <= FIRST_INSIDE and not number % 2


def is_read(number: int) -> bool:
    """Return whether a number is that of a read outside of transactions."""
    return number <= FIRST_READ and bool(number % 2)


class Owners:
    """The session of each number that is not released."""

    def __init__(self) -> None:
        self._of_transactions, self._inside, self._reads = Column(), Column(), Column()

    def note(self, number: int, session: int) -> None:
        if number == UNNUMBERED:
            return
        column, at = self._place(number)
        while len(column) <= at:
            column.append(_NOBODY)
        column[at] = session

    def get(self, number: int) -> int | None:
        """Return the session of a number; None if it is not known yet."""
        column, at = self._place(number)
        session = column[at] if at < len(column) else _NOBODY
        return None if session == _NOBODY else session

    def forget(self, transactions: int, inside: int, reads: int) -> None:
        """Forget the numbers below the low-water marks, which are released."""
        self._of_transactions.forget(transactions)
        self._inside.forget(inside)
        self._reads.forget(reads)

    def _place(self, number: int) -> tuple[Column, int]:
        if is_inside(number):
            return self._inside, (FIRST_INSIDE - number) // 2
        if is_read(number):
            return self._reads, (FIRST_READ - number) // 2
        return self._of_transactions, number


class LowWater:
    """How many of the first numbers have been released."""

    def __init__(self) -> None:
        self._released: set[int] = set()
        """Released numbers after the first one that is not released."""
        self.low = 0

    def release(self, number: int) -> bool:
        """Release a number; return whether the low-water mark rose."""
        if number < self.low:
            return False
        self._released.add(number)
        before = self.low
        while self.low in self._released:
            self._released.discard(self.low)
            self.low += 1
        return self.low > before

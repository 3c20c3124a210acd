"""What is known of one session while its rows are read, and which of its rows were there before."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from playhead.querylog.logged import Kind, Logged
from playhead.querylog.parameters import Parameters
from playhead.querylog.rows import LogRow
from playhead.querylog.sql import TransactionAct, transaction_act
from playhead.querylog.statement import Act

_MOST_GAPS: Final = 256
_MOST_REMEMBERED: Final = 65_536
"""Sessions that have ended, whose rows are recognised when a shipper sends them again."""


@dataclass(slots=True)
class Draft:
    """A statement whose end is not known yet."""

    line: int
    place: int
    act: Act
    due_us: int
    sql: str = ""
    parameters: Parameters | None = None
    name: str = ""
    portal: str = ""
    unplayable: str | None = None
    in_transaction: bool = False

    def is_of(self, row: LogRow) -> bool:
        """Whether an error is that of this statement, whose row was written when it began."""
        if self.act is Act.CONNECT or row.query not in (None, self.sql):
            # The text that was prepared before the log began is in front of it.
            return row.query is not None and self.sql.endswith(f";\n{row.query}")
        tag = row.tag or ""
        return tag not in ("PARSE", "BIND") and not tag.startswith("idle")


class Bound(NamedTuple):
    """The last BIND row: what an execution that fails was bound to."""

    sql: str
    parameters: Parameters | None
    name: str
    portal: str
    at_us: int
    unplayable: str | None


@dataclass(slots=True)
class Lines:
    """Which line numbers of a session were read."""

    last: int
    first: int = 0
    """The first that was read."""
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Missing ones, `[from, to)`; of very many only the latest."""

    def is_missing(self, line: int) -> bool:
        return any(start <= line < end for start, end in self.gaps)

    def found(self, line: int) -> None:
        """Take a line out of the gap it was missing in."""
        left = []
        for start, end in self.gaps:
            if start <= line < end:
                left += [each for each in ((start, line), (line + 1, end)) if each[0] < each[1]]
            else:
                left.append((start, end))
        self.gaps = left[-_MOST_GAPS:]

    def missing_before(self, line: int) -> int:
        """Go on to this line, and return how many are missing before it."""
        lost = line - self.last - 1
        if lost > 0:
            self.gaps = [*self.gaps, (self.last + 1, line)][-_MOST_GAPS:]
        self.last = line
        return max(0, lost)


@dataclass(slots=True)
class Session:
    """A client's session that has not ended."""

    id: str
    """Its name in statements."""
    process: str
    is_from_beginning: bool
    lines: Lines
    user: str = ""
    database: str = ""
    application: str = ""
    is_connected: bool = False
    draft: Draft | None = None
    bound: Bound | None = None
    is_in_transaction: bool | None = None
    """None while it is unknown."""
    transaction: str | None = None
    """The virtual transaction id of its last row; used while it is not known whether one is open."""
    place: int = 0
    """Of its last statement's row."""
    due_us: int = 0
    """When its last statement began; the next one began later, also where the log is too coarse to show it."""
    released: str | None = None
    """The text of a statement that was given out before its end was known."""
    shows_queries: bool = False
    """Its rows of errors have the text (log_min_error_statement)."""
    longest_whole: int = -1
    """Bytes of the longest parameter that was not cut; a shorter one was not cut either."""
    prepared: set[str] = field(default_factory=set)
    """Texts with PREPARE that were seen in it."""

    def learn_transaction(self, row: LogRow, done: Logged) -> None:
        """Whether a transaction is open before this statement: by what the session shows, or by its number."""
        if done.kind is Kind.STATEMENT and done.duration_us is None and row.tag is not None:
            if row.tag.startswith("idle"):
                self.is_in_transaction = row.tag.startswith("idle in transaction")
        elif self.is_in_transaction is None:
            number = row.virtual_transaction
            is_numbered = number is not None and number[-2:] != "/0"
            # A simple query has its duration logged behind the end of its own transaction.
            is_simple = done.kind is Kind.STATEMENT and done.duration_us is not None
            is_plain = is_simple and transaction_act(done.sql) is TransactionAct.NONE
            if is_numbered and (is_plain or number == self.transaction):
                self.is_in_transaction = True
        self.transaction = row.virtual_transaction


class Remembered:
    """The lines of sessions that are not open: those that ended, and processes that are no clients."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, Lines] = OrderedDict()

    def __getitem__(self, session: str) -> Lines | None:
        return self._lines.get(session)

    def keep(self, session: str, lines: Lines) -> None:
        self._lines[session] = lines
        self._lines.move_to_end(session)
        while len(self._lines) > _MOST_REMEMBERED:
            self._lines.popitem(last=False)

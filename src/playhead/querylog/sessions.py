"""The state of one session while its rows are read, and the line numbers that were read."""

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
"""Number of ended sessions whose rows are recognised if a shipper sends them twice."""


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
        """Return whether an error belongs to this statement, whose row was written at its beginning."""
        if self.act is Act.CONNECT or row.query not in (None, self.sql):
            # The text of a PREPARE from before the log precedes it.
            return row.query is not None and self.sql.endswith(f";\n{row.query}")
        tag = row.tag or ""
        return tag not in ("PARSE", "BIND") and not tag.startswith("idle")


class Bound(NamedTuple):
    """The last BIND row: the parameters of an execution that fails."""

    sql: str
    parameters: Parameters | None
    name: str
    portal: str
    at_us: int
    unplayable: str | None


@dataclass(slots=True)
class Lines:
    """The line numbers of a session that were read."""

    last: int
    first: int = 0
    """The first line that was read."""
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Gaps, `[from, to)`; only the latest if there are very many."""

    def is_missing(self, line: int) -> bool:
        return any(start <= line < end for start, end in self.gaps)

    def found(self, line: int) -> None:
        """Remove a line from its gap."""
        left = []
        for start, end in self.gaps:
            if start <= line < end:
                left += [each for each in ((start, line), (line + 1, end)) if each[0] < each[1]]
            else:
                left.append((start, end))
        self.gaps = left[-_MOST_GAPS:]

    def missing_before(self, line: int) -> int:
        """Advance to this line; return how many lines are missing before it."""
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
    """Whether a transaction is open; None if it is unknown."""
    transaction: str | None = None
    """The virtual transaction id of its last row; used if it is unknown whether a transaction is open."""
    place: int = 0
    """The place of its last statement's row."""
    due_us: int = 0
    """When its last statement began; the next one began later, even if the log's times are too coarse to show it."""
    released: str | None = None
    """The text of a statement that was returned before its end was known."""
    shows_queries: bool = False
    """Whether its error rows contain the statement (log_min_error_statement)."""
    longest_whole: int = -1
    """Length in bytes of the longest complete parameter; shorter parameters are complete too."""
    prepared: set[str] = field(default_factory=set)
    """Texts of its PREPARE statements."""

    def learn_transaction(self, row: LogRow, done: Logged) -> None:
        """Note whether a transaction is open before this statement, by the activity or the virtual transaction id."""
        if done.kind is Kind.STATEMENT and done.duration_us is None and row.tag is not None:
            if row.tag.startswith("idle"):
                self.is_in_transaction = row.tag.startswith("idle in transaction")
        elif self.is_in_transaction is None:
            number = row.virtual_transaction
            is_numbered = number is not None and number[-2:] != "/0"
            # The duration of a simple query is logged after the end of its own transaction.
            is_simple = done.kind is Kind.STATEMENT and done.duration_us is not None
            is_plain = is_simple and transaction_act(done.sql) is TransactionAct.NONE
            if is_numbered and (is_plain or number == self.transaction):
                self.is_in_transaction = True
        self.transaction = row.virtual_transaction


class Remembered:
    """The lines of sessions that are not open: ended sessions, and processes without a client."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, Lines] = OrderedDict()

    def __getitem__(self, session: str) -> Lines | None:
        return self._lines.get(session)

    def keep(self, session: str, lines: Lines) -> None:
        self._lines[session] = lines
        self._lines.move_to_end(session)
        while len(self._lines) > _MOST_REMEMBERED:
            self._lines.popitem(last=False)

"""What is known of one session while its rows are read."""

from dataclasses import dataclass, field
from typing import NamedTuple

from playhead.querylog.lines import Lines
from playhead.querylog.logged import Kind, Logged
from playhead.querylog.parameters import Parameters
from playhead.querylog.rows import LogRow
from playhead.querylog.sql import TransactionAct, may_write, open_behind, transaction_act
from playhead.querylog.statement import Act


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
    transaction: str = ""

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
    transaction: str = ""
    """The virtual transaction id that its last statement left open; empty if none."""
    place: int = 0
    """The place of its last statement's row."""
    due_us: int = 0
    """When its last statement began; the next one began later, even if the log's times are too coarse to show it."""
    released: str | None = None
    """The text of a statement that was returned before its end was known."""
    shows_queries: bool = False
    """Whether its error rows contain the statement (log_min_error_statement)."""
    longest_whole: int = -1
    """Bytes of the longest parameter that was not cut; a shorter one was not cut either."""
    ends_unseen: bool = False
    """Its server has crashed, and whether its statement had ended is not known."""
    prepared: set[bytes] = field(default_factory=set)
    """Hashes of its PREPARE statements."""

    def may_have_kept(self, draft: Draft) -> bool:
        """Whether a statement of which the end is not known may have changed something that was not rolled back."""
        if self.is_in_transaction:
            if transaction_act(draft.sql) is TransactionAct.ROLLBACK:
                return False
            return open_behind(True, draft.sql, None) is not True
        return may_write(draft.sql)

    def learn_transaction(self, row: LogRow, done: Logged) -> None:
        """Note whether a transaction is open before this statement, by the activity or the virtual transaction id."""
        if done.kind is Kind.STATEMENT and done.duration_us is None and row.tag is not None:
            if row.tag.startswith("idle"):
                self.is_in_transaction = row.tag.startswith("idle in transaction")
        elif self.is_in_transaction is None:
            number = row.open_transaction
            # The duration of a simple query is logged after the end of its own transaction.
            is_simple = done.kind is Kind.STATEMENT and done.duration_us is not None
            is_plain = is_simple and transaction_act(done.sql) is TransactionAct.NONE
            if number and (is_plain or number == self.transaction):
                self.is_in_transaction = True
        self.transaction = row.open_transaction

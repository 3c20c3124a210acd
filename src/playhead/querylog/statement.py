"""A statement of a session, as read from a server's log; the interface to playing and reporting."""

from enum import Enum
from typing import NamedTuple


class Act(Enum):
    """The kinds of acts of a session."""

    CONNECT = "connect"
    """The session began; `sql` is empty."""
    QUERY = "query"
    """A text sent by the simple protocol. It may hold several statements."""
    EXECUTE = "execute"
    """A statement sent by the extended protocol: parsed, bound to `parameters`, executed."""
    FETCH = "fetch"
    """More rows of the portal `portal`, which an EXECUTE before it opened."""
    CANCEL = "cancel"
    """The client canceled the statement of its session that runs at this moment."""
    DISCONNECT = "disconnect"
    """The session ended."""


class Statement(NamedTuple):
    """One act of one session.

    `place` orders the rows of a whole log, also across the partitions of a topic. `line` is the session's own
    number of the row; (session, line) identifies a statement.
    """

    session: str
    line: int
    place: int
    act: Act
    due_us: int
    """When it began, in µs since 1970: the row's time, minus the duration if the row was written at the end."""
    sql: str = ""
    parameters: tuple[str | None, ...] | None = None
    name: str = ""
    """The name of the prepared statement; empty for an unnamed one."""
    portal: str = ""
    user: str = ""
    database: str = ""
    application: str = ""
    duration_us: int | None = None
    done_place: int | None = None
    """The place of the row that shows its end; None if the log ends before that."""
    in_transaction: bool = False
    """Whether it belongs to an explicit transaction, according to the log."""
    expected_error: str | None = None
    """The SQLSTATE with which it failed on the source."""
    transaction: str = ""
    """The virtual transaction id that was open at its row. Outside of explicit transactions, statements of the extended
    protocol with the same one were sent before one Sync: an error undoes all of them."""
    unplayable: str | None = None
    """Why it cannot be replayed: one word of `UNPLAYABLE`."""


NOT_ENDED = "not-ended"
UNPLAYABLE = {
    "copy-data": "the log does not contain the data of COPY",
    "truncated-parameters": "the server truncated a parameter (log_parameter_max_length)",
    "no-parameters": "the log does not contain the parameters",
    "torn-parameters": "the shipper has split the parameters, and they cannot be joined again",
    "fastpath": "a function call by the fast-path protocol",
    "ambiguous-name": "the name of the prepared statement makes the beginning of its text uncertain",
    NOT_ENDED: "the server crashed before the log shows their end: they may have been committed, or not",
    "no-text": "the log does not contain the text of the statement",
}

"""One row of a PostgreSQL server's log, independent of its format."""

from typing import Final, NamedTuple

MOST_LINE: Final = 1 << 46
"""A line number that no session reaches; the tape keeps lines with 16 bits more."""


class NotARow(Exception):
    """The bytes cannot be parsed as a row of a server's log; the text has the reason."""


class LogRow(NamedTuple):
    """A row. A field that its format lacks, or that the server left empty, is None."""

    time_us: int
    """The time of the row, in µs since 1970; logs have milliseconds."""
    session: str
    """The session id, or the process id if the log has no session id."""
    severity: str
    message: str
    line: int | None = None
    """The number of the row in its session; None if the log has none."""
    detail: str | None = None
    context: str | None = None
    query: str | None = None
    """The statement that failed, in rows of errors."""
    tag: str | None = None
    """The activity of the session: a command, `idle`, `idle in transaction`, `BIND`."""
    sqlstate: str | None = None
    user: str | None = None
    database: str | None = None
    application: str | None = None
    backend: str | None = None
    """The kind of process, in version 13 and later."""
    virtual_transaction: str | None = None
    cuts_parameters: bool = True
    """Whether the server's version can truncate parameters (13 and later)."""
    is_torn: bool = False
    """Whether a shipper has split the detail at its commas, and the parts could not be joined."""
    place: int = 0
    """The row's place, which orders the rows of the whole log."""

    @property
    def open_transaction(self) -> str:
        """The virtual transaction id if a transaction was open, also an implicit one; empty if none was."""
        number = self.virtual_transaction or ""
        return "" if number.endswith("/0") else number


SEVERITIES: Final = frozenset(
    ("LOG", "ERROR", "FATAL", "PANIC", "WARNING", "NOTICE", "INFO", "DEBUG",
     "DEBUG1", "DEBUG2", "DEBUG3", "DEBUG4", "DEBUG5")
)  # fmt: skip
"""The severities of servers with lc_messages in English."""

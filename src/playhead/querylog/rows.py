"""One row of a PostgreSQL server's log, whatever form it was written in."""

from typing import Final, NamedTuple


class NotARow(Exception):
    """The bytes are no row of a server's log that is understood; says why."""


class LogRow(NamedTuple):
    """A row. What its form does not have, or what the server left empty, is None."""

    time_us: int
    """When it was written, in µs since 1970; logs have milliseconds."""
    session: str
    """The session id, or the process id where the log has nothing else."""
    severity: str
    message: str
    line: int | None = None
    """The session's own number of the row; None where the log has none."""
    detail: str | None = None
    context: str | None = None
    query: str | None = None
    """The text that failed, in rows of errors."""
    tag: str | None = None
    """What the session showed as its activity: a command, `idle`, `idle in transaction`, `BIND`."""
    sqlstate: str | None = None
    user: str | None = None
    database: str | None = None
    application: str | None = None
    backend: str | None = None
    """The kind of process, from version 13 on."""
    virtual_transaction: str | None = None
    cuts_parameters: bool = True
    """Whether the server's version can have shortened parameters (13 and later can)."""
    is_torn: bool = False
    """Whether a shipper divided the detail at its commas, and it could not be joined again."""
    place: int = 0
    """Orders the rows of the whole log."""


SEVERITIES: Final = frozenset(
    ("LOG", "ERROR", "FATAL", "PANIC", "WARNING", "NOTICE", "INFO", "DEBUG",
     "DEBUG1", "DEBUG2", "DEBUG3", "DEBUG4", "DEBUG5")
)  # fmt: skip
"""As servers write them with English messages."""

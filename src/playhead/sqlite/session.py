"""Connections to a database file, their transactions, and their errors in our words."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from playhead.errors import PlayheadError, Refused, Unavailable
from playhead.host.folders import exposed

# A writer has the whole file to itself while it inserts a slice.
_WAITS_S = 60
# A commit survives a loss of power; no record lies in a temporary file.
_SETTINGS = (
    "synchronous = EXTRA",
    "foreign_keys = ON",
    "temp_store = MEMORY",
    "trusted_schema = OFF",
)


def database_file(text: str) -> Path:
    """The file with its links resolved; refuses a folder that others can change, for SQLite follows links."""
    file = Path(text).expanduser().resolve()
    if reason := exposed(file.parent):
        hint = "keep the database in a folder that only you can write to"
        raise Refused(f"other users could replace {file}: {reason}", hint=hint)
    return file


@contextmanager
def opened(file: Path, mode: str = "rw") -> Iterator[sqlite3.Connection]:
    """A connection to a database that exists; with mode `memory`, to an empty one."""
    try:
        uri = f"{file.as_uri()}?mode={mode}"
        found = sqlite3.connect(uri, uri=True, timeout=_WAITS_S, isolation_level=None)
        with closing(found) as connection:
            for setting in _SETTINGS:
                connection.execute(f"PRAGMA {setting}")
            yield connection
    except sqlite3.Error as exc:
        if getattr(exc, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
            hint = "end it; a replay goes on from its ledger"
            raise Unavailable(f"another program has locked {file}", hint=hint) from exc
        raise PlayheadError(f"SQLite failed on {file}: {exc}") from exc


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """The only transaction that writes; it waits for the end of another one."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def named(name: str) -> str:
    """A name in quotes."""
    return '"' + name.replace('"', '""') + '"'

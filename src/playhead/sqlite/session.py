"""Connections to a database file, transactions, and the translation of SQLite's errors."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from playhead.errors import PlayheadError, Refused, Unavailable
from playhead.host import paths
from playhead.host.folders import exposed

# A writer locks the whole file while it inserts a slice.
_WAITS_S = 60
_GROUP = 100
# EXTRA: a commit survives a power failure. MEMORY: records are never written to temporary files.
_SETTINGS = (
    "synchronous = EXTRA",
    "foreign_keys = ON",
    "temp_store = MEMORY",
    "trusted_schema = OFF",
)


def database_file(text: str) -> Path:
    """Return the file with its links resolved; refuse a folder in which other users can replace it."""
    file = paths.at_home(text).resolve()
    if reason := exposed(file.parent):
        hint = "keep the database in a folder that only you can write to"
        raise Refused(f"other users could replace {file}: {reason}", hint=hint)
    return file


@contextmanager
def open_database(file: Path, mode: str = "rw") -> Iterator[sqlite3.Connection]:
    """Open a database that exists; with the mode `memory`, an empty one in memory."""
    try:
        uri = f"{file.as_uri()}?mode={mode}"
        database = sqlite3.connect(uri, uri=True, timeout=_WAITS_S, isolation_level=None)
        with closing(database) as connection:
            for setting in _SETTINGS:
                connection.execute(f"PRAGMA {setting}")
            yield connection
    except sqlite3.Error as exc:
        if getattr(exc, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
            hint = "stop that program and run the same command again; the replay resumes from its ledger"
            raise Unavailable(f"another program has locked {file}", hint=hint) from exc
        raise PlayheadError(f"SQLite failed on {file}: {exc}") from exc


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run a block in a write transaction, after waiting for other writers."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def named(name: str) -> str:
    """Quote a name for use in a statement."""
    return '"' + name.replace('"', '""') + '"'


def all_of(conditions: Iterable[str]) -> str:
    """Join conditions by AND, in groups: SQLite refuses an expression of a thousand levels."""
    listed = list(conditions)
    groups = (listed[at : at + _GROUP] for at in range(0, len(listed), _GROUP))
    return " AND ".join(f"({' AND '.join(group)})" for group in groups)

"""Connections to a database file, transactions, and the translation of SQLite's errors."""

import math
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar

from playhead.errors import PlayheadError, Refused, Unavailable
from playhead.host import paths
from playhead.host.folders import exposed, read_plain
from playhead.host.own_links import real_path

# A writer locks the whole file while it inserts a slice.
_WAITS_S = 60
# EXTRA: a commit survives a power failure. MEMORY: records are never written to temporary files.
_SETTINGS = (
    "synchronous = EXTRA",
    "foreign_keys = ON",
    "temp_store = MEMORY",
    "trusted_schema = OFF",
)


# Statements that run expressions and triggers of the table. Those of one who made the file may have no end.
_WRITES = ("INSERT", "UPDATE", "DELETE")
_WRITES_S = 300
# Instructions of SQLite between two looks at the clock: some hundredths of a second.
_INSTRUCTIONS = 1_000_000
# Statements with values of a record.
_OF_ROWS = (*_WRITES, "SELECT")
_MADE_AS = (
    "SELECT CAST(coalesce(sql, '') AS text) FROM main.sqlite_master WHERE type IN ('table', 'view') "
    "AND name = $1 COLLATE NOCASE"
)
_CHANGED_BY = (
    "SELECT name FROM main.sqlite_master WHERE type = 'trigger' "
    "AND instr(lower(CAST(sql AS text)), $1) LIMIT 1"
)
# SQLite reads bytes, and what is before a NUL, as a text; a comparison does not, and would not find a trigger.
_IS_ODD = "type NOT IN ('table', 'index', 'view', 'trigger') OR " + " OR ".join(
    f"printf('%s', {column}) IS NOT coalesce({column}, '')"
    for column in ("type", "name", "tbl_name", "sql")
)
# A table of such a name answers in the place of SQLite's function. Two tables of one page are one.
_MISLEADS = f"""
SELECT 1 FROM main.sqlite_master
WHERE {_IS_ODD} OR type IN ('table', 'view') AND name LIKE 'pragma\\_%' ESCAPE '\\'
    OR rootpage IN (
        SELECT rootpage FROM main.sqlite_master WHERE rootpage > 0 GROUP BY 1 HAVING count(*) > 1)
LIMIT 1
"""  # noqa: S608 - constants
_MISLEADING = (
    "its schema is damaged, or hides what it has: a table named pragma_…, or two tables on one page"
)
# Names in quotes may have anything that looks like a parameter.
_PARAMETER = re.compile(r'("(?:[^"]|"")*")|\$(\d+)')
# The end of a journal whose transaction changed several databases; the name of another journal is before it.
_NAMES_ANOTHER = bytes.fromhex("d9d505f920a163d7")


class Session:
    """A connection, on which each transaction begins and ends explicitly."""

    refusals: ClassVar[tuple[type[Exception], ...]] = (
        sqlite3.IntegrityError,
        sqlite3.DataError,
        OverflowError,
        UnicodeEncodeError,
    )
    is_same: ClassVar[str] = "IS"
    by_bytes: ClassVar[str] = "COLLATE BINARY"
    stored_by_key: ClassVar[str] = "WITHOUT ROWID"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._ends = math.inf
        connection.set_progress_handler(lambda: monotonic() > self._ends, _INSTRUCTIONS)

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def run(self, statement: str, parameters: Sequence[Any] = (), /) -> list[tuple[Any, ...]]:
        return self._done(statement, parameters).fetchall()

    def count(self, statement: str, parameters: Sequence[Any] = (), /) -> int:
        return self._done(statement, parameters).rowcount

    def stream(self, statement: str, /) -> Iterator[tuple[Any, ...]]:
        return self._executed(statement)

    def has_table(self, name: str, made_by: str, /) -> bool:
        """Return whether there is the table that a statement makes, which no trigger names.

        Anything else is code of the one who made the file: a query without an end, or a trigger that deletes
        rows that an entry counts, or the entry.
        """
        found = self.run(_MADE_AS, (name,))
        if any(text.split() != _stored(made_by) for (text,) in found):
            hint = "take another file; this one was not made by Playhead"
            raise Refused(
                f"{name} of this database is not an ordinary table of Playhead's", hint=hint
            )
        for (trigger,) in self.run(_CHANGED_BY, (name,)):
            text = f"the trigger {trigger} of this database names {name}, which only Playhead may change"
            raise Refused(text, hint="drop the trigger, or take another file")
        return bool(found)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a block in a write transaction, after waiting for other writers."""
        self.run("BEGIN IMMEDIATE")
        try:
            yield
            self.run("COMMIT")
        finally:
            if self.in_transaction:
                self.run("ROLLBACK")

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        self.run("SAVEPOINT playhead_row")
        try:
            yield
        except self.refusals:
            if self.in_transaction:
                self.run("ROLLBACK TO playhead_row")
                self.run("RELEASE playhead_row")
            raise
        self.run("RELEASE playhead_row")

    def _done(self, statement: str, parameters: Sequence[Any]) -> sqlite3.Cursor:
        text = _with_parameters(statement)
        try:
            return self._executed(text, parameters)
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode != sqlite3.SQLITE_ERROR or not text.startswith(_OF_ROWS):
                raise
            # A wrong statement has this code too, and cannot be explained. Otherwise a function of the table
            # or of a trigger has failed for these values.
            self._executed(f"EXPLAIN {text}", parameters)
            raise sqlite3.DataError(str(exc)) from exc

    def _executed(self, text: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
        self._ends = monotonic() + _WRITES_S if text.startswith(_WRITES) else math.inf
        try:
            return self._connection.execute(text, parameters)
        except UnicodeDecodeError as exc:  # Of SQLite's error, which has a name of the schema.
            raise sqlite3.DatabaseError("its schema is damaged, and not UTF-8") from exc


@lru_cache(maxsize=512)
def _with_parameters(statement: str) -> str:
    """Return the statement with the numbered parameters that Python binds to a sequence."""
    return _PARAMETER.sub(lambda found: found[1] or f"?{found[2]}", statement)


def _stored(made_by: str) -> list[str]:
    """Return the words of a statement as SQLite keeps it."""
    return made_by.replace("IF NOT EXISTS ", "").split()


def database_file(text: str) -> Path:
    """Return the file with its links resolved; refuse links of other users, and a folder in which they can
    replace the file.
    """
    named = paths.at_home(text)
    try:
        file = real_path(named)
    except OSError as exc:
        raise Refused(f"the database {named} cannot be used: {exc.strerror}") from exc
    if reason := exposed(file.parent):
        hint = "keep the database in a folder that only you can write to"
        raise Refused(f"other users could replace {file}: {reason}", hint=hint)
    return file


def _need_lone_journal(file: Path) -> None:
    """Refuse a journal that names a second journal: to roll back, SQLite deletes the named file, wherever it is.

    Of a pipe in its place, SQLite would wait for the other end.
    """
    journal = file.with_name(f"{file.name}-journal")
    try:
        end = read_plain(journal, most=len(_NAMES_ANOTHER))
    except FileNotFoundError:
        return
    except OSError as exc:
        raise Refused(f"the journal {journal} cannot be used: {exc.strerror}") from exc
    if end == _NAMES_ANOTHER:
        hint = (
            "if another program is writing to it, run the command again; if the database is yours and no program "
            f"has it, open it once with sqlite3 {file}"
        )
        why = "SQLite would delete the file that it names"
        raise Refused(f"{journal} is of a transaction over several databases: {why}", hint=hint)


@contextmanager
def open_database(file: Path, mode: str = "rw") -> Iterator[Session]:
    """Open a database that exists; with the mode `memory`, an empty one in memory."""
    if mode != "memory":
        _need_lone_journal(file)
    try:
        uri = f"{file.as_uri()}?mode={mode}"
        database = sqlite3.connect(uri, uri=True, timeout=_WAITS_S, isolation_level=None)
        with closing(database) as connection:
            session = Session(connection)
            for setting in _SETTINGS:
                session.run(f"PRAGMA {setting}")
            if session.run(_MISLEADS):
                raise sqlite3.DatabaseError(_MISLEADING)
            yield session
    except sqlite3.Error as exc:
        if getattr(exc, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
            hint = "stop that program and run the same command again; the replay resumes from its ledger"
            raise Unavailable(f"another program has locked {file}", hint=hint) from exc
        if getattr(exc, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
            hint = "look at the triggers and expressions of its tables: one of them may have no end"
            raise PlayheadError(
                f"writing a row to {file} took over {_WRITES_S} s", hint=hint
            ) from exc
        raise PlayheadError(f"SQLite failed on {file}: {exc}") from exc

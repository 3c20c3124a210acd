"""A connection for statements in explicit transactions and, if asked for, Arrow tables by binary COPY."""

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import psycopg
from psycopg import conninfo, sql

from playhead import secrets
from playhead.errors import DatabaseUnavailable, PlayheadError, Refused
from playhead.host.kept_open import kept_open
from playhead.postgres import bounded_connection
from playhead.postgres.adbc import ArrowConnection, Error
from playhead.postgres.answers import AnswerMisformed, NoPostgres, only_row, rows_of
from playhead.postgres.bounded_connection import AnswerTooLate
from playhead.postgres.errors import TOO_LARGE, DataError, StatementRefused, translated
from playhead.postgres.server import APPLICATION, checked, why_not_connected
from playhead.postgres.statement_connection import StatementConnection
from playhead.tables.sql import named

# A lost connection is detected within this time; the URL may change it.
_PATIENCE = {
    "connect_timeout": "10",
    "keepalives_idle": "20",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
    "application_name": APPLICATION,
}
# The meaning of a value's text must not depend on the role or the database.
_SETTINGS = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "bytea_output": "hex",
    "array_nulls": "on",
    "xmloption": "content",
    # With fewer digits, a comparison of texts would not see a changed number.
    "extra_float_digits": "3",
}
# A crash of the server loses commits that it did not wait for, but not the proof that they are there.
# How much more than its own disk a commit waits for is the user's choice.
_LASTING = """pg_catalog.set_config('synchronous_commit', CASE pg_catalog.current_setting('synchronous_commit')
WHEN 'off' THEN 'on' ELSE pg_catalog.current_setting('synchronous_commit') END, false)"""
_PROCESS = "pg_catalog.pg_backend_pid()::int8"
# A statement that waits longer for a lock fails, and is retried.
_LOCK_PATIENCE = "60s"
# PostgreSQL 16 can check whether a text is a value of some type.
_KNOWS_VALIDITY = 160_000
Row = tuple[Any, ...]
_Link = TypeVar("_Link", ArrowConnection, StatementConnection)


class SharedConnection(Refused):
    """A pooler gives each transaction another connection: settings, locks and prepared statements are lost."""

    def __init__(self, where: str) -> None:
        self.where = where
        super().__init__(
            f"two statements to PostgreSQL at {where} came to two connections of the server: a pooler "
            "in transaction mode is between, which keeps neither settings nor locks of a session",
            hint="name the server itself, or a pooler's address in session mode",
        )


@dataclass(frozen=True, slots=True)
class TableName:
    """A table's schema and name."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def quoted(self) -> str:
        return f"{named(self.schema)}.{named(self.name)}"


class Session:
    """A connection on which every transaction begins and ends explicitly.

    The driver's default, a transaction that is always open, would let a pause between two slices exceed the
    server's limit for idle transactions.
    """

    def __init__(
        self, link: ArrowConnection | StatementConnection, *, where: str, grant: str
    ) -> None:
        self._link, self.where, self._grant = link, where, grant
        settings = ", ".join(
            f"pg_catalog.set_config({literal(name)}, {literal(value)}, false)"
            for name, value in _SETTINGS.items()
        )
        *_, process = self.one(f"SELECT {settings}, {_LASTING}, {_PROCESS}", kinds=(..., int))
        version, lock_timeout, same = self.one(
            "SELECT pg_catalog.current_setting('server_version_num')::int8, "
            f"pg_catalog.current_setting('lock_timeout'), {_PROCESS}",
            kinds=(int, str, int),
        )
        if process != same:
            raise SharedConnection(where)
        self.has_validity = version >= _KNOWS_VALIDITY
        if lock_timeout == "0":
            self.run(
                f"SELECT pg_catalog.set_config('lock_timeout', {literal(_LOCK_PATIENCE)}, false)"
            )

    @property
    def is_free(self) -> bool:
        """Whether another act may use the connection meanwhile."""
        return self._link.is_free

    def granting(self, grant: str) -> "Session":
        """The same connection for an act that needs other rights, which its errors name."""
        other = copy.copy(self)
        other._grant = grant
        return other

    def run(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Return the rows of one statement."""
        with self._translated():
            return self._link.ask(statement, parameters)[0]

    def one(self, statement: str, parameters: Sequence[Any] = (), *, kinds: Sequence[Any]) -> Row:
        """Return the only row of one statement; its values are of the types that `only_row` describes."""
        rows = self.run(statement, parameters)
        with self._translated():
            return only_row(rows, kinds)

    def rows(
        self, statement: str, parameters: Sequence[Any] = (), *, kinds: Sequence[Any]
    ) -> Sequence[Row]:
        """Return the rows of one statement; the values of each are of the types that `only_row` describes."""
        found = self.run(statement, parameters)
        with self._translated():
            return rows_of(found, kinds)

    def count(self, statement: str) -> int:
        """Return how many rows a statement changed; with parameters, the driver would not know it."""
        with self._translated():
            return max(0, self._link.ask(statement, ())[1])  # The driver returns -1 for none.

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit at the end of the block, and roll back if it fails."""
        # Explicitly, whatever the role's default is: a read after a lock must see what others
        # committed.
        self.run("BEGIN ISOLATION LEVEL READ COMMITTED")
        try:
            yield
            self.run("COMMIT")
        except BaseException:
            # The original error says more than a rollback that fails too.
            with contextlib.suppress(Exception):
                self.run("ROLLBACK")
            raise

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Run the block in a transaction that is always rolled back."""
        self.run("BEGIN ISOLATION LEVEL READ COMMITTED")
        try:
            yield
        finally:
            with contextlib.suppress(Exception):
                self.run("ROLLBACK")

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo only the block if it fails."""
        self.run("SAVEPOINT playhead")
        try:
            yield
        except Exception:
            self.run("ROLLBACK TO SAVEPOINT playhead")
            self.run("RELEASE SAVEPOINT playhead")
            raise
        self.run("RELEASE SAVEPOINT playhead")

    def analyze(self, table: str) -> None:
        """Collect statistics, which only make plans better.

        For a column such as `numrange`, the server computes lengths, and fails where one is too large for a number.
        """
        with contextlib.suppress(DataError), self.savepoint():
            self.run(f"ANALYZE {table}")

    @contextmanager
    def locked(self, name: str) -> Iterator[bool]:
        """Hold the lock of this name in the block, if no other session has it; yield whether."""
        key = "pg_catalog.hashtextextended($1, 0)"
        (is_mine,) = self.one(
            f"SELECT pg_catalog.pg_try_advisory_lock({key})", (name,), kinds=[bool]
        )
        try:
            yield is_mine
        finally:
            if is_mine:
                with contextlib.suppress(PlayheadError):  # A connection that is lost has no lock.
                    self.run(f"SELECT pg_catalog.pg_advisory_unlock({key})", (name,))

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except AnswerMisformed as exc:
            raise NoPostgres(self.where, reason=str(exc)) from exc
        except (Error, psycopg.Error) as exc:
            raise translated(
                exc, where=self.where, grant=self._grant, connection_lost=self._link.is_lost
            ) from exc


class CopySession(Session):
    """A session that also appends Arrow tables by binary COPY.

    Its driver reads the server's catalog of types whenever it connects, so only writers have one.
    """

    def __init__(self, link: ArrowConnection, *, where: str, grant: str) -> None:
        super().__init__(link, where=where, grant=grant)
        self._arrow = link

    def copy(self, table: TableName, rows: Any) -> None:
        """Append an Arrow table to the columns of the same names."""
        with self._translated():
            self._arrow.copy(rows, table.name, table.schema)

    def copy_aside(self, name: str, rows: Any) -> None:
        """Append an Arrow table to a temporary table; what is too large for it is a fault of its record."""
        try:
            with self._translated():
                self._arrow.copy(rows, name, None)
        except StatementRefused as exc:
            if exc.sqlstate != TOO_LARGE:
                raise
            raise DataError(TOO_LARGE, exc.reason) from exc


@contextmanager
def open_session(url: str, *, grant: str) -> Iterator[Session]:
    """Connect; leaving the block disconnects, which rolls back an open transaction.

    Under `keeping_open`, the block has a connection that stays open, unless another block is using it.
    """
    with answers_of(url):
        kept = kept_open((open_session, url), lambda: _connected(url, grant))
        if kept is not None and kept.is_free:
            yield kept.granting(grant)
            return
        with _connected(url, grant) as session:
            yield session


@contextmanager
def _connected(url: str, grant: str) -> Iterator[Session]:
    with _linked(url, StatementConnection) as (link, where):
        with _in_time(where), link.answering_within(bounded_connection.BEGINS_WITHIN_S):
            begun = Session(link, where=where, grant=grant)
        yield begun


@contextmanager
def open_copy_session(url: str, *, grant: str) -> Iterator[CopySession]:
    """Connect as `open_session` does, for COPY too."""
    with answers_of(url), _linked(url, ArrowConnection) as (link, where):
        with _in_time(where), link.answering_within(bounded_connection.BEGINS_WITHIN_S):
            begun = CopySession(link, where=where, grant=grant)
        yield begun


@contextmanager
def _in_time(where: str) -> Iterator[None]:
    """Name the server in the error for one that takes the login, and then says nothing."""
    try:
        yield
    except AnswerTooLate as exc:
        reason = f"it took the login and gave no whole answer within {exc.limit_s:g} s"
        raise DatabaseUnavailable(where, reason=reason) from exc


@contextmanager
def answers_of(url: str) -> Iterator[None]:
    """Name the server at this address in the error for an answer that no PostgreSQL gives.

    The values of records are refused before this: a server that refuses other values is no PostgreSQL, or broken.
    """
    try:
        yield
    except AnswerMisformed as exc:
        raise NoPostgres(secrets.without_password(url), reason=str(exc)) from exc
    except DataError as exc:
        where = secrets.without_password(url)
        raise StatementRefused(where, sqlstate=exc.sqlstate, reason=exc.reason) from exc


@contextmanager
def _linked(url: str, connect: Callable[[str], _Link]) -> Iterator[tuple[_Link, str]]:
    where = secrets.without_password(url)
    try:
        with _in_time(where):  # The Arrow driver's connection begins with a statement.
            link = connect(conninfo.make_conninfo("", **(_PATIENCE | checked(url))))
    except (Error, psycopg.Error) as exc:
        raise DatabaseUnavailable(where, reason=why_not_connected(exc, where)) from exc
    try:
        yield link, where
    finally:
        link.close()


@lru_cache(maxsize=1024)
def literal(text: str) -> str:
    """Quote a text."""
    return sql.Literal(text).as_string()

"""The plans of statements, by EXPLAIN in a transaction that is read-only and is rolled back; nothing is executed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import conninfo, generators, pq

from playhead import secrets
from playhead.errors import DatabaseUnavailable
from playhead.postgres.bounded_connection import AnswerTooLarge, AnswerTooLate, BoundedConnection
from playhead.postgres.connecting import opened
from playhead.postgres.server import APPLICATION, checked, why_not_connected
from playhead.server import Explainer, NotExplained

_KNOWS_GENERIC: Final = 160_000
"""The first version that plans a statement without its values."""
# Longer than its own limits, which a server in distress may not keep.
_LIMIT_S: Final = 15.0
_BEGIN: Final = (
    b"BEGIN READ ONLY; SET LOCAL statement_timeout = '5s'; SET LOCAL lock_timeout = '1s'; "
    b"SET LOCAL standard_conforming_strings = on"
)


@dataclass(frozen=True, slots=True)
class PostgresExplainer(Explainer):
    """A connection that asks for plans."""

    _connection: "psycopg.Connection[Any]"

    @property
    def knows_generic(self) -> bool:
        return self._connection.info.server_version >= _KNOWS_GENERIC

    def plan(self, text: bytes, parameters: Sequence[bytes | None] | None) -> str:
        try:
            return self._plan(text, parameters)
        except (psycopg.Error, AnswerTooLarge, AnswerTooLate) as exc:
            raise NotExplained(secrets.redact(str(exc))) from exc

    def _plan(self, text: bytes, parameters: Sequence[bytes | None] | None) -> str:
        begun = self._answer(_BEGIN)
        try:
            if begun.status != pq.ExecStatus.COMMAND_OK:
                raise NotExplained(_said(begun))
            if parameters is None:
                # The extended protocol would want a value for each `$n`.
                result = self._answer(b"EXPLAIN (FORMAT TEXT, GENERIC_PLAN) " + text)
            else:
                # The simple protocol would take several statements.
                result = self._answer(b"EXPLAIN (FORMAT TEXT) " + text, parameters)
            if result.status != pq.ExecStatus.TUPLES_OK:
                raise NotExplained(_said(result))
            lines = [result.get_value(row, 0) or b"" for row in range(result.ntuples)]
            return b"\n".join(lines).decode("utf-8", "replace")
        finally:
            if not self._connection.closed:  # as after an answer that is too large or too late
                self._answer(b"ROLLBACK")

    def _answer(
        self, text: bytes, parameters: Sequence[bytes | None] | None = None
    ) -> pq.abc.PGresult:
        """Return the last result, as `exec_` does, but count what arrives."""
        link = self._connection.pgconn
        if parameters is None:
            link.send_query(text)
        else:
            link.send_query_params(text, parameters)
        found: list[pq.abc.PGresult] = self._connection.wait(generators.execute(link))
        if not found:
            raise NotExplained("the server gave no answer")
        return found[-1]


def _said(result: pq.abc.PGresult) -> str:
    said = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY)
    return (said or result.error_message).decode("utf-8", "replace").strip()


@contextmanager
def open_explainer(url: str) -> Iterator[PostgresExplainer]:
    """Connect, and disconnect at the end of the block."""
    defaults = {"connect_timeout": "10", "application_name": APPLICATION}
    address = conninfo.make_conninfo("", **(defaults | checked(url) | {"client_encoding": "UTF8"}))
    try:
        connection = opened(address, lambda: BoundedConnection.connect(address, autocommit=True))
    except psycopg.Error as exc:
        where = secrets.without_password(url)
        raise DatabaseUnavailable(where, reason=why_not_connected(exc, where)) from exc
    connection.limit_s = _LIMIT_S
    with connection:
        yield PostgresExplainer(connection)

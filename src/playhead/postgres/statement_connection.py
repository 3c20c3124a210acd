"""A connection of psycopg, for statements only: unlike the Arrow driver, it reads no catalog when it connects."""

import select
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import RawCursor, adapt
from psycopg.pq import TransactionStatus
from psycopg.types import json, numeric, string

from playhead.postgres.answers import reading
from playhead.postgres.bounded_connection import BoundedConnection, refuse_values
from playhead.postgres.connecting import opened


class _NumericText(numeric.NumericBinaryLoader):
    def load(self, data: Any) -> str:  # type: ignore[override]
        return str(super().load(data))


class _JsonbText(json.JsonbBinaryLoader):
    def load(self, data: Any) -> str:
        return bytes(data)[1:].decode()  # the first byte is the version of the format


def _types() -> adapt.AdaptersMap:
    """Parameters and results as the Arrow driver has them: whole numbers are int8, `numeric` and JSON are text."""
    types = adapt.AdaptersMap(psycopg.adapters)
    types.register_dumper(int, numeric.Int8Dumper)
    types.register_dumper(str, string.StrDumper)
    types.register_loader("numeric", _NumericText)
    types.register_loader("json", string.TextBinaryLoader)
    types.register_loader("jsonb", _JsonbText)
    return types


_TYPES = _types()


class StatementConnection:
    """Connects when it is made; belongs to one thread."""

    def __init__(self, uri: str) -> None:
        self._connection = opened(
            uri,
            lambda: BoundedConnection.connect(
                uri, autocommit=True, prepare_threshold=None, context=_TYPES
            ),
        )

    def close(self) -> None:
        """Disconnect, which rolls back an open transaction."""
        self._connection.close()

    @property
    def is_lost(self) -> bool:
        return self._connection.closed

    @property
    def is_free(self) -> bool:
        """Whether it is in no transaction, and has received nothing: what an idle connection receives is its end."""
        if self.is_lost or self._connection.pgconn.transaction_status != TransactionStatus.IDLE:
            return False
        looking = select.poll()
        looking.register(self._connection.fileno(), select.POLLIN)
        return not looking.poll(0)

    @contextmanager
    def answering_within(self, seconds: float) -> Iterator[None]:
        """In this block, raise AnswerTooLate for a statement without a whole answer after this time."""
        self._connection.limit_s = seconds
        try:
            yield
        finally:
            self._connection.limit_s = None

    def ask(self, statement: str, parameters: Sequence[Any]) -> tuple[list[tuple[Any, ...]], int]:
        """Return the rows of one statement, and how many rows it changed (-1 if unknown)."""
        with RawCursor(self._connection) as cursor:
            # Results in binary form come by the extended protocol, which takes one statement only.
            with reading(
                psycopg.Error, UnicodeEncodeError, struct.error
            ):  # The last two: of parameters.
                cursor.execute(statement, parameters or None, binary=True)
            with reading(psycopg.Error):
                refuse_values(cursor.rowcount * len(cursor.description or ()))
                return cursor.fetchall() if cursor.description is not None else [], cursor.rowcount

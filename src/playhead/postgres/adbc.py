"""A connection of the Arrow driver (ADBC): statements, and tables by binary COPY."""

import os
from collections.abc import Sequence
from contextlib import closing, suppress
from struct import pack
from typing import Any

import adbc_driver_manager
import adbc_driver_postgresql
import pyarrow as pa
from adbc_driver_manager import AdbcConnection, AdbcStatement, StatementOptions
from adbc_driver_postgresql import StatementOptions as PostgresOptions
from psycopg import conninfo

from playhead.postgres.connecting import opened
from playhead.postgres.service_file import service_of

# Its DB-API does the same, but importing it imports pandas: a third of a second in every task.
_TABLE, _MODE = StatementOptions.INGEST_TARGET_TABLE.value, StatementOptions.INGEST_MODE.value
_SCHEMA = StatementOptions.INGEST_TARGET_DB_SCHEMA.value
_TEMPORARY = StatementOptions.INGEST_TEMPORARY.value
_APPEND = "adbc.ingest.mode.append"
_STATUS = "adbc.postgresql.transaction_status"

Error = adbc_driver_manager.Error


class ArrowConnection:
    """Connects when it is made; belongs to one thread."""

    def __init__(self, uri: str) -> None:
        self._database = _database(uri)
        try:
            # The driver connects once more for the connection itself, which has the user's search_path.
            self._database.set_options(uri=uri)
            self._connection = opened(uri, lambda: AdbcConnection(self._database))
        except BaseException:
            self._database.close()
            raise

    def close(self) -> None:
        """Disconnect, which rolls back an open transaction."""
        with suppress(Error):
            self._connection.close()
        with suppress(Error):
            self._database.close()

    @property
    def is_lost(self) -> bool:
        """Whether the driver knows that the connection is lost."""
        try:
            return bool(self._connection.get_option(_STATUS) == "unknown")
        except Error:
            return True

    def ask(self, statement: str, parameters: Sequence[Any]) -> tuple[list[tuple[Any, ...]], int]:
        """Return the rows of one statement, and how many rows it changed (-1 if unknown)."""
        with closing(self._statement()) as stated:
            stated.set_sql_query(statement)
            stated.prepare()
            if parameters:
                columns = [_column(each) for each in parameters]
                names = [str(number) for number in range(len(parameters))]
                stated.bind(pa.RecordBatch.from_arrays(columns, names))
            answer, changed = stated.execute_query()
            parts = list(pa.RecordBatchReader.from_stream(answer))
        return [row for part in parts for row in _rows(part)], changed

    def copy(self, rows: Any, table: str, schema: str | None) -> None:
        """Append a table to one with the same columns; without a schema, to a temporary one."""
        options = {_TABLE: table, _MODE: _APPEND}
        options |= {_TEMPORARY: "true"} if schema is None else {_SCHEMA: schema}
        with closing(self._statement()) as stated:
            stated.set_options(**options)
            stated.bind_stream(rows)
            stated.execute_update()

    def _statement(self) -> AdbcStatement:
        stated = AdbcStatement(self._connection)
        stated.set_options(**{PostgresOptions.USE_COPY.value: "false"})
        return stated


def _database(uri: str) -> adbc_driver_manager.AdbcDatabase:
    """Let the driver connect and read the catalog of types, while only PostgreSQL's own operators are found.

    Its query has `regproc <> integer`, which only another user's operator would match exactly.
    """
    given = conninfo.conninfo_to_dict(uri)
    said = given.get("options") or (service_of(given) or {}).get("options")
    options = f"{said or os.environ.get('PGOPTIONS', '')} -csearch_path=pg_catalog"
    try:
        return _opened(conninfo.make_conninfo(uri, options=options))
    except Error as exc:
        # Some poolers refuse options or this one of them, and then there is only the user's search_path.
        if "options" not in str(exc):
            raise
    return _opened(uri)


def _opened(uri: str) -> adbc_driver_manager.AdbcDatabase:
    return opened(uri, lambda: adbc_driver_postgresql.connect(uri))


def _column(value: Any) -> pa.Array:
    """Return one parameter. For a list, `array` imports pandas, which takes a second."""
    if isinstance(value, str):
        said = value.encode()
        return pa.Array.from_buffers(pa.string(), 1, _buffers(pack("=2i", 0, len(said)), said))
    if type(value) is int:
        return pa.Array.from_buffers(pa.int64(), 1, _buffers(pack("=q", value)))
    return pa.array([value])


def _buffers(*parts: bytes) -> list[pa.Buffer | None]:
    # The first buffer says which values are null.
    return [None, *map(pa.py_buffer, parts)]


def _rows(part: Any) -> list[tuple[Any, ...]]:
    """Return the rows; a result may have rows without columns, and then only their number matters."""
    if not part.num_columns:
        return [()] * part.num_rows
    return list(zip(*(column.to_pylist() for column in part.columns), strict=True))

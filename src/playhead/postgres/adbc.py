"""A connection of the Arrow driver (ADBC): statements, and tables by binary COPY."""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from struct import pack
from typing import Any

import adbc_driver_manager
import adbc_driver_postgresql
import pyarrow as pa
from adbc_driver_manager import AdbcConnection, AdbcStatement, StatementOptions
from adbc_driver_postgresql import StatementOptions as PostgresOptions
from psycopg import conninfo

from playhead.host.threads import call_within
from playhead.postgres import bounded_connection
from playhead.postgres.answers import reading
from playhead.postgres.bounded_connection import AnswerTooLate, refuse_values
from playhead.postgres.connecting import opened
from playhead.postgres.service_file import service_of
from playhead.postgres.watched_link import ports_of, watched

# Its DB-API does the same, but importing it imports pandas: a third of a second in every task.
_TABLE, _MODE = StatementOptions.INGEST_TARGET_TABLE.value, StatementOptions.INGEST_MODE.value
_SCHEMA = StatementOptions.INGEST_TARGET_DB_SCHEMA.value
_TEMPORARY = StatementOptions.INGEST_TEMPORARY.value
_APPEND = "adbc.ingest.mode.append"
_STATUS = "adbc.postgresql.transaction_status"

# The server's version, and the types that a column may have, but for the row types of tables. PostgreSQL has
# no `oid = integer`, so another user's operator would match exactly; and some servers allow no MD5.
_TYPES = """
SELECT pg_catalog.current_setting('server_version_num'), pg_catalog.hashtextextended(
       pg_catalog.string_agg(t.oid::text || t.typtype::text || t.typname::text, ',' ORDER BY t.oid), 0)
FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
WHERE t.typelem = '0'::oid AND (t.typrelid = '0'::oid OR c.relkind = 'c')
"""
# The driver knows types by the names of their functions, and none that the server has put between quotes.
_TYPES_READ_WITH = "-csearch_path=pg_catalog -cquote_all_identifiers=off"
_MOST_KEPT = 2

Error = adbc_driver_manager.Error
Rows = list[tuple[Any, ...]]

_databases: dict[str, tuple[adbc_driver_manager.AdbcDatabase, Rows]] = {}
"""For each server, the driver's object that has read its types, and what `_TYPES` returned then.

Reading them takes longer than connecting, and a process of the engine runs the tasks of many replays.
"""


class ArrowConnection:
    """Connects when it is made; belongs to one thread."""

    def __init__(self, uri: str) -> None:
        self._server = _without_secrets(uri)
        self._ports = ports_of(uri)
        self._is_well = True
        self._limit_s: float | None = None
        self._is_left_behind = False
        kept, types = _databases.pop(self._server, (None, None))
        self._connect(uri, kept or _database(uri))
        if kept is not None and self._types != types:
            self.close(is_kept=False)
            self._connect(uri, _database(uri))

    def _connect(self, uri: str, database: adbc_driver_manager.AdbcDatabase) -> None:
        self._database = database
        try:
            # The driver connects once more for the connection itself, which has the user's search_path.
            database.set_options(uri=uri)
            with watched(self._ports):
                self._connection = opened(uri, lambda: AdbcConnection(database))
        except BaseException:
            database.close()
            raise
        try:
            database.set_options(uri=self._server)
            with self.answering_within(bounded_connection.BEGINS_WITHIN_S):
                self._types, _ = self.ask(_TYPES, ())
        except BaseException:
            # The driver refuses to close a database before its connection.
            self.close(is_kept=False)
            raise

    def close(self, *, is_kept: bool = True) -> None:
        """Disconnect, which rolls back an open transaction; what was read of the types is kept."""
        if self._is_left_behind:
            return
        with suppress(Error):
            self._connection.close()
        if is_kept and self._is_well and self._server not in _databases:
            _databases[self._server] = self._database, self._types
            if len(_databases) <= _MOST_KEPT:
                return
            self._database, _ = _databases.pop(next(iter(_databases)))
        with suppress(Error):
            self._database.close()

    @property
    def is_lost(self) -> bool:
        """Whether the driver knows that the connection is lost."""
        try:
            return bool(self._connection.get_option(_STATUS) == "unknown")
        except Error:
            return True

    @property
    def is_free(self) -> bool:
        """Whether another act may use it; a connection for COPY belongs to one."""
        return False

    @contextmanager
    def answering_within(self, seconds: float) -> Iterator[None]:
        """In this block, raise AnswerTooLate for a statement without a whole answer after this time.

        The driver still waits for that answer in a thread that is left behind, so the connection is left alone, as it
        is if a signal ends the waiting.
        """
        self._limit_s = seconds
        try:
            yield
        finally:
            self._limit_s = None

    def ask(self, statement: str, parameters: Sequence[Any]) -> tuple[Rows, int]:
        """Return the rows of one statement, and how many rows it changed (-1 if unknown)."""
        if self._limit_s is None:
            return self._asked(statement, parameters)
        self._is_left_behind = True

        def asked() -> tuple[Rows, int]:
            try:
                return self._asked(statement, parameters)
            finally:
                self._is_left_behind = False

        try:
            return call_within(asked, self._limit_s, name="asking PostgreSQL")
        except TimeoutError as exc:
            raise AnswerTooLate(self._limit_s) from exc

    def _asked(self, statement: str, parameters: Sequence[Any]) -> tuple[Rows, int]:
        with watched(self._ports), closing(self._statement()) as stated:
            stated.set_sql_query(statement)
            stated.prepare()
            if parameters:
                columns = [_column(each) for each in parameters]
                names = [str(number) for number in range(len(parameters))]
                stated.bind(pa.RecordBatch.from_arrays(columns, names))
            with reading(Error):
                answer, changed = stated.execute_query()
                parts = list(pa.RecordBatchReader.from_stream(answer))
        refuse_values(sum(part.num_rows * part.num_columns for part in parts))
        with reading(Error):
            return [row for part in parts for row in _rows(part)], changed

    def copy(self, rows: Any, table: str, schema: str | None) -> None:
        """Append a table to one with the same columns; without a schema, to a temporary one."""
        options = {_TABLE: table, _MODE: _APPEND}
        options |= {_TEMPORARY: "true"} if schema is None else {_SCHEMA: schema}
        with closing(self._statement()) as stated:
            stated.set_options(**options)
            stated.bind_stream(rows)
            self._is_well = (
                False  # what fails here may fail because of a type that the driver does not know
            )
            stated.execute_update()
            self._is_well = True

    def _statement(self) -> AdbcStatement:
        stated = AdbcStatement(self._connection)
        stated.set_options(**{PostgresOptions.USE_COPY.value: "false"})
        return stated


def _without_secrets(uri: str) -> str:
    given = conninfo.conninfo_to_dict(uri)
    return conninfo.make_conninfo(
        "", **{name: value for name, value in given.items() if "password" not in name}
    )


def _database(uri: str) -> adbc_driver_manager.AdbcDatabase:
    """Let the driver connect and read the catalog of types, while only PostgreSQL's own operators are found.

    Its query has `regproc <> integer`, which only another user's operator would match exactly.
    """
    given = conninfo.conninfo_to_dict(uri)
    said = given.get("options") or (service_of(given) or {}).get("options")
    options = f"{said or os.environ.get('PGOPTIONS', '')} {_TYPES_READ_WITH}"
    try:
        return _opened(conninfo.make_conninfo(uri, options=options))
    except Error as exc:
        # Some poolers refuse options or this one of them, and then there is only the user's search_path.
        if "options" not in str(exc):
            raise
    return _opened(uri)


def _opened(uri: str) -> adbc_driver_manager.AdbcDatabase:
    with watched(ports_of(uri)):
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


def _rows(part: Any) -> Rows:
    """Return the rows; a result may have rows without columns, and then only their number matters."""
    if not part.num_columns:
        return [()] * part.num_rows
    return list(zip(*(column.to_pylist() for column in part.columns), strict=True))

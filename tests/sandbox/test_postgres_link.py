"""A session's statements: their parameters, and what it takes to ask."""

import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

import psycopg
import pyarrow as pa
import pytest
from adbc_driver_manager import AdbcConnection

from playhead.errors import DatabaseUnavailable
from playhead.host.kept_open import keeping_open
from playhead.postgres import adbc
from playhead.postgres.errors import DataError, RightMissing, SliceNotWritten, StatementRefused
from playhead.postgres.session import (
    CopySession,
    Session,
    TableName,
    open_copy_session,
    open_session,
)
from playhead.postgres.target import PostgresTarget
from playhead.sandbox import Endpoints
from playhead.target import InUse

_ASKING = """
import sys
from playhead.postgres.session import open_session
with open_session(sys.argv[1], grant='') as session:
    print(session.run("SELECT $1 || 'b', $2 + 1", ("a", 1)), "pandas" in sys.modules)
"""


Opens = Callable[..., AbstractContextManager[Session]]


@pytest.mark.parametrize("opens", [open_session, open_copy_session])
def test_parameters_come_as_they_were_given(sandbox: Endpoints, opens: Opens) -> None:
    with opens(sandbox.database_url, grant="") as session:
        texts = ("", "a", "ä€𝄞", "a\nb' \\", "x" * 100_000)
        for text in texts:
            assert session.run("SELECT $1::text, length($1::text)::int8", (text,)) == [
                (text, len(text))
            ]
        for number in (0, -1, 2**63 - 1, -(2**63)):
            assert session.run("SELECT $1::int8", (number,)) == [(number,)]
        assert session.run("SELECT $1::bool, $2::text", (True, None)) == [(True, None)]


@pytest.mark.parametrize(
    "expression",
    [
        "1::int2", "1::int4", "(-1)::int8", "1::oid", "'a'::text", "'a'::name", "'a'::char(3)", "'a'::\"char\"",
        "true", "0.1::float4", "0.1::float8", "1.50::numeric", "'-1e30'::numeric", "'2020-01-01'::timestamp",
        "'2020-01-01 12:00+02'::timestamptz", "'{a,NULL}'::text[]", "'{1,2}'::int8[]", "'{}'::text[]",
        "'\\x00ff'::bytea", """'{"a": 1}'::json""", """'{"a": 1}'::jsonb""", "NULL::int8",
    ],
)  # fmt: skip
def test_both_drivers_give_the_same_values(sandbox: Endpoints, expression: str) -> None:
    found = []
    for opens in (open_session, open_copy_session):
        with opens(sandbox.database_url, grant="") as session:
            [(value,)] = session.run(f"SELECT {expression}")
            found.append((type(value), value))
    assert found[0] == found[1]


@pytest.mark.parametrize("opens", [open_session, open_copy_session])
@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("SELECT 1; SELECT 2", "42601"),
        ("SELECT 1/0", "22012"),
        ("SELECT nothing", "42703"),
        ("SET ROLE nobody_there", "22023"),
    ],
)
def test_both_drivers_fail_alike(
    sandbox: Endpoints, opens: Opens, statement: str, error: str
) -> None:
    with (
        opens(sandbox.database_url, grant="") as session,
        pytest.raises((StatementRefused, DataError)) as refused,
    ):
        session.run(statement)
    assert refused.value.sqlstate == error


@pytest.mark.parametrize("opens", [open_session, open_copy_session])
def test_a_connection_that_the_server_ends_is_unavailable(sandbox: Endpoints, opens: Opens) -> None:
    with opens(sandbox.database_url, grant="") as session:
        with pytest.raises(SliceNotWritten):
            session.run("SELECT pg_terminate_backend(pg_backend_pid())")
        with pytest.raises(SliceNotWritten):
            session.run("SELECT 1")


def test_to_ask_imports_no_pandas(sandbox: Endpoints) -> None:
    """That takes longer than to ask, and every command that knows a database asks."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _ASKING, sandbox.database_url],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    except subprocess.CalledProcessError as exc:
        pytest.fail(exc.stderr)
    assert done.stdout == "[('ab', 2)] False\n"


# --- connections that stay open


def _process(session: Session) -> int:
    [(number,)] = session.run("SELECT pg_catalog.pg_backend_pid()::int8")
    return int(number)


def test_one_act_connects_once(sandbox: Endpoints) -> None:
    with keeping_open():
        with open_session(sandbox.database_url, grant="a") as one:
            first = _process(one)
        with open_session(sandbox.database_url, grant="b") as other, other.transaction():
            assert _process(other) == first
            # Statements of others must not be part of this transaction.
            with open_session(sandbox.database_url, grant="c") as third:
                assert _process(third) != first
    with open_session(sandbox.database_url, grant="") as after:
        assert _process(after) != first
        assert after.run(f"SELECT FROM pg_stat_activity WHERE pid = {first}") == []


def test_errors_of_a_kept_connection_name_the_right_of_their_act(sandbox: Endpoints) -> None:
    with psycopg.connect(sandbox.database_url, autocommit=True) as connection:
        connection.execute("CREATE ROLE stranger_of_acts LOGIN PASSWORD 'p'")
    try:
        url = psycopg.conninfo.make_conninfo(
            sandbox.database_url, user="stranger_of_acts", password="p"
        )
        with keeping_open():
            for grant in ("GRANT ONE", "GRANT OTHER"):
                with (
                    open_session(url, grant=grant) as session,
                    pytest.raises(RightMissing) as refused,
                ):
                    session.run("SELECT FROM pg_authid")
                assert grant in f"{refused.value} {refused.value.hint}"
    finally:
        with psycopg.connect(sandbox.database_url, autocommit=True) as connection:
            connection.execute("DROP ROLE stranger_of_acts")


def test_a_kept_connection_that_the_server_has_ended_is_not_used(sandbox: Endpoints) -> None:
    with keeping_open():
        with open_session(sandbox.database_url, grant="") as session:
            first = _process(session)
        with psycopg.connect(sandbox.database_url, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s, 10000)", (first,))
        with open_session(sandbox.database_url, grant="") as session:
            assert _process(session) != first


def test_a_lock_ends_with_its_block_though_the_connection_stays(sandbox: Endpoints) -> None:
    target, other = (PostgresTarget(sandbox.database_url, "any") for _ in range(2))
    with keeping_open():
        with target.hold("held-once"):
            refused: list[BaseException] = []

            def hold() -> None:
                try:
                    with other.hold("held-once"):
                        pass
                except InUse as exc:
                    refused.append(exc)

            thread = threading.Thread(target=hold)
            thread.start()
            thread.join()
            assert len(refused) == 1
        thread = threading.Thread(target=hold)
        thread.start()
        thread.join()
        assert len(refused) == 1


def _connections(sandbox: Endpoints, do: Callable[[], None]) -> int:
    """How many connections the server has accepted meanwhile, by its own count."""
    counted = "SELECT sessions FROM pg_stat_database WHERE datname = current_database()"
    with psycopg.connect(sandbox.database_url, autocommit=True) as connection:

        def count() -> int:
            connection.execute("SELECT pg_stat_force_next_flush()")
            connection.execute("SELECT pg_stat_clear_snapshot()")
            [(number,)] = connection.execute(counted).fetchall()
            return int(number)

        before = count()
        do()
        return count() - before


def _copied(sandbox: Endpoints, table: str, rows: pa.Table) -> None:
    with open_copy_session(sandbox.database_url, grant="") as session:
        session.copy(TableName("public", table), rows)


def test_types_are_read_once_for_all_connections_of_a_process(
    sandbox: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adbc, "_databases", {})
    with psycopg.connect(sandbox.database_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS read_once (n int8)")
    rows = pa.table({"n": pa.array([1], pa.int64())})
    first = _connections(sandbox, lambda: _copied(sandbox, "read_once", rows))
    assert first - _connections(sandbox, lambda: _copied(sandbox, "read_once", rows)) == 1
    [(server, (database, _))] = adbc._databases.items()
    # What is kept has no password.
    assert "password" not in server
    monkeypatch.delenv("PGPASSWORD", raising=False)
    with pytest.raises(adbc.Error, match="no password supplied"):
        AdbcConnection(database)


def test_a_type_that_was_created_since_is_known(sandbox: Endpoints) -> None:
    """The driver refuses a column whose type it has not read."""
    _copied_into_enum = pa.table({"e": pa.array(["b"], pa.string())})
    with open_copy_session(sandbox.database_url, grant="") as session:
        session.run("SELECT 1")
    for number in range(2):
        table = f"with_new_type_{number}"
        with psycopg.connect(sandbox.database_url, autocommit=True) as connection:
            connection.execute(f"DROP TABLE IF EXISTS {table}; DROP TYPE IF EXISTS e_{number}")
            connection.execute(f"CREATE TYPE e_{number} AS ENUM ('a', 'b')")
            connection.execute(f"CREATE TABLE {table} (e e_{number})")
        _copied(sandbox, table, _copied_into_enum)
        with psycopg.connect(sandbox.database_url, autocommit=True) as connection:
            assert connection.execute(f"SELECT e::text FROM {table}").fetchall() == [("b",)]


def test_what_a_copy_failed_with_is_read_again(
    sandbox: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adbc, "_databases", {})
    session: CopySession
    with (
        open_copy_session(sandbox.database_url, grant="") as session,
        pytest.raises((DataError, StatementRefused)),
    ):
        session.copy(TableName("public", "nowhere_at_all"), pa.table({"n": [1]}))
    assert adbc._databases == {}
    for _ in range(2):
        with open_copy_session(sandbox.database_url, grant="") as session:
            session.run("SELECT 1")
    assert len(adbc._databases) == 1


def test_a_connection_whose_types_cannot_be_read_is_closed_and_says_why(
    sandbox: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adbc, "_databases", {})
    monkeypatch.setattr(adbc, "_TYPES", "SELECT pg_terminate_backend(pg_backend_pid())")
    with pytest.raises(DatabaseUnavailable), open_copy_session(sandbox.database_url, grant=""):
        pass
    assert adbc._databases == {}

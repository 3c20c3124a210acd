"""A session's statements: their parameters, and what it takes to ask."""

import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from playhead.postgres.errors import DataError, SliceNotWritten, StatementRefused
from playhead.postgres.session import Session, open_copy_session, open_session
from playhead.sandbox import Endpoints

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

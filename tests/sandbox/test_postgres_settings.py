"""What the settings of a role or of its database do to what is written, and to what is compared."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import sql

from playhead.sandbox import Endpoints
from tests.sandbox.postgres_table import Table, record
from tests.sandbox.test_postgres_inspection import codes, inspected


@contextmanager
def as_role(table: Table, **settings: str) -> Iterator[Table]:
    """The table, written by a role that has these settings."""
    user = table.schema[-40:]
    role, place = sql.Identifier(user).as_string(), sql.Identifier(table.schema).as_string()
    table.run(
        f"CREATE ROLE {role} LOGIN PASSWORD 'x'; GRANT ALL ON SCHEMA {place} TO {role};"
        f"GRANT ALL ON ALL TABLES IN SCHEMA {place} TO {role}"
    )
    # The settings of a role in one database are before those of the role.
    [(database,)] = table.run("SELECT quote_ident(current_database())")
    for name, value in settings.items():
        table.run(f"ALTER ROLE {role} IN DATABASE {database} SET {name} = {value}")
    try:
        url = psycopg.conninfo.make_conninfo(table.url, user=user, password="x")
        yield table.with_options(url=url)
    finally:
        table.run(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_a_comparison_sees_the_last_digits(sandbox: Endpoints, schema: str) -> None:
    columns = "id int PRIMARY KEY, x float8, _topic text, _partition int, _offset int8"
    table = Table.made(sandbox.database_url, schema, columns)
    rows = [record(0, {"id": 1, "x": 0.30000000000000004})]
    with as_role(table, extra_float_digits="-3") as theirs:
        entry = theirs.commit(rows)
        assert theirs.differences(entry, rows) == []
        table.run("UPDATE {table} SET x = 0.3")
        assert theirs.differences(entry, rows) == [("changed", 0)]


def test_names_that_the_server_puts_between_quotes_hide_no_type(
    sandbox: Endpoints, schema: str
) -> None:
    columns = "id int PRIMARY KEY, v text, j jsonb, at timestamptz, _topic text, _partition int, _offset int8"
    table = Table.made(sandbox.database_url, schema, columns)
    rows = [record(0, {"id": 1, "v": "x", "j": {"a": 1}, "at": "2021-01-01T00:00:00Z"})]
    with as_role(table, quote_all_identifiers="on") as theirs:
        entry = theirs.commit(rows)
        assert table.rows("id, v, j ->> 'a'") == [(1, "x", "1")]
        assert theirs.differences(entry, rows) == []


def test_a_null_in_an_array_stays_a_null(sandbox: Endpoints, schema: str) -> None:
    table = Table.made(sandbox.database_url, schema, "id int PRIMARY KEY, a varchar(9)[]")
    rows = [record(0, {"id": 1, "a": ["x", None]})]
    with as_role(table, array_nulls="off") as theirs:
        entry = theirs.commit(rows)
        assert table.rows("a[1], a[2] IS NULL") == [("x", True)]
        assert theirs.differences(entry, rows) == []


@pytest.mark.parametrize(
    ("name", "theirs", "ours"),
    [
        ("extra_float_digits", "0", "3"),
        ("array_nulls", "off", "on"),
        ("xmloption", "document", "content"),
        # A crash of the server can lose what such a transaction committed.
        ("synchronous_commit", "off", "on"),
        # These are the user's choice of how far a commit is from being lost.
        ("synchronous_commit", "local", "local"),
        ("synchronous_commit", "remote_write", "remote_write"),
        ("synchronous_commit", "remote_apply", "remote_apply"),
    ],
)
def test_what_holds_while_rows_are_written(
    sandbox: Endpoints, schema: str, name: str, theirs: str, ours: str
) -> None:
    columns = f"id int PRIMARY KEY, held text DEFAULT current_setting('{name}')"
    table = Table.made(sandbox.database_url, schema, columns)
    with as_role(table, **{name: theirs}) as other:
        other.commit([record(0, {"id": 1})])
    assert table.rows("held") == [(ours,)]


def test_a_plan_says_that_nothing_checks_the_rows(sandbox: Endpoints, schema: str) -> None:
    columns = "id int PRIMARY KEY, v text, more int, even_more int"
    table = Table.made(sandbox.database_url, schema, columns)
    with as_role(table, session_replication_role="replica") as theirs:
        [note] = inspected(theirs).notes
    assert (note.code, note.weight) == ("target-unchecked", "warn")
    assert "session_replication_role" in note.text
    assert codes(table) == []

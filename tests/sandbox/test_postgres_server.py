"""PostgreSQL keeps the contract of every server on which queries are played."""

import time
import uuid
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import conninfo, sql

from playhead.postgres.replay_server import PostgresServer
from playhead.queries.workload import notes_of_server
from playhead.sandbox import Endpoints
from playhead.testing import LinkProxy, exercise_server
from playhead.testing.server_case import answered, control_of, opened_link


@pytest.fixture
def database(sandbox: Endpoints, database_link: LinkProxy) -> Iterator[str]:
    """The address of an empty database of this test's own, through a link that can be cut."""
    name = "contract_of_servers"
    with psycopg.connect(sandbox.database_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    server = sandbox.database_url.rpartition("/")[0]
    login = server.rpartition("@")[0]
    yield f"{login}@{database_link.address}/{name}"
    with psycopg.connect(sandbox.database_url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def test_contract(database: str, database_link: LinkProxy) -> None:
    def cut() -> None:
        database_link.cut()
        database_link.restore()

    exercise_server(lambda: PostgresServer(database), cut)


def test_asking_to_cancel_waits_for_no_server(database: str, database_link: LinkProxy) -> None:
    """One loop plays all sessions: while one waits for a server that is silent, none would play."""
    server = PostgresServer(database)
    with control_of(server) as control:
        facts = control.facts()
    with opened_link(server, facts, has_checksums=False) as link:
        link.send_text(b"SELECT pg_sleep(60)")
        database_link.stall()
        began = time.monotonic()
        asked = link.cancel()
        assert not asked()
        assert time.monotonic() - began < 2
        database_link.resume()
        while not asked():
            assert time.monotonic() - began < 20
            time.sleep(0.01)
        assert answered(link).sqlstate == "57014"


@pytest.mark.parametrize(
    ("given", "rights"),
    [
        ("", ()),
        ("SUPERUSER CREATEROLE", ("SUPERUSER",)),
        (
            "CREATEROLE CREATEDB IN ROLE pg_execute_server_program, pg_read_all_data",
            ("CREATEDB", "CREATEROLE", "pg_execute_server_program"),
        ),
    ],
)
def test_the_rights_of_its_user_beyond_the_database_are_named(
    sandbox: Endpoints, given: str, rights: tuple[str, ...]
) -> None:
    """Only these limit a text of the log that is put together while it runs."""
    name = f"rights_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(sandbox.database_url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'x' {given}".encode())
        try:
            url = conninfo.make_conninfo(sandbox.database_url, user=name, password="x")
            with control_of(PostgresServer(url)) as control:
                facts = control.facts()
            assert facts.rights == rights
            notes = {note.code: note.text for note in notes_of_server(facts, "the target")}
            assert ("rights" in notes) == bool(rights)
            assert all(right in notes["rights"] for right in rights)
        finally:
            connection.execute(f"DROP ROLE {name}".encode())


def test_its_password_is_not_shown() -> None:
    assert "secret" not in repr(PostgresServer("postgresql://me:secret@localhost/db"))

"""A session of PostgreSQL whose server is not one connection, or says nothing."""

import itertools
from collections.abc import Sequence
from typing import Any, cast

import pytest

from playhead.errors import DatabaseUnavailable
from playhead.postgres import bounded_connection
from playhead.postgres.session import Session, SharedConnection, open_session
from playhead.postgres.statement_connection import StatementConnection
from tests.lying_server import LyingServer


class _Link:
    """Answers the statements of a session that begins, each from the connection whose turn it is."""

    is_lost = False

    def __init__(self, *processes: int) -> None:
        self._processes = itertools.cycle(processes)

    def ask(self, statement: str, parameters: Sequence[Any]) -> tuple[list[tuple[Any, ...]], int]:
        process = next(self._processes)
        if "server_version_num" in statement:
            return [(150_000, "1s", process)], 1
        return [("UTC", process)], 1


def _begun(*processes: int) -> Session:
    link = cast("StatementConnection", _Link(*processes))
    return Session(link, where="postgresql://pooler/db", grant="")


def test_a_pooler_that_gives_each_statement_another_connection_is_refused() -> None:
    with pytest.raises(SharedConnection, match=r"at postgresql://pooler/db .* transaction mode"):
        _begun(7, 8)


def test_one_connection_of_the_server_is_a_session() -> None:
    assert not _begun(7).has_validity


def test_a_server_that_is_silent_after_the_login_is_waited_for_only_so_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounded_connection, "BEGINS_WITHIN_S", 0.5)
    with LyingServer() as server, pytest.raises(DatabaseUnavailable) as caught:  # noqa: SIM117
        with open_session(server.url, grant=""):
            pass
    assert "took the login and gave no whole answer within 0.5 s" in str(caught.value)


def test_a_session_that_has_begun_waits_for_as_long_as_a_statement_takes() -> None:
    with LyingServer() as server:
        link = StatementConnection(server.url)
        with link.answering_within(0.5):
            pass
        assert link._connection.limit_s is None
        link.close()

"""A session of PostgreSQL whose server is not one connection."""

import itertools
from collections.abc import Sequence
from typing import Any, cast

import pytest

from playhead.postgres.session import Session, SharedConnection
from playhead.postgres.statement_connection import StatementConnection


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

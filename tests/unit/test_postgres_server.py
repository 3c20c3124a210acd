"""Why a database did not let us in, in the words that say so."""

import psycopg
import pytest

from playhead.cli.setup.doctor import Finding, _examine
from playhead.errors import BadValue, BrokerUnavailable, DatabaseUnavailable, PlayheadError
from playhead.postgres.server import checked, connect

URL = "postgresql://127.0.0.1:1/x"
_REFUSED = 'connection to server at "127.0.0.1", port 1 failed: Connection refused'
_BY_ADBC = f"IO: [libpq] Failed to connect: {_REFUSED}"
_ELSEWHERE = _REFUSED.replace("127.0.0.1", "10.0.0.9")


def reason_of(url: str) -> str:
    with pytest.raises(DatabaseUnavailable) as caught, connect(url):
        pass
    return caught.value.reason


def test_a_server_that_is_not_there_refused_the_connection() -> None:
    assert reason_of(URL) == "Connection refused"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"connection failed: {_REFUSED}\n\tIs the server running?", "Connection refused"),
        (f"connection failed: {_ELSEWHERE}", f"connection failed: {_ELSEWHERE}"),
        (_BY_ADBC, "Connection refused"),
        ("IO: [libpq] Failed to connect: invalid sslmode", "invalid sslmode"),
        ("FATAL:  no pg_hba.conf entry\n", "FATAL:  no pg_hba.conf entry"),
        ("", ""),
    ],
)
def test_the_first_line_has_the_reason(
    text: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise psycopg.OperationalError(text)

    monkeypatch.setattr(psycopg, "connect", fail)
    assert reason_of(URL) == reason


@pytest.mark.parametrize(
    "text", ["postgres", " ", "http://x/?a=b", "mysql://me:hidden@x/db", "me:hidden@x/db"]
)
def test_what_is_no_address_is_said_with_what_one_looks_like(text: str) -> None:
    with pytest.raises(BadValue, match="needed: postgresql://USER@HOST:PORT/DATABASE") as caught:
        checked(text)
    assert "DATABASE_URL" in str(caught.value.hint)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        DatabaseUnavailable(URL, reason="no"),
        BrokerUnavailable("127.0.0.1:1", waited_s=1, reason="no"),
    ],
)
def test_the_doctor_does_not_send_to_the_doctor(error: PlayheadError) -> None:
    def fail() -> Finding:
        raise error

    [found] = _examine("server", fail)
    assert "doctor" not in str(found.hint)
    assert "playhead sandbox up" in str(found.hint)

"""Why a database did not let us in, in the words that say so."""

import psycopg
import pytest

from playhead.cli.setup.doctor import Finding, _examine
from playhead.errors import BrokerUnavailable, DatabaseUnavailable, PlayheadError
from playhead.postgres.server import connect

URL = "postgresql://127.0.0.1:1/x"
_REFUSED = 'connection to server at "127.0.0.1", port 1 failed: Connection refused'


def reason_of(url: str) -> str:
    with pytest.raises(DatabaseUnavailable) as caught, connect(url):
        pass
    return caught.value.reason


def test_a_server_that_is_not_there_refused_the_connection() -> None:
    assert reason_of(URL) == _REFUSED


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"connection failed: {_REFUSED}\n\tIs the server running?\nMultiple attempts.", _REFUSED),
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

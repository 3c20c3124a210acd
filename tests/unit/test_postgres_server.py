"""Why a database did not let us in, in the words that say so."""

import json
import os
import subprocess
import sys

import psycopg
import pytest

from playhead.cli.setup.doctor import Finding, _examine
from playhead.errors import BadValue, BrokerUnavailable, DatabaseUnavailable, PlayheadError
from playhead.postgres import server
from playhead.postgres.server import checked, connect
from playhead.printable import printable
from tests.lying_server import ESCAPES, LyingServer, done, error, row

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

    monkeypatch.setattr(server.BoundedConnection, "connect", fail)
    assert reason_of(URL) == reason


@pytest.mark.parametrize(
    "text",
    [
        *("postgres", " ", "http://x/?a=b", "mysql://me:hidden@x/db", "me:hidden@x/db"),
        "//me:hidden@x/db",
    ],
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


def examined(*answers: bytes) -> tuple[int, dict[str, object], str]:
    """What the doctor says of a server with these answers, with all that reaches its stderr."""
    with LyingServer(*answers) as server:
        environment = {**os.environ, "DATABASE_URL": server.url, "COLUMNS": "200"}
        ran = subprocess.run(
            [sys.executable, "-m", "playhead.cli.app", "doctor", "-o", "json"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    checks = json.loads(ran.stdout)["checks"]
    [found] = [each for each in checks if each["check"] == "database"]
    return ran.returncode, found, ran.stderr


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ([done(), error("XX000", ESCAPES), error("XX000", ESCAPES)], "does not answer"),
        ([done(), error("42501", "permission denied"), done(b"I")], "permission denied"),
        ([done(), row(b"1"), row(b"1"), done(b"I")], "not enough values"),
        ([done(), row(b"1", b"2", b"3"), row(b"now"), done(b"I")], "could not convert"),
        ([done(), row(b"\xff", b"2", b"3"), done(b"I")], "does not answer"),
        ([done(), row(b"1", b"2", b"3"), row(None), done(b"I")], "NoneType"),
    ],
)
def test_a_server_that_lies_is_a_finding_and_no_fault(answers: list[bytes], says: str) -> None:
    code, found, err = examined(*answers)
    assert (code, found["state"]) == (1, "fail")
    assert says in str(found["found"])
    assert "fault of Playhead" not in err
    assert "psycopg" not in err
    assert err == printable(err)


def test_a_server_that_is_silent_after_the_login_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "_ANSWERS_WITHIN_S", 0.3)
    with LyingServer() as silent, pytest.raises(DatabaseUnavailable) as caught:
        server.ask(silent.url)
    assert "password" not in str(caught.value)

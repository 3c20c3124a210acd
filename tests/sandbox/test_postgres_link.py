"""A session's statements: their parameters, and what it takes to ask."""

import subprocess
import sys

import pytest

from playhead.postgres.session import open_session
from playhead.sandbox import Endpoints

_ASKING = """
import sys
from playhead.postgres.session import open_session
with open_session(sys.argv[1], grant='') as session:
    print(session.run("SELECT $1 || 'b', $2 + 1", ("a", 1)), "pandas" in sys.modules)
"""


def test_parameters_come_as_they_were_given(sandbox: Endpoints) -> None:
    with open_session(sandbox.database_url, grant="") as session:
        texts = ("", "a", "ä€𝄞", "a\nb' \\", "x" * 100_000)
        for text in texts:
            assert session.run("SELECT $1::text, length($1::text)::int8", (text,)) == [
                (text, len(text))
            ]
        for number in (0, -1, 2**63 - 1, -(2**63)):
            assert session.run("SELECT $1::int8", (number,)) == [(number,)]
        assert session.run("SELECT $1::bool, $2::text", (True, None)) == [(True, None)]


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

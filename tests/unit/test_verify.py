"""The words of `playhead verify`: a run, or a source and a target with a span."""

import pytest
from typer.testing import CliRunner

from playhead.cli.app import app
from playhead.errors import UsageError


def refused(*words: str) -> UsageError:
    answer = CliRunner().invoke(app, ["verify", *words])
    assert isinstance(answer.exception, UsageError), answer.exception
    return answer.exception


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--from", "start"), "--from"),
        (("--offsets", "0:1-2"), "--offsets"),
        (("--where", "offset > 1"), "--where"),
        (("--on-conflict", "newer"), "--on-conflict"),
    ],
)
def test_a_run_has_its_own_span_and_rules(words, named):
    error = refused("7f3a", *words)
    assert error.message == f"{named} does not go with a run, which has its own"
    assert error.hint == "without a run: playhead verify SOURCE TARGET"


def test_a_run_that_nobody_knows(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert "no replay 'zzzz' here" in refused("zzzz").message


def test_a_source_needs_a_target():
    error = refused("kafka:a", "--from", "start")
    assert error.message == "kafka:a is a source, and needs a TARGET"
    assert "playhead verify kafka:a TARGET" in str(error.hint)


def test_what_a_source_and_a_target_need_is_not_for_writing(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    answer = CliRunner().invoke(app, ["verify", "rrpair:snap", "postgres:b"])
    assert str(answer.exception) == "postgres:b needs setting database, which is not here"


def test_a_source_must_be_one(tmp_path):
    assert "postgres cannot be a source" in refused("postgres:laps", f"json:{tmp_path}").message
    assert "--decode" in refused("kafka:laps", "kafka:copy", "--decode", "maybe").message

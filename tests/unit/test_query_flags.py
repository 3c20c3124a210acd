"""The flags of the older tool mean what they meant there."""

import os
from types import SimpleNamespace
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from playhead.cli.options import Run
from playhead.cli.output import Output
from playhead.cli.queries.replay import _rules, _server, _source, _with_older_flags
from playhead.errors import UsageError


def values(**given: Any) -> dict[str, Any]:
    return _with_older_flags(Run(Output(), given)).values


def test_a_topic_is_the_source() -> None:
    assert _source(values(topic="pg_raw_app")) == "kafka:pg_raw_app"


@pytest.mark.parametrize(("word", "skips"), [("true", True), ("false", False)])
def test_s_takes_a_value_as_there(word: str, skips: bool) -> None:
    found = values(topic="t", source=word, skip_selects=True)
    assert _source(found) == "kafka:t"
    assert _rules(found).skip_selects is skips


def test_a_topic_beside_a_source_is_refused() -> None:
    with pytest.raises(UsageError, match="contradict each other"):
        values(topic="t", source="csvlog:x")


def test_the_parts_of_an_address() -> None:
    found = values(db_name="a/b", db_user="me@x", db_host="db", db_port=5433)
    assert found["database"] == "postgresql://me%40x@db:5433/a%2Fb"
    assert values(db_name="app")["database"] == "postgresql://postgres@localhost:5432/app"
    assert values(server="postgresql://h/d", db_name="app")["database"] == "postgresql://h/d"


def test_a_password_is_for_its_server_only_and_is_not_saved(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PGPASSWORD", "before")
    monkeypatch.setenv("OLDER_SECRET", "a@b/c%d'")
    found = values(db_name="app", db_user="me@x", db_password="${OLDER_SECRET}")
    assert "a@b" not in found["database"]
    configuration: Any = SimpleNamespace(need=lambda *_, **__: found["database"])
    server: Any = _server(configuration, "--to", found["login_of_target"])
    assert conninfo_to_dict(server.url)["password"] == "a@b/c%d'"
    assert conninfo_to_dict(server.url)["user"] == "me@x"
    beside: Any = _server(configuration, "--beside")
    assert beside.url == found["database"]
    assert os.environ["PGPASSWORD"] == "before"
    assert "warning" not in capsys.readouterr().err
    values(db_name="app", db_password="plainword")
    said = capsys.readouterr().err
    assert "other users of this machine can see the password" in said
    assert "plainword" not in said


def test_times_of_the_older_tool() -> None:
    found = values(timeout_ms=50, after=1_600_000_000, ignore_errors=-1)
    assert _rules(found).idle_ms == 50
    assert _rules(found).ignore_integrity_s == -1
    assert found["from_"] == "1600000000"
    assert values(timeout_ms=0, after=0).get("from_") is None
    assert _rules(values(timeout_ms=0)).idle_ms is None

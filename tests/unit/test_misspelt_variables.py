"""A variable that looks like that of a setting, and sets nothing, is named."""

import pytest

from playhead.config import exposed_logins
from playhead.config.context import configure
from playhead.errors import UsageError

INNER = ("ABORT_AT", "AOT_CACHE", "COMPLETE", "MAVEN_URL", "SANDBOX_DIR", "SANDBOX_USER")
INNER += ("SLICE_RECORDS", "WARM", "SEED", "TEST_RUN", "UPDATE_GOLDEN", "FUZZ_SECONDS")


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    told: list[str] = []
    monkeypatch.setattr(exposed_logins, "_said", set())
    monkeypatch.setattr(exposed_logins, "teller", told.append)
    return told


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("PLAYHEAD_SPARK_REMOTE", "SPARK_REMOTE"),
        ("PLAYHEAD_DATABASE_URL", "DATABASE_URL"),
        ("PLAYHEAD_DATABASE", "DATABASE_URL"),
        ("PLAYHEAD_BOOTSTRAP_SERVERS", "KAFKA_BOOTSTRAP_SERVERS"),
        ("PLAYHEAD_TIME_ZONE", "PLAYHEAD_TIMEZONE"),
        ("PLAYHEAD_SPARK_MEM", "PLAYHEAD_SPARK_MEMORY"),
        ("PLAYHEAD_CONTEX", "PLAYHEAD_CONTEXT"),
    ],
)
def test_it_is_named_once(
    monkeypatch: pytest.MonkeyPatch, said: list[str], name: str, meant: str
) -> None:
    monkeypatch.setenv(name, "x")
    configure({})
    configure({})
    assert said == [f"the variable {name} sets nothing; {meant} does"]


@pytest.mark.parametrize("name", ["PLAYHEAD_READONLY", "PLAYHEAD_READ_ONYL"])
def test_one_that_was_meant_to_protect_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "1")
    with pytest.raises(UsageError, match=f"{name} sets nothing; PLAYHEAD_READ_ONLY does"):
        configure({})


def test_others_are_left_alone(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    for name in (*INNER, "OF_MINE", "TEAM_PASSWORD"):
        monkeypatch.setenv(f"PLAYHEAD_{name}", "x")
    monkeypatch.setenv("PLAYHEAD_TIMEZONE", "UTC")
    configure({})
    assert not said

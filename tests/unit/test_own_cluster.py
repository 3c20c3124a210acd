"""Spark's own test cluster is refused: it has pages without a login, and runs jars of the working folder."""

from typing import Any

import pytest

from playhead.config.context import configure
from playhead.errors import BadValue, Refused
from playhead.replay.engine import Engine
from playhead.spark import engine_settings, session

MASTERS = ("local-cluster[1,1,1024]", "local-cluster[2, 1, 600]")


@pytest.fixture
def starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: Any, **__: Any) -> None:
        pytest.fail("an engine has started")

    monkeypatch.setattr(session, "_active", lambda: None)
    for start in ("_booted", "_start_by_its_own_scripts", "_build"):
        monkeypatch.setattr(session, start, started)


@pytest.mark.parametrize("master", MASTERS)
@pytest.mark.parametrize("spark_home", ["", "/opt/spark"])
@pytest.mark.usefixtures("starts_nothing")
def test_no_session_starts_there(
    master: str, spark_home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", spark_home)
    with pytest.raises(Refused, match="open to other users") as refused:
        session.session("test", master=master)
    assert "local[N]" in str(refused.value.hint)


@pytest.mark.parametrize("master", MASTERS)
@pytest.mark.usefixtures("own_environment")
def test_a_replay_is_refused_before_anything_is_written(master: str) -> None:
    with pytest.raises(Refused, match="open to other users"):
        Engine(configure({"spark_master": master}))


@pytest.mark.parametrize(
    "master",
    [
        *("local", "local[*]", "local[*, 4]", "local[2,3]", "local[2,03]", "yarn", ""),
        *("spark://one:7077", "spark://one:7077,[::1]:7078", "k8s://https://h:6443", "k8s://h:1"),
    ],
)
def test_other_masters_are_taken(master: str) -> None:
    engine_settings.refuse_bad_master(master)


@pytest.mark.parametrize(
    "master",
    [
        *("local[x]", "local[0]", "local[-1]", "local[]", "local[99999999999]", "local\n"),
        *("localhost:7077", "h:7077", "spark://h", "spark:h:7077", "spark://h:x", "yarn client"),
    ],
)
@pytest.mark.usefixtures("own_environment")
def test_what_is_no_master_is_an_error_in_words(master: str) -> None:
    with pytest.raises(BadValue, match=r"spark_master.*spark://HOST:PORT"):
        Engine(configure({"spark_master": master}))

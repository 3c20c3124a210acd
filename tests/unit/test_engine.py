"""What an engine does before anybody needs it."""

import threading

import pytest

from playhead.config.context import configure
from playhead.errors import Unavailable
from playhead.host import lifetime
from playhead.host.runtimes import Java
from playhead.replay.engine import Engine
from playhead.spark import jvm, session
from playhead.transform.transform import Transform


def test_an_engine_that_cannot_be_warmed_says_so_to_who_needs_it(monkeypatch):
    failures: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)

    def none_there(*_: object, **__: object) -> None:
        raise Unavailable("there is no Java")

    monkeypatch.setattr(session, "session", none_there)
    engine = Engine(configure({}))
    before = set(threading.enumerate())
    engine.warm()
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
    assert not failures
    with pytest.raises(Unavailable, match="no Java"):
        engine.session()


def test_a_runtime_that_cannot_be_started_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    blueprint = jvm.JvmCommand(Java(tmp_path, "17", "a test"), tmp_path, (), (), "512m")
    with pytest.raises(FileNotFoundError):
        jvm.launch(blueprint, {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("of_one_command", "transform", "is_brief"),
    [
        (True, None, True),
        (True, Transform(where="offset > 1"), False),
        (False, None, False),
    ],
)
def test_java_compiles_little_where_it_has_little_to_do(
    monkeypatch, of_one_command, transform, is_brief
):
    """A long run with a transform, and a program that runs many, are faster with all that Java has."""
    given: dict[str, object] = {}

    def began(*_: object, **how: object) -> None:
        given.update(how)
        raise Unavailable("enough")

    monkeypatch.setattr(lifetime, "is_of_one_command", of_one_command)
    monkeypatch.setattr(session, "session", began)
    with pytest.raises(Unavailable, match="enough"):
        Engine(configure({}), transform).session()
    assert given["is_brief"] is is_brief

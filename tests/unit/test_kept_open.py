"""Connections that stay open within a block of one thread."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from playhead.host.kept_open import keeping_open, kept_open

opened: list[str] = []


@contextmanager
def _connect(name: str) -> Iterator[str]:
    opened.append(name)
    try:
        yield name
    finally:
        opened.remove(name)


@pytest.fixture(autouse=True)
def _none_open() -> Iterator[None]:
    opened.clear()
    yield
    assert not opened


def test_nothing_is_kept_outside_of_a_block() -> None:
    assert kept_open("a", lambda: _connect("a")) is None


def test_each_is_opened_once_until_the_outer_block_ends() -> None:
    with keeping_open():
        assert kept_open("a", lambda: _connect("a")) == "a"
        with keeping_open():
            assert kept_open("a", lambda: _connect("again")) == "a"
            assert kept_open("b", lambda: _connect("b")) == "b"
        assert opened == ["a", "b"]
    assert opened == []


def test_one_that_does_not_open_is_tried_again() -> None:
    @contextmanager
    def fails() -> Iterator[str]:
        raise OSError("away")
        yield ""

    with keeping_open():
        with pytest.raises(OSError, match="away"):
            kept_open("a", fails)
        assert kept_open("a", lambda: _connect("a")) == "a"


def test_another_thread_does_not_see_the_block() -> None:
    found: list[object] = []
    with keeping_open():
        thread = threading.Thread(
            target=lambda: found.append(kept_open("a", lambda: _connect("a")))
        )
        thread.start()
        thread.join()
    assert found == [None]


def test_all_are_closed_if_the_block_fails() -> None:
    @keeping_open()
    def act() -> None:
        kept_open("a", lambda: _connect("a"))
        raise ValueError("in the middle")

    with pytest.raises(ValueError, match="in the middle"):
        act()
    assert kept_open("a", lambda: _connect("a")) is None

"""A call that never returns is left behind; one that does gives what it gives."""

import threading

import pytest

from playhead.host import threads
from playhead.host.clock import wait_until
from playhead.host.threads import call_within, is_any_left_behind


def test_what_the_call_returns_is_returned():
    assert call_within(lambda: None, 5, name="a call") is None
    assert call_within(lambda: [1], 5, name="a call") == [1]


def test_what_the_call_raises_is_raised():
    with pytest.raises(ZeroDivisionError):
        call_within(lambda: 1 / 0, 5, name="a call")
    with pytest.raises(SystemExit):
        call_within(lambda: (_ for _ in ()).throw(SystemExit), 5, name="a call")


def test_a_call_that_does_not_return_is_left_behind(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(threads, "_running", set())  # without what other tests left
    never = threading.Event()
    with pytest.raises(TimeoutError, match=r"a call did not end within 0\.01 s"):
        call_within(never.wait, 0.01, name="a call")
    assert is_any_left_behind()
    never.set()
    assert wait_until(lambda: not is_any_left_behind(), deadline_s=5, every_s=0.01)

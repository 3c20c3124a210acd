"""Runs calls that may never return in threads, which are left behind if they do not."""

from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import Generic, TypeVar

Result = TypeVar("Result")


class BackgroundCall(Generic[Result]):
    """A call in a thread of its own, which does not keep the process from ending."""

    def __init__(self, call: Callable[[], Result], *, name: str) -> None:
        self._call = call
        self._results: list[Result] = []
        self._failures: list[BaseException] = []
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self._results.append(self._call())
        except BaseException as exc:  # noqa: BLE001  raised again in the thread that waits
            self._failures.append(exc)

    def is_over(self, within_s: float) -> bool:
        """Wait for its end, up to this time; return whether it has ended."""
        self._thread.join(within_s)
        return not self._thread.is_alive()

    def result(self) -> Result:
        """Return its result, or raise its error; only after its end."""
        if self._failures:
            raise self._failures[0]
        return self._results[0]


_running: set[object] = set()


def call_within(call: Callable[[], Result], seconds: float, *, name: str) -> Result:
    """Return the result of the call or raise its error; raise `TimeoutError` if it takes longer."""
    calling = BackgroundCall(partial(_noted, call), name=name)
    if not calling.is_over(seconds):
        raise TimeoutError(f"{name} did not end within {seconds:.3g} s")
    return calling.result()


def is_any_left_behind() -> bool:
    """Return whether a call that was to end within a time still runs; at the end of a process, no one waits for it."""
    return bool(_running)


def _noted(call: Callable[[], Result]) -> Result:
    mine = object()
    _running.add(mine)
    try:
        return call()
    finally:
        _running.discard(mine)

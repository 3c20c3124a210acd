"""Calls that may never return, made in threads that are left behind when they do not."""

from collections.abc import Callable
from threading import Thread
from typing import TypeVar

Result = TypeVar("Result")


def call_within(call: Callable[[], Result], seconds: float, *, name: str) -> Result:
    """Return what the call returns, or raise what it raises; `TimeoutError` when it takes longer."""
    results: list[Result] = []
    failures: list[BaseException] = []

    def work() -> None:
        try:
            results.append(call())
        except BaseException as exc:  # noqa: BLE001  raised again in the thread that waits
            failures.append(exc)

    thread = Thread(target=work, name=name, daemon=True)
    thread.start()
    thread.join(seconds)
    if failures:
        raise failures[0]
    if not results:
        raise TimeoutError(f"{name} did not end within {seconds:g} s")
    return results[0]

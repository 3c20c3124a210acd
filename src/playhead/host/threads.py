"""Runs calls that may never return in threads, which are left behind if they do not."""

from collections.abc import Callable
from threading import Thread
from typing import TypeVar

Result = TypeVar("Result")


def call_within(call: Callable[[], Result], seconds: float, *, name: str) -> Result:
    """Return the result of the call or raise its error; raise `TimeoutError` if it takes longer."""
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

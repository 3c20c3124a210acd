"""Runs control queries in a separate thread, so that the player's loop never waits for an answer."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from playhead.server import Control


class Helper:
    """One connection and one thread; calls run one after the other."""

    def __init__(self, control: Control) -> None:
        self.control = control
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="queries")

    def ask(self, call: Callable[..., Any], *given: Any, **named: Any) -> "Future[Any]":
        return self._pool.submit(call, *given, **named)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        self.control.close()

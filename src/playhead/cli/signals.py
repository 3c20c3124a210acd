"""Ctrl-C and SIGTERM: the first may be granted in good order, the next ends everything, also what hangs."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from playhead.errors import EXIT_INTERRUPTED, EXIT_TERMINATED

_CODES = {signal.SIGINT: EXIT_INTERRUPTED, signal.SIGTERM: EXIT_TERMINATED}
# An engine that is asked anything and does not answer within this time hangs.
_ANSWERS_WITHIN_S = 5.0
# What is on its way out needs the engine no more; with its JVM gone, nothing waits for that any longer.
_ENGINE_LEFT_S = 3.0
# Whatever still hangs then is not worth waiting for: what is committed is in the ledger.
_PROCESS_LEFT_S = 5.0


class Terminated(BaseException):
    """SIGTERM, as an exception, so that what was started is stopped on the way out."""


class Ending:
    """What the second signal does, and the first where nothing listens for it: the command ends."""

    def __init__(self) -> None:
        self.code: int | None = None
        """The exit code that the signal asks for; None while there was no signal."""

    def take(self, number: int, _: FrameType | None) -> None:
        """The handler: raises in the main thread, and sees to it that nothing keeps that from ending."""
        if self.code is None:
            self.code = _CODES[signal.Signals(number)]
            threading.Thread(target=self._see_to_it, name="ending", daemon=True).start()
        else:
            _kill_engines(for_good=True)
        raise KeyboardInterrupt if number == signal.SIGINT else Terminated

    def _see_to_it(self) -> None:
        time.sleep(_ENGINE_LEFT_S)
        if _kill_engines(for_good=True):
            time.sleep(_PROCESS_LEFT_S)
            os._exit(self.code or 0)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take both signals, but not one that whoever started us has us ignore."""
        before = {
            kind: signal.signal(kind, self.take)
            for kind in _CODES
            if signal.getsignal(kind) in (signal.SIG_DFL, signal.default_int_handler)
        }
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)


@contextmanager
def first_signal(stop: Callable[[int], None], *, within_s: float | None = None) -> Iterator[None]:
    """Call this, with the signal's number, at the first one; the next does what it did before.

    Given a time, the next one comes by itself when the block has not been left by then.
    """
    before = {kind: signal.getsignal(kind) for kind in _CODES}
    is_over = threading.Event()

    def give_back() -> None:
        for kind, handler in before.items():
            signal.signal(kind, handler)

    def hear(number: int, _: FrameType | None) -> None:
        give_back()
        stop(number)
        if within_s is not None:
            asked = (number, is_over, within_s)
            threading.Thread(target=_not_for_ever, args=asked, name="stopping", daemon=True).start()

    for kind in before:
        signal.signal(kind, hear)
    try:
        yield
    finally:
        is_over.set()
        give_back()


def _not_for_ever(number: int, is_over: threading.Event, within_s: float) -> None:
    """An engine that hangs would keep what was asked to stop from seeing it."""
    session = _session()
    if session is not None and not session.answers(_ANSWERS_WITHIN_S) and not is_over.is_set():
        _kill_engines(for_good=False)
    if not is_over.wait(within_s):
        signal.pthread_kill(threading.main_thread().ident or 0, number)


def _kill_engines(*, for_good: bool) -> bool:
    jvm = sys.modules.get("playhead.spark.jvm")
    return jvm is not None and jvm.kill_all(for_good=for_good)


def _session() -> Any:
    """The module, if anybody has loaded it: only then is there an engine."""
    return sys.modules.get("playhead.spark.session")

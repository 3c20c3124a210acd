"""Ctrl-C and SIGTERM: the first requests an orderly stop, the second ends the process, even if it hangs."""

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
# An engine that does not answer within this time hangs.
_ANSWERS_WITHIN_S = 5.0
# Pending output does not need the engine; once its JVM is gone, nothing waits for it.
_ENGINE_LEFT_S = 3.0
# What still hangs after this time is abandoned: the ledger has what was committed.
_PROCESS_LEFT_S = 5.0


class Terminated(BaseException):
    """SIGTERM as an exception, so that everything that was started is stopped on the way out."""


_RAISED: dict[signal.Signals, type[BaseException]] = {
    signal.SIGINT: KeyboardInterrupt,
    signal.SIGTERM: Terminated,
}
# By then the destructor is over that the signal met.
_AGAIN_AFTER_S = 0.05


class Ending:
    """The handler of the second signal, and of the first if nothing else handles it: the command ends."""

    def __init__(self) -> None:
        self.code: int | None = None
        """The exit code for the signal; None before a signal."""
        self._is_lost = False

    def take(self, number: int, _: FrameType | None) -> None:
        """Handle a signal: raise in the main thread, and make sure that nothing prevents the end."""
        if self._is_lost:
            self._is_lost = False
        elif self.code is None:
            self.code = _CODES[signal.Signals(number)]
            threading.Thread(target=self._see_to_it, name="ending", daemon=True).start()
        else:
            _kill_engines(for_good=True)
        raise _RAISED[signal.Signals(number)]

    def _see_to_it(self) -> None:
        time.sleep(_ENGINE_LEFT_S)
        if _kill_engines(for_good=True):
            time.sleep(_PROCESS_LEFT_S)
            os._exit(self.code or 0)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle both signals, except one that our parent process has us ignore."""
        before = {
            kind: signal.signal(kind, self.take)
            for kind in _CODES
            if signal.getsignal(kind) in (signal.SIG_DFL, signal.default_int_handler)
        }
        tells, sys.unraisablehook = sys.unraisablehook, self._raise_again
        try:
            yield
        finally:
            sys.unraisablehook = tells
            for kind, handler in before.items():
                signal.signal(kind, handler)

    def _raise_again(self, lost: "sys.UnraisableHookArgs") -> None:
        """Send a signal again whose exception came up in a destructor, where Python drops it."""
        number = next((n for n, kind in _RAISED.items() if lost.exc_type is kind), None)
        if number is None or self.code is None:
            sys.__unraisablehook__(lost)
            return
        self._is_lost = True
        main = threading.main_thread().ident or 0
        again = threading.Timer(_AGAIN_AFTER_S, signal.pthread_kill, (main, number))
        again.daemon = True
        again.start()


@contextmanager
def first_signal(stop: Callable[[int], None], *, within_s: float | None = None) -> Iterator[None]:
    """Call `stop` with the signal's number at the first signal; the next one does what it did
    before.

    With `within_s`, the next signal comes by itself if the block does not end in time.
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
    """Send the second signal after a time, because a hanging engine would keep the stop from being seen."""
    session = _session()
    if session is not None and not session.answers(_ANSWERS_WITHIN_S) and not is_over.is_set():
        _kill_engines(for_good=False)
    if not is_over.wait(within_s):
        signal.pthread_kill(threading.main_thread().ident or 0, number)


def _kill_engines(*, for_good: bool) -> bool:
    jvm = sys.modules.get("playhead.spark.jvm")
    attached = sys.modules.get("playhead.spark.attached")
    if attached is not None and attached.lent() is not None:
        return True  # another process's, which ends what this one leaves behind
    return jvm is not None and jvm.kill_all(for_good=for_good)


def _session() -> Any:
    """Return the engine's session module if it was loaded: only then is there an engine."""
    return sys.modules.get("playhead.spark.session")

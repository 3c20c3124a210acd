"""Ctrl-C and SIGTERM as a wish: the first is granted in good order, the second ends everything at once."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def first_signal(stop: Callable[[int], None]) -> Iterator[None]:
    """Call this, with the signal's number, at the first one; the next does what it did before."""
    before = {kind: signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM)}

    def give_back() -> None:
        for kind, handler in before.items():
            signal.signal(kind, handler)

    def hear(number: int, _: FrameType | None) -> None:
        give_back()
        stop(number)

    for kind in before:
        signal.signal(kind, hear)
    try:
        yield
    finally:
        give_back()

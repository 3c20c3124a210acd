"""Time as something that can be handed over: the system's clock, or one that a test moves."""

import time
from collections.abc import Callable
from typing import Protocol, TypeVar

Found = TypeVar("Found")


class Clock(Protocol):
    """A wall clock, which may jump, a monotonic one, which never goes back, and a way to wait."""

    def now_ns(self) -> int:
        """Nanoseconds since the epoch."""
        ...

    def monotonic_ns(self) -> int:
        """Nanoseconds since some instant; only differences mean something."""
        ...

    def sleep(self, seconds: float, /) -> None:
        """Wait until the monotonic clock has moved on by so much."""
        ...


class SystemClock(Clock):
    """The clock of this machine."""

    def now_ns(self) -> int:
        return time.time_ns()

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def sleep(self, seconds: float, /) -> None:
        time.sleep(seconds)


def wait_until(
    probe: Callable[[], Found], *, deadline_s: float, clock: Clock, every_s: float
) -> Found | None:
    """The first truthy answer of the probe, or None when there was none within the deadline.

    The probe is asked at once, then every so often, and for the last time at the deadline.
    """
    if every_s <= 0:
        raise ValueError(f"every_s: found {every_s}, needed more than 0")
    deadline_ns = clock.monotonic_ns() + round(deadline_s * 1e9)
    while not (found := probe()):
        left_s = (deadline_ns - clock.monotonic_ns()) / 1e9
        if left_s <= 0:
            return None
        clock.sleep(min(every_s, left_s))
    return found

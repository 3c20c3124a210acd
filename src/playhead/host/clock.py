"""A clock as an object: the system's own, or one that a test moves."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

Found = TypeVar("Found")
_LOOK_EVERY_S = 0.1


class Clock(Protocol):
    """A wall clock, which may jump; a monotonic clock, which never goes back; and a way to wait."""

    def now_ns(self) -> int:
        """Nanoseconds since the epoch."""
        ...

    def monotonic_ns(self) -> int:
        """Nanoseconds since an arbitrary instant; only differences have a meaning."""
        ...

    def sleep(self, seconds: float, /) -> None:
        """Wait until the monotonic clock has advanced by this many seconds."""
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
    probe: Callable[[], Found],
    *,
    deadline_s: float,
    every_s: float,
    clock: Clock = SystemClock(),  # noqa: B008  it has no state
) -> Found | None:
    """Return the first truthy result of the probe, or None if there is none before the deadline.

    The probe runs at once, then at this interval, and a last time at the deadline.
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


@dataclass(slots=True)
class Backoff:
    """The waits between attempts: each is twice as long as the last, up to a maximum."""

    first_s: float
    longest_s: float
    at_once: bool = False
    """Whether the first attempt is repeated without a wait."""
    next_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.start_over()

    def start_over(self) -> None:
        """Start again with the first wait, after a success."""
        self.next_s = 0.0 if self.at_once else self.first_s

    def take(self) -> float:
        """Return the next wait in seconds."""
        seconds = self.next_s
        self.next_s = min(2 * seconds, self.longest_s) if seconds else self.first_s
        return seconds


def sleep_unless(is_stopped: Callable[[], bool], seconds: float) -> bool:
    """Wait this long or until a stop is requested; return whether one was."""
    until = time.monotonic() + seconds
    while not (stopped := is_stopped()) and time.monotonic() < until:
        time.sleep(min(_LOOK_EVERY_S, seconds))
    return stopped

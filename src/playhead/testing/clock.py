"""A clock that stands still until a test moves it."""

from threading import Condition

from playhead.host.clock import Clock

_NOON_NS = 1_767_268_800_000_000_000  # 2026-01-01T12:00:00Z
# Real time. A test whose clock nobody moves should end with a reason, not hang.
_PATIENCE_S = 30.0


class ManualClock(Clock):
    """Time passes by `advance`, and only then; the wall clock can also jump, as NTP makes it.

    A thread that sleeps wakes when `advance` reaches its due instant. Call `wait_for_sleepers`
    first, or time may pass before the other thread has gone to sleep.
    """

    def __init__(self, *, now_ns: int = _NOON_NS) -> None:
        self._changed = Condition()
        self._monotonic_ns = 0
        self._wall_ahead_ns = now_ns
        self._due_ns: list[int] = []

    def now_ns(self) -> int:
        with self._changed:
            return self._wall_ahead_ns + self._monotonic_ns

    def monotonic_ns(self) -> int:
        with self._changed:
            return self._monotonic_ns

    def sleep(self, seconds: float, /) -> None:
        if seconds < 0:
            raise ValueError(f"seconds: found {seconds}, needed 0 or more")
        with self._changed:
            due_ns = self._monotonic_ns + round(seconds * 1e9)
            self._due_ns.append(due_ns)
            self._changed.notify_all()
            try:
                woken = self._changed.wait_for(lambda: self._monotonic_ns >= due_ns, _PATIENCE_S)
            finally:
                self._due_ns.remove(due_ns)
        if not woken:
            raise TimeoutError(f"nobody advanced the clock to the end of a sleep({seconds:g})")

    def advance(self, seconds: float) -> None:
        """Let time pass, on both clocks."""
        if seconds < 0:
            raise ValueError(
                f"seconds: found {seconds}, needed 0 or more; a wall clock goes back by step_wall"
            )
        with self._changed:
            self._monotonic_ns += round(seconds * 1e9)
            self._changed.notify_all()

    def step_wall(self, seconds: float) -> None:
        """Let the wall clock jump, forward or back, while no time passes."""
        with self._changed:
            self._wall_ahead_ns += round(seconds * 1e9)

    def wait_for_sleepers(self, count: int = 1) -> None:
        """Wait, in real time, until so many threads sleep on this clock."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._sleepers() >= count, _PATIENCE_S):
                raise TimeoutError(f"{self._sleepers()} threads sleep, needed {count}")

    def _sleepers(self) -> int:
        # A thread whose time has come is no sleeper, though it may not have run since.
        return sum(due_ns > self._monotonic_ns for due_ns in self._due_ns)

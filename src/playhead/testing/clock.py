"""A clock that a test advances by hand."""

from threading import Condition

from playhead.host.clock import Clock

_NOON_NS = 1_767_268_800_000_000_000  # 2026-01-01T12:00:00Z
# In real time: a test that does not advance its clock fails with a reason instead of hanging.
_PATIENCE_S = 30.0


class ManualClock(Clock):
    """A clock whose time passes only by `advance`; `step_wall` makes the wall clock jump, as NTP does.

    A sleeping thread wakes when `advance` reaches the end of its sleep. Call `wait_for_sleepers` first, because
    otherwise time may pass before the other thread sleeps.
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
            raise TimeoutError(f"the clock was not advanced to the end of a sleep({seconds:g})")

    def advance(self, seconds: float) -> None:
        """Let time pass on both clocks."""
        if seconds < 0:
            raise ValueError(
                f"seconds: found {seconds}, needed 0 or more; use step_wall to set the wall clock back"
            )
        with self._changed:
            self._monotonic_ns += round(seconds * 1e9)
            self._changed.notify_all()

    def step_wall(self, seconds: float) -> None:
        """Let the wall clock jump forward or back, without time passing."""
        with self._changed:
            self._wall_ahead_ns += round(seconds * 1e9)

    def wait_for_sleepers(self, count: int = 1) -> None:
        """Wait, in real time, until `count` threads sleep on this clock."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._sleepers() >= count, _PATIENCE_S):
                raise TimeoutError(f"{self._sleepers()} threads sleep, needed {count}")

    def _sleepers(self) -> int:
        # A thread whose sleep is over does not count, even if it has not run since.
        return sum(due_ns > self._monotonic_ns for due_ns in self._due_ns)

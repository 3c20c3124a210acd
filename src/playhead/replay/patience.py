"""How long a run waits for servers that are away: growing waits, while nothing moves."""

from dataclasses import dataclass, field

from playhead.host.clock import Backoff

_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 10.0


@dataclass(slots=True)
class Patience:
    """The waits between jobs without progress."""

    most_s: float
    waited_s: float = 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(_FIRST_WAIT_S, _LONGEST_WAIT_S))
    done: int = -1

    @property
    def is_over(self) -> bool:
        return self.waited_s + self.backoff.next_s > self.most_s

    @property
    def left_s(self) -> float:
        """How long it still waits, if nothing moves."""
        return max(self.most_s - self.waited_s, 0.0)

    def heed(self, done: int) -> bool:
        """Note the progress; start over with short waits if there is any."""
        if done == self.done:
            return False
        self.done, self.waited_s = done, 0.0
        self.backoff.start_over()
        return True

    def take(self) -> float:
        """Return the next wait."""
        seconds = self.backoff.take()
        self.waited_s += seconds
        return seconds

"""Measures how many statements ran at once, over the time of a run."""

from itertools import zip_longest
from typing import Any, Final

_MOST_INTERVALS: Final = 240
_FIRST_US: Final = 1_000


class Concurrency:
    """The time that statements took in each of at most 240 intervals, which get longer with the run."""

    def __init__(self) -> None:
        self._interval_us = _FIRST_US
        self._busy_us: list[int] = []
        self._first_us: int | None = None

    def note(self, start_us: int, took_us: int) -> None:
        """Count a statement; what is before the start of the first noted one is left out."""
        if self._first_us is None:
            self._first_us = start_us
        end = max(0, start_us - self._first_us + took_us)
        start = min(max(0, start_us - self._first_us), end)
        while end > self._interval_us * _MOST_INTERVALS:
            pairs = zip_longest(self._busy_us[::2], self._busy_us[1::2], fillvalue=0)
            self._busy_us = [*map(sum, pairs)]
            self._interval_us *= 2
        length = self._interval_us
        missing = -(-end // length) - len(self._busy_us)
        self._busy_us += [0] * missing
        while start < end:
            at = start // length
            until = min(end, (at + 1) * length)
            self._busy_us[at] += until - start
            start = until

    @property
    def seconds(self) -> float:
        """How long it lasted, to the end of the last interval."""
        return len(self._busy_us) * self._interval_us / 1e6

    @property
    def average(self) -> float:
        return sum(self._busy_us) / (len(self._busy_us) * self._interval_us) if self else 0.0

    @property
    def peak(self) -> float:
        """The average of the busiest interval."""
        return max(self._busy_us, default=0) / self._interval_us

    def __bool__(self) -> bool:
        return bool(self._busy_us)

    def as_document(self) -> dict[str, Any]:
        """Return the average number of statements in each interval, from the first to the last one."""
        numbers = [round(each / self._interval_us, 3) for each in self._busy_us]
        return {"interval_us": self._interval_us, "statements": numbers}

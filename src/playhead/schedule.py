"""Computes when each record of a partition is due, from its number and its time, without a clock.

Partitions stay aligned because no result depends on the progress of other partitions. A due time is a
function of the record's own time (at a speed) or number (at a rate), and of the plan's facts about all
partitions: the first record time, their common silences, and how many records each has.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Final

MS: Final = 1_000_000
SECOND: Final = 1_000 * MS

Silence = tuple[int, int]
"""Record times `[from_ms, to_ms)` in which no partition of the replay has a record."""


class Schedule:
    """One partition's due times, in nanoseconds after the run's start; they never decrease.

    Ask in offset order. A record with an earlier time than one already played is due together with
    it.
    """

    def __init__(self, due_ns: Callable[[int, int], int]) -> None:
        self._due_ns = due_ns
        self._latest_ns = self._later_ns = 0

    def due_ns(self, ordinal: int, timestamp_ms: int) -> int:
        """Return when the partition's record number `ordinal`, counted from 0, is due."""
        due = self._due_ns(ordinal, timestamp_ms) + self._later_ns
        self._latest_ns = max(self._latest_ns, due)
        return self._latest_ns

    def put_off(self, by_ns: int) -> None:
        """Delay all later records: after a standstill, a rate must not catch up."""
        if by_ns < 0:
            raise ValueError(f"Schedule.put_off: found {by_ns}, needed 0 or more")
        self._later_ns += by_ns


def at_once(_ordinal: int, _timestamp_ms: int) -> int:
    """Everything is due when the run starts."""
    return 0


# --- at a speed


class AtSpeed:
    """Record time since the first record, without the cut parts of silences, divided by the speed.

    A record later than `latest_ms`, or without a time, is due together with the record before it.
    """

    def __init__(
        self,
        times: Fraction,
        first_ms: int | None,
        silences: Iterable[Silence] = (),
        max_gap_ms: int | None = None,
        latest_ms: int | None = None,
    ) -> None:
        # If the replay begins after this time, no record is out of place.
        is_bounded = latest_ms is not None and (first_ms is None or first_ms <= latest_ms)
        self._latest_ms = latest_ms if is_bounded else None
        self._multiplier, self._divisor = MS * times.denominator, times.numerator
        # The cut part of a silence begins where its allowed part ends.
        long = [] if max_gap_ms is None else joined(silences)
        cuts = [(start + (max_gap_ms or 0), end) for start, end in long]
        cuts = [(start, end) for start, end in cuts if start < end]
        self._starts = [start for start, _ in cuts]
        self._lengths = [end - start for start, end in cuts]
        self._before = [0]
        for length in self._lengths:
            self._before.append(self._before[-1] + length)
        self._first = None if first_ms is None else self._played_ms(first_ms)

    def __call__(self, _ordinal: int, timestamp_ms: int) -> int:
        if timestamp_ms < 0 or (self._latest_ms is not None and timestamp_ms > self._latest_ms):
            return 0  # It has no time, or one too far in the future: it is due with the record before it.
        played = self._played_ms(timestamp_ms)
        if self._first is None:
            self._first = played
        since = played - self._first  # A negative due time means at once.
        return -(-since * self._multiplier // self._divisor)  # Rounded up: no record is early.

    def _played_ms(self, timestamp_ms: int) -> int:
        """Return record time without the cut parts; never decreasing, and equal for all partitions."""
        cut = bisect_right(self._starts, timestamp_ms) - 1
        if cut < 0:
            return timestamp_ms
        inside = min(timestamp_ms - self._starts[cut], self._lengths[cut])
        return timestamp_ms - self._before[cut] - inside


def joined(silences: Iterable[Silence]) -> list[Silence]:
    """Join ascending silences that touch or overlap."""
    merged: list[Silence] = []
    for start, end in sorted(silences):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        elif start < end:
            merged.append((start, end))
    return merged


def silences_of(edges_ms: Sequence[int], first_offsets: Sequence[Sequence[int]]) -> list[Silence]:
    """Derive the silences of a whole replay from Kafka's offsets for some ascending times.

    `first_offsets[i]` are the partitions' first offsets at or after `edges_ms[i]`. Between two times with
    equal offsets there is no record, except late ones, which are due with the allowed part of the silence.
    """
    answers = zip(edges_ms, first_offsets, strict=True)
    return joined(
        (start, end) for (start, one), (end, other) in pairwise(answers) if list(one) == list(other)
    )


# --- at a rate


@dataclass(frozen=True, slots=True)
class Share:
    """The share of one partition of a rate: its turns among the records of all partitions.

    `planned` is the number of records of each partition, at least 1 for unexpected ones. Each record has
    its own turn, so that all partitions together never exceed the rate; a partition's turns are spread
    as evenly as possible. Records beyond the plan take turns of the next round.
    """

    planned: tuple[int, ...]
    index: int

    def __post_init__(self) -> None:
        if not 0 <= self.index < len(self.planned) or min(self.planned) < 0:
            raise ValueError(f"Share: no partition {self.index} in {self.planned!r}")
        object.__setattr__(self, "planned", tuple(max(1, count) for count in self.planned))

    def turn(self, ordinal: int) -> int:
        """Return the turn of this partition's record number `ordinal` among the turns of all.

        Record n of N is at position (2n + 1) / 2N. Its turn is the number of records of all partitions before
        that position; of equal positions, the partition with the lower index comes first.
        """
        own = self.planned[self.index]
        rounds, n = divmod(ordinal, own)
        turn = rounds * sum(self.planned) + n
        for index, count in enumerate(self.planned):
            if index != self.index:
                ahead = (2 * n + 1) * count - own
                # The number of m with (2m + 1) * own below, or equal to, (2n + 1) * count.
                turn += ahead // (2 * own) + 1 if index < self.index else -(-ahead // (2 * own))
        return turn


class AtRate:
    """Records at even intervals; each partition has its share of the rate."""

    def __init__(self, per_second: Fraction, share: Share | Fraction) -> None:
        self._turn: Callable[[int], int] | None = None
        if isinstance(share, Share):
            self._turn, share = share.turn, Fraction(1)
        own = per_second * share
        self._multiplier, self._divisor = SECOND * own.denominator, own.numerator

    def __call__(self, ordinal: int, _timestamp_ms: int) -> int:
        turn = ordinal if self._turn is None else self._turn(ordinal)
        return -(-turn * self._multiplier // self._divisor)

"""The pace of a replay (as fast as possible, the recorded speed times n, or a rate), and how well it was kept."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from playhead.errors import UsageError
from playhead.grammar.cursor import Cursor
from playhead.schedule import (
    AtRate,
    AtSpeed,
    Schedule,
    Share,
    Silence,
    at_once,
    silences_of,
)

__all__ = ["Pace", "Schedule", "ScheduleError", "Share", "Silence", "horizon_of", "silences_of"]

_FORMS: Final = "max, 2x, 0.5x, 5000/s, 1000/m, 100/h"
_NUMBER: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?", re.ASCII)
_CLOCKS_DIFFER_MS: Final = 3_600_000
_UNIT_S: Final = {"s": 1, "m": 60, "h": 3_600}


@dataclass(frozen=True, slots=True)
class Pace:
    """When records are due. `str` gives a text that parses as the same pace.

    `times` is a speed and `per_second` a rate; without either, everything is due at once. At a speed, a
    silence of more than `max_gap_ms` of record time is played as if it were that long: at twice the
    speed, it takes half of that.
    """

    times: Fraction | None = None
    per_second: Fraction | None = None
    max_gap_ms: int | None = None

    def __post_init__(self) -> None:
        if self.max_gap_ms is not None and (self.times is None or self.max_gap_ms < 0):
            raise UsageError(
                f"--max-gap needs a speed, but the pace is {self}"
                if self.times is None
                else f"--max-gap is {self.max_gap_ms} ms, needed 0 or more",
                hint="add --pace 1x: only at a speed are there silences that can be shortened",
            )

    @classmethod
    def max(cls) -> "Pace":
        return cls()

    @classmethod
    def speed(cls, times: float | Fraction, *, max_gap_ms: int | None = None) -> "Pace":
        """Return a pace of the recorded speed times `times`; 1 is the recorded speed."""
        return cls(times=_positive(times, "speed"), max_gap_ms=max_gap_ms)

    @classmethod
    def rate(cls, per_second: float | Fraction) -> "Pace":
        """Return a pace of records a second, for all partitions together."""
        return cls(per_second=_positive(per_second, "rate"))

    @classmethod
    def parse(cls, text: str, *, max_gap_ms: int | None = None) -> "Pace":
        phrase = Cursor.of(text, "--pace")
        if phrase.text == "max":
            return cls(max_gap_ms=max_gap_ms)
        number = _NUMBER.match(phrase.text)
        if number is None:
            raise phrase.refuse(f"found {phrase.found(0)}, needed a pace", hint=_FORMS)
        value, rest = Fraction(number[0]), phrase.cut(number.end())
        if value == 0:
            raise phrase.refuse("a pace of 0 would never write a record", hint=_FORMS)
        if rest.text in ("x", "X", "×"):
            return cls(times=value, max_gap_ms=max_gap_ms)
        if rest.text[:1] == "/" and rest.text[1:] in _UNIT_S:
            return cls(per_second=value / _UNIT_S[rest.text[1:]], max_gap_ms=max_gap_ms)
        at = 1 if rest.text[:1] == "/" else 0
        needed = "s, m or h" if at else "x for a speed, or /s, /m, /h for a rate"
        raise rest.refuse(f"found {rest.found(at)}, needed {needed}", at=at, hint=_FORMS)

    @property
    def is_max(self) -> bool:
        return self.times is None and self.per_second is None

    def schedule(
        self,
        *,
        first_ms: int | None = None,
        share: Share | Fraction | float = 1,
        silences: Iterable[Silence] = (),
        latest_ms: int | None = None,
    ) -> Schedule:
        """Return the due times of one partition.

        `first_ms` is the earliest record time of the whole replay and the start of the run; if it is None,
        the partition's own first record is. `share` is the partition's share of a rate; a plain number
        can exceed the rate by one record of each partition where their turns meet. `silences` are those that
        all partitions have in common.
        """
        if self.times is not None:
            return Schedule(AtSpeed(self.times, first_ms, silences, self.max_gap_ms, latest_ms))
        if self.per_second is not None:
            part = share if isinstance(share, Share) else _positive(share, "share")
            return Schedule(AtRate(self.per_second, part))
        return Schedule(at_once)

    def __str__(self) -> str:
        if self.times is not None:
            return f"{_decimal(self.times) or self.times}x"
        if self.per_second is None:
            return "max"
        for unit, seconds in _UNIT_S.items():
            if (shown := _decimal(self.per_second * seconds)) is not None:
                return f"{shown}/{unit}"
        return f"{float(self.per_second):.9f}/s"


def horizon_of(made_at_ms: int) -> int:
    """Return the latest believable record time of a plan made at `made_at_ms`; clocks differ a little."""
    return made_at_ms + _CLOCKS_DIFFER_MS


def _positive(number: float | Fraction, name: str) -> Fraction:
    # Use the decimal digits: 0.1 means a tenth, not the nearest float.
    exact = Fraction(Decimal(repr(number))) if isinstance(number, float) else Fraction(number)
    if exact <= 0:
        raise ValueError(f"{name}: found {number}, needed more than 0")
    return exact


def _decimal(number: Fraction) -> str | None:
    """Return all decimal digits if they are finite, and otherwise the fraction."""
    scaled = number * 10**9
    if scaled.denominator != 1:
        return None
    whole, part = divmod(scaled.numerator, 10**9)
    return f"{whole}.{part:09}".rstrip("0").rstrip(".")


# --- how well it was kept

_FINE_BITS: Final = 5
_MOST_US: Final = 1 << 50  # 35 years: longer delays count as this one.


@dataclass(slots=True)
class ScheduleError:
    """A histogram of the records' delays, with the rates; a measure of a paced run, not an
    exception.

    Its size is bounded. Delays up to 63 us are counted exactly, longer ones in 32 steps for each power of
    two, so that a percentile is off by at most 1.6 %. Histograms of several tasks merge without loss.
    """

    counts: dict[int, int] = field(default_factory=dict)
    max_us: int = 0
    early: int = 0
    """Records written before they were due; always 0."""
    first_due_ns: int | None = None
    last_due_ns: int | None = None
    first_done_ns: int | None = None
    last_done_ns: int | None = None

    @property
    def count(self) -> int:
        return sum(self.counts.values())

    def note(self, *, late_ns: int, due_ns: int | None = None) -> None:
        """Count one record; its due time, counted from the shared start, also enters the rates."""
        late_us = min(max(0, late_ns) // 1_000, _MOST_US)
        step = _step(late_us)
        self.counts[step] = self.counts.get(step, 0) + 1
        self.max_us = max(self.max_us, late_us)
        self.early += late_ns < 0
        if due_ns is not None:
            self._enclose(due_ns, due_ns, due_ns + late_ns, due_ns + late_ns)

    def merge(self, other: "ScheduleError") -> None:
        """Add the counts of another histogram."""
        for step, count in other.counts.items():
            self.counts[step] = self.counts.get(step, 0) + count
        self.max_us = max(self.max_us, other.max_us)
        self.early += other.early
        self._enclose(
            other.first_due_ns, other.last_due_ns, other.first_done_ns, other.last_done_ns
        )

    def percentile_us(self, percent: float) -> int | None:
        """Return the smallest delay that `percent` of the records did not exceed; None without records."""
        wanted = Fraction(self.count) * _positive(percent, "percent") / 100
        seen = 0
        for step in sorted(self.counts):
            seen += self.counts[step]
            if seen >= wanted:
                return min(_middle_us(step), self.max_us)
        return None

    @property
    def wanted_per_second(self) -> float | None:
        """The rate of the due times; None if there are fewer than two different ones."""
        return self._rate(self.first_due_ns, self.last_due_ns)

    @property
    def achieved_per_second(self) -> float | None:
        return self._rate(self.first_done_ns, self.last_done_ns)

    def summary(self) -> dict[str, float | int | None]:
        """Return the figures for a report."""
        return {
            "records": self.count,
            "early": self.early,
            "p50_us": self.percentile_us(50),
            "p99_us": self.percentile_us(99),
            "max_us": self.max_us if self.counts else None,
            "wanted_per_second": self.wanted_per_second,
            "achieved_per_second": self.achieved_per_second,
        }

    def as_document(self) -> dict[str, Any]:
        """Return the histogram for JSON; `from_document` reverses it."""
        counts = {str(step): self.counts[step] for step in sorted(self.counts)}
        return {name: getattr(self, name) for name in self.__slots__} | {"counts": counts}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "ScheduleError":
        counts = {int(step): count for step, count in document["counts"].items()}
        return cls(**{**document, "counts": counts})

    def _enclose(
        self,
        first_due: int | None,
        last_due: int | None,
        first_done: int | None,
        last_done: int | None,
    ) -> None:
        self.first_due_ns = _least(self.first_due_ns, first_due)
        self.first_done_ns = _least(self.first_done_ns, first_done)
        self.last_due_ns = _most(self.last_due_ns, last_due)
        self.last_done_ns = _most(self.last_done_ns, last_done)

    def _rate(self, first_ns: int | None, last_ns: int | None) -> float | None:
        if first_ns is None or last_ns is None or first_ns == last_ns:
            return None
        return (self.count - 1) * 1e9 / (last_ns - first_ns)


def _step(late_us: int) -> int:
    """Return the step of a delay: the first 64 are exact, then each power of two has equal steps."""
    shift = max(0, late_us.bit_length() - _FINE_BITS - 1)
    return (shift << _FINE_BITS) + (late_us >> shift)


def _middle_us(step: int) -> int:
    shift = max(0, (step >> _FINE_BITS) - 1)
    return ((step - (shift << _FINE_BITS)) << shift) + ((1 << shift) >> 1)


def _least(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


def _most(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)

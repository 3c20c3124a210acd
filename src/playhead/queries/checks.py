"""The checks of --fail-if: compare a figure of a run with a number, the source, or the server of --beside."""

import re
from dataclasses import dataclass
from typing import Final

from playhead.errors import BadValue
from playhead.grammar.duration import parse_duration_ms
from playhead.queries.replay import QueryOutcome

_CHECK: Final = re.compile(
    r"\s*(p50|p95|p99|divergences|errors|lost|in_doubt|played_again)\s*(>=|<=|>|<|=)\s*(\S+(?:\s\S+)?)\s*"
)
_PERCENTS: Final = {"p50": 50, "p95": 95, "p99": 99}
_NEEDED: Final = "such as 'p95 > 1.2x', 'p99 > 50ms' or 'divergences > 0'"


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison."""

    text: str
    figure: str
    sign: str
    times: float | None
    """Whether the limit is a multiple of the figure of the source, or of the server of --beside."""
    limit: float
    """Microseconds for a latency, else a count."""

    @classmethod
    def parse(cls, text: str, *, option: str = "--fail-if") -> "Check":
        found = _CHECK.fullmatch(text)
        if found is None:
            raise BadValue(option, found=text, needed=_NEEDED)
        figure, sign, limit = found.groups()
        try:
            if figure in _PERCENTS:
                if limit.endswith("x"):
                    return cls(text, figure, sign, float(limit[:-1]), 0.0)
                limit_us = parse_duration_ms(limit, where=option) * 1e3
                return cls(text, figure, sign, None, limit_us)
            return cls(text, figure, sign, None, float(limit))
        except ValueError:
            raise BadValue(option, found=text, needed=_NEEDED) from None

    def state(self, outcome: QueryOutcome) -> str:
        """Return `true`, `not so`, or `unknown` if the log or the run does not have the figures."""
        value, limit = self._sides(outcome)
        if value is None or limit is None:
            return "unknown"
        return "true" if self.is_true(value, limit) else "not so"

    def is_true(self, value: float, limit: float) -> bool:
        """Compare a value with a limit."""
        return {
            ">": value > limit,
            "<": value < limit,
            ">=": value >= limit,
            "<=": value <= limit,
            "=": value == limit,
        }[self.sign]

    @property
    def percent(self) -> int | None:
        """The percentile of the latency that it is about; None if it is about a count."""
        return _PERCENTS.get(self.figure)

    def _sides(self, outcome: QueryOutcome) -> tuple[float | None, float | None]:
        percent = self.percent
        if percent is not None:
            was, now = outcome.baseline.percentile_us(percent), outcome.results.latencies()
            limit = self.limit if self.times is None else None if was is None else was * self.times
            return now.percentile_us(percent), limit
        return float(_count(outcome, self.figure)), self.limit


def _count(outcome: QueryOutcome, figure: str) -> int:
    if figure == "divergences":
        return outcome.divergences
    if figure == "played_again":
        return outcome.results.played_again
    return outcome.count("unexpected_error" if figure == "errors" else figure)

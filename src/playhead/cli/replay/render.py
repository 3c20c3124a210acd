"""Rows of plans and runs, and progress as a text."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from playhead.grammar.instant import show_ms
from playhead.ledger import Entry
from playhead.plan import Plan
from playhead.standby.history import ListedRun

_OF_PLAN = (
    *("topic", "partition", "from_offset", "span_end", "to_offset", "planned", "earliest"),
    *("stable_end", "high_watermark"),
)
# Facts of the partition; of the span, the offsets say enough.
OPTIONAL_OF_PLAN = ("high_watermark", "stable_end", "earliest", "span_end")


def plan_rows(plan: Plan) -> list[dict[str, Any]]:
    """Return a row of the plan for each partition."""
    return [{name: getattr(each, name) for name in _OF_PLAN} for each in plan.partitions]


class ProgressText:
    """Progress in records, with the rate of the work and the record time reached.

    Before the first commit, the engine starts and tasks connect; that time is no part of the rate.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._idle: tuple[float, int] | None = None

    def __call__(self, done: int, total: int, entries: Sequence[Entry]) -> str:
        now_s = self._now()
        if self._idle is None or done == self._idle[1]:
            self._idle = (now_s, done)
            return "waiting for the first commit" if done < total else "nothing is left to do"
        took_s = now_s - self._idle[0]
        rate = (done - self._idle[1]) / took_s if took_s > 0 else 0.0
        # A record without a time has -1, and 1969 is no time of it.
        times = [entry.last_ms for entry in entries if (entry.last_ms or 0) > 0]
        reached = f", at {show_ms(max(filter(None, times)))}" if times else ""
        return f"{rate:,.0f}/s{reached}"


def run_row(run: ListedRun) -> dict[str, Any]:
    """Return one row of `playhead runs`."""
    return {
        "id": run.replay_id,
        "made": show_ms(run.made_at_ms),
        "state": run.state,
        "source": run.source,
        "target": run.target,
        "planned": run.planned,
        "written": run.totals.get("written"),
        "missing": run.totals.get("missing"),
        "standby": run.standby,
        "trigger": run.trigger,
        "error": run.error,
    }

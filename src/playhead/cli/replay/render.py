"""Rows of plans and runs, and progress as a text."""

import time
from collections.abc import Sequence
from typing import Any

from playhead.grammar.instant import show_ms
from playhead.ledger import Entry
from playhead.plan import Plan
from playhead.standby.history import ListedRun


def plan_rows(plan: Plan) -> list[dict[str, Any]]:
    return [
        {
            "topic": each.topic,
            "partition": each.partition,
            "from_offset": each.from_offset,
            "span_end": each.span_end,
            "to_offset": each.to_offset,
            "planned": each.planned,
            "earliest": each.earliest,
            "stable_end": each.stable_end,
            "high_watermark": each.high_watermark,
        }
        for each in plan.partitions
    ]


class ProgressText:
    """Progress in records, with the recent rate and the record time reached."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._first: int | None = None

    def __call__(self, done: int, entries: Sequence[Entry]) -> str:
        if self._first is None:
            self._first = done
        took = time.monotonic() - self._began
        rate = (done - self._first) / took if took > 0 else 0.0
        reached = max(
            (entry.last_ms for entry in entries if entry.last_ms is not None), default=None
        )
        at = f", at {show_ms(reached)}" if reached is not None else ""
        return f"{rate:,.0f}/s{at}"


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

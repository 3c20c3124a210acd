"""Plans, progress and proofs as lines for people."""

import json
import time
from collections.abc import Sequence
from typing import Any

from playhead.grammar.instant import show_ms
from playhead.ledger import Entry
from playhead.plan import Plan
from playhead.proof import Proof
from playhead.replay.planner import shown_span
from playhead.request import Request
from playhead.standby.history import ListedRun

_SHOWN_APART = frozenset(
    """source target span lateness_ms read_on filter decode where select pace on_error""".split()  # noqa: SIM905
)
_MOST_PARTITIONS = 16
_MOST_WIDE = 160


def plan_lines(plan: Plan) -> list[str]:
    """Return the lines of a plan: what will be done, and why it is safe."""
    request, estimate = plan.request, plan.estimate
    ends = f"{request.source_endpoint.shown()} → {request.target_endpoint.shown()}"
    lines = [
        f"replay {plan.replay_id}: {ends}",
        f"  span     {shown_span(plan)}{_reading_on(plan)}",
    ]
    decode = None if request.decode == "json" else request.decode
    asked = {
        "filter": request.filter,
        "decode": decode,
        "where": request.where,
        "select": request.select,
    }
    lines += [f"  {name:<8} {text}" for name, text in asked.items() if text]
    lines += _rule_lines(request)
    lines.append(f"  pace     {request.pace}; records that cannot be written: {request.on_error}")
    lines.append(f"  offsets  {plan.planned:,} in {len(plan.places())} partitions")
    lines += _partition_lines(plan)
    lines.append(f"  estimate {_estimate(estimate.records, estimate.size_bytes, estimate.seconds)}")
    lines.append(f"           from {estimate.based_on}")
    lines += [f"  creates  {each}" for each in plan.target.creates]
    lines += [f"  {note.weight:<8} {note.text}" for note in plan.notes]
    return lines


def _rule_lines(request: Request) -> list[str]:
    """Return every option of the request, so that a person who confirms another one's plan sees all of them."""
    return [
        f"  {name.replace('_', '-'):<8} {_rule(value)}"
        for name, value in request.said().items()
        if name not in _SHOWN_APART
    ]


def _rule(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(value)
    return "yes" if value is True else str(value)


def _reading_on(plan: Plan) -> str:
    if plan.to_ms is None:
        return ""
    asked = plan.request.spec.read_on
    if asked.is_to_end:
        return ", then to the end of the log for late records"
    lateness_ms = plan.request.lateness_ms if asked.fixed_ms is None else asked.fixed_ms
    return f", then {lateness_ms / 1000:g} s more for late records"


def _partition_lines(plan: Plan) -> list[str]:
    shown = [each for each in plan.partitions if each.planned][:_MOST_PARTITIONS]
    lines = [
        f"           {each.topic}:{each.partition}:{each.from_offset}-{each.to_offset}"
        f"  ({each.planned:,})"
        for each in shown
    ]
    hidden = len(plan.partitions) - len(shown)
    return [*lines, f"           and {hidden} more partitions, or empty ones"] if hidden else lines


def sample_lines(plan: Plan) -> list[str]:
    """Return the first and last records as the target will store them."""
    if not plan.samples:
        return ["  samples  none: the span has no records"]
    texts = [json.dumps(dict(row), default=str, ensure_ascii=False) for row in plan.samples]
    cut = [text if len(text) <= _MOST_WIDE else text[: _MOST_WIDE - 1] + "…" for text in texts]
    return [
        "  samples  the first and the last record, as the target would store them",
        *(f"           {t}" for t in cut),
    ]


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


def _estimate(records: int, size_bytes: int | None, seconds: float | None) -> str:
    parts = [f"up to {records:,} records"]
    if size_bytes is not None:
        parts.append(f"{size_bytes / 1e6:,.1f} MB in the log")
    if seconds is not None:
        parts.append(f"{seconds:,.0f} s" if seconds >= 1 else "under a second")
    return ", ".join(parts)


def proof_lines(proof: Proof) -> list[str]:
    """Return the verdict and the lines beside it."""
    lines = [proof.verdict()]
    if proof.details:
        told = ", ".join(
            f"{count:,} {name.replace('_', ' ')}" for name, count in proof.details.items()
        )
        lines.append(f"  target   {told}")
    lines += [f"  {note.weight:<8} {note.text}" for note in proof.notes]
    if proof.took is not None and proof.took.records:
        rate = proof.took.as_document()["records_per_second"]
        lines.append(
            f"  took     {proof.took.wall_s:.1f} s, of which the tasks ran {proof.took.run_s:.1f} s: "
            f"{proof.took.records:,} records" + (f", {rate:,} a second" if rate else "")
        )
    if proof.pace is not None:
        lines.append(
            f"  pace     {', '.join(f'{key} {value}' for key, value in proof.pace.items())}"
        )
    taken = "; ".join(f"{whom}: {what}" for whom, what in proof.evidence.items())
    lines.append(f"  evidence {taken}")
    bad = [each for each in proof.partitions if not each.adds_up]
    lines += [
        f"  WRONG    {each.topic}:{each.partition}: planned {each.planned:,}, missing {each.missing:,}, "
        f"twice {each.duplicate:,}, not planned {each.foreign:,}, unexplained {each.unexplained:,}"
        for each in bad[:_MOST_PARTITIONS]
    ]
    return lines


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

"""Plans and proofs as people read them: lines, and HTML for notebooks."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from playhead.grammar.instant import show_ms
from playhead.printable import indented, one_line

if TYPE_CHECKING:
    from playhead.plan import PartitionPlan, Plan
    from playhead.proof import PartitionProof, Proof
    from playhead.request import Request

_SHOWN_APART = frozenset(
    """source target span lateness_ms read_on filter decode where select pace on_error""".split()  # noqa: SIM905
)
_MOST_PARTITIONS = 16
_DELAYS = {"half": "p50_us", "99 %": "p99_us", "all": "max_us"}
_LEAST_WIDE, _MOST_WIDE = 40, 160
_INDENT = " " * 11


def plan_lines(plan: "Plan") -> list[str]:
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
    lines.append(f"  offsets  {plan.planned:,} in {_count(len(plan.places()), 'partition')}")
    lines += _partition_lines(plan)
    lines.append(f"  estimate {_estimate(estimate.records, estimate.size_bytes, estimate.seconds)}")
    lines.append(f"           from {estimate.based_on}")
    lines += [f"  creates  {each}" for each in plan.target.creates]
    lines += [f"  {note.weight:<8} {note.text}" for note in plan.notes]
    return lines


def _rule_lines(request: "Request") -> list[str]:
    """Return every option of the request, so that a person who confirms another person's plan sees all of them."""
    return [
        f"  {name.replace('_', '-'):<8} {_rule(value)}"
        for name, value in request.said().items()
        if name not in _SHOWN_APART
    ]


def _rule(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(value)
    return "yes" if value is True else str(value)


def _reading_on(plan: "Plan") -> str:
    if plan.to_ms is None:
        return ""
    asked = plan.request.spec.read_on
    if asked.is_to_end:
        return ", then to the end of the log for late records"
    lateness_ms = plan.request.lateness_ms if asked.fixed_ms is None else asked.fixed_ms
    return f", then {lateness_ms / 1000:g} s more for late records"


def _partition_lines(plan: "Plan") -> list[str]:
    shown = [each for each in plan.partitions if each.planned][:_MOST_PARTITIONS]
    lines = [
        f"           {each.topic}:{each.partition}:{each.from_offset}-{each.to_offset}"
        f"  ({each.planned:,})"
        for each in shown
    ]
    if hidden := sum(1 for each in plan.partitions if each.planned) - len(shown):
        lines.append(f"           and {_count(hidden, 'more partition')}")
    if empty := sum(1 for each in plan.partitions if not each.planned):
        lines.append(f"           {_count(empty, 'partition')} without offsets of the span")
    return lines


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def shown_span(plan: "Plan") -> str:
    """Return the resolved times of a plan as text; offsets that were named are listed in its partitions."""
    # Without parsing: a plan is shown, too, if its request is invalid.
    if plan.from_ms is None and plan.to_ms is None and ":" in plan.request.span:
        return "the offsets that were named"
    start = show_ms(plan.from_ms) if plan.from_ms is not None else "start"
    end = show_ms(plan.to_ms) if plan.to_ms is not None else "end"
    return f"[{start}, {end})"


def sample_lines(plan: "Plan", width: int = _MOST_WIDE) -> list[str]:
    """Return the first and last records as the target will store them, in lines of this width."""
    if not plan.samples:
        return [f"  samples  none: {_without_samples(plan)}"]
    # Values first: a line may be cut behind them.
    rows = [
        {n: row[n] for n in sorted(row, key=lambda n: n.startswith("_"))} for row in plan.samples
    ]
    texts = [json.dumps(row, default=str, ensure_ascii=False) for row in rows]
    most = max(_LEAST_WIDE, width - len(_INDENT))
    cut = [text if len(text) <= most else text[: most - 1] + "…" for text in texts]
    return [
        "  samples  the first and the last records, as the target would store them",
        *(f"{_INDENT}{t}" for t in cut),
    ]


def _without_samples(plan: "Plan") -> str:
    request = plan.request
    filters = [f"--{name}" for name in ("filter", "where") if getattr(request, name)]
    if plan.planned and filters:
        return f"none of the sampled records passes {' and '.join(filters)}"
    return "the span has no records"


def _estimate(records: int, size_bytes: int | None, seconds: float | None) -> str:
    parts = [f"up to {records:,} records"]
    if size_bytes is not None:
        parts.append(f"{size_bytes / 1e6:,.1f} MB in the log")
    if seconds is not None:
        parts.append(f"{seconds:,.0f} s" if seconds >= 1 else "under a second")
    return ", ".join(parts)


def proof_lines(proof: "Proof") -> list[str]:
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
        lines.append(f"  pace     {_kept_pace(proof.pace)}")
    taken = "; ".join(f"{whom}: {what}" for whom, what in proof.evidence.items())
    lines.append(f"  evidence {taken}")
    bad = [each for each in proof.partitions if not each.adds_up]
    lines += [
        f"  WRONG    {each.topic}:{each.partition}: planned {each.planned:,}, missing {each.missing:,}, "
        f"twice {each.duplicate:,}, not planned {each.foreign:,}, unexplained {each.unexplained:,}"
        for each in bad[:_MOST_PARTITIONS]
    ]
    return lines


def _kept_pace(pace: Mapping[str, Any]) -> str:
    """Return how well a pace was kept: the rate, and how late or early records were."""
    parts = [str(pace.get("pace"))]
    if not pace.get("records"):
        return f"{parts[0]}: no record was played now"
    wanted, achieved = pace.get("wanted_per_second"), pace.get("achieved_per_second")
    if wanted and achieved:
        parts.append(f"{achieved:,.4g} records/s of {wanted:,.4g} wanted")
    late = [(share, pace.get(key)) for share, key in _DELAYS.items()]
    told = ", ".join(f"{us / 1000:,.3g} ms ({share})" for share, us in late if us is not None)
    parts += [f"late by at most {told}"] if told else []
    parts.append(f"{pace.get('early') or 0:,} early")
    return "; ".join(parts)


def text(lines: Iterable[str]) -> str:
    """Lines for a terminal, where a name or a value can do no harm."""
    return "\n".join(indented(line) for line in lines)


# --- HTML ------------------------------------------------------------------------------------------

_WIDTH, _LEFT, _ROW = 860, 220, 20
_COLOURS = """
    .log { fill: #d0d7de; } .span { fill: #4393e6; } .written { fill: #2da44e; }
    .left-out { fill: #8c959f; } .refused { fill: #bf8700; } .wrong { fill: #cf222e; }
    text { fill: currentColor; font: 12px system-ui, sans-serif; }
"""
_LEFT_OUT = ("filtered", "outside", "absent")
_REFUSED = ("dead", "skipped")
Bar = tuple[str, str, Sequence[tuple[str, float, float]]]
"""The name of a partition, its text, and its parts: a class, a start and an end, as fractions of 1."""


def plan_html(plan: "Plan") -> str:
    """The plan, and where in the log of each partition the span is."""
    planned = [each for each in plan.partitions if each.planned]
    return _html([*plan_lines(plan), *sample_lines(plan)], map(_log, planned[:_MOST_PARTITIONS]))


def proof_html(proof: "Proof") -> str:
    """The proof, and what became of the offsets of each partition."""
    return _html(proof_lines(proof), map(_outcome, proof.partitions[:_MOST_PARTITIONS]))


def _html(lines: Iterable[str], bars: Iterable[Bar]) -> str:
    drawn = [part for row, bar in enumerate(bars) for part in _drawn(row, *bar)]
    height = _ROW * sum(part.startswith("<text") for part in drawn)
    chart = ""
    if drawn:
        chart = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
            f'width="{_WIDTH}" role="img" aria-label="partitions"><style>{_COLOURS}</style>'
            f"{''.join(drawn)}</svg>"
        )
    return f'<div class="playhead"><pre style="white-space: pre-wrap">{escape(text(lines))}</pre>{chart}</div>'


def _drawn(
    row: int, name: str, words: str, parts: Sequence[tuple[str, float, float]]
) -> Iterator[str]:
    top, wide = row * _ROW, _WIDTH - _LEFT
    label = escape(one_line(name))
    yield f'<text x="0" y="{top + 14}">{label}<title>{label}: {escape(words)}</title></text>'
    for kind, begin, end in parts:
        # A part that is there can be seen, however small it is.
        width = max((end - begin) * wide, 1.5)
        x = _LEFT + min(begin * wide, wide - width)
        yield (
            f'<rect class="{kind}" x="{x:.1f}" y="{top + 4}" width="{width:.1f}" height="12">'
            f"<title>{escape(words)}</title></rect>"
        )


def _log(planned: "PartitionPlan") -> Bar:
    begin = min(planned.earliest, planned.from_offset)
    length = max(planned.high_watermark, planned.to_offset) - begin or 1
    span = (planned.from_offset - begin) / length, (planned.to_offset - begin) / length
    words = (
        f"offsets {planned.from_offset:,} to {planned.to_offset:,} of "
        f"{planned.earliest:,} to {planned.high_watermark:,}"
    )
    return f"{planned.topic}:{planned.partition}", words, [("log", 0, 1), ("span", *span)]


def _outcome(proved: "PartitionProof") -> Bar:
    counts = {
        "written": proved.written,
        "left-out": sum(getattr(proved, name) for name in _LEFT_OUT),
        "refused": sum(getattr(proved, name) for name in _REFUSED),
        "wrong": proved.missing + proved.unexplained + proved.duplicate + proved.foreign,
    }
    total, begin, parts = sum(counts.values()) or 1, 0, []
    for kind, count in counts.items():
        if count:
            parts.append((kind, begin / total, (begin + count) / total))
        begin += count
    words = ", ".join(f"{count:,} {kind.replace('-', ' ')}" for kind, count in counts.items())
    return f"{proved.topic}:{proved.partition}", words, parts

"""Renders the report as one HTML page without scripts and external files, in light and dark mode."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

from playhead.printable import printable

_STYLE: Final = """
:root { color-scheme: light dark; --then: #8a8f98; --now: #2f6fdb; --beside: #c98a1b; --bad: #c0392b; }
@media (prefers-color-scheme: dark) { :root { --then: #9aa0aa; --now: #6fa3ff; --beside: #e3b04b; --bad: #ff7b6b; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; font-size: 0.9rem; }
th, td { text-align: left; padding: 0.25rem 1rem 0.25rem 0; border-bottom: 1px solid #8884; vertical-align: top; }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
code { font-size: 0.85rem; overflow-wrap: anywhere; } pre { font-size: 0.85rem; overflow-x: auto; }
h3 { font-size: 1rem; }
.bad { color: var(--bad); } .then { fill: var(--then); } .now { fill: var(--now); }
.beside { fill: var(--beside); }
polyline { fill: none; stroke-width: 1.5; } polyline.then { stroke: var(--then); fill: none; }
polyline.now { stroke: var(--now); fill: none; } polyline.beside { stroke: var(--beside); fill: none; }
svg text { fill: currentColor; font: 12px system-ui, sans-serif; }
.legend span { border-left: 0.8rem solid; padding: 0 1rem 0 0.4rem; }
.legend .then { border-color: var(--then); } .legend .beside { border-color: var(--beside); }
.legend .now { border-color: var(--now); }
"""
_BAR_HEIGHT, _BAR_STEP, _LABELS, _WIDTH = 9, 10, 300, 860
_MOST_BARS = 12
_LEFT, _HEIGHT = 50, 160
_LABEL_LETTERS: Final = 38
_PERCENTS: Final = (50, 95, 99)
_MEANS: Final = {
    "then": "then (on the source)",
    "beside": "the server of --beside",
    "now": "now (on the target)",
}
_COLOURS: Final = {"then": "grey", "beside": "orange", "now": "blue"}


def page_of(report: Mapping[str, Any]) -> str:
    """Return the page for the document of a report."""
    names = ("then", "now") if report["beside"] is None else ("then", "beside", "now")
    tone = "" if report["is_equal"] else ' class="bad"'
    facts = [
        ("statements", f"{report['statements']:,}"),
        ("sessions", f"{report['sessions']:,}"),
        ("order", report["order"]),
        ("seconds", f"{report['seconds']:,}"),
        ("most connections", f"{report['most_connections']:,}"),
        ("played again by the watchdog", f"{report['played_again']:,}"),
    ]
    parts = [
        f"<h1{tone}>{_safe(report['verdict'])}</h1>",
        f"<p>{_safe(report['proof']['verdict'])}</p>",
        _table(("what", "value"), facts),
        "<h2>Statements at once</h2>",
        _curves(report["concurrency"], names),
        "<h2>Latency by query, p95</h2>",
        f'<p class="legend">{"".join(map(_legend, names))}</p>',
        _bars(report["queries"], names),
        _table(
            (
                "query",
                "calls",
                *(f"p{percent} {name}, ms" for percent in _PERCENTS for name in names),
            ),
            [_query_cells(row, names) for row in report["queries"]],
        ),
        "<h2>Errors that differ</h2>",
        _table(
            ("count", "then", "now", "query"),
            [(row["count"], row["then"], row["now"], row["query"]) for row in report["errors"]],
        ),
        "<h2>Not played</h2>",
        _table(("count", "why"), [(row["count"], row["why"]) for row in report["skipped"]]),
    ]
    if report["schedule"]:
        parts += [
            "<h2>Schedule</h2>",
            _table(("figure", "value"), sorted(report["schedule"].items())),
        ]
    if report["beside"] is not None:
        parts += _beside(report["beside"])
    for row in report["plans"]:
        parts += _plans(row)
    if report["in_doubt"]:
        parts += [
            "<h2>In doubt</h2>",
            _table(("statement",), [(each,) for each in report["in_doubt"]]),
        ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>Query replay</title>'
        f"<style>{_STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _beside(beside: Mapping[str, Any]) -> list[str]:
    counts = ("compared", "differing", "unknown", "canceled", "seconds")
    shown = ("count", "what", "beside", "target", "query", "statement")
    return [
        "<h2>Answers, compared with the server of --beside</h2>",
        _table(("what", "value"), [(name, beside[name]) for name in counts]),
        _table(
            ("count", "differ in", "beside", "now", "query", "first"),
            [tuple(each[name] for name in shown) for each in beside["differences"]],
        ),
    ]


def _plans(row: Mapping[str, Any]) -> list[str]:
    """Return the query plans of a query that became slower."""
    shown = [(name, row[name]) for name in ("beside", "target") if name in row]
    return [
        f"<h2>Plan of what became {row['slower']} times slower</h2>",
        f"<p><code>{_safe(row['query'])}</code></p>",
        *(f"<h3>{name}</h3><pre>{_safe(plan)}</pre>" for name, plan in shown),
    ]


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _query_cells(row: Mapping[str, Any], names: Sequence[str]) -> tuple[object, ...]:
    times = [row[f"{name}_p{percent}_us"] for percent in _PERCENTS for name in names]
    return (row["query"], row["calls"], *map(_ms, times))


def _legend(name: str) -> str:
    return f'<span class="{name}">{_MEANS[name]}</span>'


def _ms(us: int | None) -> float | str:
    return "" if us is None else us / 1_000


def _safe(text: str) -> str:
    """Return a text for HTML; direction marks and controls become escapes, as on a terminal."""
    return escape(printable(text))


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    if not rows:
        return "<p>None.</p>"
    head = "".join(f"<th>{_safe(name)}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if isinstance(value, int | float):
        return f'<td class="n">{value:,{"" if isinstance(value, int) else ".2f"}}</td>'
    return f"<td><code>{_safe(str(value))}</code></td>"


def _shortened(text: str) -> str:
    return text if len(text) <= _LABEL_LETTERS else text[: _LABEL_LETTERS - 1] + "…"


def _bars(queries: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """Draw a bar for each name, for each of the first queries."""
    rows = [row for row in queries if row["now_p95_us"] is not None][:_MOST_BARS]
    longest = max((row[f"{name}_p95_us"] or 0 for row in rows for name in names), default=0)
    if not longest:
        return "<p>None.</p>"
    row_height = _BAR_STEP * (len(names) + 1)
    drawn = []
    for at, row in enumerate(rows):
        top = at * row_height
        drawn.append(
            f'<text x="0" y="{top + 15}">{_safe(_shortened(printable(row["query"])))}</text>'
        )
        for number, name in enumerate(names):
            us = row[f"{name}_p95_us"]
            if us is not None:
                width = max(1, round((_WIDTH - _LABELS) * us / longest))
                place = f'x="{_LABELS}" y="{top + 2 + number * _BAR_STEP}" width="{width}" height="{_BAR_HEIGHT}"'
                drawn.append(
                    f'<rect class="{name}" {place}><title>{name} {us / 1_000:,.2f} ms</title></rect>'
                )
    height = len(rows) * row_height
    label = f"p95 of each query: {_listed([f'{name} in {_COLOURS[name]}' for name in names])}"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" width="100%" role="img" aria-label="{label}">'
        + "".join(drawn)
        + "</svg>"
    )


def _curves(concurrency: Mapping[str, Any], names: Sequence[str]) -> str:
    """Draw the number of statements that ran at once, from the first to the last one of each server."""
    shown = {name: concurrency[name] for name in names if name in concurrency}
    most = max((max(each["statements"]) for each in shown.values()), default=0)
    if not most:
        return "<p>None.</p>"
    drawn, said = [], []
    for name, each in shown.items():
        counts = each["statements"]
        points = (
            f"{_LEFT + (_WIDTH - _LEFT) * (at + 0.5) / len(counts):.1f},{_HEIGHT * (1 - count / most):.1f}"
            for at, count in enumerate(counts)
        )
        drawn.append(f'<polyline class="{name}" points="{" ".join(points)}"/>')
        seconds = len(counts) * each["interval_us"] / 1e6
        said.append(f"{name} over {seconds:,.1f} s, in steps of {each['interval_us'] / 1e6:g} s")
    label = f"statements at once: {_listed([f'{n} in {_COLOURS[n]}' for n in shown])}"
    return (
        f'<p class="legend">{"".join(map(_legend, shown))}</p>'
        f'<svg viewBox="0 -8 {_WIDTH} {_HEIGHT + 16}" width="100%" role="img" aria-label="{label}">'
        f'<text x="0" y="4">{most:g}</text><text x="0" y="{_HEIGHT + 4}">0</text>{"".join(drawn)}</svg>'
        f"<p>{'; '.join(said)}</p>"
    )

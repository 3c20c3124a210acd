"""Draws a timeline as SVG that is readable on light and dark pages and contains only text and shapes."""

import re
from collections.abc import Iterator, Sequence
from html import escape

from playhead.grammar.local_time import local_times
from playhead.grammar.zone import UTC
from playhead.timeline.timeline import Bucket, labels

_WIDTH, _HEIGHT = 860, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 62, 40
_TICKS = 5
# Not allowed in XML, in any spelling.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_STYLE = """
    .page { fill: #ffffff; stroke: #d0d7de; }
    text { fill: #1f2328; font-size: 13px; }
    .small { font-size: 12px; fill: #59636e; }
    .strong { font-size: 15px; font-weight: 600; }
    .there { fill: #4393e6; }
    .missing { fill: #fff1e5; stroke: #bc4c00; stroke-width: 1; }
    .gap { fill: #bc4c00; }
    .line { stroke: #59636e; }
    @media (prefers-color-scheme: dark) {
      .page { fill: #0d1117; stroke: #3d444d; }
      text { fill: #f0f6fc; }
      .small { fill: #9198a1; }
      .there { fill: #1f6feb; }
      .missing { fill: #2e1a05; stroke: #f0883e; }
      .gap { fill: #f0883e; }
      .line { stroke: #9198a1; }
    }
"""


def picture(
    title: str, caption: str, buckets: Sequence[Bucket], *, absent_from: str = "", zone: str = UTC
) -> str:
    """Return the SVG file, with times of the zone.

    With `absent_from`, missing records are highlighted on top of each column.
    """
    caption = local_times(caption, zone)
    legend = _legend(buckets, absent_from) if absent_from else []
    parts = [*_columns(buckets), *_axis(buckets, zone), *legend]
    body = "\n".join(f"  {part}" for part in parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        'aria-labelledby="title desc" '
        "font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif\">\n"
        f'  <title id="title">{_text(title)}</title>\n'
        f'  <desc id="desc">{_text(caption)}</desc>\n'
        f"  <style>{_STYLE}  </style>\n"
        f'  <rect class="page" x="0.5" y="0.5" width="{_WIDTH - 1}" height="{_HEIGHT - 1}" rx="8"/>\n'
        f'  <text class="strong" x="20" y="28">{_text(title)}</text>\n'
        f'  <text class="small" x="20" y="47">{_text(caption)}</text>\n'
        f"{body}\n</svg>\n"
    )


def _text(text: str) -> str:
    return escape(_FORBIDDEN.sub("\ufffd", text))


def _columns(buckets: Sequence[Bucket]) -> Iterator[str]:
    most = max((each.offsets for each in buckets), default=0) or 1
    width = (_WIDTH - _LEFT - _RIGHT) / len(buckets)
    floor = _HEIGHT - _BOTTOM
    for index, each in enumerate(buckets):
        x, missing = _LEFT + index * width, min(each.missing, each.offsets)
        there = _height(each.offsets - missing, most)
        bar = width * 0.86 if width > 3 else width
        if there:
            yield _box("there", x, floor - there, bar, there)
        if missing:
            high = max(_height(missing, most), 2.0)
            yield _box("missing", x, floor - there - high, bar, high)
            yield _box("gap", x, floor + 2, width, 4)


def _box(kind: str, x: float, y: float, width: float, height: float) -> str:
    sizes = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect class="{kind}" {sizes}/>'


def _height(count: int, most: int) -> float:
    return count * (_HEIGHT - _TOP - _BOTTOM) / most


def _axis(buckets: Sequence[Bucket], zone: str) -> Iterator[str]:
    floor, end = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    most = max((each.offsets for each in buckets), default=0)
    yield f'<line class="line" x1="{_LEFT}" y1="{floor}.5" x2="{end}" y2="{floor}.5"/>'
    yield f'<text class="small" x="{_LEFT - 8}" y="{_TOP + 8}" text-anchor="end">{most:,}</text>'
    yield f'<text class="small" x="{_LEFT - 8}" y="{floor}" text-anchor="end">0</text>'
    first, last = buckets[0].from_ms, buckets[-1].to_ms
    instants = [first + (last - first) * index // _TICKS for index in range(_TICKS + 1)]
    for index, text in enumerate(labels(instants, zone)):
        x = _LEFT + (end - _LEFT) * index // _TICKS
        anchor = "start" if index == 0 else "end" if index == _TICKS else "middle"
        yield f'<text class="small" x="{x}" y="{floor + 24}" text-anchor="{anchor}">{text}</text>'


def _legend(buckets: Sequence[Bucket], absent_from: str) -> list[str]:
    missing = sum(each.missing for each in buckets)
    if not missing:
        said = f"0 missing in {_text(absent_from)}"
        return [f'<text x="{_WIDTH - 20}" y="28" text-anchor="end">{said}</text>']
    said = f"{missing:,} not in {_text(absent_from)}"
    return [f'<text x="{_WIDTH - 20}" y="28" text-anchor="end">{said}</text>']

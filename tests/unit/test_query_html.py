"""The HTML report shows texts of others as text: nothing of them is markup, or reorders a page."""

from pathlib import Path
from typing import Any

from playhead.queries.html_report import page_of

CURVE = {"interval_us": 1_000, "statements": [0.5, 2.0, 0.0]}
FOREIGN = "'><script>x</script>\x1b]0;x\x07\u202eevil\0\x9b\ud800"


def _report(text: str) -> dict[str, Any]:
    times = {f"{name}_p{p}_us": 3 for name in ("then", "now", "beside") for p in (50, 95, 99)}
    difference = dict.fromkeys(("what", "beside", "target", "query", "statement"), text)
    beside = {
        "compared": 1, "differing": 1, "unknown": 0, "canceled": 0, "seconds": text,
        "differences": [{"count": 1} | difference],
    }  # fmt: skip
    return {
        "verdict": text, "is_equal": False, "statements": 1, "sessions": 1, "order": text, "seconds": 1.0,
        "most_connections": 1, "played_again": 1, "proof": {"verdict": text}, "beside": beside,
        "queries": [{"query": text, "calls": 1} | times],
        "errors": [{"count": 1, "then": text, "now": text, "query": text}],
        "concurrency": {"then": CURVE, "now": CURVE, "beside": CURVE},
        "skipped": [{"count": 1, "why": text}], "schedule": {text: text},
        "plans": [{"slower": 3.5, "query": text, "beside": text, "target": text}], "in_doubt": [text],
    }  # fmt: skip


def test_nothing_of_a_foreign_text_is_markup_or_reorders_the_page(tmp_path: Path) -> None:
    page = page_of(_report(FOREIGN))
    assert "<script" not in page
    assert not set(page) & set("\x1b\x07\u202e\0\x9b\ud800")
    assert "\\u202eevil" in page
    (tmp_path / "page.html").write_text(page, encoding="utf-8")


def test_texts_of_every_script_stay() -> None:
    assert "SELECT 'Ångström — 東京'".replace("'", "&#x27;") in page_of(
        _report("SELECT 'Ångström — 東京'")
    )


def test_statements_at_once_are_drawn_for_each_server() -> None:
    page = page_of(_report("") | {"concurrency": {"now": CURVE}})
    assert page.count("<polyline") == 1
    assert 'class="now" points="185.0,120.0 455.0,0.0 725.0,160.0"' in page
    assert "now over 0.0 s, in steps of 0.001 s" in page
    assert "<polyline" not in page_of(_report("") | {"concurrency": {}})

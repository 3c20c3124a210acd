"""The verdict of a replay of queries claims no more than the order that was kept."""

from types import SimpleNamespace
from typing import Any

import pytest

from playhead.queries import report


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ("commit", "equal: there was no statement to play"),
        ("strict", "equal: there was no statement to play"),
        ("session", "equal, but the tables can differ: there was no statement to play"),
    ],
)
def test_without_an_order_between_sessions_the_tables_can_differ(
    order: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "_counted", lambda _: [])
    outcome: Any = SimpleNamespace(
        is_divergent=False,
        missing=0,
        is_idle=False,
        count=lambda _: 0,
        beside=None,
        rules=SimpleNamespace(order=order),
    )
    assert report.verdict(outcome) == said

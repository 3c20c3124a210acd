"""Marks that somebody else has written: every user of the target may write into their table."""

import pytest

from tests.query_days import Day
from tests.sandbox.test_queries_hostile import (  # noqa: F401  fixtures are used by their names
    day,
    inserts,
    servers,
)


@pytest.mark.parametrize("said", ["x", "1:", "1:999", "-", f"{'9' * 5000}:1"])
def test_a_mark_that_says_nothing_is_an_error_that_names_it(day: Day, said: str) -> None:  # noqa: F811
    log = inserts(day)
    assert day.replay(log=log, PLAYHEAD_ABORT_AT="queries.sent#4").code != 0
    day.on(
        day.target,
        "INSERT INTO playhead_ledger.marks SELECT run, session, line, is_before, "
        f"'{said}' FROM playhead_ledger.marks LIMIT 1",
    )
    after = day.replay(log=log)
    assert after.code == 1
    assert "cannot be read" in after.said
    assert "fault of Playhead" not in after.said

"""What is followed: a topic, up to no end, on one server."""

from typing import Any

import pytest

from playhead.cli.queries.replay import _follows
from playhead.endpoint import Endpoint
from playhead.errors import UsageError

TOPIC, FILES = Endpoint.parse("kafka:log"), Endpoint.parse("csvlog:/log")
NOTHING: dict[str, Any] = {"follow": None, "topic": None}


@pytest.mark.parametrize(
    ("given", "follows"),
    [
        ({}, False),
        ({"follow": True}, True),
        ({"topic": "log"}, True),
        ({"topic": "log", "follow": False}, False),
        ({"topic": "log", "to": "12:00"}, False),
        ({"topic": "log", "beside": "postgresql://b/app"}, False),
    ],
)
def test_the_form_of_the_older_tool_follows(given: dict[str, Any], follows: bool) -> None:
    assert _follows(NOTHING | given, TOPIC) is follows


def test_a_plan_does_not_follow() -> None:
    assert not _follows({"topic": "log"}, TOPIC)


@pytest.mark.parametrize("option", ["to", "for_", "offsets", "beside"])
def test_what_does_not_go_with_it_is_refused(option: str) -> None:
    with pytest.raises(UsageError, match="--follow and --.* contradict each other"):
        _follows(NOTHING | {"follow": True, option: "1h"}, TOPIC)


def test_files_are_shipped_first() -> None:
    with pytest.raises(UsageError, match="--follow needs a topic as the source"):
        _follows(NOTHING | {"follow": True}, FILES)

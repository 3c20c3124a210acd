"""A request survives a file, and one that somebody has edited is refused where it is wrong."""

import json

import pytest

from playhead.endpoint import Endpoint
from playhead.request import Request
from tests.unit.replaying import request

FULL = request(
    span="-2h..now", lateness_ms=0, where="value:car = 44", select="key, value", pace="2x",
    max_gap_ms=5_000, key=("car", "ts"), on_conflict="newer", version_column="ts",
    tombstones="delete", on_error="dlq:dead", decode="json", create=True,
    headers=("drop:a", "add:b=c"), provenance=True, partition="key", redrive=True, typed=True,
)  # fmt: skip


@pytest.mark.parametrize("asked", [request(), FULL])
def test_it_comes_back_from_json_as_it_was(asked):
    assert Request.from_document(json.loads(json.dumps(asked.as_document()))) == asked


def test_what_a_document_does_not_say_is_the_default():
    assert Request.from_document({"source": "kafka:laps", "target": "kafka:copy"}) == request()


def test_its_ends_are_endpoints():
    assert request().source_endpoint == Endpoint("kafka", "laps")
    assert request(target="postgres:s.t").target_endpoint == Endpoint("postgres", "s.t")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sorce": "kafka:a"}, "unknown sorce"),
        ({"key": "car"}, "key is 'car'; needed: a list of texts"),
        ({"headers": [1]}, "headers is .*; needed: a list of texts"),
        ({"lateness_ms": "600000"}, "lateness_ms is '600000'; needed: a number of milliseconds"),
        ({"lateness_ms": -1}, "lateness_ms is -1"),
        ({"lateness_ms": None}, "lateness_ms is None"),
        ({"max_gap_ms": 1.5}, "max_gap_ms is 1.5"),
        ({"create": "no"}, "create is 'no'; needed: true or false"),
        ({"source": 5}, "source is 5; needed: a text"),
        ({"pace": None}, "pace is None; needed: a text"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(changes, reason):
    with pytest.raises(ValueError, match=reason):
        Request.from_document({**request().as_document(), **changes})

"""A request survives a file, and one that somebody has edited is refused where it is wrong."""

import json
from dataclasses import fields

import pytest

from playhead import Replay
from playhead.account import ErrorRule
from playhead.endpoint import Endpoint
from playhead.errors import BadValue, UnknownKey, UsageError
from playhead.pace import Pace
from playhead.request import ReplaySpec, Request
from playhead.span import Span
from playhead.time_span import ReadOn
from tests.unit.replaying import request

FULL = request(
    span="-2h..now", lateness_ms=0, where="value:car = 44", select="key, value", pace="2x",
    max_gap_ms=5_000, key=("car", "ts"), on_conflict="newer", version_column="ts",
    tombstones="delete", on_error="dlq:dead", decode="json", create=True, extra_fields="fail",
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


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"key": "id"}, "key is 'id'; needed: a list of texts"),
        ({"headers": "drop:a"}, "headers is 'drop:a'"),
        ({"topic_map": "a=b"}, "topic_map is 'a=b'"),
        ({"where": 5}, "where is 5; needed: a text"),
        ({"create": "yes"}, "create is 'yes'; needed: true or false"),
        ({"lateness_ms": 1.5}, "lateness_ms is 1.5"),
        ({"source": None}, "source is None; needed: a text"),
    ],
)
def test_a_value_of_another_kind_is_refused_where_it_enters(changes, reason):
    with pytest.raises(BadValue, match=reason):
        request(**changes)


def test_a_list_of_texts_may_be_any_sequence():
    assert request(key=["car", "ts"]).key == ("car", "ts")


@pytest.mark.parametrize(
    "changes",
    [
        {"on_conflict": "replace"},
        {"tombstones": "keep"},
        {"decode": "yaml"},
        {"partition": "hash"},
        {"times": "mine"},
    ],
)
def test_a_word_that_no_rule_knows_is_refused_before_anything_is_planned(changes):
    [(name, found)] = changes.items()
    with pytest.raises(BadValue, match=f"--{name.replace('_', '-')} is '{found}'; needed: "):
        _ = request(**changes).spec


def test_an_option_of_python_that_does_not_exist_is_refused_by_name():
    with pytest.raises(UnknownKey, match="unknown key 'keys'") as caught:
        Replay(Endpoint("kafka", "a"), Endpoint("postgres", "b"), keys=("id",))
    assert caught.value.nearest[0] == "key"


def test_the_rules_of_python_are_those_of_the_command_line():
    ends = Endpoint("kafka", "a"), Endpoint("postgres", "b")
    same = {"where": "value:a = 1", "create": True}
    said = Replay(*ends, key="id, car", lateness_ms="2m", headers="drop:a", **same)
    meant = Replay(*ends, key=("id", "car"), lateness_ms=120_000, headers=("drop:a",), **same)
    assert said.request() == meant.request()
    assert (said.request().key, said.request().lateness_ms) == (("id", "car"), 120_000)
    with pytest.raises(BadValue, match="--on-conflict is 'replace'; needed: ignore, newer"):
        Replay(*ends, on_conflict="replace")
    with pytest.raises(UnknownKey, match="unknown key 'pace'"):
        Replay(*ends, rules={"pace": "2x"})
    with pytest.raises(BadValue, match="key is 7"):
        Replay(*ends, key=7).request()


# --- what it means

# A value for each option.
OTHER = {
    **FULL.as_document(),
    "source": "kafka:other", "target": "kafka:elsewhere", "decode": "avro", "read_on": "end",
    "filter": "(path IS /laps)", "times": "pair", "topic_map": ("laps=cars",), "max_gap_ms": None,
}  # fmt: skip


def test_what_it_means_is_read_once_and_as_values():
    spec = FULL.spec
    assert FULL.spec is spec
    assert spec.span == Span.of("-2h", "now")
    assert spec.pace == Pace.speed(2, max_gap_ms=5_000)
    assert spec.on_error == ErrorRule("dlq", "dead")
    assert spec.read_on == ReadOn()
    assert spec.is_transformed
    assert spec.table.key == ("car", "ts")
    assert spec.topic.headers == ("drop:a", "add:b=c")


@pytest.mark.parametrize("option", OTHER)
def test_no_option_is_left_out_of_what_it_means(option):
    assert set(OTHER) == {each.name for each in fields(Request)}
    plain = request(pace="1x").spec if option == "max_gap_ms" else request().spec
    changed = {"pace": "1x", "max_gap_ms": 5} if option == "max_gap_ms" else {option: OTHER[option]}
    assert isinstance(plain, ReplaySpec)
    assert request(**changed).spec != plain


@pytest.mark.parametrize("pace", ["1.0x", "2X", "0.50x", "60/m"])
def test_texts_stay_as_they_were_written(pace):
    asked = request(pace=pace)
    assert asked.spec.pace == Pace.parse(pace)
    assert asked.as_document()["pace"] == asked.said()["pace"] == pace


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"span": "tomorrow"}, "the span"),
        ({"pace": "fast"}, "--pace"),
        ({"max_gap_ms": 5}, "--max-gap needs a speed, but the pace is max"),
        ({"where": "value:"}, "--where"),
        ({"on_error": "dlq:"}, "--on-error"),
        ({"read_on": "later"}, "--read-on"),
        ({"topic_map": ("a",)}, "--topic-map"),
    ],
)
def test_a_saved_request_that_means_nothing_can_be_shown_and_not_run(changes, reason):
    """A text that an earlier version took is still in journals; a list of them shows it."""
    saved = Request.from_document({**request().as_document(), **changes})
    assert saved.target_endpoint.shown() == "kafka:copy"
    with pytest.raises(UsageError, match=reason):
        _ = saved.spec


def test_the_text_of_a_span_names_its_zone():
    """So it means the same in a plan that is run where another zone is configured."""
    for options in (("12:30", "13:30"), ("2021-08-04T12:30", None), ("2021-08-04", "now")):
        span = Span.of(*options, timezone="Asia/Kolkata")
        assert request(span=str(span)).spec.span == span

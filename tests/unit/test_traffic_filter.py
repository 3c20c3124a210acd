"""The filter language: what each form means, where an error points, and that no expression hangs a run."""

import json
import time
import tracemalloc
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.grammar.cursor import NotUnderstood
from playhead.traffic.filter.parse import TrafficFilter
from playhead.traffic.filter.regex import Pattern
from playhead.traffic.pair import instant_ns
from tests.capturing import SNAPSHOT

PAIRS = [json.loads(line) for line in SNAPSHOT.read_text().splitlines()]
BODY = "PG9yZGVyIHhtbG5zPSJ1cm46eCI+PHNrdSBpZD0iNyI+QS03PC9za3U+PC9vcmRlcj4="


def kept(text: str) -> list[int]:
    """Which of the sample's seven pairs a filter keeps."""
    read = TrafficFilter.parse(text, snapshot="s1")
    again = TrafficFilter.parse(str(read), snapshot="s1")
    found = [index for index, pair in enumerate(PAIRS) if read.matches(pair)]
    assert found == [index for index, pair in enumerate(PAIRS) if again.matches(pair)], str(read)
    return found


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ('(command IS "Fetch")', [2, 3, 4]),
        ("(command IS Fetch)", [2, 3, 4]),
        ("command IS Fetch", [2, 3, 4]),
        ('(command NOT "Fetch")', [0, 1, 5, 6]),
        ("(command IS NOT Fetch)", [0, 1, 5, 6]),
        ('(location CONTAINS "orders")', [0]),
        ('(location NOT CONTAINS "N/A")', [0, 6]),
        (r'(location REGEX "^\/v1\/")', [0]),
        (r'(location REGEX "qty = qty - \$\d")', [6]),
        ("(direction IS IN) OR (tech IS Postgres)", [0, 6]),
        ("(direction IS OUT) AND (tech IS Kafka) AND (command IS Produce)", [5]),
        ("direction IS IN OR tech IS Kafka AND command IS Produce", [0, 5]),
        ("(direction IS IN OR tech IS Kafka) AND command IS Produce", [5]),
        ("(header[content-type] CONTAINS json)", [0]),
        ("(tag[sequence] IS 103)", [2]),
        ("(source IS goproxy)", [0, 1, 2, 3, 4, 5, 6]),
        ("(req_json[sku] IS A-7)", [0]),
        ("(req_json[qty] IS 2)", [0]),
        ('(timerange IS "2026-03-02T10:00:00.02Z" "2026-03-02T10:00:00.71Z")', [1, 2]),
        ('(timerange NOT "2026-03-02T10:00:00.02Z" "2026-03-02T10:00:00.71Z")', [0, 3, 4, 5, 6]),
        ("(uuid IS 44f7a2cc-2045-4fb6-9635-3da8aa7fa903)", [2]),
        ('(uuid IS "RPeizCBFT7aWNT2oqn+pAw==")', [2]),
        ("(networkaddr CONTAINS 5432)", [6]),
        ("(network_address CONTAINS 5432)", [6]),
        ("(status IS 201)", [0]),
        ('(url IS "/v1/orders")', [0]),
        ("(cluster IS lab) AND (namespace IS shop) AND (service IS orders)", [0, 1, 2, 3, 4, 5, 6]),
        ("(l7protocol IS http)", [0]),
        ("(session IS x)", []),
        ("(snapshot IS s1)", [0, 1, 2, 3, 4, 5, 6]),
        ("(sample IS 1/1)", [0, 1, 2, 3, 4, 5, 6]),
        ('(command IS "contains")', []),
        ("(location NOT CONTAINS)", [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_what_is_kept(text, pairs):
    assert kept(text) == pairs


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        ("", 0, "empty"),
        ("   ", 0, "empty"),
        ("(command IS Fetch", 17, "needed ) for the ( at 1"),
        ("(command IS Fetch))", 18, "AND, OR or the end"),
        ("(commnd IS Fetch)", 1, "unknown keyword 'commnd'"),
        ("(command LIKE Fetch)", 9, "needed IS"),
        ("(command IS)", 11, "needs a value"),
        ('(command IS "Fetch)', 12, "not closed"),
        ("(header IS x)", 1, "needs a name in brackets"),
        ("(command[x] IS y)", 8, "takes no brackets"),
        ("(timerange IS yesterday 2023-10-29T04:28:54Z)", 14, "needed an instant"),
        ("(timerange IS 2023-10-29T04:28:54Z)", 34, "needs two instants"),
        ("(timerange CONTAINS x y)", 11, "only IS or NOT"),
        ("(timerange IS 2023-10-29T04:28:54Z 2022-10-29T04:28:54Z)", 35, "before the start"),
        ("(sample IS 5/1)", 11, 'such as "1/5"'),
        ('(command IS a) AND (location REGEX "(?=x)")', 35, "is not valid"),
        (r'(location REGEX "(a)\1")', 16, "is not valid"),
        ("(command IS a) XOR (command IS b)", 15, "AND, OR or the end"),
        ("(command IS a) AND", 18, "needed a keyword"),
        ("(" * 65 + "command IS a", 64, "deep"),
        ('{"conditions": [}', 16, "Expecting"),
        ('{"conditions": []}', 1, "non-empty"),
        ('{"conditions": [{"filters": [{"colour": "red"}]}]}', 30, "unknown field"),
    ],
)
def test_an_error_points_at_the_character(text, at, says):
    with pytest.raises(NotUnderstood, match=".*") as found:
        TrafficFilter.parse(text)
    assert says in found.value.reason
    assert found.value.at == at, found.value


def test_the_form_in_json():
    filters = [{"include": True, "operator": "CONTAINS", "detectedCommand": "etch"}]
    excluded = [
        {
            "operator": "EQUAL",
            "timeRange": {"startTime": "2026-03-02T10:00:00Z", "endTime": "2026-03-02T10:00:01Z"},
        }
    ]
    groups = [{"operator": "OR", "filters": filters}, {"filters": excluded}]
    text = json.dumps({"id": "x", "operator": "AND", "conditions": groups})
    assert kept(text) == [4]
    assert str(TrafficFilter.parse(text)).startswith('(command CONTAINS "etch") AND (timerange NOT')


@pytest.mark.parametrize(
    ("text", "is_kept"),
    [
        ("(req_xml[/order/sku] IS A-7)", True),
        ("(req_xpath[//sku] IS A-7)", True),
        ("(req_xpath[//sku/@id] IS 7)", True),
        ("(req_xml[/order/price] IS A-7)", False),
        ("(req_xml[not [ a path] IS A-7)", False),
    ],
)
def test_bodies_in_xml(text, is_kept):
    assert TrafficFilter.parse(text).matches({"http": {"req": {"bodyBase64": BODY}}}) == is_kept


def test_a_body_that_declares_entities_is_not_read():
    bomb = '<!DOCTYPE a [<!ENTITY b "bbbb">]><a>&b;</a>'
    assert not TrafficFilter.parse("(req_xml[/a] CONTAINS b)").matches(
        {"http": {"req": {"body": bomb}}}
    )


def test_a_hostile_expression_ends_at_once():
    """(a+)+$ takes a backtracking engine longer than anybody lives."""
    pair = {"location": "a" * 200_000 + "b"}
    began = time.process_time()
    assert not TrafficFilter.parse('(location REGEX "^(a+)+$")').matches(pair)
    assert time.process_time() - began < 2


def test_a_sample_is_whole_sessions_and_the_same_again():
    some = TrafficFilter.parse('(sample IS "1/5")')
    sessions = {
        name for name in map(str, range(1_000)) if some.matches({"session": name, "uuid": name})
    }
    assert 120 < len(sessions) < 280
    for name in sessions:
        assert some.matches({"session": name, "uuid": "another"})
    by_pair = TrafficFilter.parse('(sample[rrpair] IS "1/5")')
    pairs = [by_pair.matches({"session": "one", "uuid": str(n)}) for n in range(1_000)]
    assert 120 < sum(pairs) < 280


@given(st.text(alphabet='()"\\ANDORISTcommand[]{}:,x/1 ', max_size=60))
def test_any_text_is_read_or_pointed_into(text):
    try:
        read = TrafficFilter.parse(text)
    except NotUnderstood as exc:
        at = exc.at
    else:
        at = 0
        assert str(TrafficFilter.parse(str(read))) == str(read)
    assert 0 <= at <= len(text)


@given(st.text(max_size=30))
def test_any_value_can_be_quoted(value):
    from playhead.traffic.filter.conditions import quoted

    read = TrafficFilter.parse(f"(location IS {quoted(value)})")
    assert read.matches({"location": value})
    assert not read.matches({"location": value + "x"})


@given(
    st.datetimes(min_value=datetime(1980, 1, 1), max_value=datetime(2100, 1, 1)), st.integers(0, 9)
)
def test_instants_to_the_nanosecond(moment, digits):
    text = f"{moment:%Y-%m-%dT%H:%M:%S}" + (
        f".{moment.microsecond:06}789"[: digits + 1] if digits else ""
    )
    whole = int(moment.replace(tzinfo=UTC, microsecond=0).timestamp()) * 10**9
    part = int((f"{moment.microsecond:06}789"[:digits] or "0").ljust(9, "0"))
    assert instant_ns(text + "Z") == whole + part


def test_long_texts_that_are_all_different_fill_no_memory():
    """A few packed kilobytes of a capture are many megabytes of such texts."""
    pattern = Pattern("zz$")
    tracemalloc.start()
    try:
        found = [pattern.found_in(f"{number}{'a' * 100_000}") for number in range(100)]
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == [False] * 100
    assert kept < 1 << 20
    assert pattern.found_in("a" * 100_000 + "zz")

"""Lines and JSON Lines of records: what one command writes, the other reads back as the same."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as some

from playhead.cli.records import jsonl
from playhead.cli.records.record_format import FormatWriter
from playhead.cli.records.record_lines import Reading, unescaped
from playhead.errors import BadValue
from playhead.kafka.produce.console_lines import FIELDS, BadLine, LineReader, LineWriter, Separators
from playhead.records import Records

bodies = some.none() | some.binary(max_size=12) | some.text(max_size=6).map(str.encode)
names = some.text(max_size=5)
headers = some.lists(some.tuples(names, bodies), max_size=3).map(tuple)
stamps = some.integers(-1, 2**52).filter(bool)


def one(key, value, held, at) -> Records:  # type: ignore[no-untyped-def]
    return Records("t", 2, [7], [at], [0], [key], [value], [held])


@given(bodies, bodies, headers, stamps)
def test_whole_records_travel_byte_for_byte_as_json_lines(key, value, held, at):  # type: ignore[no-untyped-def]
    (line,) = jsonl.lines(one(key, value, held, at), {})
    assert "\n" not in line
    found = Reading(None, partitions=3).record(line.encode() + b"\n", 1)
    assert (found.key, found.value, found.headers) == (key, value, held)
    assert (found.timestamp_ms, found.partition) == (at, 2)


@given(bodies, bodies)
def test_what_was_decoded_stands_beside_and_does_not_count(key, value):  # type: ignore[no-untyped-def]
    (line,) = jsonl.lines(one(key, value, (), 5), {"decoded_value": [{"a": 1}]})
    assert json.loads(line)["decoded_value"] == {"a": 1}
    found = Reading(None, partitions=3).record(line.encode(), 1)
    assert (found.key, found.value) == (key, value)


def test_half_a_character_in_what_was_decoded_is_still_json_and_utf8() -> None:
    (line,) = jsonl.lines(one(None, b"x", (), 5), {"decoded_value": [{"a": "\ud800", "b": "Å"}]})
    assert json.loads(line.encode())["decoded_value"] == {"a": "\ud800", "b": "Å"}


plain = some.binary(max_size=8).filter(lambda b: not set(b) & set(b"\t\n\r,:") and b != b"null")


@given(
    plain | some.none(),
    plain | some.none(),
    some.lists(some.tuples(some.just("h"), plain), min_size=1, max_size=2),
)
def test_lines_read_back_what_lines_show_where_no_separator_is_in_it(key, value, held):  # type: ignore[no-untyped-def]
    marks = Separators(null=b"null")
    fields = ("timestamp", "partition", "headers", "key", "value")
    (line,) = LineWriter(fields, marks).lines(one(key, value, tuple(held), 9), [key], [value])
    reading = Reading(LineReader(fields[:-1], marks), partitions=3)
    found = reading.record(line, 1)
    assert (found.key, found.value, found.headers) == (key, value, tuple(held))
    assert (found.timestamp_ms, found.partition) == (9, 2)


def test_every_field_as_kafkas_consumer_prints_it() -> None:
    records = one(b"k", None, (("a", b"1"), ("b", None)), 1_700_000_000_000)
    theirs = [field for field in FIELDS if field != "time"]
    (line,) = LineWriter(theirs).lines(records, records.keys, records.values)
    wanted = b"t\tCreateTime:1700000000000\tPartition:2\tOffset:7\ta:1,b:null\tk\tnull\n"
    assert line == wanted
    (line,) = LineWriter(("time",)).lines(records, records.keys, records.values)
    assert line == b"2023-11-14T22:13:20.000Z\n"
    records.timestamp_types, records.headers = [-1], [()]
    (line,) = LineWriter(("timestamp", "headers"), end=b"|").lines(records, [None], [None])
    assert line == b"NO_TIMESTAMP\tNO_HEADERS|"


def test_the_first_separator_splits_and_the_value_keeps_the_rest() -> None:
    parts = LineReader(("key",)).read(b"a\tb\tc", 1)
    assert (parts.key, parts.value) == (b"a", b"b\tc")
    assert LineReader().read(b"a\tb", 1).value == b"a\tb"
    assert LineReader(("key",)).read(b"\t", 1).key == b""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"abc", r"line 4: no separator '\\t' after the headers"),
        (b"h:1\tabc", "after the key"),
        (b"h\tk\tv", "header 'h' has no ':'"),
        (b"\xff:1\tk\tv", "is not UTF-8"),
    ],
)
def test_a_line_that_is_no_record_names_its_number(line: bytes, said: str) -> None:
    with pytest.raises(BadLine, match=said):
        LineReader(("headers", "key")).read(line, 4)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 3: not JSON"),
        ("[]", "found an array, needed an object"),
        ("{}", 'no field "value"'),
        ('{"value": {"a": 1}}', "value: found an object"),
        ('{"value": 5}', "value: found a number"),
        ('{"value": {"base64": "%"}}', "value: not base64"),
        ('{"value": {"base64": 5}}', "value: not base64"),
        ('{"value": null, "valeu": 1}', "unknown field 'valeu'"),
        ('{"value": null, "partition": true}', "needed a whole number"),
        ('{"value": null, "partition": 3}', "partition 3 is outside the topic's 0 to 2"),
        ('{"value": null, "partition": -1}', "partition -1"),
        ('{"value": null, "timestamp_ms": "1"}', "timestamp_ms: found '1'"),
        ('{"value": null, "timestamp": "yesterday"}', "timestamp cannot be understood"),
        ('{"value": null, "timestamp": "now"}', "is not a time"),
        ('{"value": null, "headers": {"a": "b"}}', "headers: found an object"),
        ('{"value": null, "headers": [["a"]]}', "needed \\[name, value\\]"),
    ],
)
def test_a_document_that_is_no_record_says_where_and_why(line: str, said: str) -> None:
    with pytest.raises(BadLine, match=said):
        Reading(None, partitions=3).record(line.encode(), 3)


@pytest.mark.parametrize(
    ("text", "ms", "note"),
    [
        (b"1700000000123", 1_700_000_000_123, []),
        (b"CreateTime:1700000000123", 1_700_000_000_123, []),
        (b"LogAppendTime:-1", -1, []),
        (b"2021-08-04T12:30:00+05:30", 1_628_060_400_000, []),
        (b"1700000000", 1_700_000_000_000, ["seconds"]),
        (b"1700000000123456", 1_700_000_000_124, ["microseconds"]),
    ],
)
def test_times_of_lines_and_what_is_said_of_their_unit(
    text: bytes, ms: int, note: list[str]
) -> None:
    reading = Reading(LineReader(("timestamp",)))
    assert reading.record(text + b"\tv", 1).timestamp_ms == ms
    assert [unit for unit in note if unit in " ".join(reading.notes())] == note
    assert len(reading.notes()) == len(note)


@pytest.mark.parametrize("text", [b"170000000012", b"tomorrow", b"2021-13-01"])
def test_a_time_that_is_none_names_its_line(text: bytes) -> None:
    with pytest.raises(BadLine, match="line 9: timestamp cannot be understood"):
        Reading(LineReader(("timestamp",))).record(text + b"\tv", 9)


def test_ends_of_lines() -> None:
    reading = Reading(LineReader())
    assert [reading.record(line, 1).value for line in (b"a\n", b"a\r\n", b"a", b"\n", b"a\rb\n")] == [
        b"a", b"a", b"a", b"", b"a\rb"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("\\t", b"\t"),
        ("a\\\\t", b"a\\t"),
        ("\\x1f", b"\x1f"),
        (":", b":"),
        ("\\q", b"\\q"),
        ("é", "é".encode()),
    ],
)
def test_separators_as_they_are_typed(text: str, meant: bytes) -> None:
    assert unescaped(text) == meant


def test_a_separator_that_is_no_text() -> None:
    assert unescaped(os.fsdecode(b"\xff")) == b"\xff"


def test_an_unknown_sign_of_a_format_lists_every_sign_with_its_meaning() -> None:
    with pytest.raises(BadValue, match="--format is '%q'") as caught:
        FormatWriter.parse("%k %q", Separators())
    told = caught.value.needed.split(", ")
    assert {"%t topic", "%k key", "%s value", "%T timestamp in ms", "%% a percent sign"} <= {*told}
    for each in told:
        FormatWriter.parse(each.split()[0], Separators())

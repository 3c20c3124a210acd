"""Which key and time a record has: paths into JSON, bytes, and times as senders write them."""

import json
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.errors import BadValue
from playhead.grammar.cursor import NotUnderstood
from playhead.ingest.json_path import Unfit, parse_path, show_path, value_at
from playhead.ingest.record_shape import Cut, RecordShape, timestamp_ms

T0 = 1_628_080_200_123
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(
    lambda name: not ('"' in name and "'" in name)
)
STEPS = st.lists(NAMES | st.integers(0, 10**9 - 1), min_size=1, max_size=5).map(tuple)

# --- paths


@given(STEPS)
def test_a_path_that_is_shown_is_read_back(steps) -> None:
    assert parse_path(show_path(steps), where="--key") == steps


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("car", ("car",)),
        ("$.car", ("car",)),
        ("a.b", ("a", "b")),
        ("cars[0].name", ("cars", 0, "name")),
        ("$[1]", (1,)),
        ('$["odd name"].x', ("odd name", "x")),
        ("$['a.b']", ("a.b",)),
        ("größe", ("größe",)),
        ("$.bytes", ("bytes",)),
    ],
)
def test_paths(text: str, steps) -> None:
    assert parse_path(text, where="--key") == steps


@pytest.mark.parametrize(
    ("text", "at"),
    [("", 0), ("$", 0), (".a", 0), ("a..b", 2), ("a.", 2), ("a[", 1), ("a[x]", 1), ("a b", 1), ("a[0]b", 4)],
)  # fmt: skip
def test_what_is_no_path_is_pointed_at(text: str, at: int) -> None:
    with pytest.raises(NotUnderstood) as refused:
        parse_path(text, where="--key")
    assert refused.value.at == at
    assert "--key" in refused.value.message


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({}, "there is no a"),
        ({"a": None}, "a is null"),
        ({"a": {}}, "there is no a.b"),
        ({"a": "text"}, "there is no a.b"),
        ({"a": {"b": []}}, "there is no a.b[0]"),
        ({"a": {"b": {"0": 1}}}, "there is no a.b[0]"),
        ({"a": {"b": "text"}}, "there is no a.b[0]"),
        ({"a": {"b": [None]}}, "a.b[0] is null"),
        ([], "there is no a"),
        (None, "there is no a"),
    ],
)
def test_what_is_not_there_is_named(document, said: str) -> None:
    with pytest.raises(Unfit, match="no key") as refused:
        value_at(document, ("a", "b", 0), "no key")
    assert refused.value.reason == said


# --- times


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1628080200123", T0),
        ("1628080200", 1_628_080_200_000),
        ("1628080200.123", T0),
        ("1628080200.1230001", T0 + 1),
        ("1628080200123.000000000000000001", T0 + 1),
        ("1628080200123000", T0),
        ("1628080200123001", T0 + 1),
        ("1628080200123000000", T0),
        ("2021-08-04T12:30:00.123Z", T0),
        ("2021-08-04 12:30:00,123Z", T0),
        ("2021-08-04T14:30:00.1229999+02:00", T0),
        ("2021-08-04T14:30:00.123[Europe/Berlin]", T0),
        ("2021-08-04T12:30:00", 1_628_080_200_000),
        ("2021-08-04T12:30Z", 1_628_080_200_000),
        ("2021-08-04", 1_628_035_200_000),
    ],
)
def test_times_of_every_spelling(text: str, expected: int) -> None:
    assert timestamp_ms(text, "UTC") == expected


def test_a_time_without_a_zone_is_in_the_one_that_counts() -> None:
    assert timestamp_ms("2021-08-04T14:30:00.123", "Europe/Berlin") == T0
    assert timestamp_ms("2021-08-04T14:30:00.123", "+02:00") == T0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("12345", "found 5 digits"),
        ("0", "found 1 digits"),
        ("0000000000", "which the Kafka client cannot send"),
        ("1970-01-01", "which the Kafka client cannot send"),
        ("1969-12-31T23:59:59Z", "times count from 1970"),
        ("-1628080200123", "needed a unit"),
        ("1.628e9", "needed a time"),
        ("now", "is not a time"),
        ("-2h", "is not a time"),
        ("12:30", "is not a time"),
        ("start", "needed a time"),
        ("2021-02-30T00:00:00Z", "day 30"),
        ("١٦٢٨٠٨٠٢٠٠١٢٣", "needed a time"),
        ("", "found nothing"),
    ],
)
def test_what_is_no_time(text: str, said: str) -> None:
    with pytest.raises(Unfit) as refused:
        timestamp_ms(text, "UTC")
    assert said in refused.value.reason
    assert refused.value.kind == "no time"


@given(
    st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1)),
    st.integers(-14 * 60, 14 * 60),
    st.integers(0, 9),
)
def test_rfc_3339_is_what_the_calendar_says(moment, shift_minutes: int, digits: int) -> None:
    zone = timezone(timedelta(minutes=shift_minutes))
    aware = moment.replace(tzinfo=zone)
    fraction = f"{moment.microsecond * 1000:09}"[:digits]
    text = f"{moment:%Y-%m-%dT%H:%M:%S}" + (f".{fraction}" if digits else "")
    sign, minutes = "-" if shift_minutes < 0 else "+", abs(shift_minutes)
    text += f"{sign}{minutes // 60:02}:{minutes % 60:02}"
    whole = aware.replace(microsecond=0) - datetime(1970, 1, 1, tzinfo=UTC)
    seconds = whole // timedelta(seconds=1) + Fraction(int(fraction or 0), 10 ** len(fraction))
    assert timestamp_ms(text, "UTC") == -(-seconds * 1000 // 1)


@given(st.integers(10**9, 10**10 - 1), st.text("0123456789", max_size=18))
def test_seconds_with_a_fraction_become_the_first_millisecond_not_before(whole, fraction) -> None:
    text = f"{whole}.{fraction}" if fraction else f"{whole}"
    exact = whole + Fraction(int(fraction or 0), 10 ** len(fraction))
    found = timestamp_ms(text, "UTC")
    assert exact * 1000 <= found < exact * 1000 + 1


# --- both


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (b'{"car":"car-07"}', b"car-07"),
        (b' {"car": "x"}\r\n', b"x"),
        (b'{"car":7}', b"7"),
        (b'{"car":7.0}', b"7.0"),
        (b'{"car":123456789012345678901234567890}', b"123456789012345678901234567890"),
        (b'{"car":1e2}', b"1e2"),
        (b'{"car":true}', b"true"),
        (b'{"car":""}', b""),
        ('{"car":"ü"}'.encode(), "ü".encode()),
        (b'{"car":"\\u00fc"}', "ü".encode()),
        (b'{"car":"a","speed":NaN}', b"a"),
        (b'{"car":"a","car":"b"}', b"b"),
    ],
)
def test_keys_are_as_json_has_them(value: bytes, key: bytes) -> None:
    assert RecordShape.parse("car", None, "UTC").of(value, T0) == (key, T0)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b'{"car":"x"} y', "no JSON"),
        (b"\xef\xbb\xbf{}", "no JSON"),
        (b"[" * 60_000, "no JSON"),
        (b'{"a":' * 13_000, "no JSON"),
        (b'{"car":"\xff"}', "not UTF-8"),
        (b"\x00\x01\x02", "no JSON"),
        (b'{"Car":"x"}', "no key"),
        (b'{"car":null}', "no key"),
        (b'{"car":NaN}', "no key"),
        (b'{"car":{}}', "no key"),
        (b'{"car":[1]}', "no key"),
        (b'{"car":"\\ud800"}', "no key"),
        (b'"car"', "no key"),
        (b"7", "no key"),
        (b'{"car":"x"}', "no time"),
        (b'{"car":"x","ts":"soon"}', "no time"),
        (b'{"car":"x","ts":true}', "no time"),
    ],
)
def test_what_is_not_as_it_was_asked_for(value: bytes, kind: str) -> None:
    with pytest.raises(Unfit) as refused:
        RecordShape.parse("car", "ts", "UTC").of(value, T0)
    assert refused.value.kind == kind


def test_a_time_of_the_record_and_a_key_of_its_bytes() -> None:
    shape = RecordShape.parse("bytes:1-3", "ts", "UTC")
    assert shape.of(b'{"ts":1628080200}', T0) == (b'"t', 1_628_080_200_000)
    raw = RecordShape.parse("bytes:0-4", "arrival", "UTC")
    assert raw.of(b"\xff\x00\x01\x02\x03", T0) == (b"\xff\x00\x01\x02", T0)
    with pytest.raises(Unfit, match="it has 3 bytes"):
        raw.of(b"\x00\x01\x02", T0)


@given(st.binary(max_size=50))
def test_raw_bytes_are_looked_into_by_nobody(value: bytes) -> None:
    assert RecordShape().of(value, T0) == (None, T0)


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(10**12, 10**13 - 1))
def test_whatever_json_says_of_a_key_is_the_key(car: str, at_ms: int) -> None:
    value = json.dumps({"x": [1.5, None], "car": car, "ts": at_ms}).encode()
    assert RecordShape.parse("car", "ts", "UTC").of(value, 1) == (car.encode(), at_ms)


@pytest.mark.parametrize(
    "text", ["bytes", "bytes:", "bytes:4", "bytes:4-4", "bytes:5-4", "bytes:a-b"]
)
def test_bytes_that_are_none(text: str) -> None:
    with pytest.raises(BadValue, match="bytes:0-4"):
        RecordShape.parse(text, None, "UTC")


@pytest.mark.parametrize(
    ("key", "timestamp", "shown"),
    [
        (None, None, "key none, timestamp arrival"),
        ("$.car", "a.ts", "key car, timestamp a.ts"),
        ("bytes:0-4", "arrival", "key bytes:0-4, timestamp arrival"),
    ],
)
def test_a_shape_says_what_it_is(key, timestamp, shown: str) -> None:
    assert str(RecordShape.parse(key, timestamp, "UTC")) == shown
    assert str(Cut(0, 4)) == "bytes:0-4"


def test_a_time_that_the_topic_would_refuse() -> None:
    shape = RecordShape(None, ("ts",), before_ms=1_000, after_ms=10)
    for time_ms in (T0 - 1_000, T0, T0 + 10):
        assert shape.of(b'{"ts": %d}' % time_ms, T0) == (None, time_ms)
    for time_ms, side in ((T0 - 1_001, "before"), (T0 + 11, "after")):
        with pytest.raises(Unfit, match=rf"ms {side} its arrival; .*timestamp.{side}.max.ms"):
            shape.of(b'{"ts": %d}' % time_ms, T0)

"""What selected fields would lose of a document is refused: judged against Python's own exact reading of it."""

import random
import time
from fractions import Fraction

import pytest

from playhead.record import Record, TimestampType
from playhead.records import Records
from playhead.transform.json_limits import LimitedJson
from playhead.transform.selected_fields import for_selection
from playhead.transform.transform import Transform


def refused(select: str, *values: bytes | None, key: bytes | None = None) -> dict[int, str]:
    records = Records.of(
        [
            Record("t", 0, at, 0, TimestampType.CREATE_TIME, key, each, ())
            for at, each in enumerate(values)
        ]
    )
    decoder = for_selection(LimitedJson(), Transform(select=select)).open()
    return decoder.decoded_first(records).unselectable


@pytest.mark.parametrize(
    ("select", "kept"),
    [
        ("value:a", [b'{"a":1}', b'{"b":2,"b":3,"a":1}', b"{}", b' \n{"a":1}\t', None]),
        ("value:a", [b'{"a":{"x":[1.50,{"y":null}]}}', b'{"a":1.5e300}', b'{"a":-0.0}']),
        ("value:a", [b'{"a":1.7976931348623157e308}', b'{"a":5e-324}', b'{"a":1e45}', b'{"b":"\\ud83d\\ude00"}']),
        ("value:a", [b'{"a":12345678901234567890.123456789012345678}', b'{"a":1.0000000000000000e2}']),
        ("value:a", [b'{"a":1,"b":1e400}', b'{"a":"1e400"}', b'{"a":"x","b":{"c":1,"c":2}}']),
        ("value:a::string AS a", [b'{"a":{"x":1,"x":2}}', b'{"a":12345678901234567890}', b'{"a":"1e400"}']),
        ("value:a::map<string,double> AS a", [b'{"a":{"x":1e400}}']),
        ("value:a.b[1].c", [b'{"a":{"b":[{"c":1,"c":2},{"c":3}]}}', b'{"a":{"b":"text"}}', b'{"a":7}']),
        ("value:[0] AS a", [b"[1]", b"[]", b'["text"]']),
        ("coalesce(value:a, value) AS a", [b"text", b"\xff", b'{"a":1,"a":2}']),
        ("upper(key) AS key", [b"text", b"\xff"]),
        ("value", [b"text", b"\xff"]),
    ],
)  # fmt: skip
def test_what_is_kept_exactly_is_selected(select: str, kept: list[bytes | None]) -> None:
    assert refused(select, *kept) == {}


@pytest.mark.parametrize(
    ("select", "value", "reason"),
    [
        ("value:a", b"", "the value is not JSON"),
        ("value:a", b"{'a':1}", "the value is not JSON"),
        ("value:a", b'{"a":1}}]', "the value is not JSON"),
        ("value:a", b'{"a":1},"":2', "the value is not JSON"),
        ("value:a", b'{"a":NaN}', "the value is not JSON"),
        ("value:a", b'{"a":-Infinity}', "the value is not JSON"),
        ("value:a", b'{"b":"\\udc00"}', "the value is not JSON"),
        ("value:a", b'{"b":"\\ud800"}', "the value is not JSON"),
        ("value:a", b'\xef\xbb\xbf{"a":1}', "the value is not JSON"),
        ("value:a::int AS a", b"44", "the value is not a JSON object"),
        ("value:a", b'"text"', "the value is not a JSON object"),
        ("value:a", b'[{"a":1}]', "the value is not a JSON object"),
        ("value:a", b"null", "the value is not a JSON object"),
        ("value:[0] AS a", b'{"a":1}', "the value is not a JSON list"),
        ("value:a", b'{"a":1,"a":2}', "value:a has two fields of the name a"),
        ("value:a::string AS a", b'{"a":1,"\\u0061":1}', "two fields of the name a"),
        ("value:a.b[0].c", b'{"a":{"b":[{"c":1,"c":2}]}}', "two fields of the name c"),
        ("value:a.b[0].c", b'{"a":0,"a":{"b":[{"c":1}]}}', "two fields of the name a"),
        ("value:a", b'{"a":[0,{"x":{"y":1,"z":3,"y":2}}]}', "two fields of the name y"),
        ("value:a", b'{"a":1e400}', "value:a has a number that would be rounded"),
        ("value:a", b'{"a":-1e+0400}', "would be rounded"),
        ("value:a", b'{"a":1.8e308}', "would be rounded"),
        ("value:a", b'{"a":1e-400}', "would be rounded"),
        ("value:a", b'{"\\u0061":[0, 1e-400]}', "would be rounded; it can only be"),
        ("value:a", b'{"a":123456789012345678901234567890123456789}', "would be rounded"),
        ("value:a", b'{"a":0.123456789012345678901234567890123456789}', "would be rounded"),
        ("value:a", b'{"a":9007199254740993e0}', "would be rounded; value:a::double"),
        ("value:a", b"[" * 990 + b"]" * 990, "nested too deeply"),
        ("value:a::string AS a", b'{"a":1e400}', "would be rounded; value:a::double"),
        ("value:a::string AS a", b'{"a":9007199254740993.0}', "value:a without a type keeps it"),
        ("value:a::string AS a", b'{"a":{"x":1.23456789012345678901,"x":2}}', "would be rounded"),
        ("value:a::string::double AS a", b'{"a":[1.00000000000000000001]}', "would be rounded"),
        ("value:a", b'{"a":1e99999999999999999999}', "would be rounded"),
        ("value:a", b'{"a":[-1.5E-' + b"9" * 900 + b"]}", "would be rounded"),
        ("value:a::string AS a", b'{"a":1e99999999999999999999}', "would be rounded"),
        ("value:b", b'{"a":' + b"[" * 900 + b"]" * 900 + b"}", "nested too deeply"),
        ("value:a::map<string,int> AS a", b'{"a":{"x":1,"x":2}}', "two fields of the name x"),
        ("value:a::map<string, variant> AS a", b'{"a":{"x":1e400}}', "would be rounded"),
        ("value:a::decimal(9,2) AS a", b'{"a":1,"a":2}', "two fields of the name a"),
        ("key:id AS key", b"{}", "the key is not a JSON object"),
    ],
)
def test_what_would_be_lost_is_refused(select: str, value: bytes, reason: str) -> None:
    key = b"7" if select.startswith("key") else None
    assert reason in refused(select, value, key=key)[0]


@pytest.mark.parametrize("calls", [0, 25])
def test_how_deep_a_document_may_be_does_not_depend_on_what_calls(calls: int) -> None:
    if calls:
        test_how_deep_a_document_may_be_does_not_depend_on_what_calls(calls - 1)
        return
    deep, deeper = (b'{"a":' + b"[" * most + b"]" * most + b"}" for most in (899, 900))
    assert sorted(refused("value:a", deep, deeper)) == [1]


def test_only_documents_that_lose_something_are_refused() -> None:
    found = refused("value:a", b'{"a":1}', b'{"a":1e400}', b'{"a":1}', b"text", b'{"a":1e40}')
    assert sorted(found) == [1, 3]


def test_a_number_is_refused_if_the_engine_would_not_keep_it() -> None:
    rng = random.Random(7)
    numbers = []
    for _ in range(20_000):
        digits = "".join(
            rng.choices("0123456789", k=rng.choice((1, 3, 15, 16, 17, 18, 37, 38, 39, 60)))
        ).lstrip("0")
        digits = digits or "0"
        at = rng.randrange(len(digits)) + 1
        text = digits[:at] + ("." + digits[at:] if digits[at:] else "")
        if rng.random() < 0.6:
            text += (
                rng.choice("eE")
                + rng.choice(("", "+", "-"))
                + str(rng.choice((0, 1, 5, 22, 290, 307, 308, 330)))
            )
        numbers.append(rng.choice(("", "-")) + text)
    found = refused("value:a", *(f'{{"a":{each}}}'.encode() for each in numbers))
    for at, text in enumerate(numbers):
        exact = _exact(text)
        plain = text.lstrip("-").replace(".", "").lstrip("0")
        is_decimal = "e" not in text.lower() and len(plain) <= 38
        near = float(text)
        is_kept = is_decimal or (abs(near) != float("inf") and _exact(repr(near)) == exact)
        assert (at not in found) is is_kept, text


def _exact(text: str) -> Fraction:
    digits, _, exponent = text.lower().partition("e")
    return Fraction(digits) * Fraction(10) ** int(exponent or 0)


@pytest.mark.parametrize(
    "value",
    [
        b"[" + b"1" * 900 + b",1" * 500_000 + b"]",
        b'{"a":"' + b"9" * 1_000_000 + b'"}',
        b'{"a":"' + b":1" * 500_000 + b'"}',
        b'{"a":"' + b"\\ud800" * 200_000 + b'"}',
        b"{" + b'"a":1,' * 200_000 + b'"b":1}',
        b'{"a":' + b" " * 1_000_000 + b"1}",
    ],
)
def test_no_value_keeps_a_task_busy(value: bytes) -> None:
    began = time.process_time()
    refused("value:a", value)
    assert time.process_time() - began < 3

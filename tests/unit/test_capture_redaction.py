"""What was to be taken out is gone, wherever it stands, and nothing else is changed."""

import base64
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playhead.capture.redaction import REDACTED, Redaction, parse_rule
from playhead.errors import UsageError


def pair(*records: dict[str, Any]) -> dict[str, Any]:
    partition = {"records": {"records": list(records)}}
    fetch = {"topics": [{"name": "orders", "partitions": [partition]}]}
    return {"kafka": {"request": {}, "response": {"FetchResponse": fetch}}}


def redacted(record: dict[str, Any], *rules: str) -> tuple[dict[str, Any], Redaction]:
    redaction = Redaction([parse_rule(rule) for rule in rules])
    redaction.apply(pair(record))
    return record, redaction


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [
        ("$.a", '{"a": 1}', '{"a": "[redacted]"}'),
        ("$.a", '{ "b":1.10 ,"a" : {"x":[1,2]} }', '{ "b":1.10 ,"a" : "[redacted]" }'),
        ("$.a.b", '{"a":{"b":"s","c":2}}', '{"a":{"b":"[redacted]","c":2}}'),
        ("$.a[1]", '{"a":[1,2,3]}', '{"a":[1,"[redacted]",3]}'),
        ("$.a[*].b", '{"a":[{"b":1},{"c":2},{"b":3}]}', '{"a":[{"b":"[redacted]"},{"c":2},{"b":"[redacted]"}]}'),
        ("$.*", '{"a":1,"b":[]}', '{"a":"[redacted]","b":"[redacted]"}'),
        ('$["odd name"]', '{"odd name":1}', '{"odd name":"[redacted]"}'),
        ("$.a", '{"a":1,"a":2}', '{"a":"[redacted]","a":"[redacted]"}'),
        ("$.a", '{"\\u0061":1}', '{"\\u0061":"[redacted]"}'),
        ("$.a", " [1]\n", " [1]\n"),
        ("$.a", "{}", "{}"),
        ("$[0]", "[7]", '["[redacted]"]'),
        ("$.a", "12", "12"),
    ],
)  # fmt: skip
def test_a_field_is_gone_and_every_other_byte_is_there(rule, before, after):
    record, _ = redacted({"valueString": before}, rule)
    assert record == {"valueString": after}


@pytest.mark.parametrize(
    "value",
    [
        {"value": base64.b64encode(b"\xffAvro").decode()},
        {"valueString": "no document"},
        {"valueString": ""},
        {"valueString": "[" * 100_000},
    ],
)
def test_a_value_that_cannot_be_looked_into_is_gone_as_a_whole(value):
    record, redaction = redacted(dict(value), "$.a")
    assert record == {"valueString": REDACTED}
    assert redaction.wholes == 1


def test_a_value_of_very_many_values_is_gone_as_a_whole_and_takes_little_memory():
    many = '{"a":1' + ',"a":1' * 400_000 + "}"
    tracemalloc.start()
    record, redaction = redacted({"valueString": many}, "$.a")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (record, redaction.wholes) == ({"valueString": REDACTED}, 1)
    assert most < 20_000_000  # Each field took 270 bytes of it.
    text = json.dumps({"a": 1, "b": '[{,\\"' * 400_000})
    record, redaction = redacted({"valueString": text}, "$.a")
    assert record == {"valueString": text.replace(": 1", f': "{REDACTED}"', 1)}
    assert (redaction.wholes, redaction.fields) == (0, 1)


def test_null_stays_null():
    record, redaction = redacted({"keyString": "k"}, "$.a", "value")
    assert record == {"keyString": "k"}
    assert redaction.wholes == 0


def test_keys_values_and_headers():
    headers = [{"keyString": "auth", "value": "//8="}, {"keyString": "b", "valueString": "c"}]
    record, _ = redacted(
        {"key": "//8=", "valueString": "v", "headers": headers}, "key", "value", "header:auth"
    )
    assert record == {
        "keyString": REDACTED,
        "valueString": REDACTED,
        "headers": [
            {"keyString": "auth", "valueString": REDACTED},
            {"keyString": "b", "valueString": "c"},
        ],
    }


def test_bytes_that_nobody_could_read_are_gone():
    document = pair()
    fetch = document["kafka"]["response"]["FetchResponse"]
    fetch["topics"][0]["partitions"][0]["records"] = {"undecoded": {"base64": "//8="}, "magic": 1}
    document["kafka"]["request"]["undecoded"] = {"base64": "//8="}
    Redaction([parse_rule("$.a")]).apply(document)
    assert "//8=" not in json.dumps(document)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(st.sampled_from("abc"), below, max_size=3)
    ),
    max_leaves=12,
)


@given(
    JSON,
    st.lists(st.sampled_from(["a", "b", "*", 0, 1]), min_size=1, max_size=3),
    st.sampled_from([None, 2]),
)
@settings(deadline=None)
def test_only_what_the_path_leads_to_is_another(document, steps, indent):
    def without(found: Any, left: list[Any]) -> Any:
        if not left:
            return REDACTED
        if isinstance(found, dict):
            return {k: without(v, left[1:]) if left[0] in ("*", k) else v for k, v in found.items()}
        if isinstance(found, list):
            return [without(v, left[1:]) if left[0] in ("*", n) else v for n, v in enumerate(found)]
        return found

    rule = "$" + "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in steps)
    record, _ = redacted({"valueString": json.dumps(document, indent=indent)}, rule)
    assert json.loads(record["valueString"]) == without(document, steps)


@pytest.mark.parametrize("text", ["", "$", "a.b", "$.", "$..a", "$[x]", "header:", "$.a["])
def test_a_rule_that_says_nothing_is_refused(text):
    with pytest.raises(UsageError):
        parse_rule(text)

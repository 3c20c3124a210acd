"""Documents that the engine gives up on are known before it looks at them, and no others are."""

import json
import tracemalloc
from dataclasses import replace
from time import process_time

import pytest

from playhead.records import Records
from playhead.source import NOT_WHOLE
from playhead.transform import json_limits
from playhead.transform.json_limits import LimitedJson
from tests.unit.replaying import record


def reasons(*values: bytes | None, key: bytes | None = None) -> dict[int, str]:
    held = [replace(record(n), value=value, key=key) for n, value in enumerate(values)]
    records = Records.of(held)
    decoded = LimitedJson().open().decoded_first(records)
    assert decoded.values is records.values
    assert decoded.readable == [*values]
    return decoded.undecoded


def nested(depth: int, opens: bytes = b"[", closes: bytes = b"]") -> bytes:
    return b'{"a":' + opens * (depth - 1) + closes * (depth - 1) + b"}"


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"x" * 100_000,
        nested(1_000),
        b'{"a":"' + b"[" * 100_000 + b'"}',
        b'{"a":"\\"' + b"[" * 100_000 + b'"}',
        json.dumps([[n] for n in range(100_000)]).encode(),
        b'{"a":0.' + b"1" * 998 + b"}",
        b'{"a":"' + b"1" * 100_000 + b'"}',
        b"text " + b"[" * 100_000,
        b"""{'a':'\\'""" + b"[" * 100_000 + b"""'}""",
        b"""{"it's":'""" + b"[" * 100_000 + b"""'}""",
        b'{"' + b"n" * 50_000 + b'":1}',
        b'{"' + "é".encode() * 50_000 + b'":1}',
        b'{"' + b"\\u00e9" * 50_000 + b'":1}',
        b'{"a":"' + b"n" * 50_001 + b'"}',
        b'["' + b"n" * 50_001 + b'"]',
    ],
)
def test_others_are_let_be(value):
    assert reasons(value) == {}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (nested(1_001), "nested more than 1,000 deep"),
        (b" \n" + nested(100_000), "nested more than 1,000 deep"),
        (nested(100_000, closes=b""), "nested more than 1,000 deep"),
        (b'{"b":"]]]",' + nested(1_001)[1:], "nested more than 1,000 deep"),
        (b'{"a":' * 1_001 + b"1" + b"}" * 1_001, "nested more than 1,000 deep"),
        (b'{"a":0.' + b"1" * 999 + b"}", "more than 1,000 digits"),
        (b'{"' + b"n" * 50_001 + b'":1,"a":5}', "a field name of more than 50,000"),
        (b'{"a":5,"' + b"\\n" * 50_001 + b'" \n: 1}', "a field name of more than 50,000"),
        (b"{'" + b'"' * 50_001 + b"':1}", "a field name of more than 50,000"),
        (b'{"' + "\U0001f600".encode() * 25_001 + b'":1}', "a field name of more than 50,000"),
        (b"""{'b"':1,""" + nested(1_001)[1:], "nested more than 1,000 deep"),
        (b"""{'b"':1,""" + nested(1_001)[1:-1] + b""",'c"':1}""", "nested more than 1,000 deep"),
    ],
)
def test_what_is_too_deep_or_too_long_is_named(value, reason):
    found = reasons(b"{}", value)
    assert list(found) == [1]
    assert reason in found[1]
    assert "the key" in reasons(b"{}", key=value)[0]


@pytest.mark.parametrize(
    "value",
    [
        b"{" * 1_001 + b'"' + b'\\"' * 100_000,
        b"[" * 1_001 + b'"\\\\' * 100_000,
        b"[" + b",".join([b"1" * 1_000] * 1_000) + b"]",
        b'{"a":["' + b'","'.join([b'\\"' * 49_990] * 3) + b'"]}',
    ],
)
def test_no_value_takes_longer_than_its_length_explains(value):
    """Of quotes without an end, 33 KB took eight seconds, and a megabyte hours."""
    began = process_time()
    reasons(value)
    assert process_time() - began < 1


def test_many_short_strings_take_little_more_memory_than_their_bytes():
    """A record of 60 MB, which its topic holds in some kilobytes, took three gigabytes of its task."""
    value = b"[" * 1_001 + b'"":1,' * 220_000
    tracemalloc.start()
    try:
        found = reasons(value)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == {0: "the value is nested more than 1,000 deep: no expression can read it"}
    assert most < 5 * len(value)


def test_a_long_document_is_read_as_a_short_one(monkeypatch):
    values = [b'{"a":"[' * 2_000, b"['\\'" + b"[" * 1_001, b'["\\', b"'[" * 3_000]
    expected = reasons(*values)
    monkeypatch.setattr(json_limits, "_FEW_BYTES", 0)
    assert reasons(*values) == expected


def test_values_of_a_schema_are_looked_at_too():
    deep, long, good = nested(1_001), b'{"a":' + b"1" * 1_001 + b"}", b'{"a":1}'
    named = b'{"' + b"n" * 50_001 + b'":1,"a":1}'
    made = [deep, long, named, good]

    class Schemas:
        def decoded_first(self, records: Records) -> Records:
            decoded = [*made, None]
            return replace(records, decoded=decoded, undecoded={4: "no schema"})

        def kinds(self, _):
            return {"a": "integer"}

    class OfSchemas:
        def open(self) -> Schemas:
            return Schemas()

    records = Records.of([replace(record(n), value=b"\0\0\0\0\1") for n in range(5)])
    decoder = LimitedJson(OfSchemas()).open()
    found = decoder.decoded_first(records)
    assert found.decoded == [*made, None]
    assert sorted(found.undecoded) == [0, 1, 2, 4]
    assert found.undecoded[4] == "no schema"
    assert decoder.kinds([found]) == {"a": "integer"}


@pytest.mark.parametrize("part", ["key", "value", "headers", "decoded"])
def test_what_is_too_large_for_the_engine_is_rejected_without_it(part, monkeypatch):
    """The engine keeps a record several times in its memory: one of 250 MB ended the run."""
    monkeypatch.setattr(json_limits, "MOST_BYTES", 100)
    large = (
        {"headers": (("h", bytes(99)), ("i", None))} if part == "headers" else {part: bytes(101)}
    )
    small = {"key": b"k", "value": bytes(99)}

    class Growing:
        def open(self):
            return self

        def decoded_first(self, records):
            grown = [each * 101 if each == b"1" else b"d" for each in records.values]
            return replace(records, decoded=grown, undecoded={2: "no schema"})

    decoding = LimitedJson()
    if part == "decoded":
        decoding, large, small = LimitedJson(Growing()), {"value": b"1"}, {"value": b"2"}
    rows = [replace(record(at), key=None) for at in range(4)]
    rows = [replace(each, **(large if each.offset in (1, 2) else small)) for each in rows]
    found = decoding.open().decoded_first(Records.of(rows))
    assert sorted(found.undecoded) == [1, 2]
    assert all(each.startswith(f"{NOT_WHOLE}it has ") for each in found.undecoded.values())
    for column, empty in (
        (found.keys, None),
        (found.values, None),
        (found.readable, None),
        (found.headers, ()),
    ):
        assert [column[1], column[2]] == [empty, empty]
        assert column[0] == column[3]
    assert found.values[0] == small["value"]
    assert (found.decoded is found.values) == (part != "decoded")

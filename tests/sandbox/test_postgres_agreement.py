"""Both ways of decoding give the same: what Arrow reads at once, and what is read one by one."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from playhead.postgres.rows import decode
from playhead.sandbox import Endpoints
from tests.sandbox.postgres_table import Table, record

COLUMNS = """
    _offset int8, bo bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, te text, vc varchar(6),
    ch char(4), tz timestamptz, ts timestamp, da date, ti time, uu uuid, nu numeric(12,3), nx numeric,
    js json, jb jsonb, by bytea, ai int4[], at text[], af float8[], iv interval, "Mixed" int
"""
NAMES = [
    "bo",
    "i2",
    "i4",
    "i8",
    "f4",
    "f8",
    "te",
    "vc",
    "ch",
    "tz",
    "ts",
    "da",
    "ti",
    "uu",
    "nu",
    "nx",
    "js",
    "jb",
    "by",
    "ai",
    "at",
    "af",
    "iv",
    "Mixed",
]


class Raw(str):
    """JSON as it is to stand in the value."""


def dumped(fields: list[tuple[str, Any]]) -> bytes:
    inner = ",".join(
        f"{json.dumps(name)}:{held if isinstance(held, Raw) else json.dumps(held)}"
        for name, held in fields
    )
    return f"{{{inner}}}".encode("utf-8", "surrogatepass")


whole = st.one_of(
    st.integers(-10, 10), st.integers(-(2**70), 2**70), st.sampled_from([2**15, 2**31, 2**63])
)
numbers = st.one_of(
    whole,
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        [
            "1.0",
            "1e3",
            "1E+2",
            "-0",
            "-0.0",
            "1e400",
            "-1e400",
            "1e-400",
            "4.9e-324",
            "1e-46",
            "1.4e-45",
            "3.4028235677973366e38",
            "1e39",
            "0.1",
            "1.50",
            "100.0005",
            "999999999.9994",
            "NaN",
            "Infinity",
            "-Infinity",
            "Inf",
            "16777217",
            "1628080200",
            "1628080200123",
            "1628080200123456",
            "99999999999999999999",
            "1.7976931348623159e308",
        ]
    ).map(Raw),
)
texts = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        [
            "",
            "a\0b",
            "\ud800",
            "😀",
            "a\nb",
            "\\",
            '"',
            "NULL",
            "{}",
            "abcdefg",
            "abc      ",
            "é",
            "'",
            "t",
        ]
    ),
)
escaped = st.sampled_from([r'"\u0000"', r'"\ud83d\ude00"', r'"\ud800"', r'"\/"', r'"\u00e9"']).map(
    Raw
)
times = st.one_of(
    st.datetimes().map(lambda at: at.isoformat()),
    st.datetimes().map(lambda at: at.isoformat(sep=" ", timespec="microseconds") + "Z"),
    st.dates().map(lambda at: at.isoformat()),
    st.times().map(lambda at: at.isoformat()),
    st.sampled_from(
        [
            "2021-08-04T12:30:00Z",
            "2021-08-04T12:30:00.1+02:00",
            "2021-08-04T12:30:00.123456789Z",
            "2021-08-04T12:30:00.1234567+02:00",
            "2021-08-04 12:30:00 -02:00",
            "2021-08-04",
            "2021-08-04T12",
            "2021-08-04T24:00:00Z",
            "2021-08-04T12:30:60Z",
            "0000-01-01",
            "2021-02-30",
            "2021-13-01",
            "now",
            "2021-08-04T12:30:00-1530",
            "2021-08-04T12:30:00+23:59",
            "infinity",
            "9999-12-31T23:59:59.999999-15:59",
            "24:00:00",
            "12:30",
            "12:30:00.1234567",
            "0001-01-01T00:00:00+01:00",
            "12:30:61",
        ]
    ),
)
others = st.one_of(
    st.uuids().map(str),
    st.uuids().map(lambda each: each.hex),
    st.binary(max_size=6).map(lambda each: __import__("base64").b64encode(each).decode()),
    st.sampled_from(["\\x00ff", "2 days 03:00", "P1D", "!!", "AAA", "A\nAA"]),
)
scalars = st.one_of(st.none(), st.booleans(), numbers, texts, escaped, times, others)
nested = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)
lists = st.lists(st.one_of(st.none(), numbers, st.text(max_size=3)), max_size=3).map(
    lambda each: Raw("[" + ",".join(x if isinstance(x, Raw) else json.dumps(x) for x in each) + "]")
)
FITTING: dict[str, Any] = {
    "bo": st.booleans(),
    **dict.fromkeys(["i2", "i4", "i8", "Mixed"], whole),
    **dict.fromkeys(["f4", "f8", "nu", "nx"], numbers),
    **dict.fromkeys(["te", "vc", "ch"], st.one_of(texts, escaped)),
    **dict.fromkeys(["tz", "ts", "da", "ti"], times),
    **dict.fromkeys(["uu", "by", "iv"], others),
    **dict.fromkeys(["js", "jb"], st.one_of(scalars, nested)),
    **dict.fromkeys(["ai", "at", "af"], st.one_of(lists, nested)),
}
spellings = st.sampled_from([*NAMES, "BO", "Te", "mixed", "MIXED", "stray", "_offset"])


@st.composite
def documents(draw: Any) -> bytes:
    fields = []
    for name in draw(st.lists(st.one_of(st.sampled_from(NAMES), spellings), max_size=5)):
        known = {each.lower(): each for each in NAMES}.get(name.lower())
        fitting = FITTING[known] if known else scalars
        fields.append(
            (name, draw(st.one_of(fitting, fitting, fitting, st.none(), scalars, nested)))
        )
    return dumped(fields)


odd = st.one_of(
    st.sampled_from(
        [
            b"",
            b" ",
            b"null",
            b"1",
            b"[1]",
            b'"x"',
            b"{}",
            b'{"i4":1}\n',
            b'{\n "i4":\n 1}',
            b'{"i4":1}{"i4":2}',
            b'{"i4":1}\n{"i4":2}',
            b'{"i4":1}null{"i4":2}',
            b'{"i4":',
            b"1}",
            b'{"te":"\xff"}',
            b'{"stray":"\xff"}',
            b'{"stray":"\xed\xa0\x80"}',
            b'\xef\xbb\xbf{"i4":1}',
            b'{"te":"a\tb"}',
            b'{"te":"a\nb"}',
            b'{"i4":1,}',
            b'{"i4":1,"i4":2}',
            b'{"i4":1,"I4":2}',
            b'{"I4":1,"i4":null}',
            b'{"\\u00694":7}',
            b'{"\\u00494":7}',
            b'{"i4":01}',
            b'{"i4":1}x',
            b"\x00",
        ]
    ),
    st.binary(max_size=5),
)


@pytest.fixture
def pair(sandbox: Endpoints, schema: str) -> Iterator[tuple[Table, Table]]:
    one = Table.made(sandbox.database_url, schema, COLUMNS, "at_once")
    return one, Table.made(sandbox.database_url, schema, COLUMNS, "one_by_one")


def outcome(table: Table, values: list[bytes]) -> tuple[list[Any], dict[int, str], Any]:
    """The rows as text, the kinds of those that were refused, and the fields that no column takes."""
    dead: dict[int, str] = {}
    rows = [record(n, value) for n, value in enumerate(values)]
    table.run("TRUNCATE {table}")
    table.run(f'TRUNCATE "{table.schema}".ledger_of_{table.name}')

    def write_dead_letters(_: Any, letters: Any) -> None:
        dead.update({letter.record.offset: letter.kind for letter in letters})

    entry = table.commit(rows, rule="dlq:d", write_dead_letters=write_dead_letters)
    assert entry.written + entry.dead == len(values)
    left_out = entry.details.get("extra_fields")
    return table.run("SELECT t::text FROM {table} t ORDER BY _offset"), dead, left_out


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.one_of(documents(), documents(), documents(), odd), min_size=1, max_size=12))
@example([b'{"i4":', b"1}", b'{"i4":2}\n{"i4":3}'])
@example([b"null"])
@example(
    [b'{"ts":"2021-08-04T12:30:00.123456+02:00"}', b'{"ts":"2021-08-04T12:30:00.1234567+02:00"}']
)
@example([b'{"ts":"294277-01-01T00:30:00+01:00"}', b'{"ts":"294277-01-01T00:30:00","i4":"x"}'])
@example([b'{"tz":"2021-08-04T12:30:00.123456Z"}', b'{"TZ":"2021-08-04T12:30:00"}'])
def test_both_ways_agree_on_every_value(pair: tuple[Table, Table], values: list[bytes]) -> None:
    one, other = pair
    at_once = outcome(one, values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode.arrow_json, "read", lambda *_, **__: None)
        assert outcome(other, values) == at_once

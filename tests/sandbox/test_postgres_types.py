"""Every type, to the last digit; and the ways in which a record cannot be a row."""

import json
from typing import Any

import pytest

from playhead.account import DeadLetter, RecordRefused
from playhead.record import Record
from playhead.sandbox import Endpoints
from tests.sandbox.postgres_table import NOON_MS, Table, record, records

TOLD = [
    ("bool", True, "true"),
    ("bool", "off", "false"),
    ("int2", -32768, "-32768"),
    ("int4", 2147483647, "2147483647"),
    ("int8", -9223372036854775808, "-9223372036854775808"),
    ("int8", 1e3, "1000"),
    ("float4", 0.1, "0.1"),
    ("float8", 0.1, "0.1"),
    ("float8", -0.0, "-0"),
    ("float8", "NaN", "NaN"),
    ("float8", 5e-324, "5e-324"),
    (
        "numeric",
        "123456789012345678901234567890.123456789",
        "123456789012345678901234567890.123456789",
    ),
    ("numeric(20,4)", 1234567890123456, "1234567890123456.0000"),
    ("numeric(12,3)", 0.1255, "0.126"),
    ("money", "$1,234.50", "$1,234.50"),
    ("text", 'é😀\n"\\\t', 'é😀\n"\\\t'),
    ("text", "", ""),
    ("text", 1, "1"),
    ("text", {"a": [1, None]}, '{"a":[1,null]}'),
    ("varchar(3)", "abc", "abc"),
    ("varchar(3)", "ab      ", "ab "),
    ("char(4)", "ab", "ab"),
    ("name", "abc", "abc"),
    ('"char"', "x", "x"),
    ("bytea", "AP8=", "\\x00ff"),
    ("bytea", "\\x00ff", "\\x00ff"),
    ("timestamptz", "2021-08-04T12:30:00.123456Z", "2021-08-04 12:30:00.123456+00"),
    ("timestamptz", "2021-08-04T12:30:00.1234565+02:00", "2021-08-04 10:30:00.123456+00"),
    ("timestamptz", "2021-08-04 12:30", "2021-08-04 12:30:00+00"),
    ("timestamptz", "infinity", "infinity"),
    ("timestamptz", "4713-01-01 00:00:00 BC", "4713-01-01 00:00:00+00 BC"),
    ("timestamptz", 1628080200, "2021-08-04 12:30:00+00"),
    ("timestamptz", 1628080200123, "2021-08-04 12:30:00.123+00"),
    ("timestamptz", 1628080200123456, "2021-08-04 12:30:00.123456+00"),
    ("timestamptz", 1628080200123456789, "2021-08-04 12:30:00.123456+00"),
    ("timestamptz(3)", "2021-08-04T12:30:00.1236Z", "2021-08-04 12:30:00.124+00"),
    ("timestamp", "2021-08-04T12:30:00.000001", "2021-08-04 12:30:00.000001"),
    ("timestamp", "2021-08-04T12:30:00+02:00", "2021-08-04 10:30:00"),
    ("timestamp", "2021-08-04T12:30:00.1234567+02:00", "2021-08-04 10:30:00.123457"),
    ("timestamp", "2021-08-04T12:30:00.123456789-02:30", "2021-08-04 15:00:00.123457"),
    ("timestamp", "2021-08-04 12:30:00 +02:00", "2021-08-04 10:30:00"),
    ("timestamp", "2021-08-04T12:30:00.1234567", "2021-08-04 12:30:00.123457"),
    ("timestamp", "infinity", "infinity"),
    ("timestamp(3)", "2021-08-04T12:30:00.1236789+02:00", "2021-08-04 10:30:00.124"),
    ("date", "2024-02-29", "2024-02-29"),
    ("date", "4 Aug 2021", "2021-08-04"),
    ("time", "23:59:59.999999", "23:59:59.999999"),
    ("time", "24:00:00", "24:00:00"),
    ("timetz", "12:30:00+02", "12:30:00+02"),
    ("interval", "P1Y2M3DT4H5M6.789S", "1 year 2 mons 3 days 04:05:06.789"),
    ("uuid", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("uuid", "{a0eebc999c0b4ef8bb6d6bb9bd380a11}", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("json", {"b": 1.50, "a": [None]}, '{"b":1.5,"a":[null]}'),
    ("jsonb", {"b": 1, "a": "\u2028"}, '{"a": "\u2028", "b": 1}'),
    ("jsonb", "text", '"text"'),
    ("jsonb", False, "false"),
    ("inet", "192.168.0.1/24", "192.168.0.1/24"),
    ("cidr", "10.0.0.0/8", "10.0.0.0/8"),
    ("macaddr", "08:00:2b:01:02:03", "08:00:2b:01:02:03"),
    ("bit(3)", "101", "101"),
    ("bit varying(5)", "10", "10"),
    ("point", "(1,2)", "(1,2)"),
    ("int4range", "[1,5)", "[1,5)"),
    ("tstzrange", "[2021-08-04 12:30Z,)", '["2021-08-04 12:30:00+00",)'),
    ("int4multirange", "{[1,3),[5,7)}", "{[1,3),[5,7)}"),
    ("tsvector", "a b", "'a' 'b'"),
    ("pg_lsn", "16/B374D848", "16/B374D848"),
    ("oid", 42, "42"),
    ("regtype", "integer", "integer"),
    ("int4[]", [1, None, 3], "{1,NULL,3}"),
    ("int4[]", [], "{}"),
    ("int4[][]", [[1, 2], [3, 4]], "{{1,2},{3,4}}"),
    ("int4[]", "{7,8}", "{7,8}"),
    ("text[]", ["a b", "NULL", '"', None, ""], '{"a b","NULL","\\"",NULL,""}'),
    ("float8[]", [1.5, 1], "{1.5,1}"),
    ("timestamptz[]", ["2021-08-04T12:30:00Z"], '{"2021-08-04 12:30:00+00"}'),
    (
        "timestamp[]",
        ["2021-08-04T12:30:00+02:00", "2021-08-04T12:30:00.1234567+02:00", None],
        '{"2021-08-04 10:30:00","2021-08-04 10:30:00.123457",NULL}',
    ),
    ("timestamp[]", "{2021-08-04T12:30+02}", '{"2021-08-04 10:30:00"}'),
    ("jsonb[]", [{"a": 1}, [2]], '{"{\\"a\\": 1}",[2]}'),
    ("uuid[]", ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"], "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}"),
    ("bytea[]", ["AP8="], '{"\\\\x00ff"}'),
    ("numeric(8,2)[]", [1.005, 2], "{1.01,2.00}"),
    ("varchar(3)[]", ["abc"], "{abc}"),
    ("mood", "happy", "happy"),
    ("mood[]", ["happy", None], "{happy,NULL}"),
    ("small", 7, "7"),
    ("short", "abc", "abc"),
    ("pair", "(1,x)", "(1,x)"),
]


@pytest.mark.parametrize(("kind", "given", "told"), TOLD, ids=lambda each: repr(each)[:40])
def test_every_type(sandbox: Endpoints, schema: str, kind: str, given: Any, told: str) -> None:
    table = Table.made(sandbox.database_url, schema, "_offset int8", "types")
    table.run(
        f"""CREATE TYPE "{schema}".mood AS ENUM ('happy', 'sad');
            CREATE DOMAIN "{schema}".small AS int CHECK (VALUE < 10);
            CREATE DOMAIN "{schema}".short AS varchar(3) NOT NULL;
            CREATE TYPE "{schema}".pair AS (a int, b text)"""
    )
    own = kind.removesuffix("[]") in ("mood", "small", "short", "pair")
    named = f'"{schema}".{kind}' if own else kind
    table.run(f'ALTER TABLE {{table}} ADD COLUMN "Held" {named}')
    value = json.dumps({"Held": given}).encode()
    table.commit([record(0, value)])
    assert table.column('"Held"::text') == [told]


def test_numbers_keep_every_digit_as_it_was_written(sandbox: Endpoints, schema: str) -> None:
    columns = "_offset int8, n numeric, js json, jb jsonb, te text"
    table = Table.made(sandbox.database_url, schema, columns)
    number = b"1234567890.12345678901234567890100"
    table.commit([record(0, b'{"n":%s,"js":{"x":%s},"jb":[%s],"te":%s}' % ((number,) * 4))])
    text = number.decode()
    assert table.rows("n::text, js::text, jb::text, te") == [
        (text, f'{{"x":{text}}}', f"[{text}]", text)
    ]


@pytest.mark.parametrize("beside", ["", ',"n":2'])
def test_zero_keeps_its_sign_where_the_column_has_one(
    sandbox: Endpoints, schema: str, beside: str
) -> None:
    columns = "_offset int8, f float8, te text, js json, jb jsonb, n int, b bool, at timestamptz"
    table = Table.made(sandbox.database_url, schema, f"{columns}, fs float8[]")
    others = f'"n":-0,"te":-0,"js":[-0,-0.0],"jb":-0,"b":-0,"at":-0,"fs":[-0]{beside}'
    table.commit([record(0, b'{"f":-0}'), record(1, f'{{"f":-0,{others}}}'.encode())])
    assert table.column("f::text") == ["-0", "-0"]
    last = 2 if beside else 0
    assert table.rows("te, js::text, jb::text, n, b, extract(epoch from at)::int, fs::text")[0] == (
        ("-0", "[-0,-0.0]", "0", last, False, 0, "{-0}")
    )


def test_what_is_known_of_a_record(sandbox: Endpoints, schema: str) -> None:
    columns = "_topic text, _partition int2, _offset int8, _timestamp timestamptz, _key text, _headers jsonb, v int"
    table = Table.made(sandbox.database_url, schema, columns)
    headers = (("n", b"1"), ("n", None), ("m", b"\xff"), ("o", b""))
    table.commit(
        [
            record(3, {"v": 1, "_topic": "not this"}, key=b"k", ms=NOON_MS, headers=headers),
            record(4, {"v": 2}, ms=-1),
            record(5, {"v": 3}, ms=-5, key=b""),
        ]
    )
    assert table.rows(
        "_topic, _partition, _offset, _timestamp::text, _key, _headers::text, v", "3"
    ) == [
        (
            "cars",
            0,
            3,
            "2021-08-04 12:30:00+00",
            "k",
            '[["n", "1"], ["n", null], ["m", {"base64": "/w=="}], ["o", ""]]',
            1,
        ),
        ("cars", 0, 4, None, None, "[]", 2),
        ("cars", 0, 5, "1969-12-31 23:59:59.995+00", "", "[]", 3),
    ]


class TestWhichFieldGoesWhere:
    def test_by_name_then_but_for_case_and_the_rest_to_extra(
        self, sandbox: Endpoints, schema: str
    ) -> None:
        columns = '_offset int8, car int, "Speed" int, _extra jsonb'
        table = Table.made(sandbox.database_url, schema, columns)
        table.commit(
            records(
                {"car": 1, "Speed": 2},
                {"CAR": 1, "speed": 2, "more": {"x": 1.0}},
                {"car": 1, "CAR": 9, "SPEED": 2, "o": None},
            )
        )
        assert table.rows('car, "Speed", _extra::text', "_offset") == [
            (1, 2, None),
            (1, 2, '{"more": {"x": 1.0}}'),
            (1, 2, '{"o": null, "CAR": 9}'),
        ]

    def test_two_that_could_be_meant_are_refused(self, sandbox: Endpoints, schema: str) -> None:
        table = Table.made(sandbox.database_url, schema, "_offset int8, car int")
        with pytest.raises(RecordRefused, match="fields CAR and Car both mean car"):
            table.commit([record(0, {"CAR": 1, "Car": 2})])

    def test_defaults_identities_and_generated_columns(
        self, sandbox: Endpoints, schema: str
    ) -> None:
        columns = (
            "_offset int8, n int, twice int GENERATED ALWAYS AS (n * 2) STORED, id int GENERATED ALWAYS AS "
            "IDENTITY, at text NOT NULL DEFAULT 'now', d text DEFAULT 'kept'"
        )
        table = Table.made(sandbox.database_url, schema, columns)
        table.commit(records({"n": 1, "id": 99, "twice": 5}, {"n": 2}))
        table.commit(records({"n": 3, "at": "then", "d": "x"}, {"n": 4}, start=10))
        assert table.rows("n, twice, id, at, d", "_offset") == [
            (1, 2, 1, "now", "kept"),
            (2, 4, 2, "now", "kept"),
            (3, 6, 3, "then", "x"),
            (4, 8, 4, "now", "kept"),
        ]

    def test_names_that_need_care(self, sandbox: Endpoints, schema: str) -> None:
        columns = '_offset int8, "$1" int, "a ""b" text, "select" int, "é" int, "%s" int, "{x}" int'
        columns += ', UNIQUE ("a ""b", "%s")'
        table = Table.made(sandbox.database_url, schema, columns, 'odd "na.me')
        value = {"$1": 1, 'a "b': "x", "select": 2, "é": 3, "%s": 4, "{x}": 5}
        table.commit([record(0, value)])
        rule = {"on_conflict": "update", "key": ("%s", 'a "b')}
        quoted = f'"{schema}"."odd ""na.me"'
        entry = table.with_options(table=quoted, **rule).commit([record(1, value | {"é": 9})])
        assert entry.details["updated"] == 1
        assert table.rows() == [(1, 1, "x", 2, 9, 4, 5)]

    def test_values_that_are_not_taken_apart(self, sandbox: Endpoints, schema: str) -> None:
        url = sandbox.database_url
        raw = Table.made(url, schema, "_offset int8, value bytea", "raw", decode="bytes")
        raw.commit([record(0, b"\x00\xff"), record(1, b"")])
        assert raw.column("value") == [b"\x00\xff", b""]
        text = Table.made(url, schema, "_offset int8, value text", "text", decode="string")
        entry = text.commit(
            [record(0, b"a"), record(1, b"\xff"), record(2, b"\x00")], rule="skip", replay="text"
        )
        assert (text.column("value"), entry.skipped) == (["a"], 2)
        kept = Table.made(url, schema, "_offset int8, value jsonb", "kept", decode="string")
        entry = kept.commit(
            [record(0, b"[1.10]"), record(1, b"x"), record(2, b"2")], rule="skip", replay="kept"
        )
        assert (kept.column("value::text"), entry.skipped) == (["[1.10]", "2"], 1)
        zoned = Table.made(url, schema, "_offset int8, value timestamp", "zoned", decode="string")
        zoned.commit([record(0, b"2021-08-04T12:30:00.5+02:00")], replay="zoned")
        assert zoned.column("value::text") == ["2021-08-04 10:30:00.5"]
        bare = Table.made(url, schema, "_offset int8, v int DEFAULT 7", "bare", decode="none")
        bare.commit([record(0, b"\xff"), record(1, None)], replay="bare")
        assert bare.rows() == [(0, 7), (1, 7)]


# --- records that cannot be rows ----------------------------------------------------------------

BAD: list[tuple[str, bytes]] = [
    ("json", b"nonsense"),
    ("json", b""),
    ("json", b"[1]"),
    ("utf8", b'{"te":"\xff"}'),
    ("utf8", b'{"te":"\\ud800"}'),
    ("nul", b'{"te":"a\\u0000b"}'),
    ("nul", b'{"jb":{"a":"\\u0000"}}'),
    ("type", b'{"i":"many"}'),
    ("type", b'{"i":1.5}'),
    ("type", b'{"at":"tomorrowish"}'),
    ("type", b'{"net":"1.2.3"}'),
    ("type", b'{"mood":"bored"}'),
    ("type", b'{"arr":[1,"x"]}'),
    ("out_of_reach", b'{"i":99999999999}'),
    ("out_of_reach", b'{"f":1e400}'),
    ("out_of_reach", b'{"num":123456}'),
    ("out_of_reach", b'{"jb":1e400000}'),
    ("too_long", b'{"short":"abcd"}'),
    ("null", b'{"i":1,"must":null}'),
    ("check", b'{"i":-1}'),
    ("reference", b'{"other":99}'),
]
COLUMNS = (
    "_offset int8, i int CHECK (i >= 0), f float8, te text, jb jsonb, at timestamptz, net inet, "
    'mood "{schema}".mood, arr int[], num numeric(5,2), short varchar(3), must text NOT NULL, '
    'other int REFERENCES "{schema}".others'
)


@pytest.fixture
def strict(sandbox: Endpoints, schema: str) -> Table:
    helper = Table.made(sandbox.database_url, schema, "id int PRIMARY KEY", "others")
    helper.run(
        f"""INSERT INTO {{table}} VALUES (1); CREATE TYPE "{schema}".mood AS ENUM ('fine')"""
    )
    return Table.made(sandbox.database_url, schema, COLUMNS.format(schema=schema), "strict")


def with_must(value: bytes) -> bytes:
    return (
        value.replace(b"{", b'{"must":"x",', 1)
        if value[:1] == b"{" and b"must" not in value
        else value
    )


@pytest.mark.parametrize(("kind", "value"), BAD)
def test_a_bad_record_is_named_and_takes_nobody_with_it(
    strict: Table, kind: str, value: bytes
) -> None:
    good = {"must": "x", "i": 1, "f": 1.5, "te": "t", "short": "abc", "other": 1, "mood": "fine"}
    rows = [record(0, good), record(1, with_must(value)), record(2, good)]
    with pytest.raises(RecordRefused) as caught:
        strict.commit(rows)
    assert (caught.value.offset, caught.value.kind) == (1, kind)
    assert strict.rows() == []
    dead: list[DeadLetter] = []
    entry = strict.commit(
        rows, rule="dlq:d", write_dead_letters=lambda _, letters: dead.extend(letters)
    )
    assert [(each.record, each.kind) for each in dead] == [(rows[1], kind)]
    assert dead[0].reason
    assert strict.column("_offset") == [0, 2]
    assert (entry.read, entry.written, entry.dead) == (3, 2, 1)
    assert strict.differences(entry, rows) == []


def test_many_bad_records_among_many_good_ones(strict: Table) -> None:
    rows: list[Record] = []
    for n in range(3000):
        _, bad = BAD[n // 7 % len(BAD)]
        good = {"must": f"{n}", "i": n, "at": "2021-08-04T12:30:00Z"}
        rows.append(record(n, with_must(bad) if n % 7 == 3 else good))
    entry = strict.commit(rows, rule="skip")
    wanted = [n for n in range(3000) if n % 7 != 3]
    assert strict.column("_offset") == wanted
    assert entry.skipped == 3000 - len(wanted)


def test_a_required_column_that_nobody_fills(sandbox: Endpoints, schema: str) -> None:
    table = Table.made(sandbox.database_url, schema, "_offset int8, must int NOT NULL, v int")
    with pytest.raises(RecordRefused, match="nothing for column must"):
        table.commit(records({"v": 1}, {"v": 2}))
    entry = table.commit(records({"v": 1}, {"v": 2}), rule="skip")
    assert (entry.written, entry.skipped) == (0, 2)


def test_constraints_that_wait_for_the_end(sandbox: Endpoints, schema: str) -> None:
    columns = (
        "_offset int8, id int PRIMARY KEY, up int, "
        f'FOREIGN KEY (up) REFERENCES "{schema}".cars DEFERRABLE INITIALLY DEFERRED'
    )
    table = Table.made(sandbox.database_url, schema, columns)
    entry = table.commit(records({"id": 2, "up": 1}, {"id": 1}, {"id": 3, "up": 9}), rule="skip")
    assert table.column("id") == [2, 1]
    assert (entry.written, entry.skipped) == (2, 1)


def test_pretty_printed_values_stay_in_their_rows(sandbox: Endpoints, schema: str) -> None:
    table = Table.made(sandbox.database_url, schema, "_offset int8, v int, te text")
    pretty = [json.dumps({"v": n, "te": "a\nb"}, indent=2).encode() for n in range(300)]
    table.commit(records(*pretty, b' {"v":300} \n', b'\t{"v":301}'))
    assert table.column("v") == list(range(302))


@pytest.mark.parametrize("rule", [None, "update"])
@pytest.mark.parametrize("kind", ["numrange", "nummultirange"])
def test_a_range_is_compared_whose_length_no_statistics_hold(
    sandbox: Endpoints, schema: str, kind: str, rule: Any
) -> None:
    table = Table.made(
        sandbox.database_url, schema, f"id int PRIMARY KEY, x {kind}", on_conflict=rule
    )
    held = "[1,1e400]" if kind == "numrange" else "{[1,1e400]}"
    rows = records({"id": 1, "x": held}, {"id": 2, "x": held})
    entry = table.commit(rows)
    assert table.differences(entry, rows) == []
    table.run("UPDATE {table} SET x = NULL WHERE id = 2")
    assert table.differences(entry, rows) == [("changed", 1)]

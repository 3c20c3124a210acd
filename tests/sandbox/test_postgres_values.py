"""No value is altered in silence: none means the moment it is written, and what a column cannot keep is counted."""

import json
from typing import Any

import pytest

from playhead.postgres.session import TableName, open_session
from playhead.postgres.table import read_table
from playhead.sandbox import Endpoints
from tests.sandbox.postgres_table import Table, record, records

WORDS = (
    *("now", "today", "tomorrow", "yesterday", "NOW", " Today ", "now()", "!now!", "today 10:00"),
    *("tomorrow allballs", "today12:00", "yesterday\n"),
)
TIMES = ("date", "time", "timetz", "timestamp", "timestamptz", "timestamptz(3)")
MOVING: tuple[tuple[str, Any], ...] = (
    ("day", "today"),  # the first, because it is read in another way, before the others
    ("timestamptz[]", ["2026-01-01", "now"]),
    ("timestamptz[]", '{"2026-01-01","to\\day"}'),
    ("date[]", [["now"]]),
    ("tstzrange", "[now,)"),
    ("tstzrange", "[n\\ow,)"),
    ("tstzrange", '["to"morrow,)'),
    ("daterange", "[today,tomorrow]"),
    ("tstzmultirange", "{[now,infinity)}"),
    ("daterange[]", ["[today,)"]),
    ("days", ["today"]),
    ("stint", "(now,1)"),
    ("stint[]", ["(now,1)"]),
    ("shift", "[now,)"),
    ("outer_stint", '("(now,1)")'),
)
KEPT = (
    ("timestamptz", "infinity", "infinity"),
    ("timestamptz", "epoch", "1970-01-01 00:00:00+00"),
    ("date", "-infinity", "-infinity"),
    ("time", "allballs", "00:00:00"),
    ("date", "J2451187", "1999-01-08"),
    ("text", "now", "now"),
    ("text[]", ["today"], "{today}"),
    ("mood", "now", "now"),
    ("word", "(now,1)", "(now,1)"),
    ("interval", "1 day", "1 day"),
    ("jsonb", "now", '"now"'),
)
OWN = """
    CREATE TYPE "{s}".mood AS ENUM ('now'); CREATE DOMAIN "{s}".day AS date;
    CREATE DOMAIN "{s}".days AS date[]; CREATE TYPE "{s}".stint AS (at timestamptz, n int);
    CREATE TYPE "{s}".outer_stint AS (inner_stint "{s}".stint);
    CREATE TYPE "{s}".shift AS RANGE (subtype = timestamptz);
    CREATE TYPE "{s}".word AS (a text, n int); CREATE DOMAIN "{s}".price AS numeric(8,2);
    CREATE DOMAIN "{s}".codes AS varchar(3)[];
    CREATE DOMAIN "{s}".late AS "{s}".shift CHECK (NOT isempty(VALUE))
"""
OWN_NAMES = (
    *("mood", "day", "days", "stint", "outer_stint", "shift", "shift_multirange", "word", "price"),
    *("codes", "late"),
)


def made(sandbox: Endpoints, schema: str, kinds: list[str], more: str = "") -> Table:
    """A table with a column c0, c1, … of each kind."""
    table = Table.made(sandbox.database_url, schema, f"_offset int8{more}")
    table.run(OWN.format(s=schema))
    for n, kind in enumerate(kinds):
        own = kind.removesuffix("[]") in OWN_NAMES
        named = f'"{schema}".{kind}' if own else kind
        table.run(f"ALTER TABLE {{table}} ADD COLUMN c{n} {named}")
    return table


def test_no_time_is_the_moment_at_which_it_is_written(sandbox: Endpoints, schema: str) -> None:
    table = made(sandbox, schema, list(TIMES))
    values = [{f"c{n}": word} for word in WORDS for n in range(len(TIMES))]
    good = {"c0": "2026-01-01"}
    rows = records(good, *values, good)
    assert table.refused(rows) == [(n, "moving") for n in range(1, len(values) + 1)]
    assert table.column("_offset") == [0, len(values) + 1]


def test_nor_is_it_inside_of_a_type_of_somebody_s_own(sandbox: Endpoints, schema: str) -> None:
    table = made(sandbox, schema, [kind for kind, _ in MOVING])
    rows = records(*({f"c{n}": held} for n, (_, held) in enumerate(MOVING)))
    assert table.refused(rows) == [(n, "moving") for n in range(len(MOVING))]


def test_what_always_means_the_same_is_kept(sandbox: Endpoints, schema: str) -> None:
    table = made(sandbox, schema, [kind for kind, _, _ in KEPT])
    rows = [record(0, {f"c{n}": held for n, (_, held, _) in enumerate(KEPT)})]
    entry = table.commit(rows)
    assert entry.written == 1
    listed = ", ".join(f"c{n}::text" for n in range(len(KEPT)))
    assert table.rows(listed) == [tuple(told for _, _, told in KEPT)]
    assert table.differences(entry, rows) == []


DATED = (
    *("date", "timestamp", "timestamptz", "daterange", "tsrange", "date[]", "day", "days"),
    *("shift", "shift_multirange", "shift[]", "day[]", "late[]"),
)


def test_no_date_is_guessed_from_a_year_of_two_digits(sandbox: Endpoints, schema: str) -> None:
    """As Oracle writes dates: in October of 2021, which this server would read as one of 2024."""
    table = made(sandbox, schema, list(DATED))
    held = {"daterange": "[24-OCT-21,)", "tsrange": "(,24-OCT-21)", "date[]": ["24-OCT-21"]}
    held |= {"days": "{24-OCT-21}", "shift": "[2021-10-23,24-OCT-21)"}
    held |= {"shift_multirange": "{[24-OCT-21,)}", "shift[]": ["[24-OCT-21,)"]}
    held |= {"day[]": ["24-OCT-21"], "late[]": '{"[2021-10-23,24-OCT-21)"}'}
    values = [{f"c{n}": held.get(kind, "24-OCT-21")} for n, kind in enumerate(DATED)]
    clear = {"c0": "24-OCT-2021", "c1": "Oct 24 2021 10:00", "c4": "[2021-10-24,2021-10-25)"}
    assert table.refused(records(*values, clear)) == [
        (n, "unclear_date") for n in range(len(values))
    ]
    assert table.rows("c0::text, c1::text") == [("2021-10-24", "2021-10-24 10:00:00")]


def test_no_unit_of_a_time_is_guessed_from_a_number_that_has_several(
    sandbox: Endpoints, schema: str
) -> None:
    table = made(sandbox, schema, ["timestamptz", "timestamp", "timestamptz[]"])
    of_1971 = (44582400000, 44582400000000, -44582400000)  # ms, µs
    numbers = (*of_1971, 86400000, 20210804, 210804, 1, 20210804123000, 20210804123000123)
    values = [{f"c{n % 2}": number} for n, number in enumerate(numbers)]
    rows = records(*values, {"c2": [1628080200, 86400000]})
    assert table.refused(rows) == [(n, "unclear_date") for n in range(len(rows))]
    clear = records({"c0": 0}, {"c0": 946684800000}, {"c0": -100000000}, start=20)
    table.commit(clear)
    assert table.column("c0::text") == [
        "1970-01-01 00:00:00+00",
        "2000-01-01 00:00:00+00",
        "1966-10-31 14:13:20+00",
    ]


@pytest.mark.parametrize("decode", ["json", "string"])
def test_nor_by_a_key_or_a_whole_value(sandbox: Endpoints, schema: str, decode: str) -> None:
    more = ", _key timestamptz, value timestamptz"
    table = Table.made(sandbox.database_url, schema, f"_offset int8{more}", decode=decode)
    value = b'{"value":"2026-01-01"}' if decode == "json" else b"2026-01-01"
    bad = b'{"value":"now"}' if decode == "json" else b"now"
    rows = [
        record(0, value, key=b"2026-01-01"),
        record(1, value, key=b"now"),
        record(2, bad, key=b"2026-01-01"),
    ]
    assert table.refused(rows) == [(1, "moving"), (2, "moving")]
    assert table.column("value::text") == ["2026-01-01 00:00:00+00"]
    assert table.column("_key::text") == ["2026-01-01 00:00:00+00"]


def test_nor_by_the_key_of_a_tombstone(sandbox: Endpoints, schema: str) -> None:
    table = Table.made(
        sandbox.database_url, schema, "d date PRIMARY KEY, _offset int8", tombstones="delete"
    )
    table.run("INSERT INTO {table} VALUES (current_date, 0)")
    entry = table.commit([record(1, None, key=b"today")], rule="skip")
    assert (entry.written, entry.skipped) == (0, 1)
    assert len(table.rows()) == 1


def test_whole_numbers_that_a_column_of_hundreds_rounds_are_counted(
    sandbox: Endpoints, schema: str
) -> None:
    table = made(sandbox, schema, ["numeric(5,-2)", "numeric(5,-2)[]"])
    values = [{"c0": 32768}, {"c1": [100, -150]}, {"c0": "250"}, {"c0": 300}, {"c1": [100, -100]}]
    rows = records(*values)
    entry = table.commit(rows)
    assert table.column("c0")[0] == 32800
    assert entry.details["with_rounded_values"] == 3


@pytest.mark.parametrize("is_beside", [False, True])
def test_money_and_spaces_that_are_not_kept_are_counted(
    sandbox: Endpoints, schema: str, is_beside: bool
) -> None:
    kinds = ["money", "money[]", "varchar(3)", "varchar(3)[]", "tsvector"]
    table = made(sandbox, schema, kinds, ", js json" if is_beside else "")
    rounded = [
        *('{"c0": 1.005}', '{"c0": "$1.239"}', '{"c1": [1, 1.239]}', '{"c1": "{1.239}"}'),
        *('{"c0": "-$1,234.5678"}', '{"c0": "1.2,3,5"}', '{"c0": "$"}', '{"c0": " "}'),
    ]
    cut = [
        *('{"c2": "ab  "}', '{"c2": "    "}', '{"c3": ["ab  "]}', '{"c2": "\u00e9\u00e9  "}'),
        *(r'{"c3": "{\"ab  \"}"}', '{"c4": "a:16384"}', '{"c4": "a:1A5"}'),
    ]
    kept = [
        *('{"c0": 1.250}', '{"c0": "$1,234.50"}', '{"c0": "1,234"}', '{"c1": [1.5]}', '{"c0": 7}'),
        *('{"c2": "ab "}', '{"c3": ["ab "]}', '{"c3": "{ab    }"}', '{"c4": "a:16383"}'),
        '{"c2": "\u00e9\u00e9\u00e9"}',
    ]
    rows = records(*(text.encode() for text in (*rounded, *cut, *kept)))
    entry = table.commit([*rows, record(len(rows), {"c2": "abcd"})], rule="skip")
    assert entry.skipped == 1
    assert entry.details["with_rounded_values"] == len(rounded)
    assert entry.details["with_cut_values"] == len(cut)


def test_spaces_that_a_domain_of_texts_cuts_are_counted(sandbox: Endpoints, schema: str) -> None:
    table = made(sandbox, schema, ["codes"])
    rows = records({"c0": ["abc "]}, {"c0": ["ab"]}, {"c0": ["ab", "abc  "]}, {"c0": []})
    entry = table.commit(rows)
    assert table.column("c0")[0] == ["abc"]
    assert entry.details["with_cut_values"] == 2


@pytest.mark.parametrize("is_beside", [False, True])
def test_a_number_that_is_rounded_is_counted(
    sandbox: Endpoints, schema: str, is_beside: bool
) -> None:
    kinds = ["numeric(38,18)", "numeric(8,2)", "numeric(8,2)[]", "price", "numeric", "timestamptz"]
    table = made(sandbox, schema, kinds, ", js json" if is_beside else "")
    nineteen = "0.1234567890123456789"
    rounded = [
        *(f'{{"c0":{nineteen}}}', f'{{"c0":"{nineteen}"}}', '{"c1":1.005}', '{"c2":[1,[1.005]]}'),
        *('{"c2":[1,1.005]}', '{"c3":1.005}', '{"c5":"2026-01-01T00:00:00.1234567Z"}'),
        '{"c5":1700000000000000001}',
    ]
    whole = [
        *('{"c0":0.123456789012345678}', '{"c1":1.50000}', '{"c1":1e2}', '{"c2":[1.25]}'),
        *('{"c3":1.25}', f'{{"c4":{nineteen}}}', '{"c5":"2026-01-01T00:00:00.1234560Z"}'),
        '{"c5":1700000000000000000}',
    ]
    rows = records(*(text.encode() for text in (*rounded, *whole)))
    entry = table.commit(rows, rule="skip")
    assert entry.skipped == 1, "an array that is no rectangle"
    assert entry.details["with_rounded_values"] == len(rounded) - 1
    assert table.differences(entry, rows) == []
    assert table.rows("c4::text", "_offset")[-3] == (nineteen,)


def test_of_two_fields_of_one_name_json_keeps_both_and_others_are_counted(
    sandbox: Endpoints, schema: str
) -> None:
    table = made(sandbox, schema, ["json", "jsonb", "int", "text"], ", _extra json")
    twice = '{"a":1,"b":[1.50],"a":2}'
    texts = [
        f'{{"c0":{twice}}}',
        f'{{"c0":{{"in":[{twice}]}}}}',
        f'{{"c1":{twice}}}',
        f'{{"c1":[{{"in":{twice}}}]}}',
        '{"c2":1,"c2":2}',
        '{"c2":1,"\\u00632":2}',
        f'{{"c3":{twice}}}',
        '{"more":1,"c2":3,"more":2}',
    ]
    rows = records(*(text.encode() for text in texts))
    entry = table.commit(rows)
    assert table.column("c0::text")[:2] == [twice, f'{{"in":[{twice}]}}']
    assert table.column("c1::text")[2] == '{"a": 2, "b": [1.50]}'
    assert table.column("c2")[4:6] == [2, 2]
    assert table.column("c3")[6] == twice
    assert table.column("_extra::text")[7] == '{"more":1,"more":2}'
    assert entry.details["with_repeated_fields"] == 4
    assert table.differences(entry, rows) == []


def test_a_field_twice_that_only_extra_takes_is_counted(sandbox: Endpoints, schema: str) -> None:
    table = made(sandbox, schema, ["int"], ", _extra jsonb")
    rows = records(b'{"x":1,"x":2,"c0":1}', b'{"x":{"y":1,"y":2}}', b'{"x":1}')
    entry = table.commit(rows)
    assert entry.details["with_repeated_fields"] == 2
    assert table.differences(entry, rows) == []


def test_a_name_that_is_cut_is_refused(sandbox: Endpoints, schema: str) -> None:
    table = made(sandbox, schema, ["name"])
    rows = records({"c0": "x" * 63}, {"c0": "x" * 64}, {"c0": "é" * 32})
    assert table.refused(rows) == [(1, "too_long"), (2, "too_long")]
    assert table.column("c0::text") == ["x" * 63]


def test_the_catalog_says_which_types_hold_times(sandbox: Endpoints, schema: str) -> None:
    kinds = ["stint", "outer_stint", "shift", "word", "day", "price", "numeric(8,2)", "int"]
    made(sandbox, schema, kinds)
    with open_session(sandbox.database_url, grant="") as session:
        table = read_table(session.run, TableName(schema, "cars"))
    assert table is not None
    found = dict(zip(["_offset", *kinds], table.columns, strict=True))
    assert [name for name in kinds if found[name].holds_times] == ["stint", "outer_stint", "shift"]
    modifier = found["numeric(8,2)"].modifier
    assert (found["price"].base_modifier, found["price"].modifier) == (modifier, -1)


def test_json_in_a_column_of_bytes_keeps_its_backslashes(sandbox: Endpoints, schema: str) -> None:
    table = Table.made(sandbox.database_url, schema, "_offset int8, v bytea, w bytea[]")
    held = {"path": "C:\\new\\101", "quote": '"'}
    rows = records({"v": held}, {"v": [held, "\\\\"]}, {"w": [held, "aGk="]}, {"v": "\\\\x"})
    entry = table.commit(rows, rule="skip")
    assert (entry.written, entry.skipped) == (3, 1)
    [value, values, _] = table.column("v")
    assert json.loads(value) == held
    assert json.loads(values) == [held, "\\\\"]
    assert [json.loads(table.column("w[1]")[2]), table.column("w[2]")[2]] == [held, b"hi"]
    assert table.differences(entry, rows) == []


@pytest.mark.parametrize("kind", ["tsvector", "tsquery"])
def test_a_list_is_no_text_to_search(sandbox: Endpoints, schema: str, kind: str) -> None:
    """The server would find the word `["fast` in it."""
    table = Table.made(sandbox.database_url, schema, f"_offset int8, v {kind}")
    values = [["fast"], ["fast car"], [], {"a": 1}, "fast"]
    assert table.refused(records(*({"v": each} for each in values))) == [
        (n, "type") for n in range(4)
    ]
    assert table.column("v::text") == ["'fast'"]

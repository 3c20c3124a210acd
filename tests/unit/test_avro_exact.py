"""Avro bytes that the decoder would read as another value, or as far more than they are, are refused."""

import datetime
import io
import json
import time
from decimal import Context, Decimal

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playhead import decoding
from playhead.schemas.avro import AvroReader
from playhead.schemas.avro_limits import MOST_EMPTY_VALUES, AvroLimits, _Walk
from playhead.schemas.registry import Schema
from playhead.schemas.registry_decoder import dumped
from tests.unit.test_avro_limits import number, reader

MOST = f"more than {MOST_EMPTY_VALUES:,} empty values"
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
UNION = ["null", "int", "string"]
MILLIS = {"type": "int", "logicalType": "time-millis"}
MICROS = {"type": "long", "logicalType": "time-micros"}


def record(fields, name="R"):
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": each, "type": type_} for each, type_ in fields.items()],
    }


def array(items):
    return {"type": "array", "items": items}


def decimal(scale):
    return {"type": "bytes", "logicalType": "decimal", "precision": 20_000, "scale": scale}


def many(item: bytes, times: int) -> bytes:
    return number(times) + item * times + number(0)


NULLS = record({"b": "boolean", **{f"n{n}": "null" for n in range(9000)}})
BOMBS = [
    pytest.param(array(NULLS), many(b"\x01", 400), id="nulls beside one byte"),
    pytest.param(array(["null", NULLS]), many(number(1) + b"\x01", 400), id="in a union"),
    pytest.param({"type": "map", "values": NULLS}, many(number(1) + b"k\x01", 400), id="in a map"),
    pytest.param(array(array(NULLS)), many(many(b"\x01", 1), 400), id="in arrays of arrays"),
    pytest.param(record({"a": array(NULLS)}, "S"), many(b"\x01", 400), id="in a record"),
    pytest.param(array(decimal(20_000)), many(number(1) + b"\x01", 20_000), id="decimals"),
    pytest.param(array(["null", decimal(900)]), many(number(1) + number(0), 20_000), id="scale"),
    pytest.param(
        record({f"d{n}": decimal(20_000) for n in range(5000)}),
        number(0) * 5000,
        id="many decimals",
    ),
    pytest.param(array(record({"n" * 9000: "boolean"})), many(b"\x01", 400), id="a long name"),
    pytest.param(
        array({"type": "enum", "name": "E", "symbols": ["A", "B" * 9000]}),
        many(number(1), 400),
        id="a long symbol",
    ),
]


@pytest.mark.parametrize(("schema", "data"), BOMBS)
def test_a_few_bytes_do_not_become_a_large_value(schema, data):
    for outer in (schema, record({"f": schema}, "Outer")):
        with pytest.raises(ValueError, match=MOST):
            reader(outer).read(data)


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        pytest.param(array(decimal(38)), many(number(0), 50_000), id="zeros"),
        pytest.param(
            array(record({f"a_name_as_long_as_names_are_{n}": ["null", "int"] for n in range(9)})),
            many(number(0) * 9, 20_000),
            id="fields without values",
        ),
        pytest.param(array(NULLS), many(b"\x01", 1), id="one of many fields"),
        pytest.param(decimal(20_000), number(1) + b"\x01", id="one decimal of the largest scale"),
    ],
)
def test_large_values_of_every_day_are_read(schema, data):
    assert reader(schema).read(data)
    assert reader(record({"f": schema}, "Outer")).read(data)["f"]


@pytest.mark.slow  # walks 275,000 values
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 12), st.integers(0, 3), st.integers(0, 200), st.booleans())
def test_a_value_that_is_not_walked_would_have_passed(nulls, booleans, scale, is_union):
    """The schema alone decides for all values, so it may never allow what the walk would refuse."""
    fields = {f"n{n}": "null" for n in range(nulls)} | {f"b{n}": "boolean" for n in range(booleans)}
    item = record({**fields, "d": decimal(scale)})
    made = reader(record({"a": array(["null", item] if is_union else item)}, "Outer"))
    data = many((number(1) if is_union else b"") + b"\x01" * booleans + number(0), 11_000)
    try:
        _Walk(made.named, data).run(made.schema)
    except ValueError:
        assert AvroLimits(made.schema, made.named)._can_exceed


OUTSIDE = [
    pytest.param(UNION, number(-1) + number(1) + b"a", id="union -1"),
    pytest.param(UNION, number(-2) + number(5), id="union -2"),
    pytest.param(UNION, number(3), id="union 3"),
    pytest.param(UNION, number(2**32), id="union 2**32"),
    pytest.param(ENUM, number(-1), id="enum -1"),
    pytest.param(ENUM, number(2), id="enum 2"),
    pytest.param(ENUM, number(2**32), id="enum 2**32"),
    pytest.param("int", number(2**31), id="int above"),
    pytest.param("int", number(-(2**31) - 1), id="int below"),
    pytest.param({"type": "int"}, number(2**40), id="int in an object"),
    pytest.param({"type": "int", "logicalType": "lap"}, number(2**40), id="int with a meaning"),
    pytest.param({"type": "int", "logicalType": "date"}, number(2**40), id="date"),
    pytest.param("long", b"\xff" * 10 + b"\x01", id="long of 11 bytes"),
    pytest.param("long", b"\xff" * 9 + b"\x02", id="long of 65 bits"),
    pytest.param("int", b"\x80" * 20 + b"\x01", id="int of 21 bytes"),
    pytest.param("boolean", b"\x02", id="boolean 2"),
    pytest.param({"type": "boolean"}, b"\xff", id="boolean in an object"),
    pytest.param(["null", "boolean"], number(1) + b"\x80", id="boolean in a union"),
    pytest.param(MILLIS, number(-1), id="time-millis -1"),
    pytest.param(MILLIS, number(86_400_000), id="time-millis of a day"),
    pytest.param(MILLIS, number(2**40), id="time-millis 2**40"),
    pytest.param(MICROS, number(-1), id="time-micros -1"),
    pytest.param(MICROS, number(-(2**63)), id="time-micros -2**63"),
    pytest.param(MICROS, number(86_400_000_000), id="time-micros of a day"),
    pytest.param(array("int"), number(-(2**63)) + number(0) + number(0), id="a count of -2**63"),
]
PLACES = [
    pytest.param(lambda each: (each, b"", b""), id="alone"),
    pytest.param(lambda each: (record({"f": each}), b"", b""), id="field"),
    pytest.param(lambda each: (array(each), number(1), number(0)), id="item"),
    pytest.param(
        lambda each: ({"type": "map", "values": each}, number(1) + number(1) + b"k", number(0)),
        id="map",
    ),
    pytest.param(
        lambda each: (record({"r": record({"f": each}, "Inner")}), b"", b""), id="inner record"
    ),
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("schema", "data"), OUTSIDE)
def test_a_number_outside_its_bounds_is_no_other_value(schema, data, place):
    outer, before, after = place(schema)
    made = AvroReader.of(None, Schema("AVRO", json.dumps(outer)))
    with pytest.raises(ValueError, match=r"."):
        made.read(before + data + after)
    with pytest.raises(
        ValueError, match=r"."
    ):  # The second value of a schema is read no differently.
        made.read(before + data + after)


@pytest.mark.parametrize(
    ("schema", "data", "found"),
    [
        (UNION, number(2) + number(1) + b"a", "a"),
        (["null", ENUM], number(1) + number(1), "B"),
        ("int", number(-(2**31)), -(2**31)),
        ("int", number(2**31 - 1), 2**31 - 1),
        ("long", number(-(2**63)), -(2**63)),
        ("long", number(2**63 - 1), 2**63 - 1),
        ("long", b"\x8e" + b"\x80" * 8 + b"\x00", 7),
        ("bytes", number(40) + b"\xff" * 40, b"\xff" * 40),
        ("string", number(40) + "я".encode() * 20, "я" * 20),
        ("boolean", b"\x01", True),
        (["null", "boolean"], number(1) + b"\x00", False),
        (MILLIS, number(86_399_999), datetime.time(23, 59, 59, 999_000)),
        (MICROS, number(0), datetime.time(0)),
    ],
)
@pytest.mark.parametrize("place", PLACES)
def test_the_bounds_themselves_are_read(schema, data, found, place):
    outer, before, after = place(schema)
    shown = dumped(reader(outer).read(before + data + after))
    assert dumped(found) in shown


def test_a_schema_used_twice_by_its_name_is_guarded_in_both_places():
    fields = record({"a": record({"f": ["null", ENUM]}, "Inner"), "b": "Inner", "c": "E"})
    good = number(1) + number(1) + number(0) + number(0)
    assert reader(fields).read(good) == {"a": {"f": "B"}, "b": {"f": None}, "c": "A"}
    for bad in (good[:2] + number(-1) + number(1) + good[3:], good[:3] + number(-1)):
        with pytest.raises(ValueError, match="do not fit the schema"):
            reader(fields).read(bad)


MAPS = {"m": {"type": "map", "values": ["null", "int", {"type": "map", "values": "string"}]}}


@pytest.mark.parametrize(
    "held", [{}, {"": None}, {"a": None, "b": -7, "c": {"key": "value"}}, dict.fromkeys("äöü", 1)]
)
def test_a_map_is_read_as_it_was_written(held):
    schema = record(MAPS)
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(schema), {"m": held})
    assert reader(schema).read(written.getvalue()) == {"m": held}
    assert reader(schema).kinds() == {"m": decoding.JSON}


ONE, OTHER = number(1) + b"a" + number(1) + number(3), number(1) + b"a" + number(0)
INNER = number(1) + b"i" + number(2) + number(2) + (number(1) + b"k" + number(0)) * 2 + number(0)


@pytest.mark.parametrize(
    "data",
    [
        number(2) + ONE + OTHER + number(0),
        number(1) + ONE + number(1) + ONE + number(0),
        number(-2) + number(len(ONE + OTHER)) + ONE + OTHER + number(0),
        number(1) + INNER + number(0),
    ],
    ids=["one block", "two blocks", "a block with its size", "inside"],
)
def test_of_two_entries_with_one_key_none_is_lost_silently(data):
    with pytest.raises(ValueError, match="two entries with one key"):
        reader(record(MAPS)).read(data)


@pytest.mark.parametrize("inside", [False, True])
def test_a_schema_with_two_fields_of_one_name_is_invalid(inside: bool) -> None:
    """The decoder would keep the last of their values, and nobody would miss the other."""
    twice = {"type": "record", "name": "T", "fields": [{"name": "a", "type": "int"}] * 2}
    schema = record({"all": array(["null", twice])}) if inside else twice
    with pytest.raises(ValueError, match="two fields of T have one name"):
        reader(schema)


def test_a_guarded_boolean_is_still_a_boolean_for_tables():
    fields = {"b": "boolean", "n": ["null", "boolean"], "o": {"type": "boolean"}}
    assert set(reader(record(fields)).kinds().values()) == {decoding.BOOLEAN}
    assert set(reader(record(fields)).kinds()) == {"b", "n", "o"}


def test_schemas_with_unions_enums_integers_and_times_are_not_walked():
    schema = record(
        {
            "u": UNION,
            "e": ENUM,
            "i": "int",
            "t": MILLIS,
            "b": "boolean",
            "a": array(["null", "int"]),
        }
    )
    assert not reader(schema).limits._can_exceed


@given(st.integers(1, 2_500), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_a_long_decimal_is_its_number(size, random):
    data = random.choice(
        (random.randbytes(size), b"\x80" + b"\x00" * size, b"\x7f" + b"\xff" * size)
    )
    found = reader(decimal(0)).read(number(len(data)) + data)
    assert found == Decimal(int.from_bytes(data, "big", signed=True))


def test_a_long_decimal_takes_no_time_that_grows_with_its_square():
    def read_in(size: int) -> float:
        data = b"\x7f" + b"\xa5" * (size - 1)
        began = time.process_time()
        found = reader(decimal(2)).read(number(len(data)) + data)
        took = time.process_time() - began
        plain = Decimal(int.from_bytes(data, "big"))
        assert found == plain.scaleb(-2, Context(prec=60_000))
        return took

    # Four times as long, sixteen times as much by the square; the least of a few, on a machine with other load.
    short, long = (min(read_in(size) for _ in range(5)) for size in (5_000, 20_000))
    assert long < 10 * short


UUID = {"type": "string", "logicalType": "uuid"}
PARTS = ("12345678", "9abc", "4def", "8123", "456789abcdef")


@pytest.mark.parametrize(
    "text",
    [
        "-".join(PARTS), "-".join(PARTS).upper(), "".join(PARTS), f"{{{'-'.join(PARTS)}}}",
        f"urn:uuid:{'-'.join(PARTS)}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("schema", [UUID, {"type": "map", "values": ["null", UUID]}])
def test_a_uuid_is_read_as_it_is_spelled(schema, text):
    one = number(len(text)) + text.encode()
    data = one if schema is UUID else number(1) + number(1) + b"k" + number(1) + one + number(0)
    found = dumped(reader(schema).read(data)).decode()
    assert found.count("-".join(PARTS)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "1234567_9abc4def8123456789abcdef",
        "12345678_-9abc-4def-8123-456789abcdef",
        " 2345678-9abc-4def-8123-456789abcde ",
        "1234567-89abc-4def-8123-456789abcdef",
        "12345678-9abc-4def-8123-456789abcde\u0664",
        "{12345678-9abc-4def-8123-456789abcdef",
        "12345678-9abc4def8123456789abcdef",
        "12345678-9abc-4def-8123-456789abcdef\n",
    ],
)
def test_a_text_that_is_no_uuid_is_no_other_one(text):
    with pytest.raises(ValueError, match="badly formed UUID"):
        reader(UUID).read(number(len(text.encode())) + text.encode())

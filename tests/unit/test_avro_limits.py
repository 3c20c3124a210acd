"""Avro values that would take the process down are refused before the native decoder sees them."""

import contextlib
import io
import json
import math
import time
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playhead.schemas.avro import AvroReader
from playhead.schemas.avro_limits import MOST_EMPTY_VALUES, MOST_NESTED, AvroLimits, _Walk
from playhead.schemas.registry import Reference, Schema
from tests.fix_schemas import CAR

CHAIN = {
    "type": "record",
    "name": "Chain",
    "fields": [{"name": "next", "type": ["null", "Chain"]}],
}
TREE = {"type": "record", "name": "Tree", "fields": [
    {"name": "many", "type": {"type": "array", "items": "Tree"}},
    {"name": "named", "type": {"type": "map", "values": "Tree"}},
]}  # fmt: skip


def reader(schema) -> AvroReader:
    return AvroReader.of(None, Schema("AVRO", json.dumps(schema)))


def number(value: int) -> bytes:
    zigzag = value << 1 if value >= 0 else ((-value) << 1) - 1
    found = bytearray()
    while True:
        found.append(zigzag & 0x7F | (0x80 if zigzag > 0x7F else 0))
        zigzag >>= 7
        if not zigzag:
            return bytes(found)


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        pytest.param(CHAIN, number(1) * 100_000 + number(0), id="records"),
        pytest.param(TREE, number(1) * 200_000, id="arrays"),
        pytest.param(TREE, (number(0) + number(1) + number(0)) * 200_000, id="maps"),
        pytest.param({"type": "array", "items": TREE}, number(1) * 200_000, id="inside"),
    ],
)
def test_a_value_that_nests_too_deeply_is_refused(schema, data):
    with pytest.raises(ValueError, match=f"more than {MOST_NESTED} levels"):
        reader(schema).read(data)


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        pytest.param(CHAIN, number(-1) * 100_000 + number(0), id="the last type of a union by -1"),
        pytest.param(CHAIN, (b"\x82" + b"\x80" * 9 + b"\x00") * 100_000, id="a number of 11 bytes"),
        pytest.param(CHAIN, (b"\x82" + b"\x80" * 8 + b"\x02") * 100_000, id="a number of 65 bits"),
        pytest.param(
            TREE, number(0) + number(1) + number(-5) + number(1) * 200_000, id="a length below 0"
        ),
        pytest.param(CHAIN, number(1) * 100, id="the end"),
    ],
)
def test_bytes_that_two_readers_understand_in_two_ways_are_refused(schema, data):
    """Where the walk stopped and the decoder went on, it would go on to the end of the stack."""
    with pytest.raises(ValueError, match="do not fit the schema"):
        reader(schema).read(data)


def test_a_schema_that_nests_too_deeply_by_itself_is_refused_with_its_values():
    schema, data = "long", number(7)
    for _ in range(MOST_NESTED + 1):
        schema, data = {"type": "array", "items": schema}, number(1) + data + number(0)
    with pytest.raises(ValueError, match="levels"):
        reader(schema).read(data)


def doubled(times: int):
    """A record of two records of two records …, which takes no bytes at all."""
    fields = [{"name": "none", "type": "null"}]
    schema = {"type": "record", "name": "R0", "fields": fields}
    for level in range(1, times + 1):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": f"R{level - 1}"}]
        schema = {"type": "record", "name": f"R{level}", "fields": fields}
    return schema


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        pytest.param({"type": "array", "items": "null"}, number(10**9) + number(0), id="nulls"),
        pytest.param(
            {"type": "array", "items": "null"}, number(-(10**9)) + number(1) + number(0), id="sized"
        ),
        pytest.param(
            {"type": "array", "items": {"type": "record", "name": "E", "fields": []}},
            number(10**9) + number(0),
            id="records",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}},
            number(10**9) + number(0),
            id="fixed",
        ),
        pytest.param(doubled(30), b"", id="doubled"),
    ],
)
def test_more_empty_values_than_anybody_means_are_refused(schema, data):
    with pytest.raises(ValueError, match=f"more than {MOST_EMPTY_VALUES:,} empty values"):
        reader(schema).read(data)


def test_a_few_empty_values_are_read():
    found = reader({"type": "array", "items": "null"}).read(number(1000) + number(0))
    assert found == [None] * 1000


def test_a_list_that_is_long_and_not_deep_is_read():
    data = number(1) + b"".join([number(1)] * (MOST_NESTED - 2)) + number(0)
    assert reader(CHAIN).read(data[: MOST_NESTED - 2] + number(0))
    schema = {"type": "array", "items": ["null", CHAIN]}
    assert len(reader(schema).read(number(50_000) + number(0) * 50_000 + number(0))) == 50_000


@pytest.mark.parametrize("scale", [20_001, 10**9])
def test_a_decimal_of_a_scale_that_fills_the_memory_is_refused(scale):
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": scale, "scale": scale}
    with pytest.raises(ValueError, match="scale"):
        reader(decimal).read(number(1) + b"\x01")


@pytest.mark.parametrize("scale", [None, [], "2"])
def test_a_decimal_whose_scale_is_no_number_is_refused(scale):
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": scale}
    with pytest.raises(ValueError, match="a decimal's scale must be a whole number, not"):
        reader(decimal)


def test_a_decimal_of_more_digits_than_anybody_means_is_refused():
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    with pytest.raises(ValueError, match="a decimal of 1,000,000 bytes"):
        reader(decimal).read(number(1_000_000) + b"\x7f" * 1_000_000)


def test_a_schema_whose_text_nests_too_deeply_is_refused():
    text = '{"type": "array", "items": ' * 100_000 + '"null"' + "}" * 100_000
    with pytest.raises(ValueError, match="nested too deeply"):
        AvroReader.of(None, Schema("AVRO", text))


def test_schemas_of_every_day_are_not_walked():
    """What is decoded at full speed: no value of theirs can exceed the limits."""
    named: dict = {}
    parsed = fastavro.parse_schema(json.loads(json.dumps(CAR)), named_schemas=named)
    assert not AvroLimits(parsed, named)._can_exceed


FIELDS = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "bytes", "string"])
TYPES = st.recursive(
    FIELDS,
    lambda inner: st.one_of(
        inner.map(lambda each: {"type": "array", "items": each}),
        inner.map(lambda each: {"type": "map", "values": each}),
        inner.map(lambda each: ["null", each] if each != "null" else ["null", "long"]),
    ),
    max_leaves=6,
).filter(lambda each: not isinstance(each, list) or not any(isinstance(x, list) for x in each))
VALUES = {
    "null": st.none(), "boolean": st.booleans(), "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1), "float": st.just(0.5), "double": st.just(0.25),
    "bytes": st.binary(max_size=9), "string": st.text(max_size=9),
}  # fmt: skip


def value_of(schema):
    if isinstance(schema, list):
        return st.one_of(map(value_of, schema))
    if isinstance(schema, str):
        return VALUES[schema]
    if schema["type"] == "array":
        return st.lists(value_of(schema["items"]), max_size=4)
    return st.dictionaries(st.text(max_size=3), value_of(schema["values"]), max_size=4)


def is_legal(schema) -> bool:
    """Avro has no union directly in a union."""
    if isinstance(schema, list):
        return all(not isinstance(each, list) and is_legal(each) for each in schema)
    if isinstance(schema, dict):
        return is_legal(schema.get("items", schema.get("values")))
    return True


@pytest.mark.slow  # two hundred schemas
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_the_walk_ends_where_the_value_ends(data):
    """Its own reading of Avro agrees with the writer of the library on every schema and value."""
    fields = data.draw(st.lists(TYPES.filter(is_legal), min_size=1, max_size=4))
    record = {
        "type": "record",
        "name": "R",
        "fields": [{"name": f"f{n}", "type": each} for n, each in enumerate(fields)],
    }
    value = {f"f{n}": data.draw(value_of(each)) for n, each in enumerate(fields)}
    named: dict = {}
    parsed = fastavro.parse_schema(record, named_schemas=named)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, parsed, value)
    walk = _Walk(named, out.getvalue())
    walk.run(parsed)
    assert walk._at == len(out.getvalue())


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60), st.sampled_from([CHAIN, TREE, CAR]))
def test_whatever_the_bytes_are_the_answer_is_a_value_or_a_refusal(data, schema):
    with contextlib.suppress(ValueError):
        reader(schema).read(data)


def test_a_schema_does_not_say_what_is_ours_to_say():
    """The bounds of decimals were looked at by their own name, and not by the one that we give them."""
    kind = {"type": "bytes", "logicalType": "playhead-decimal", "scale": 10**9}
    assert reader(kind).read(number(1) + b"\x07") == b"\x07"


@pytest.mark.parametrize("is_inside", [False, True])
def test_a_schema_does_not_say_that_it_has_been_checked(is_inside):
    """A decimal of a scale below 0 has as many zeros, and the decoder refuses it only where it checks."""
    marks = {"__fastavro_parsed": True, "__named_schemas": {}}
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": -900_000}
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}
    schema |= {} if is_inside else marks
    with pytest.raises(ValueError, match="scale"):
        reader({"type": "array", "items": schema | marks} if is_inside else schema)


@pytest.mark.parametrize("size", [math.inf, -math.inf, math.nan, -1, 1.5, "3", None, True, []])
@pytest.mark.parametrize("is_inside", [True, False])
def test_a_size_that_is_no_number_hides_no_empty_values(size: Any, is_inside: bool) -> None:
    """Beside one of an infinite size, ten bytes could ask for any number of nulls."""
    fixed = {"type": "fixed", "name": "F", "size": size}
    fields = [("nulls", {"type": "array", "items": "null"}), ("fixed", ["null", fixed])]
    if not is_inside:
        fields[1] = ("fixed", fixed)
    named = [{"name": name, "type": type_} for name, type_ in fields]
    with pytest.raises(ValueError, match="needed a whole number"):
        reader({"type": "record", "name": "R", "fields": named})


class Tower:
    """A registry in which each schema refers twice to the one before."""

    def referred(self, reference: Reference) -> Schema:
        return level(int(reference.subject))


def level(number: int) -> Schema:
    below = [
        Reference(f"r{number - 1}", str(number - 1), 1),
        Reference("again", str(number - 1), 1),
    ]
    fields = [{"name": "a", "type": f"r{number - 1}"}] if number else []
    text = json.dumps({"type": "record", "name": f"r{number}", "fields": fields})
    return Schema("AVRO", text, tuple(below) if number else ())


def test_references_are_followed_once() -> None:
    tower: Any = Tower()
    assert AvroReader.of(tower, level(60)).read(b"")


def test_references_have_a_limit() -> None:
    tower: Any = Tower()
    with pytest.raises(ValueError, match="refers to more than 300 others"):
        AvroReader.of(tower, level(400))


def test_a_value_of_a_union_of_many_types_takes_no_longer_than_another():
    types = [{"type": "record", "name": f"R{i}", "fields": []} for i in range(5_000)]
    made = reader(["null", *types, "string"])
    begun_s = time.monotonic()
    for _ in range(100):
        assert made.read(number(5_001) + b"\x02x") == "x"
    assert time.monotonic() - begun_s < 10, "each takes a second if the schema is parsed again"


def test_a_value_that_is_no_record_may_have_references():
    written = Schema(
        "AVRO", json.dumps({"type": "array", "items": "r0"}), (Reference("r0", "0", 1),)
    )
    tower: Any = Tower()
    found = AvroReader.of(tower, written)
    assert found.read(b"\x04\x00") == [{}, {}]
    assert found.kinds() == {}


def test_a_map_is_one_level():
    schema = {
        "type": "record",
        "name": "T",
        "fields": [{"name": "m", "type": {"type": "map", "values": "T"}}],
    }
    deep = MOST_NESTED // 2 - 1  # A record and a map each.
    found = reader(schema).read((number(1) + number(0)) * deep + number(0) * (deep + 1))
    for _ in range(deep):
        found = found["m"][""]
    assert found == {"m": {}}


OWN_NAMES = ["int", "null", "string", "fixed", "enum", "array", "map", "union", "record", "error"]


@pytest.mark.parametrize("name", OWN_NAMES)
def test_a_record_may_have_the_name_of_a_type_of_avros(name: str) -> None:
    places = {"a": "int", "b": "string", "c": {"type": "array", "items": "long"}}
    fields = [{"name": each, "type": type_} for each, type_ in places.items()]
    found = reader({"type": "record", "name": name, "fields": fields})
    data = number(1) + number(1) + b"x" + number(1) + number(2) + number(0)
    assert found.read(data) == {"a": 1, "b": "x", "c": [2]}
    assert found.kinds() == {"a": "integer", "b": "text", "c": "json"}


@pytest.mark.parametrize("name", ["array", "map", "union", "record", "error"])
def test_a_record_of_such_a_name_may_refer_to_itself(name: str) -> None:
    chain = reader({**CHAIN, "name": name, "fields": [{"name": "next", "type": ["null", name]}]})
    assert chain.read(number(1) + number(0)) == {"next": {"next": None}}
    with pytest.raises(ValueError, match=f"more than {MOST_NESTED} levels"):
        chain.read(number(1) * 100_000 + number(0))


@pytest.mark.parametrize("name", ["fixed", "enum", "array", "union"])
def test_an_enum_of_such_a_name_is_read_where_it_is_referred_to(name: str) -> None:
    enum = {"type": "enum", "name": name, "symbols": ["A", "B"]}
    fields = [{"name": "a", "type": enum}, {"name": "b", "type": name}]
    found = reader({"type": "record", "name": "R", "fields": fields})
    assert found.read(number(1) + number(0)) == {"a": "B", "b": "A"}


def test_a_type_that_is_called_null_hides_no_empty_values() -> None:
    fields = [
        {"name": "a", "type": {"type": "fixed", "name": "null", "size": 10}},
        {"name": "b", "type": {"type": "array", "items": "null"}},
    ]
    found = reader({"type": "record", "name": "R", "fields": fields})
    assert found.read(b"0123456789" + number(2) + number(0))["b"] == [None, None]
    with pytest.raises(ValueError, match="empty values"):
        found.read(b"0123456789" + number(1_000_000) + number(0))

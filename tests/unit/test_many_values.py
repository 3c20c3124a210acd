"""Values of very many parts: a few kilobytes of a packed batch can unfold to gigabytes of Python's objects."""

import json
from collections.abc import Callable

import pytest

from playhead.account import Account, ErrorRule
from playhead.json_objects import MOST_VALUES
from playhead.postgres.rows.column_layout import Field, Layout
from playhead.postgres.rows.column_types import route_of
from playhead.postgres.rows.decode import Decoder, Refusals
from playhead.postgres.rows.python_json import read_object
from playhead.postgres.rows.text_format import Bad
from playhead.postgres.session import TableName
from playhead.postgres.table import Column, Table
from playhead.record import Record, Slice, TimestampType
from playhead.records import Records
from playhead.schemas import avro_limits, protobuf_limits
from playhead.schemas.avro import AvroReader
from playhead.schemas.plain_forms import FORMS
from playhead.schemas.protobuf import ProtobufReader
from playhead.schemas.registry import Registry, Schema
from playhead.tables.json_fields import fields_of
from playhead.transform.selected_fields import _READER, SelectedPath, _why_not_from

NONE = Registry("http://127.0.0.1:9")
MANY = b'{"a":[' + b"0," * MOST_VALUES + b"0]}"
ZEROS = 1 << 20
READS: list[Callable[[bytes], object]] = [read_object, fields_of, FORMS["json"]]


@pytest.mark.parametrize("read", READS, ids=["postgres", "rows", "json"])
def test_a_json_value_of_millions_of_values_is_refused(read):
    with pytest.raises((ValueError, Bad), match=r"more than 4,194,304 values"):
        read(MANY)
    in_text = b'{"a":"' + b"0," * MOST_VALUES + b'"}'
    assert read(in_text)


@pytest.mark.parametrize("base", ["int8", "jsonb"])
def test_a_table_refuses_that_record_alone(base):
    """Also where Arrow could read it, because comparisons may read it otherwise."""
    element, name = ("int8", "_int8") if base == "int8" else ("", "jsonb")
    column = Column("a", f"{base}[]", name, "b", element, -1, False, "", "", "", None)
    are_none = (False, False, False, False, False)
    table = Table(TableName("s", "t"), 1, "r", "p", *are_none, (column,), ())
    decoder = Decoder(Layout(table, (), (Field(column, route_of(column)),)), "json")
    rows = [b'{"a":[1]}', MANY, b'{"a":[2]}']
    records = Records.of(
        Record("cars", 0, n, 0, TimestampType.CREATE_TIME, None, value, ())
        for n, value in enumerate(rows)
    )
    account = Account(Slice("cars", 0, 0, len(rows)), ErrorRule("skip"))
    refusals = Refusals(records, account)
    assert decoder.decode(records, refusals, nulls_are_rows=False).rows == 2
    assert refusals.indexes == {1}


def test_no_field_of_one_is_selected():
    path = SelectedPath(
        "value", ("b",), "value:b", keeps_names=False, keeps_numbers=False, is_text=False
    )
    assert "more than 4,194,304 values" in str(_why_not_from(MANY, _READER, [path]))


def varint(number: int) -> bytes:
    found = b""
    while number > 0x7F:
        found, number = found + bytes([number & 0x7F | 0x80]), number >> 7
    return found + bytes([number])


def zigzag(number: int) -> bytes:
    return varint(number << 1)


def test_an_avro_value_of_very_many_records_of_a_byte_is_refused(monkeypatch):
    monkeypatch.setattr(avro_limits, "MOST_STEPS", 1 << 16)
    record = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "boolean"}]}
    schema = Schema("AVRO", json.dumps({"type": "array", "items": record}))
    reader = AvroReader.of(NONE, schema)
    with pytest.raises(ValueError, match=r"more than 65,536 steps"):
        reader.read(zigzag(ZEROS) + bytes(ZEROS) + b"\0")
    assert len(reader.read(zigzag(1_000) + bytes(1_000) + b"\0")) == 1_000


def test_a_long_avro_value_of_few_parts_is_read():
    schema = Schema("AVRO", json.dumps("bytes"))
    assert len(AvroReader.of(NONE, schema).read(zigzag(ZEROS) + bytes(ZEROS))) == ZEROS


PROTO = """syntax = "proto3";
message A { repeated B b = 1; repeated bool c = 2; bytes d = 3; }
message B { bool x = 1; }"""


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"\x0a\0" * ZEROS, "messages in it"),
        (b"\x12\x80\x80\x40" + bytes(ZEROS), "its lists have more than "),
    ],
    ids=["messages", "members"],
)
def test_a_protobuf_value_of_very_many_parts_is_refused(monkeypatch, data, told):
    monkeypatch.setattr(protobuf_limits, "MOST_MESSAGES", 1 << 16)
    monkeypatch.setattr(protobuf_limits, "MOST_MEMBERS", 1 << 16)
    reader = ProtobufReader.of(NONE, Schema("PROTOBUF", PROTO))
    for read in (reader.exact, reader.read):
        with pytest.raises(ValueError, match=told):
            read((0,), data)
    assert reader.exact((0,), b"\x1a\x80\x80\x40" + bytes(ZEROS))["d"] == bytes(ZEROS)


IN_ANY = """syntax = "proto3";
import "google/protobuf/any.proto";
message M { repeated google.protobuf.Any a = 1; bytes d = 2; }
message L { repeated bool c = 1; repeated E e = 2; }
message E { bool x = 1; }"""


def sized(tag: bytes, data: bytes) -> bytes:
    return tag + varint(len(data)) + data


@pytest.mark.parametrize(
    ("inner", "told"),
    [
        (sized(b"\x0a", bytes(40_000)), "its lists have more than "),
        (b"\x12\0" * 40_000, "messages in it"),
    ],
    ids=["members", "messages"],
)
def test_parts_of_all_anys_of_a_protobuf_value_count_together(monkeypatch, inner, told):
    monkeypatch.setattr(protobuf_limits, "MOST_MESSAGES", 1 << 16)
    is_of_members = told != "messages in it"
    monkeypatch.setattr(protobuf_limits, "MOST_MEMBERS", 1 << 16 if is_of_members else 85_000)
    reader = ProtobufReader.of(NONE, Schema("PROTOBUF", IN_ANY))
    one = sized(b"\x0a", sized(b"\x0a", b"x/L") + sized(b"\x12", inner))
    padding = sized(b"\x12", bytes(80_000))
    assert reader.read((0,), one + padding)
    for read in (reader.exact, reader.read):
        with pytest.raises(ValueError, match=told):
            read((0,), one + one + padding)

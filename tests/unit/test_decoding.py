"""Values decoded for replays: nothing of them is lost, and what cannot be decoded is its record's own trouble."""

import base64
import io
import json
import math
import pickle
import struct
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from google.protobuf import message_factory
from hypothesis import given
from hypothesis import strategies as some

from playhead import decoding
from playhead.account import Account, DeadLetter, ErrorRule, RecordRefused
from playhead.config.context import configure
from playhead.decoding import REPLAYED_FORMS, UNDECODED_FORMS, reading, without_undecoded
from playhead.errors import BadValue, MissingPiece, UsageError
from playhead.ledger import Entry
from playhead.postgres.create_table import table_for
from playhead.postgres.session import TableName as TablePlace
from playhead.record import Slice
from playhead.records import Records
from playhead.replay.assemble import ends
from playhead.replay.decode import readable, sampled
from playhead.schemas.proto_compiler import compile_proto
from playhead.schemas.proto_json import Values, kinds
from playhead.schemas.registry import (
    Registry,
    RegistryRefused,
    RegistryUnavailable,
    Schema,
    UnknownSchema,
)
from playhead.schemas.registry_decoder import Registered
from playhead.schemas.schema_id import VALUE_HEADER, SchemaId
from playhead.schemas.value_decoder import ValueDecoding
from playhead.source import NOT_WHOLE, UnreadableRecord
from playhead.task.job import Job
from playhead.task.play import play
from playhead.task.slicer import Filter, Limits
from playhead.testing import ListSource, ListTarget
from tests.fix_registry import TestRegistry
from tests.fix_schemas import AVRO, CAR, CAR_TYPE, PROTO
from tests.unit.replaying import TOPIC, record, request

FIRST, LAST = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)


class Held(Registry):
    """One schema, without a server."""

    def schema(self, _: SchemaId) -> Schema:
        return Schema("AVRO", json.dumps(CAR))


def cents(places: int, digits: int) -> some.SearchStrategy[Decimal]:
    most = 10**digits - 1
    return some.integers(-most, most).map(lambda n: Decimal(n).scaleb(-places))


def rough(least: datetime, most: datetime) -> some.SearchStrategy[datetime]:
    return some.datetimes(least, most, timezones=some.just(UTC))


# The writer counts milliseconds by a float before 1970, so these are whole ones, and it stays exact.
CARS = some.fixed_dictionaries(
    {
        "price": cents(9, 28),
        "fixed": cents(2, 20),
        "again": some.none() | cents(2, 20),
        "at_ms": rough(datetime(1970, 1, 1), LAST).map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)),  # noqa: E501
        "at_us": rough(FIRST, LAST),
        "local": some.datetimes(FIRST, LAST),
        "day": some.dates(),
        "clock": some.times(),
        "id": some.uuids(),
        "seq": some.integers(-(2**63), 2**63 - 1),
        "speed": some.floats(),
        "small": some.floats(width=32),
        "is_on": some.booleans(),
        "name": some.text(),
        "raw": some.none() | some.binary(max_size=9),
        "kind": some.sampled_from("AB"),
        "either": some.none() | some.integers(-(2**63), 2**63 - 1) | some.text(),
        "laps": some.lists(some.integers(-(2**31), 2**31 - 1), max_size=3),
        "tags": some.dictionaries(some.text(), some.none() | some.floats(), max_size=3),
        "place": some.fixed_dictionaries({"toll": cents(9, 28)}),
    }
)  # fmt: skip


def meant(held: Any) -> Any:
    """What has to stand in the JSON, its numbers exactly."""
    if isinstance(held, dict):
        return {name: meant(each) for name, each in held.items()}
    if isinstance(held, list):
        return [meant(each) for each in held]
    if isinstance(held, bytes):
        return base64.b64encode(held).decode()
    if isinstance(held, float):
        if math.isfinite(held):
            return Decimal(repr(held))
        return "NaN" if math.isnan(held) else "Infinity" if held > 0 else "-Infinity"
    if isinstance(held, bool | int | str | Decimal) or held is None:
        return held
    return held.isoformat() if isinstance(held, datetime | date | time) else str(held)


def read(made: bytes) -> Any:
    return json.loads(made, parse_float=Decimal)


@given(CARS, some.booleans())
def test_what_avro_wrote_stands_in_the_json_exactly(car: dict[str, Any], by_header: bool) -> None:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, AVRO, car)
    framing, body = b"\0\0\0\0\x07", stream.getvalue()
    headers = ((VALUE_HEADER, framing),) if by_header else ()
    data = body if by_header else framing + body
    made = Registered(Held("http://held.test"), "AVRO").exact(data, headers)
    assert b"\n" not in made
    found = read(made)
    assert found == meant(car)
    assert list(found) == [field["name"] for field in CAR["fields"]]  # type: ignore[attr-defined]


def test_a_decimal_of_more_digits_than_its_schema_allows_keeps_them_all() -> None:
    """fastavro itself rounds it, without a word."""
    document = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}

    class Small(Registry):
        def schema(self, _: SchemaId) -> Schema:
            return Schema("AVRO", json.dumps(document))

    by = Registered(Small("http://held.test"), "AVRO")
    body = (-1_234_567).to_bytes(3, "big", signed=True)
    assert by.exact(b"\0\0\0\0\1\6" + body, ()) == b"-12345.67"
    assert by.decode(b"\0\0\0\0\1\6" + body, (), is_key=False) == "-12345.67"
    assert by.exact(b"\0\0\0\0\1\2\0", ()) == b"0.00"


def test_what_a_schema_says_of_fields() -> None:
    found = Registered(Held("http://held.test")).kinds(b"\0\0\0\0\1", ())
    assert found == {
        "price": decoding.DECIMAL,
        "fixed": decoding.DECIMAL,
        "at_ms": decoding.INSTANT,
        "at_us": decoding.INSTANT,
        "local": decoding.LOCAL_TIME,
        "day": decoding.DATE,
        "clock": decoding.CLOCK_TIME,
        "id": decoding.UUID,
        "again": decoding.DECIMAL,
        "seq": decoding.INTEGER,
        "speed": decoding.DOUBLE,
        "small": decoding.DOUBLE,
        "is_on": decoding.BOOLEAN,
        "name": decoding.TEXT,
        "raw": decoding.BYTES,
        "kind": decoding.TEXT,
        "laps": decoding.JSON,
        "tags": decoding.JSON,
        "place": decoding.JSON,
    }  # and nothing of `either`, which is one of two


# --- Protobuf

I64, U64 = some.integers(-(2**63), 2**63 - 1), some.integers(0, 2**64 - 1)
PROTO_CARS = some.fixed_dictionaries(
    {
        "i64": I64,
        "u64": U64,
        "s64": I64,
        "f64": U64,
        "sf64": I64,
        "i32": some.integers(-(2**31), 2**31 - 1),
        "u32": some.integers(0, 2**32 - 1),
        "d": some.floats(),
        "f": some.floats(width=32),
        "b": some.booleans(),
        "s": some.text(),
        "raw": some.binary(max_size=9),
        "times": some.lists(I64, max_size=3),
        "counts": some.dictionaries(some.text(), U64, max_size=3),
        "legs": some.lists(some.fixed_dictionaries({"gear": I64}), max_size=2),
    },
    optional={
        "laps": I64,
        "leg": some.fixed_dictionaries({"gear": I64}),
        "number": I64,
    },
)


@given(PROTO_CARS)
def test_what_protobuf_wrote_stands_in_the_json_zeros_and_all(car: dict[str, Any]) -> None:
    class Compiled(Registry):
        def schema(self, _: SchemaId) -> Schema:
            return Schema("PROTOBUF", PROTO)

    written = message_factory.GetMessageClass(CAR_TYPE)(**car)
    made = Registered(Compiled("http://held.test")).exact(
        b"\0\0\0\0\1\0" + written.SerializeToString(), ()
    )
    assert read(made) == meant(car | {"kind": "UNKNOWN", "said": {}})


def test_protobufs_own_types_and_what_it_calls_things() -> None:
    kind = message_factory.GetMessageClass(CAR_TYPE)
    held = kind(kind=1, text="t", said={True: "yes"})
    held.at.FromNanoseconds(1_628_080_200_000_005_000)
    held.wrapped.value = 0
    found = Values(CAR_TYPE.file.pool).of(held)
    assert found["at"] == "2021-08-04T12:30:00.000005Z"
    assert (found["wrapped"], found["kind"], found["text"]) == (0, "RACE", "t")
    assert found["said"] == {"true": "yes"}
    assert not {"laps", "leg", "number"} & set(found)
    told = kinds(CAR_TYPE)
    assert (told["u64"], told["at"], told["wrapped"]) == ("decimal", "instant", "integer")
    assert (told["raw"], told["legs"], told["counts"], told["kind"]) == (
        "bytes", "json", "json", "text",
    )  # fmt: skip


def test_what_a_protobuf_schema_has_no_field_for_is_kept_by_its_number(
    registry: TestRegistry,
) -> None:
    schema = """
        syntax = "proto2";
        enum Kind { NONE = 0; RACE = 1; }
        message Car { optional string name = 1; optional Kind kind = 2; repeated Leg legs = 3; }
        message Leg { optional int32 gear = 1; }
    """
    number = registry.register("x", {"schemaType": "PROTOBUF", "schema": schema})
    frame = struct.pack(">bIb", 0, number, 0)
    known, in_leg = "0a0161 1007", "1a04 0803 5005"  # 7 is no value of the enum.
    unknown = "4801 4802", "5201ff", "5b 0809 5c", "6501000000"
    later = bytes.fromhex(" ".join([known, in_leg, *unknown]))
    [found] = decoded("protobuf", registry.url, frame + later)
    assert read(found.decoded[0]) == {
        "name": "a",
        "#2": 7,
        "legs": [{"gear": 3, "#10": 5}],
        "#9": [1, 2],
        "#10": "/w==",
        "#11": {"#1": 9},
        "#12": 1,
    }


def test_an_extension_that_the_schema_has_is_kept_by_its_name(registry: TestRegistry) -> None:
    """It is no field of the type, and what the schema lacks it is not either."""
    file = compile_proto("""
        syntax = "proto2"; package cars;
        message Car { optional string name = 1; repeated Car next = 2; extensions 100 to 199; }
        enum Kind { NONE = 0; RACE = 1; }
    """)
    file.name = "cars.proto"
    file.message_type[0].extension_range.add(start=100, end=200)
    for name, number, label, type_, type_name in (
        ("owner", 100, 1, 9, ""), ("laps", 101, 3, 3, ""), ("kind", 102, 1, 14, ".cars.Kind"),
        ("spare", 103, 1, 11, ".cars.Car"),
    ):  # fmt: skip
        made = file.extension.add(name=name, number=number, label=label, type=type_)
        made.extendee = ".cars.Car"
        if type_name:
            made.type_name = type_name
    compiled = base64.b64encode(file.SerializeToString()).decode()
    number = registry.register("x", {"schemaType": "PROTOBUF", "schema": compiled})
    extensions = "a206 01 62  a806 01  a806 02  b006 01  ba06 03 0a0163  c006 05"
    data = bytes.fromhex(f"0a0161 1206 0a0164 a20600 {extensions}")
    [found] = decoded("protobuf", registry.url, struct.pack(">bIb", 0, number, 0) + data)
    assert read(found.decoded[0]) == {
        "name": "a",
        "next": [{"name": "d", "next": [], "[cars.owner]": ""}],
        "[cars.owner]": "b",
        "[cars.laps]": [1, 2],
        "[cars.kind]": "RACE",
        "[cars.spare]": {"name": "c", "next": []},
        "#104": 5,
    }


def test_what_json_cannot_say_is_the_records_trouble(registry: TestRegistry) -> None:
    number = registry.register("x", {"schemaType": "PROTOBUF", "schema": PROTO})
    late, unknown = (message_factory.GetMessageClass(CAR_TYPE)() for _ in range(2))
    late.at.seconds = 10**15
    unknown.any.type_url, unknown.any.value = "x/nobody.Knows", b"x"
    frame = struct.pack(">bIb", 0, number, 0)
    data = [frame + each.SerializeToString() for each in (late, unknown)]
    [found] = decoded("protobuf", registry.url, *data)
    assert "Timestamp is not valid" in found.undecoded[0]
    assert "it contains a nobody.Knows, which the schema does not have" in found.undecoded[1]


# --- runs of records


def decoded(word: str, url: str | None, *values: bytes | None) -> list[Records]:
    held = [replace(record(at), value=value) for at, value in enumerate(values)]
    return [ValueDecoding(word, url).open().decoded_first(Records.of(held))]


def test_json_of_a_schema_stays_as_it_was_written(registry: TestRegistry) -> None:
    number = registry.register("x", {"schemaType": "JSON", "schema": "{}"})
    frame = struct.pack(">bI", 0, number)
    body = b'{ "n": 1.10000000000000000000001,\n "n": 2 }'
    [found] = decoded("json-schema", registry.url, frame + body, frame + b"{", None)
    assert found.decoded == [body, None, None]
    assert list(found.undecoded) == [1]
    assert found.values == [frame + body, frame + b"{", None]


@pytest.mark.parametrize(
    ("word", "data", "text"),
    [
        ("int", b"\xff\xff\xff\xfe", b"-2"),
        ("double", struct.pack(">d", 0.1), b"0.1"),
        ("float", struct.pack(">f", float("-inf")), b"-Infinity"),
        ("hex", b"\xff\x00", b"ff00"),
        ("base64", b"\xff\x00", b"/wA="),
        ("uuid", bytes(16), b"00000000-0000-0000-0000-000000000000"),
    ],
)
def test_plain_values_become_text(word: str, data: bytes, text: bytes) -> None:
    [found] = decoded(word, None, data, None)
    assert (found.decoded, found.undecoded) == ([text, None], {})


def test_each_schema_is_asked_for_once_also_one_that_is_not_there(registry: TestRegistry) -> None:
    number = registry.register("x", {"schema": '"long"'})
    good, bad = struct.pack(">bIb", 0, number, 14), struct.pack(">bI", 0, 99)
    [found] = decoded("avro", registry.url, good, bad, good, bad, b"\x05no frame", b"")
    assert found.decoded == [b"7", None, b"7", None, None, None]
    assert sorted(found.undecoded) == [1, 3, 4, 5]
    assert "Schema not found" in found.undecoded[1]
    assert "they begin with 05" in found.undecoded[4]
    assert len(registry.asked) == 2


def test_of_ids_that_are_not_there_only_the_latest_are_kept(
    registry: TestRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("playhead.schemas.registry._MOST_UNKNOWN", 3)
    asking = Registry(registry.url)
    for number in [1001, 1002, 1003, 1004, 1004, 1002, 1001]:
        with pytest.raises(UnknownSchema):
            asking.schema(SchemaId(number))
    asked = [path.rpartition("/")[2] for path in registry.asked]
    assert asked == ["1001", "1002", "1003", "1004", "1001"]


def test_a_schema_that_is_too_large_is_the_fault_of_its_records_alone(
    registry: TestRegistry,
) -> None:
    bombs = registry.register("x", {"schema": "[" + "[]," * (3 << 20) + "[]]"})
    number = registry.register("y", {"schema": '"long"'})
    records = [struct.pack(">bIb", 0, each, 14) for each in (bombs, number, bombs)]
    [found] = decoded("avro", registry.url, *records)
    assert found.decoded == [None, b"7", None]
    assert "more than 8 MiB" in found.undecoded[0]
    assert len(registry.asked) == 2, "it is not fetched for each record"


def test_a_registry_that_refuses_us_or_is_away_is_no_fault_of_a_record(
    registry: TestRegistry,
) -> None:
    number = registry.register("x", {"schema": '"long"'})
    data = struct.pack(">bIb", 0, number, 14)
    registry.user = "me:right"
    with pytest.raises(RegistryRefused, match="401") as caught:
        decoded("avro", registry.url, data)
    assert not isinstance(caught.value, UnknownSchema)
    registry.user, registry.failing = None, 3
    with pytest.raises(RegistryUnavailable, match="500"):
        decoded("avro", registry.url, data)


def test_an_address_that_is_no_registry_does_not_make_every_record_a_bad_one(
    registry: TestRegistry,
) -> None:
    registry.is_other = True
    with pytest.raises(RegistryRefused, match="404") as caught:
        decoded("avro", registry.url, struct.pack(">bIb", 0, 1, 14))
    assert not isinstance(caught.value, UnknownSchema)


def test_the_description_travels_and_hides_the_password() -> None:
    made = ValueDecoding("avro", "http://me:hidden@registry.test")
    assert pickle.loads(pickle.dumps(made)) == made  # noqa: S301
    assert "hidden" not in repr(made)


# --- a task


class Graveyard:
    def __init__(self) -> None:
        self.letters: list[DeadLetter] = []

    @contextmanager
    def open(self, _: str) -> Any:
        yield lambda _slice, letters: self.letters.extend(letters)


class Reads(ListTarget):
    """Remembers what it was to read, and says no to what begins with a 9."""

    def __init__(self, *, starts_over: bool = False) -> None:
        super().__init__()
        self.read: list[bytes | None] = []
        self.starts_over = starts_over
        self.taken: list[Entry] = []

    @contextmanager
    def open(self, _: str) -> Any:
        target = self

        class Writer:
            def expect(self, _: object) -> Any:
                return lambda: None

            def commit(self, account: Account, records: Any) -> None:
                runs = list(records)
                for once in (True, False) if target.starts_over else (False,):
                    for run in runs:
                        for index, value in enumerate(run.readable):
                            if value is not None and value.startswith(b"9"):
                                account.refuse(run.record(index), kind="nine", reason="a nine")
                            elif not once:
                                target.read.append(value)
                    if once:
                        account.start_over()
                target.taken.append(account.close())

        yield Writer()


@pytest.mark.parametrize("starts_over", [False, True])
def test_dead_letters_are_the_bytes_that_were_read(starts_over: bool) -> None:
    ints = [struct.pack(">i", n) for n in (5, 9)]
    held = [
        replace(record(at), value=value)
        for at, value in enumerate([ints[0], b"bad", None, ints[1]])
    ]
    target, grave = Reads(starts_over=starts_over), Graveyard()
    works = (((Slice(TOPIC, 0, 0, 4),),),)
    rule = ErrorRule("dlq", "dead")
    play(Job("r", ListSource(held), target, works, Filter(), rule, grave, ValueDecoding("int")), 0)
    assert target.read == [b"5", None]
    assert [(each.record.offset, each.record.value, each.kind) for each in grave.letters] == [
        (1, b"bad", "undecodable"),
        (3, ints[1], "nine"),
    ]
    [entry] = target.taken
    assert (entry.read, entry.written, entry.dead) == (4, 2, 2)


def test_by_default_the_first_that_cannot_be_decoded_ends_it() -> None:
    run = decoded("int", None, b"\0\0\0\1", b"bad")[0]
    with pytest.raises(RecordRefused, match="offset 1: cannot be decoded as int: found 3 bytes"):
        list(without_undecoded(Account(Slice(TOPIC, 0, 0, 2)), [run]))


def test_what_is_decoded_counts_for_the_size_of_a_slice() -> None:
    held = [replace(record(at), value=b"\0" * 500) for at in range(4)]
    target = Reads()
    job = Job(
        "r", ListSource(held), target, (((Slice(TOPIC, 0, 0, 4),),),), Filter(),
        decoding=ValueDecoding("hex"), limits=Limits(max_bytes=2_500),
    )  # fmt: skip
    play(job, 0)
    assert [each.read for each in target.taken] == [2, 2]


# --- plans


def test_samples_are_decoded_and_those_that_cannot_be_are_told() -> None:
    held = [replace(record(at), value=value) for at, value in enumerate([b"\0\0\0\7", b"x", None])]
    found = sampled([Records.of(held)], ValueDecoding("int"), "int")
    assert [run.readable for run in found.records] == [[b"7", None]]
    [note] = found.notes
    assert note.code == "decode-failed"
    assert "1 of 3 sampled records cannot be decoded as int; --on-error says" in note.text
    assert f"{TOPIC}:0 offset 1" in note.text
    assert found.kinds == {TOPIC: {"value": "integer"}}
    assert readable(found.records, "have no fields")[1] == ()  # They are reported once.
    assert sampled([Records.of(held)], None, "json").records[0].readable == [
        b"\0\0\0\7",
        b"x",
        None,
    ]


def test_schemas_that_disagree_leave_it_to_the_values(registry: TestRegistry) -> None:
    def schema(**fields: str) -> int:
        listed = [{"name": name, "type": type_} for name, type_ in fields.items()]
        document = {"type": "record", "name": "R", "fields": listed}
        return registry.register("x", {"schema": json.dumps(document)})

    one, two = schema(a="long", b="long"), schema(a="long", b="string", c="double")
    values = [
        struct.pack(">bI", 0, one) + b"\2\2",
        struct.pack(">bI", 0, two) + b"\2\2x" + struct.pack("<d", 1.5),
        struct.pack(">bI", 0, one) + b"\2\2",
    ]
    held = [replace(record(at), value=value) for at, value in enumerate(values)]
    runs = [Records.of([each]) for each in held]
    found = sampled(runs, ValueDecoding("avro", registry.url), "avro")
    assert found.kinds == {TOPIC: {"a": "integer", "c": "double"}}


def test_a_table_is_made_as_the_schema_says() -> None:
    kinds = {"price": "decimal", "at": "instant", "gone": "bytes", "n": "integer"}
    run = decoded("json", None, b'{"price": 1.5, "at": "x", "n": 1, "more": [1]}')[0]
    text = table_for(TablePlace("s", "t"), [run], ("n",), kinds).statement
    columns = '"price" numeric, "at" timestamptz, "gone" bytea, "n" bigint, "more" jsonb, '
    assert columns in text
    assert 'PRIMARY KEY ("n")' in text


@pytest.mark.parametrize("word", REPLAYED_FORMS)
def test_every_word_is_taken_by_a_table_in_one_of_its_ways(word: str) -> None:
    configuration = configure({"schema_registry": "http://registry.test"})
    asked = request(source="kafka://k:1/a", target="postgresql://me@p:1/d?table=t", decode=word)
    made = ends(asked, configuration)
    assert (made.decoding is None) == (word in UNDECODED_FORMS)
    assert asked.spec.table.form in UNDECODED_FORMS


def test_a_plain_value_is_whole_until_fields_are_selected() -> None:
    for select, form in (
        (None, "string"),
        ("value::int + 1 AS value", "string"),
        ("value AS n", "json"),
    ):
        assert request(decode="long", select=select).spec.table.form == form
    assert request(decode="string", select="value AS n").spec.table.form == "string"


def test_bytes_that_nobody_looks_into_need_no_decoding() -> None:
    configuration = configure({"schema_registry": "http://registry.test"})
    for target, more in (("kafka://k:1/b", {}), ("parquet:/tmp/a", {})):
        asked = request(source="kafka://k:1/a", target=target, decode="avro", **more)
        with pytest.raises(UsageError, match="would have no effect"):
            ends(asked, configuration)
    looking: Sequence[tuple[str, dict[str, Any]]] = (
        ("kafka://k:1/b", {"where": "value:a = 1"}),
        ("parquet:/tmp/a", {"typed": True}),
    )
    for target, more in looking:
        asked = request(source="kafka://k:1/a", target=target, decode="avro", **more)
        assert ends(asked, configuration).decoding is not None


def test_a_replay_says_what_decoding_needs() -> None:
    with pytest.raises(MissingPiece) as missing:
        ends(
            request(source="kafka://k:1/a", target="postgresql://me@p:1/d?table=t", decode="avro"),
            configure({}),
        )
    assert "--schema-registry" in (missing.value.hint or "")
    with pytest.raises(BadValue, match="avrro"):
        ends(
            request(source="kafka://k:1/a", target="postgresql://me@p:1/d?table=t", decode="avrro"),
            configure({}),
        )


class _Odd:
    """A source in which some records cannot be read."""

    def __init__(self, bad: set[int]) -> None:
        self.bad = bad

    def read(self, slice_: Slice) -> Any:
        for at in range(slice_.from_offset, slice_.to_offset):
            one = replace(Records.of([record(at)]), values=[b'{"n": 1}'])
            if at in self.bad:
                raise UnreadableRecord(one, "no key")
            yield one


@pytest.mark.parametrize("form", [None, "json", "int"])
def test_what_cannot_be_read_is_rejected_and_the_others_decoded(form: str | None) -> None:
    decoding = None if form is None else ValueDecoding(form, None)
    found = list(reading(_Odd({0, 3, 4}), decoding).read(Slice(TOPIC, 0, 0, 5)))
    assert [at for each in found for at in each.offsets] == [*range(5)]
    reasons = {at: reason for each in found for at, reason in each.undecoded.items()}
    assert {at for at, reason in reasons.items() if reason == f"{NOT_WHOLE}no key"} == {0, 3, 4}
    assert set(reasons) == ({*range(5)} if form == "int" else {0, 3, 4})
    joined = found[0]
    for each in found[1:]:
        joined.extend(each)
    account = Account(Slice(TOPIC, 0, 0, 5), ErrorRule("skip"))
    kept = [at for each in without_undecoded(account, [joined]) for at in each.offsets]
    assert kept == ([] if form == "int" else [1, 2])

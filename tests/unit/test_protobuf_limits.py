"""Values of Protobuf that take far more memory than they have bytes, and schemas that take far more time."""

import base64
import json
import struct
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any

import pytest

from playhead.schemas import protobuf_limits
from playhead.schemas.decoder import decoder
from playhead.schemas.errors import Undecodable
from playhead.schemas.proto_compiler import compile_proto
from playhead.schemas.protobuf import ProtobufReader
from playhead.schemas.registry import Reference, Registry, Schema
from playhead.schemas.registry_decoder import Registered
from tests.fix_registry import TestRegistry


def varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def sized(field: int, data: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(data)) + data


def in_anys(levels: int, data: bytes = b"") -> bytes:
    for _ in range(levels):
        data = sized(1, b"x/google.protobuf.Any") + sized(2, data)
    return data


FIELDS = " ".join(f"int64 f{number} = {number};" for number in range(3, 1_000))
WIDE = f"""
syntax = "proto3";
import "google/protobuf/any.proto";
message A {{ repeated A a = 1; google.protobuf.Any any = 2; map<string, A> map = 1000; {FIELDS} }}
"""


def grouped() -> str:
    """The same with a group, as a compiled descriptor."""
    file = compile_proto(WIDE)
    file.name, file.syntax = "a.proto", "proto2"
    file.message_type[0].field[0].type = 10
    return base64.b64encode(file.SerializeToString()).decode()


MANY = sized(1, b"") * 5_000
TOO_WIDE = [
    pytest.param(WIDE, MANY, id="repeated"),
    pytest.param(
        WIDE, b"".join(sized(1000, sized(1, b"%d" % n)) for n in range(5_000)), id="in a map"
    ),
    pytest.param(WIDE, sized(1, MANY), id="one in the other"),
    pytest.param(WIDE, b"\x18\x01\x21" + bytes(8) + b"\x2d" + bytes(4) + MANY, id="behind others"),
    pytest.param(WIDE, MANY + b"\xff", id="torn"),
    pytest.param(WIDE, sized(2, sized(1, b"x/A") + sized(2, MANY)), id="in an Any"),
    pytest.param(
        WIDE, sized(2, sized(2, MANY)) + sized(2, sized(1, b"x/A")), id="in an Any of two parts"
    ),
    pytest.param(
        WIDE,
        sized(1, sized(2, sized(1, b"x/A") + sized(2, sized(1, b"") * 1_500))) * 2,
        id="in several of Any",
    ),
    pytest.param(grouped(), b"\x0b\x0c" * 5_000, id="groups"),
    pytest.param(grouped(), (b"\x0b" * 50 + b"\x0c" * 50) * 100, id="groups in groups"),
]


@pytest.mark.parametrize(("schema", "data"), TOO_WIDE)
def test_a_value_that_is_much_larger_than_its_bytes_is_refused(
    registry: TestRegistry, schema: str, data: bytes
) -> None:
    by = decoder("registry", registry_url=registry.url)
    made = registry.register("wide", {"schema": schema, "schemaType": "PROTOBUF"})
    framed = b"\x00" + struct.pack(">I", made) + b"\x00"
    with pytest.raises(Undecodable, match="more than 2,000,000 fields"):
        by.exact(framed + data, ())
    with pytest.raises(Undecodable, match="more than 2,000,000 fields"):
        by.decode(framed + data, (), is_key=False)
    few = sized(1000, b"") * 500
    assert json.loads(by.exact(framed + few, ()))["map"].keys() == {""}


@pytest.mark.parametrize("schema", [WIDE, grouped()])
def test_more_levels_of_groups_or_messages_than_any_value_has_are_refused(
    registry: TestRegistry, schema: str
) -> None:
    made = registry.register("deep", {"schema": schema, "schemaType": "PROTOBUF"})
    by = decoder("registry", registry_url=registry.url)
    with pytest.raises(Undecodable):
        by.exact(b"\x00" + struct.pack(">I", made) + b"\x00" + b"\x0b" * 1_000_000, ())


def _in_any(held: bytes) -> bytes:
    return sized(2, held)


def _in_message(held: bytes) -> bytes:
    return sized(1, _in_any(held))


def _in_map(held: bytes) -> bytes:
    return sized(1000, sized(2, _in_any(held)))


def test_a_value_in_an_any_in_an_any_has_few_levels(registry: TestRegistry) -> None:
    """Each level keeps a copy of all below it: 400 of them made 1.6 GB of 4 MB."""
    made = registry.register("any", {"schema": WIDE, "schemaType": "PROTOBUF"})
    framed = b"\x00" + struct.pack(">I", made) + b"\x00"
    by = decoder("registry", registry_url=registry.url)
    for place in (_in_any, _in_message, _in_map):
        by.decode(framed + place(in_anys(15)), (), is_key=False)
        with pytest.raises(Undecodable, match="more than 16 levels"):
            by.decode(framed + place(in_anys(16)), (), is_key=False)


@pytest.mark.parametrize("start", ["/*", '\\"', "\\'"])
def test_a_proto_file_without_an_end_is_read_in_one_pass(start: str) -> None:
    with suppress(ValueError):
        compile_proto("message A {} " + start[-1] + start * 150_000)


TEXTS = """
syntax = "proto2";
import "google/protobuf/any.proto";
message A { optional string one = 1; repeated string many = 2; optional google.protobuf.Any any = 3; optional A a = 4;
map<string, string> texts = 5; map<string, A> inner = 6; }
"""
NO_TEXT = sized(5, sized(1, b"k") + sized(2, b"\xff"))


@pytest.mark.parametrize(
    "data",
    [
        sized(1, b"\xff\xfe"),
        sized(2, b"a") + sized(2, b"\xff"),
        sized(4, sized(1, b"\xff")),
        sized(3, sized(1, b"x/A") + sized(2, sized(1, b"\xff"))),
        pytest.param(NO_TEXT, id="in a map"),
        pytest.param(sized(5, sized(1, b"\xff") + sized(2, b"v")), id="key of a map"),
        pytest.param(sized(6, sized(1, b"k") + sized(2, NO_TEXT)), id="in a map in a map"),
        pytest.param(sized(3, sized(1, b"x/A") + sized(2, NO_TEXT)), id="in a map in an Any"),
    ],
)
def test_a_text_that_is_no_text_is_refused(registry: TestRegistry, data: bytes) -> None:
    """proto2 lets it be any bytes; they were written as the text of their base64, or as Python's `b'…'`."""
    by = decoder("registry", registry_url=registry.url)
    made = registry.register("texts", {"schema": TEXTS, "schemaType": "PROTOBUF"})
    framed = b"\x00" + struct.pack(">I", made) + b"\x00"
    with pytest.raises(Undecodable, match="not UTF-8|'utf-8' codec"):
        by.exact(framed + data, ())
    with pytest.raises(Undecodable, match="not UTF-8|'utf-8' codec"):
        by.decode(framed + data, (), is_key=False)
    assert json.loads(by.exact(framed + sized(1, "é".encode()), ())) == {
        "one": "é",
        "many": [],
        "texts": {},
        "inner": {},
    }


class _Endless:
    """A registry whose every schema refers to 50 new ones."""

    def __init__(self) -> None:
        self.asked = 0

    def schema(self, _: object) -> Schema:
        names = [f"{self.asked}-{number}" for number in range(50)]
        text = f'syntax = "proto3"; package p{self.asked}; message A {{ int32 a = 1; }}'
        return Schema("PROTOBUF", text, tuple(Reference(name, "s", 1) for name in names))

    def referred(self, _: object) -> Schema:
        self.asked += 1
        made = self.schema(None)
        return made if self.asked % 2 else Schema(made.kind, made.text)


def test_references_have_a_limit_and_an_invalid_schema_is_asked_for_once() -> None:
    registry: Any = _Endless()
    by = Registered(registry, None)
    for _ in range(3):
        with pytest.raises(Undecodable, match="refers to more than 300 others"):
            by.exact(b"\x00\x00\x00\x00\x01\x00", ())
    assert registry.asked == 300


@pytest.mark.parametrize("lack", [MemoryError(), OSError("too many open files")])
def test_what_the_machine_lacked_for_a_moment_is_no_fault_of_the_schema(lack: Exception) -> None:
    asked: list[object] = []

    class Busy:
        def schema(self, schema_id: object) -> Schema:
            asked.append(schema_id)
            raise lack

    registry: Any = Busy()
    by = Registered(registry, None)
    for _ in range(2):
        with pytest.raises(Undecodable):
            by.exact(b"\x00\x00\x00\x00\x01\x00", ())
    assert len(asked) == 2


@pytest.mark.parametrize(
    "schema",
    [
        "enum E { LONG = 0; } message A { repeated E e = 1; }",
        "message A { message B { enum E { LONG = 0; } } repeated B.E e = 1; }",
        "message A { repeated A LONG = 1; }",
        "message A { message B { int32 LONG = 1; } repeated B b = 1; }",
        "package LONG; message A { repeated A a = 1; }",
    ],
)
def test_a_name_that_values_would_repeat_is_not_long(registry: TestRegistry, schema: str) -> None:
    made = Registered(Registry(registry.url))
    for letters, is_taken in ((255, True), (256, False)):
        text = f'syntax = "proto3"; {schema.replace("LONG", "L" * letters)}'
        number = registry.register("x", {"schemaType": "PROTOBUF", "schema": text})
        data = struct.pack(">bIb", 0, number, 0) + sized(1, bytes(2))
        with suppress(Undecodable) if is_taken else pytest.raises(Undecodable, match="255 letters"):
            made.exact(data, ())


def test_a_value_made_of_fields_that_its_schema_lacks_is_refused_beyond_a_size(
    registry: TestRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = registry.register("x", {"schemaType": "PROTOBUF", "schema": WIDE})
    made = Registered(Registry(registry.url))
    frame = struct.pack(">bIb", 0, number, 0)
    known, unknown = sized(1, b"") * 20, varint(5_000 << 3) + b"\1"
    monkeypatch.setattr(protobuf_limits, "MOST_UNKNOWN", 1_000)

    assert b"#5000" in made.exact(frame + unknown * 250, ())
    made.exact(frame + sized(1, b"") * 900, ())
    with pytest.raises(Undecodable, match="over 1,000 bytes are in fields that the schema lacks"):
        made.exact(frame + unknown * 251 + known, ())


def extended() -> str:
    """A type without fields, an extension of it that has a wide type, and one that is a text."""
    file = compile_proto(WIDE)
    file.name, file.syntax = "a.proto", "proto2"
    base = file.message_type.add(name="Base")
    base.extension_range.add(start=100, end=200)
    for name, number, label, type_ in (("wide", 100, 3, 11), ("text", 101, 1, 9)):
        made = file.extension.add(name=name, number=number, label=label, type=type_)
        made.extendee = ".Base"
        if type_ == 11:
            made.type_name = ".A"
    return base64.b64encode(file.SerializeToString()).decode()


def test_names_of_extensions_are_counted(
    registry: TestRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have those of all types that they are in: three bytes could stand for a megabyte."""
    file = compile_proto("message A { repeated A a = 1; }")
    file.name = "a.proto"
    file.message_type[0].extension_range.add(start=100, end=200)
    inner = file.message_type.add(name="L" * 200).nested_type.add(name="L" * 200)
    inner.extension.add(name="x", number=100, label=1, type=5, extendee=".A")
    schema = base64.b64encode(file.SerializeToString()).decode()
    made = registry.register("x", {"schema": schema, "schemaType": "PROTOBUF"})
    monkeypatch.setattr(protobuf_limits, "MOST_NAMES", 402 * 100)
    one = sized(1, varint(100 << 3) + b"\1")
    for times, is_taken in ((90, True), (110, False)):
        by, data = decoder("registry", registry_url=registry.url), one * times
        for read in (by.exact, partial(by.decode, is_key=False)):
            with nullcontext() if is_taken else pytest.raises(Undecodable, match="letters"):
                read(struct.pack(">bIb", 0, made, 0) + data, ())


def test_the_whole_name_of_an_extension_is_not_long(registry: TestRegistry) -> None:
    """In a value with many of `Any`, names are not counted together."""
    by = decoder("registry", registry_url=registry.url)
    for letters, is_taken in ((102, True), (103, False)):
        file = compile_proto(f"package {'p' * 100}; message A {{ repeated A a = 1; }}")
        file.name = "a.proto"
        file.message_type[0].extension_range.add(start=100, end=200)
        kind = file.message_type.add(name="L" * letters)
        for _ in range(2):
            kind = kind.nested_type.add(name="L" * 100)
        extendee = f".{'p' * 100}.A"
        kind.extension.add(name="x" * 104, number=100, label=1, type=5, extendee=extendee)
        schema = base64.b64encode(file.SerializeToString()).decode()
        made = registry.register("x", {"schema": schema, "schemaType": "PROTOBUF"})
        data = struct.pack(">bIb", 0, made, 0) + varint(100 << 3) + b"\1"
        with nullcontext() if is_taken else pytest.raises(Undecodable, match="more than 510"):
            assert len(by.exact(data, ())) > 510


def test_a_set_of_types_in_a_form_of_its_own_is_refused(registry: TestRegistry) -> None:
    """What is in it was not counted: 160 kB took 800 MB."""
    file = compile_proto("message A { message B {} repeated B b = 1; }")
    kind = file.message_type[0].nested_type[0]
    kind.options.message_set_wire_format = True
    kind.extension_range.add(start=4, end=2**31 - 1)
    schema = base64.b64encode(file.SerializeToString()).decode()
    made = registry.register("x", {"schema": schema, "schemaType": "PROTOBUF"})
    by = decoder("registry", registry_url=registry.url)
    with pytest.raises(Undecodable, match="message_set_wire_format, which is not supported"):
        by.exact(struct.pack(">bIb", 0, made, 0), ())


@pytest.mark.parametrize(
    "data", [sized(100, b"") * 5_000, sized(100, MANY), sized(100, sized(1, b"")) * 5_000]
)
def test_extensions_count_as_fields_do(registry: TestRegistry, data: bytes) -> None:
    by = decoder("registry", registry_url=registry.url)
    made = registry.register("more", {"schema": extended(), "schemaType": "PROTOBUF"})
    framed = struct.pack(">bI", 0, made) + bytes.fromhex("0202")  # One index, which is 1.
    with pytest.raises(Undecodable, match="more than 2,000,000 fields"):
        by.exact(framed + data, ())
    with pytest.raises(Undecodable, match="not UTF-8|'utf-8' codec"):
        by.exact(framed + sized(101, b"\xff"), ())


NAMES = " ".join(f"int32 {'L' * 249}{number:05} = {number};" for number in range(3, 1_000))
KINDS = " ".join(f"Kind kind{number} = {number};" for number in range(3, 1_000))
LONG = f"""
syntax = "proto3";
enum Kind {{ {"K" * 255} = 0; }}
message A {{ repeated A a = 1; repeated Kind kinds = 2; map<string, B> map = 1001; {{}} }}
message B {{ {NAMES} }}
"""


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        pytest.param(LONG.replace("{}", NAMES), MANY[:1_100], id="names of fields"),
        pytest.param(LONG.replace("{}", KINDS), MANY[:1_100], id="names of defaults"),
        pytest.param(
            LONG.replace("{}", ""),
            b"".join(sized(1001, sized(1, b"%d" % n)) for n in range(550)),
            id="names in a map's values",
        ),
    ],
)
def test_names_that_a_few_bytes_repeat_are_counted(
    registry: TestRegistry, schema: str, data: bytes
) -> None:
    """A value of 500 bytes had 500 MB as JSON."""
    by = decoder("registry", registry_url=registry.url)
    made = registry.register("long", {"schema": schema, "schemaType": "PROTOBUF"})
    framed = b"\x00" + struct.pack(">I", made) + b"\x00"
    with pytest.raises(Undecodable, match="names of its fields take more than 134,217,728 letters"):
        by.exact(framed + data, ())
    assert len(json.loads(by.exact(framed + sized(1, b"") * 5, ()))["a"]) == 5


def test_enums_whose_names_are_far_longer_than_their_bytes_are_refused(
    registry: TestRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = LONG.replace("{}", "Kind kind = 3; map<string, Kind> by_name = 4;")
    by = decoder("registry", registry_url=registry.url)
    made = registry.register("enums", {"schema": schema, "schemaType": "PROTOBUF"})
    monkeypatch.setattr(protobuf_limits, "MOST_NAMES", 1_000_000)
    framed = b"\x00" + struct.pack(">I", made) + b"\x00"
    for wrapped in (lambda held: held, lambda held: sized(1, held)):
        for count in (3_920, 3_921):
            found = json.loads(by.exact(framed + wrapped(sized(2, bytes(count))), ()))
            assert len((found["a"][0] if found["a"] else found)["kinds"]) == count
        many = wrapped(sized(2, bytes(3_922)))
        with pytest.raises(Undecodable, match="names of enums take more than 1,000,000 letters"):
            by.exact(framed + many, ())
        with pytest.raises(Undecodable, match="names of enums take more than 1,000,000 letters"):
            by.decode(framed + many, (), is_key=False)
    entries = b"".join(sized(4, sized(1, b"%d" % n)) for n in range(3_922))
    with pytest.raises(Undecodable, match="take more than 1,000,000 letters"):
        by.exact(framed + entries, ())


def test_one_enum_of_each_message_counts(
    registry: TestRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = f"""
    syntax = "proto3";
    enum Kind {{ USUAL = 0; {"K" * 255} = 1; }}
    message A {{ repeated A a = 1; Kind k = 2; }}
    """
    by = decoder("registry", registry_url=registry.url)
    made = registry.register("single", {"schema": schema, "schemaType": "PROTOBUF"})
    framed = b"\x00" + struct.pack(">I", made) + b"\x00"
    monkeypatch.setattr(protobuf_limits, "MOST_NAMES", 25_500)
    for count in (100, 101):
        data = framed + sized(1, b"\x10\x01") * count
        with nullcontext() if count == 100 else pytest.raises(Undecodable, match="enums"):
            assert len(json.loads(by.exact(data, ()))["a"]) == count


def test_ordinary_names_are_not_too_many(
    registry: TestRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sparse messages with names of 33 letters, and an enum whose longest name is not the common one."""
    names = " ".join(f"int32 {'n' * 31}{number} = {number};" for number in range(10, 50))
    schema = f"""
    syntax = "proto3";
    enum Kind {{ USUAL = 0; {"K" * 255} = 1; }}
    message A {{ repeated A a = 1; repeated Kind kinds = 2; {names} }}
    """
    by = decoder("registry", registry_url=registry.url)
    made = registry.register("sparse", {"schema": schema, "schemaType": "PROTOBUF"})
    framed = b"\x00" + struct.pack(">I", made) + b"\x00"
    assert (
        len(json.loads(by.exact(framed + sized(1, varint(80) + b"\x01") * 30_000, ()))["a"])
        == 30_000
    )
    monkeypatch.setattr(protobuf_limits, "MOST_NAMES", 100_000)
    assert len(json.loads(by.exact(framed + sized(2, bytes(20_000)), ()))["kinds"]) == 20_000
    with pytest.raises(Undecodable, match="names of enums take more than 100,000 letters"):
        by.exact(framed + sized(2, b"\x01" * 400), ())


def named_field(name: str) -> ProtobufReader:
    text = f'syntax = "proto3"; message A {{ string {name} = 1; A a = 2; optional int32 b = 3; }}'
    return ProtobufReader.of(Registry("http://127.0.0.1:1"), Schema("PROTOBUF", text))


NAMED = sized(1, b"x") + sized(2, sized(1, b"y"))


@pytest.mark.parametrize(
    "name", ["HasField", "ListFields", "CopyFrom", "DiscardUnknownFields", "ByteSize"]
)
def test_a_field_may_have_a_name_of_the_librarys(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protobuf_limits, "MOST_UNKNOWN", 0)
    assert named_field(name).exact((0,), NAMED) == {name: "x", "a": {name: "y"}}
    if name != "ListFields":
        assert named_field(name).read((0,), NAMED) == {name: "x", "a": {name: "y"}}


@pytest.mark.parametrize(
    ("name", "form"), [("ListFields", "read"), ("DESCRIPTOR", "read"), ("DESCRIPTOR", "exact")]
)
def test_a_name_that_the_library_needs_itself_is_refused_in_plain_words(
    name: str, form: str
) -> None:
    with pytest.raises(ValueError, match=f"a field of the name {name} cannot be read"):
        getattr(named_field(name), form)((0,), NAMED)


@pytest.mark.parametrize("name", ["timestamp", "unknown.proto", "../any.proto"])
def test_an_import_that_does_not_exist_is_named(name):
    imported = f"google/protobuf/{name}"
    text = f'syntax = "proto3"; import "{imported}"; message T {{ int32 a = 1; }}'
    with pytest.raises(ValueError, match=f"imports {imported}, which is not known here"):
        ProtobufReader.of(Registry("http://127.0.0.1:1"), Schema("PROTOBUF", text))


@pytest.mark.parametrize("places", [(1,), (2,), (3,), (4, 1), (4, 2, 6), (5, 2, 1), (8, 1)])
def test_a_compiled_schema_whose_texts_are_not_utf_8_is_refused(
    registry: TestRegistry, places: tuple[int, ...]
) -> None:
    """Python's classes for them give bytes then, also for the name of an imported file."""
    data = b"\xa1"
    for field in reversed(places):
        data = sized(field, data)
    schema = base64.b64encode(sized(4, sized(1, b"A")) + data).decode()
    made = registry.register("x", {"schema": schema, "schemaType": "PROTOBUF"})
    by = decoder("registry", registry_url=registry.url)
    with pytest.raises(Undecodable, match="a text is not UTF-8"):
        by.exact(struct.pack(">bIb", 0, made, 0), ())

"""Decoders: plain forms against their own encoders, and a registry's against bytes that Confluent's client wrote."""

import base64
import builtins
import contextlib
import json
import os
import struct
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from playhead import secrets
from playhead.errors import BadValue, MissingPiece, PlayheadError
from playhead.json_objects import JsonText
from playhead.record import Record, TimestampType
from playhead.records import Records
from playhead.schemas.decoder import REGISTERED, WORDS, as_text, decoder
from playhead.schemas.errors import Undecodable
from playhead.schemas.plain_forms import as_json
from playhead.schemas.proto_compiler import compile_proto
from playhead.schemas.registry import Kept, Registry, RegistryRefused, RegistryUnavailable
from playhead.schemas.registry_decoder import Registered
from playhead.schemas.schema_id import VALUE_HEADER, SchemaId, find, read_indexes
from playhead.schemas.value_decoder import ValueDecoding
from tests.fix_registry import TestRegistry

GOLDEN = Path(__file__).parents[1] / "golden" / "schemas" / "confluent.json"
WRITTEN = json.loads(GOLDEN.read_text(encoding="utf-8"))


def decode(word: str, data: bytes, url: str | None = None) -> Any:
    return decoder(word, registry_url=url).decode(data, (), is_key=False)


@pytest.mark.parametrize(
    ("word", "data", "meaning"),
    [
        ("string", "Ångström".encode(), "Ångström"),
        ("string", b"", ""),
        ("int", b"\xff\xff\xff\xfe", -2),
        ("long", b"\x00\x20\x00\x00\x00\x00\x00\x01", 2**53 + 1),
        ("short", b"\x80\x00", -32768),
        ("float", struct.pack(">f", 1.5), 1.5),
        ("double", struct.pack(">d", 0.1), 0.1),
        ("double", struct.pack(">d", float("-inf")), "-Infinity"),
        ("float", struct.pack(">f", float("nan")), "NaN"),
        ("uuid", b"0f8fad5b-d9cb-469f-a165-70867728950e", "0f8fad5b-d9cb-469f-a165-70867728950e"),
        ("uuid", uuid.UUID(int=5).bytes, str(uuid.UUID(int=5))),
        ("json", b'{"a" :[1,\n null ]}', '{"a": [1, null]}'),
        ("json", b'{"a": 1, "a": [1e400, -1e999, 0.12345678901234567890]}', None),
        ("json", b'"a, \\" \\u00e9"', 'a, " \u00e9'),
        (
            "json",
            b'["a, \\" \\u00e9\\ud800", "\\u00e9\\u001b :,"]',
            r"""["a, \" \u00e9\ud800", "é\u001b :,"]""",
        ),
        ("base64", b"\xff\x00", "/wA="),
        ("hex", b"\xff\x00", "ff00"),
    ],
)
def test_plain_forms(word: str, data: bytes, meaning: object) -> None:
    assert decode(word, data) == (data.decode() if meaning is None else meaning)


@pytest.mark.parametrize(
    ("word", "data", "said"),
    [
        ("string", b"ab\xff", "not UTF-8 at byte 2"),
        ("int", b"123", "found 3 bytes, needed 4"),
        ("long", b"", "found 0 bytes, needed 8"),
        ("uuid", b"x" * 36, "badly formed"),
        ("uuid", b"1234567_-1234-1234-1234-123456781234", "badly formed"),
        ("uuid", b" 1234567-1234-1234-1234-12345678123 ", "badly formed"),
        ("uuid", b"123456781-234-1234-1234-123456781234", "badly formed"),
        ("uuid", b"x", "needed 36 of text, or 16"),
        ("json", b'{"a": NaN}', "NaN is not valid JSON"),
        ("json", b"{", "Expecting property name"),
        ("json", b"[" * 100_000, "nested too deeply"),
    ],
)
def test_bytes_that_are_something_else_are_refused(word: str, data: bytes, said: str) -> None:
    with pytest.raises(Undecodable, match=said) as caught:
        decode(word, data)
    assert word in caught.value.message


@pytest.mark.parametrize("depth", [*range(900, 1000, 9), 100_000])
def test_json_about_as_deep_as_python_goes_is_decoded_or_refused(depth: int) -> None:
    with contextlib.suppress(Undecodable):
        decoder("json").exact(b"[" * depth + b"]" * depth, ())


@given(some.binary(max_size=40))
def test_no_bytes_make_a_plain_decoder_fail_in_another_way(data: bytes) -> None:
    for word in ("string", "int", "long", "short", "float", "double", "uuid", "json", "hex"):
        try:
            json.dumps(as_json(decode(word, data)))
        except Undecodable:
            continue


_LEAVES = some.none() | some.booleans() | some.integers() | some.text()
_VALUES = some.recursive(_LEAVES, lambda of: some.lists(of) | some.dictionaries(some.text(), of))


@given(_VALUES, some.sampled_from([None, 1, "\t"]), some.booleans())
def test_json_on_one_line_is_what_pythons_encoder_writes(
    value: object, indent: int | str | None, is_ascii: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii, separators=(" ,", " :\r\n"))
    assert JsonText.of(text) == json.dumps(value, ensure_ascii=False)


def test_an_unknown_word_and_a_missing_registry_say_what_is_needed() -> None:
    with pytest.raises(BadValue, match="avro") as caught:
        decoder("avrro")
    assert all(word in caught.value.needed for word in WORDS)
    with pytest.raises(MissingPiece) as missing:
        decoder("avro")
    assert "SCHEMA_REGISTRY_URL" in (missing.value.hint or "")


# --- a registry ---------------------------------------------------------------------------------


@pytest.fixture
def written(registry: TestRegistry) -> TestRegistry:
    """The registry with the schemas that Confluent's client registered."""
    registry.schemas = WRITTEN["schemas"]
    registry.subjects = WRITTEN["subjects"]
    assert [registry.guid(n + 1) for n in range(len(registry.schemas))] == WRITTEN["guids"]
    return registry


@pytest.mark.parametrize("case", WRITTEN["cases"], ids=lambda case: case["name"])
@pytest.mark.parametrize("by_name", [True, False], ids=["named", "as the registry says"])
def test_what_confluents_client_wrote_is_decoded(
    case: dict[str, Any], by_name: bool, written: TestRegistry
) -> None:
    data = base64.b64decode(case["data"])
    headers = tuple((name, base64.b64decode(value)) for name, value in case["headers"])
    word = case["decode"] if by_name else "registry"
    made = decoder(word, registry_url=written.url)
    found = made.decode(data, headers, is_key=case["is_key"])
    assert (json.loads(found) if isinstance(found, JsonText) else found) == case["decoded"]
    asked = len(written.asked)
    found = made.decode(data, headers, is_key=case["is_key"])
    assert (json.loads(found) if isinstance(found, JsonText) else found) == case["decoded"]
    assert len(written.asked) == asked, "a schema is asked for once"


class FromMemory(Registry):
    """The same schemas without a server."""

    def _get(self, path: str, asked: str) -> dict[str, Any]:
        held = TestRegistry(schemas=WRITTEN["schemas"], subjects=WRITTEN["subjects"])
        code, document = held.answer("GET", "/" + path, b"")
        if code != 200:
            raise RegistryRefused(self.url, asked=asked, reason=document["message"])
        return document


@given(data=some.data())
def test_damaged_bytes_are_refused_and_nothing_else_happens(data: some.DataObject) -> None:
    case = data.draw(some.sampled_from([c for c in WRITTEN["cases"] if not c["headers"]]))
    whole = bytearray(base64.b64decode(case["data"]))
    for _ in range(data.draw(some.integers(1, 3))):
        at = data.draw(some.integers(5, len(whole) - 1)) if len(whole) > 5 else 0
        whole[at] = data.draw(some.integers(0, 255))
    cut = bytes(whole[: data.draw(some.integers(0, len(whole)))])
    made = Registered(FromMemory("http://registry.test"), REGISTERED[case["decode"]])
    try:
        json.dumps(made.decode(cut, (), is_key=case["is_key"]))
    except (Undecodable, RegistryRefused):
        return


def test_the_wrong_word_is_told_apart(written: TestRegistry) -> None:
    case = next(c for c in WRITTEN["cases"] if c["name"] == "json schema")
    with pytest.raises(Undecodable, match="is json-schema") as caught:
        decode("avro", base64.b64decode(case["data"]), written.url)
    assert caught.value.hint == "use json-schema"


def test_bytes_without_an_id_say_how_they_begin(written: TestRegistry) -> None:
    with pytest.raises(Undecodable, match="they begin with 7b226122"):
        decode("avro", b'{"a": 1}', written.url)
    with pytest.raises(Undecodable, match="they begin with nothing"):
        decode("avro", b"", written.url)
    with pytest.raises(RegistryRefused, match="Schema not found"):
        decode("avro", b"\0\0\0\0\x63abc", written.url)


def test_a_schema_that_ends_before_the_bytes_do_is_no_match(written: TestRegistry) -> None:
    case = next(c for c in WRITTEN["cases"] if c["name"] == "avro primitive key")
    with pytest.raises(Undecodable, match="ends 2 bytes before"):
        decode("avro", base64.b64decode(case["data"]) + b"xy", written.url)


def test_a_registry_that_stumbles_is_asked_again_and_one_that_is_gone_is_named(
    written: TestRegistry,
) -> None:
    data = base64.b64decode(WRITTEN["cases"][1]["data"])
    written.failing = 2
    assert decode("avro", data, written.url) == 7
    written.failing = 3
    with pytest.raises(RegistryUnavailable, match="Error in the backend"):
        decode("avro", data, written.url)
    with pytest.raises(RegistryUnavailable) as caught:
        decode("avro", data, "http://me:hidden@127.0.0.1:1")
    assert "hidden" not in str(caught.value)


def test_a_registry_whose_answer_breaks_off_is_asked_again(written: TestRegistry) -> None:
    data = base64.b64decode(WRITTEN["cases"][1]["data"])
    written.breaking = 2
    assert decode("avro", data, written.url) == 7
    written.breaking = 3
    with pytest.raises(RegistryUnavailable, match="more expected"):
        decode("avro", data, written.url)


def test_a_registry_with_a_login(written: TestRegistry) -> None:
    written.user = "me:p@ss"
    data = base64.b64decode(WRITTEN["cases"][1]["data"])
    host = written.url.removeprefix("http://")
    assert decode("avro", data, f"http://me:p%40ss@{host}") == 7
    with pytest.raises(RegistryRefused, match="Unauthorized") as caught:
        decode("avro", data, written.url)
    assert "SR_PASSWORD" in (caught.value.hint or "")


def test_a_redirect_is_not_followed_with_the_password(written: TestRegistry) -> None:
    written.redirect_to = written.url + "/elsewhere"
    with pytest.raises(RegistryRefused, match="302"):
        decode("avro", base64.b64decode(WRITTEN["cases"][1]["data"]), written.url)
    assert len(written.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [
        (404, {"error_code": 40403, "message": "no schema for me:s3cret/pw"}),
        (200, {"schema": "x", "schemaType": "s3cret/pw"}),
        (200, {"schema": '{"type": "s3cret/pw"}'}),
        (200, {"schema": '"string"', "references": [{"name": "n", "subject": "s3cret/pw"}]}),
    ],
)
def test_why_a_record_is_undecoded_tells_no_login_that_a_registry_repeats(
    registry: TestRegistry, monkeypatch: pytest.MonkeyPatch, answer: tuple[int, dict[str, Any]]
) -> None:
    monkeypatch.setattr(secrets, "_known", set())  # as in the process of a task
    for reference in answer[1].get("references", ()):
        reference["version"] = 1
    gone = 404, {"error_code": 40401, "message": "Subject not found"}
    monkeypatch.setattr(
        registry, "answer", lambda _method, path, _body: gone if "subjects" in path else answer
    )
    url = registry.url.replace("//", "//me:s3cret%2Fpw@")
    record = Record("t", 0, 7, 1, TimestampType.CREATE_TIME, None, b"\0\0\0\0\1abc")
    found = ValueDecoding("registry", url).open().decoded_first(Records.of([record]))
    reason = found.undecoded[7]
    assert secrets.HIDDEN in reason
    assert "s3cret" not in reason
    assert "pw" not in reason.replace(secrets.HIDDEN, "")


@pytest.mark.parametrize("url", ["registry:8081", "file:///etc/passwd", "http://"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(BadValue, match="https://host:port"):
        Registry(url)


CAR = """
/* What the records were written by. */
syntax = "proto3";
package cars;  // of all of it
import "inner.proto";
import "google/protobuf/timestamp.proto";
option java_package = "com.example.{cars}";
message Car { string name = 1 [deprecated = true]; int64 seq = 2; reserved 7, 9 to 11; }
message Trip {
  option (own.option) = { a: 1; b: [2] };
  message Leg { int32 gear = 1; bytes raw = 0x2; }
  Car car = 1;
  repeated Leg legs = 2;
  .cars.Place place = 3;
  google.protobuf.Timestamp at = 4;
  map<string, uint32> counts = 5;
  enum Kind { option allow_alias = true; UNKNOWN = 0; RACE = 1; FAST = 1; }
  Kind kind = 6;
  oneof said { string text = 7; bool flag = 8; }
  optional int32 laps = 9;
}
service Cars { rpc Drive (Car) returns (stream Trip) { option idempotency_level = IDEMPOTENT; } }
"""
INNER = 'syntax = "proto3"; package cars; message Place { double lat = 1; double lon = 2; }'


@pytest.fixture
def of_texts(registry: TestRegistry) -> TestRegistry:
    """A registry that knows only the text of .proto files; ids as those of Confluent's client."""
    registry.schemas = [dict(each) for each in WRITTEN["schemas"]]
    registry.subjects = WRITTEN["subjects"]
    registry.schemas[4]["schema"], registry.schemas[5]["schema"] = INNER, CAR
    return registry


PROTOBUF = [c for c in WRITTEN["cases"] if c["decode"] == "protobuf" and not c["headers"]]


@pytest.mark.parametrize("case", PROTOBUF, ids=lambda case: case["name"])
def test_a_proto_file_as_text_is_compiled(case: dict[str, Any], of_texts: TestRegistry) -> None:
    assert decode("protobuf", base64.b64decode(case["data"]), of_texts.url) == case["decoded"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('syntax = "proto3"; message A {', "is incomplete"),
        ('syntax = "proto3"; message A { string a : 1; }', "':', needed '='"),
        ('syntax = "proto3"; message A { Nowhere a = 1; }', "invalid schema"),
        ('syntax = "proto2"; message A { repeated group B = 1 { } }', "groups"),
        ('edition = "2023"; message A { enum B { C = 0; } B b = 1; }', "editions"),
        ('syntax = "proto3"; import "google/protobuf/nope.proto"; message A { }', "not known here"),
        ("", "has no type"),
    ],
)
def test_a_proto_file_that_is_none_is_said(text: str, said: str, registry: TestRegistry) -> None:
    registry.register("x", {"schemaType": "PROTOBUF", "schema": text})
    with pytest.raises(Undecodable, match=said):
        decode("protobuf", b"\0\0\0\0\x01\0", registry.url)


def test_of_several_names_of_one_number_the_first_one_counts(registry: TestRegistry) -> None:
    kind = (
        "enum Kind { option allow_alias = true; NONE = 0; NIL = 0; RACE = 5; FAST = 5; QUICK = 5; }"
    )
    text = f'syntax = "proto3"; message A {{ {kind} Kind kind = 1; repeated Kind all = 2; Kind none = 3; }}'
    made = registry.register("x", {"schemaType": "PROTOBUF", "schema": text})
    by, data = decoder("protobuf", registry_url=registry.url), b"\x08\x05\x12\x02\x05\x00"
    framed = struct.pack(">bib", 0, made, 0) + data
    found = {"kind": "RACE", "all": ["RACE", "NONE"]}
    assert by.decode(framed, (), is_key=False) == found
    assert json.loads(by.exact(framed, ())) == found | {"none": "NONE"}


@pytest.mark.parametrize(("library", "word"), [("fastavro", "avro"), ("google", "protobuf")])
def test_a_missing_library_names_the_extra(
    library: str, word: str, written: TestRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_import = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == f"playhead.schemas.{word}":
            raise ImportError(library)
        return plain_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    case = next(c for c in WRITTEN["cases"] if c["decode"] == word)
    with pytest.raises(MissingPiece) as caught:
        decode(word, base64.b64decode(case["data"]), written.url)
    assert caught.value.hint == "pip install 'playhead[schemas]'"


# --- framing ------------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    value, found = (number << 1) ^ (number >> 63), b""
    while value > 0x7F:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


@given(some.lists(some.integers(0, 5_000), min_size=1, max_size=6), some.binary(max_size=9))
def test_indexes_are_read_as_they_are_written(indexes: list[int], rest: bytes) -> None:
    written = varint(len(indexes)) + b"".join(map(varint, indexes))
    assert read_indexes(written + rest) == (tuple(indexes), len(written))


def test_no_indexes_are_the_first_type() -> None:
    assert read_indexes(b"\0rest") == ((0,), 1)


@given(some.integers(0, 2**32 - 1), some.binary(max_size=20))
def test_an_id_stands_before_the_bytes_or_in_a_header(number: int, body: bytes) -> None:
    prefix = b"\0" + number.to_bytes(4, "big")
    before = find(prefix + body, (), is_key=False)
    assert (before.schema_id, before.plain()) == (SchemaId(number), body)
    beside = find(body, ((VALUE_HEADER, prefix),), is_key=False)
    assert (beside.schema_id, beside.plain()) == (SchemaId(number), body)


def test_a_header_counts_before_the_bytes_and_only_its_own() -> None:
    guid = uuid.UUID(int=7)
    header = (VALUE_HEADER, b"\1" + guid.bytes)
    data = b"\0\0\0\0\x09x"
    assert find(data, (header,), is_key=False).schema_id == SchemaId(guid=guid)
    assert find(data, (header,), is_key=True).schema_id == SchemaId(9)


def test_of_several_headers_the_last_one_counts() -> None:
    """Serializers append theirs, also where a program sends on the headers of what it has read."""
    old, new = (VALUE_HEADER, b"\0\0\0\0\x07"), (VALUE_HEADER, b"\0\0\0\0\x08")
    assert find(b"x", (old, ("other", b""), new), is_key=False).schema_id == SchemaId(8)


def test_how_decoded_values_are_shown() -> None:
    assert as_text("a\tb") == "a\tb"
    assert as_text({"Å": None}) == '{"Å": null}'
    assert as_text(1) == "1"


def test_errors_can_be_sent_to_another_process() -> None:
    import pickle

    error = Undecodable("avro", reason="x", hint="y")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  our own
    assert isinstance(again, PlayheadError)
    assert (again.form, again.reason, again.hint) == ("avro", "x", "y")


@given(
    some.integers(0, len(CAR)),
    some.integers(0, len(CAR)),
    some.sampled_from(["", "{", "}", ";", "="]),
)
def test_a_damaged_proto_file_is_refused_and_nothing_else_happens(
    first: int, last: int, put: str
) -> None:
    try:
        compile_proto(CAR[:first] + put + CAR[last:])
    except ValueError:
        return


ANY = 'syntax = "proto3"; import "google/protobuf/any.proto"; message A { google.protobuf.Any t = 1; }'
OWN_TIME = 'syntax = "proto3"; package google.protobuf; message Timestamp { string seconds = 1; }'
NAMED_AS_PYTHON_DOES = 'syntax = "proto3"; message A { int32 DESCRIPTOR = 1; }'
NO_SIZE = '{"type": "fixed", "name": "F", "size": "x"}'


@pytest.mark.parametrize(
    ("kind", "schema", "data"),
    [
        pytest.param("PROTOBUF", ANY, b"\x00\x0a\x06\x0a\x01A\x12\x01\xff", id="a torn Any"),
        pytest.param("PROTOBUF", OWN_TIME, b"\x00\x0a\x01x", id="a type of Google's, another one"),
        pytest.param(
            "PROTOBUF", NAMED_AS_PYTHON_DOES, b"\x00\x08\x01", id="a name of the library's"
        ),
        pytest.param("AVRO", NO_SIZE, b"abc", id="a size that is none"),
        pytest.param("AVRO", "5", b"abc", id="a schema that is a number"),
    ],
)
def test_however_a_library_fails_the_record_is_refused(
    registry: TestRegistry, kind: str, schema: str, data: bytes
) -> None:
    made = registry.register("poison", {"schema": schema, "schemaType": kind})
    framed = b"\x00" + struct.pack(">I", made) + data
    by = decoder("registry", registry_url=registry.url)
    with pytest.raises(Undecodable):
        by.exact(framed, ())
    with pytest.raises(Undecodable):
        by.decode(framed, (), is_key=False)


def test_no_proxy_gets_the_login_of_a_registry_on_this_machine(written: TestRegistry) -> None:
    ask = f"from playhead.schemas.registry import Registry; Registry({written.url!r})._get('schemas/ids/1', 'it')"
    environment = {**os.environ, "http_proxy": "http://127.0.0.1:9", "no_proxy": ""}
    done = subprocess.run(
        [sys.executable, "-c", ask], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_an_answer_larger_than_any_schema_is_refused(registry: TestRegistry) -> None:
    registry.register("x", {"schema": "[" + "[]," * (3 << 20) + "[]]"})
    with pytest.raises(RegistryRefused, match="more than 8 MiB"):
        decode("avro", b"\0\0\0\0\x01\0", registry.url)


def test_schemas_beyond_a_size_are_not_all_kept(registry: TestRegistry) -> None:
    for number in range(6):
        name = f"R{number}"
        document = {"type": "record", "name": name, "doc": "x" * (6 << 20), "fields": []}
        registry.register("x", {"schema": json.dumps(document)})
    made = Registered(Registry(registry.url))
    for number in (1, 2, 3, 4, 5, 6, 6, 1):
        assert made.decode(struct.pack(">bi", 0, number), (), is_key=False) == {}
    asked = [int(each.rpartition("/")[2]) for each in registry.asked]
    assert asked == [1, 2, 3, 4, 5, 6, 1], "the latest are kept, and the first is asked for again"


@pytest.mark.parametrize("kind", ["AVRO", "PROTOBUF"])
def test_schemas_are_as_large_as_what_they_refer_to(registry: TestRegistry, kind: str) -> None:
    """A thousand small ones that refer to a large one took gigabytes: each has all of it."""
    far = "x" * (3 << 20)
    if kind == "AVRO":
        common = json.dumps({"type": "record", "name": "C", "doc": far, "fields": []})
        using = '{"type": "record", "name": "%s", "fields": [{"name": "x", "type": "%s"}]}'
    else:
        common = f'syntax = "proto3"; message C {{}} // {far}'
        using = 'syntax = "proto3"; import "%s"; message %s { %s x = 1; }'
    registry.register("c", {"schema": common, "schemaType": kind})
    refer = [{"name": "C", "subject": "c", "version": 1}]
    between = using % (("B", "C") if kind == "AVRO" else ("C", "B", "C"))
    registry.register("b", {"schema": between, "schemaType": kind, "references": refer})
    refer = [{"name": "B", "subject": "b", "version": 1}]
    if kind == "PROTOBUF":  # Google's own files are not asked for.
        refer.append({"name": "google/protobuf/any.proto", "subject": "any", "version": 1})
    numbers = [
        registry.register("x", {"schema": small, "schemaType": kind, "references": refer})
        for small in (
            using % ((f"R{n}", "B") if kind == "AVRO" else ("B", f"R{n}", "B")) for n in range(8)
        )
    ]
    made = Registered(Registry(registry.url))
    for number in numbers:
        framed = struct.pack(">bi", 0, number) + (b"" if kind == "AVRO" else b"\0")
        made.decode(framed, (), is_key=False)
    kept = [number for number in numbers if made._reads.get(SchemaId(number)) is not None]
    assert kept == numbers[-5:], "16 MiB of texts"


def test_what_is_kept_has_a_size() -> None:
    kept: Kept[str, int] = Kept(10)
    for key, size in (("a", 4), ("b", 4), ("c", 4)):
        kept.keep(key, size, size)
    assert [kept.get(key) for key in "abc"] == [None, 4, 4]
    kept.keep("large", 1, 20)
    kept.keep("d", 4, 4)
    assert [kept.get(key) for key in ("b", "c", "large", "d")] == [None, None, None, 4]

"""Schemas of Protobuf that are not large, and whose parts were inspected again for each other part or each value."""

import base64
import json
import struct
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from google.protobuf import descriptor_pb2

from playhead.schemas.decoder import decoder
from playhead.schemas.errors import Undecodable
from playhead.schemas.registry_decoder import Registered
from tests.fix_registry import TestRegistry
from tests.unit.test_protobuf_limits import sized, varint

LIST, OPTIONAL, MESSAGE, ENUM = 3, 1, 11, 14


@contextmanager
def within(seconds: float) -> Iterator[None]:
    start = time.process_time()
    yield
    assert time.process_time() - start < seconds


def with_enum(values: int, letters: int = 0) -> descriptor_pb2.FileDescriptorProto:
    """A type A with a list of itself, and an enum E of so many values."""
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", syntax="proto2")
    enum = file.enum_type.add(name="E")
    for number in range(values):
        enum.value.add(name=f"v{number}".ljust(letters, "x"), number=number)
    kind = file.message_type.add(name="A")
    kind.field.add(name="a", number=1, label=LIST, type=MESSAGE, type_name=".A")
    return file


def opened(registry: TestRegistry, schema: str) -> tuple[Registered, bytes]:
    """The decoder, and what is before values of the first type."""
    made = registry.register("work", {"schema": schema, "schemaType": "PROTOBUF"})
    by = decoder("registry", registry_url=registry.url)
    assert isinstance(by, Registered)
    return by, b"\x00" + struct.pack(">I", made) + b"\x00"


def compiled(file: descriptor_pb2.FileDescriptorProto) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def test_the_names_of_an_enum_are_read_once_for_all_extensions(registry: TestRegistry) -> None:
    """Each extension in a value read all of them: 500 bytes took seconds, and 50,000 bytes ten minutes."""
    file = with_enum(50_000)
    file.message_type[0].extension_range.add(start=100, end=200)
    file.extension.add(
        name="x", number=100, label=OPTIONAL, type=ENUM, type_name=".E", extendee=".A"
    )
    by, framed = opened(registry, compiled(file))
    one = sized(1, varint(100 << 3) + b"\x01")
    by.exact(framed + one, ())
    with within(2):
        found = json.loads(by.exact(framed + one * 500, ()))
    assert found == {"a": [{"a": [], "[x]": "v1"}] * 500}


def test_the_names_of_an_enum_are_measured_once_for_all_values(registry: TestRegistry) -> None:
    file = with_enum(8_000, 254)
    file.message_type[0].field.add(name="x", number=2, label=OPTIONAL, type=ENUM, type_name=".E")
    by, framed = opened(registry, compiled(file))
    with within(2):
        found = json.loads(by.exact(framed + sized(1, b"\x10\x01") * 1_500, ()))
        json.loads(by.exact(framed + sized(1, b"\x10\x01") * 1_500 + sized(9, bytes(600_000)), ()))
    assert len(found["a"]) == 1_500


def test_fields_of_one_enum_share_its_names(registry: TestRegistry) -> None:
    """2 MB of schema took gigabytes of memory: all names again for each of 200 fields."""
    file = with_enum(10_000)
    for number in range(2, 202):
        file.message_type[0].field.add(
            name=f"f{number}", number=number, label=OPTIONAL, type=ENUM, type_name=".E"
        )
    by, framed = opened(registry, compiled(file))
    tracemalloc.start()
    try:
        assert json.loads(by.exact(framed + b"\x10\x07", ())) == {"a": [], "f2": "v7"}
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


def test_a_type_of_many_maps_to_itself_is_counted_once(registry: TestRegistry) -> None:
    """Its 8,000 fields were counted for each of its 8,000 maps: 14 s for an empty value."""
    maps = " ".join(f"map<int32, A> m{number} = {number};" for number in range(1, 8_000))
    by, framed = opened(registry, f'syntax = "proto3"; message A {{ {maps} }}')
    with within(3):
        assert len(json.loads(by.exact(framed, ()))) == 7_999


def test_a_type_of_more_maps_than_a_value_can_have_is_refused(registry: TestRegistry) -> None:
    """The library took minutes to refuse it."""
    maps = " ".join(f"map<int32, A> m{number} = {number};" for number in range(1, 100_000))
    by, framed = opened(registry, f'syntax = "proto3"; message A {{ message B {{ {maps} }} }}')
    with within(4), pytest.raises(Undecodable, match="a type with more than 8,191 maps"):
        by.exact(framed, ())


def test_types_are_not_listed_for_each_value(registry: TestRegistry) -> None:
    """A file of 480,000 types took 0.2 s for every value of 6 bytes."""
    types = "".join(f"message A{number} {{}}" for number in range(100_000))
    by, framed = opened(registry, f'syntax = "proto3"; {types}')
    assert by.exact(framed, ()) == b"{}"
    with within(1):
        for _ in range(200):
            by.exact(framed, ())

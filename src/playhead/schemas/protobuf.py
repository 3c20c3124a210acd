"""Protobuf by the registry's compiled descriptors; types are found by their indexes."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError

from playhead.decoding import Kinds
from playhead.schemas.proto_compiler import compile_proto
from playhead.schemas.proto_json import Values, kinds
from playhead.schemas.protobuf_limits import ProtobufLimits, check_types, need_names, need_texts
from playhead.schemas.registry import MOST_REFERENCES, Registry, Schema

_BUILT_IN = "google/protobuf/"
_OWN = "playhead.proto"


@dataclass(frozen=True, slots=True)
class ProtobufReader:
    """Reads any type of one file."""

    file: Any
    types: Sequence[Any]
    """Those that are in no other; to list them for each value could take longer than the value."""
    values: Values
    limits: ProtobufLimits = field(default_factory=ProtobufLimits)

    @classmethod
    def of(cls, registry: Registry, schema: Schema) -> "ProtobufReader":
        pool = descriptor_pool.DescriptorPool()
        _add_references(registry, schema, pool, set())
        _add(pool, schema, _OWN)
        try:
            file = pool.FindFileByName(_OWN)
        except (KeyError, TypeError) as exc:
            raise ValueError(f"invalid schema: {exc}") from exc
        return cls(file, [*file.message_types_by_name.values()], Values(pool))

    def read(self, indexes: tuple[int, ...], data: bytes) -> Any:
        """Return fields by the file's names, with 64-bit numbers as text: Protobuf's own JSON."""
        found = self._read(indexes, data)
        need_names(found)
        need_texts(found)
        try:
            return json_format.MessageToDict(
                found, preserving_proto_field_name=True, descriptor_pool=self.file.pool
            )
        except (json_format.Error, TypeError) as exc:
            raise ValueError(f"a value cannot be written as JSON: {exc}") from exc

    def exact(self, indexes: tuple[int, ...], data: bytes) -> Any:
        """Return fields by the file's names as Python values, including defaults and unknown fields."""
        found = self._read(indexes, data)
        self.limits.check_unknown(found, data)
        try:
            return self.values.of(found)
        except (json_format.Error, TypeError) as exc:
            raise ValueError(f"a value cannot be written as JSON: {exc}") from exc

    def kinds(self, indexes: tuple[int, ...]) -> Kinds:
        """Return the kinds of a type's fields."""
        return kinds(self._type(indexes))

    def _read(self, indexes: tuple[int, ...], data: bytes) -> Any:
        found = self._parsed(self._type(indexes), data)
        self.limits.check_names(found)
        self.limits.check_anys(found, data, self._opened)
        self.limits.check_lists(found, data, self._opened)
        self.limits.check_enums(found, data, self._opened)
        return found

    def _parsed(self, kind: Any, data: bytes) -> Any:
        self.limits.check(kind, data)
        try:
            return message_factory.GetMessageClass(kind).FromString(data)
        except DecodeError as exc:
            raise ValueError("the bytes do not fit the schema") from exc

    def _opened(self, held: Any) -> Any:
        """Return the value in a `google.protobuf.Any`."""
        name = held.type_url.rpartition("/")[2]
        try:
            kind = self.file.pool.FindMessageTypeByName(name)
        except KeyError as exc:
            raise ValueError(f"it contains a {name}, which the schema does not have") from exc
        found = self._parsed(kind, held.value)
        need_names(found)
        need_texts(found)
        return found

    def _type(self, indexes: tuple[int, ...]) -> Any:
        held: Any = self.types
        found = None
        for index in indexes:
            if not 0 <= index < len(held):
                raise ValueError(f"the schema has no type {list(indexes)}")
            found = held[index]
            held = found.nested_types
        return found


def _add_references(registry: Registry, schema: Schema, pool: Any, seen: set[str]) -> None:
    for reference in schema.references:
        if reference.name in seen or reference.name.startswith(_BUILT_IN):
            continue
        seen.add(reference.name)
        if len(seen) > MOST_REFERENCES:
            raise ValueError(f"the schema refers to more than {MOST_REFERENCES:,} others")
        other = registry.referred(reference)
        _add_references(registry, other, pool, seen)
        _add(pool, other, reference.name)


def _add(pool: Any, schema: Schema, name: str) -> None:
    file = _compiled(schema.text)
    check_types(file)
    try:
        need_texts(file)
    except ValueError as exc:
        raise ValueError(f"invalid schema: {exc}") from exc
    file.name = name
    _add_built_in(pool, file)
    try:
        pool.Add(file)
    except TypeError as exc:
        raise ValueError(f"invalid schema: {exc}") from exc


def _compiled(text: str) -> Any:
    """Parse the compiled form if the registry serves it, else compile the text of the file."""
    file = descriptor_pb2.FileDescriptorProto()
    try:
        file.ParseFromString(base64.b64decode(text, validate=True))
    except (binascii.Error, DecodeError):
        return compile_proto(text)
    return file


def _add_built_in(pool: Any, file: Any) -> None:
    """Add one of Google's own files to the pool."""
    for name in file.dependency:
        if name.startswith(_BUILT_IN) and not _has(pool, name):
            own = descriptor_pb2.FileDescriptorProto()
            _built_in(name).CopyToProto(own)
            _add_built_in(pool, own)
            pool.Add(own)


def _built_in(name: str) -> Any:
    from importlib import import_module

    module = name.removesuffix(".proto").replace("/", ".") + "_pb2"
    try:
        import_module(module)
        return descriptor_pool.Default().FindFileByName(name)
    except (ImportError, KeyError) as exc:
        raise ValueError(f"the schema imports {name}, which is not known here") from exc


def _has(pool: Any, name: str) -> bool:
    try:
        pool.FindFileByName(name)
    except KeyError:
        return False
    return True

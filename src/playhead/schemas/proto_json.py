"""Converts Protobuf values to JSON for rows: numbers as numbers, and unset fields as their
defaults.

Protobuf's own JSON writes 64-bit numbers as text, and leaves out values that are zero, empty or
false. It also leaves out fields that the schema lacks, and enum values that a proto2 schema lacks.
"""

from collections.abc import Callable
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.unknown_fields import UnknownFieldSet

from playhead import decoding
from playhead.decoding import Kinds
from playhead.schemas.protobuf_limits import fields_of, text_of, type_of

Convert = Callable[[Any], Any]

_NESTED: Final = FieldDescriptor.CPPTYPE_MESSAGE
_BUILT_IN: Final = "google.protobuf."
_KINDS: Final = {
    FieldDescriptor.CPPTYPE_INT32: decoding.INTEGER,
    FieldDescriptor.CPPTYPE_INT64: decoding.INTEGER,
    FieldDescriptor.CPPTYPE_UINT32: decoding.INTEGER,
    FieldDescriptor.CPPTYPE_UINT64: decoding.DECIMAL,
    FieldDescriptor.CPPTYPE_DOUBLE: decoding.DOUBLE,
    FieldDescriptor.CPPTYPE_FLOAT: decoding.DOUBLE,
    FieldDescriptor.CPPTYPE_BOOL: decoding.BOOLEAN,
    FieldDescriptor.CPPTYPE_ENUM: decoding.TEXT,
    FieldDescriptor.CPPTYPE_STRING: decoding.TEXT,
}
_WRAPPERS: Final = {
    "DoubleValue": decoding.DOUBLE,
    "FloatValue": decoding.DOUBLE,
    "Int64Value": decoding.INTEGER,
    "UInt64Value": decoding.DECIMAL,
    "Int32Value": decoding.INTEGER,
    "UInt32Value": decoding.INTEGER,
    "BoolValue": decoding.BOOLEAN,
    "StringValue": decoding.TEXT,
    "BytesValue": decoding.BYTES,
}


class Values:
    """Converts values of any type in one pool; inspects each type once."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._types: dict[str, list[tuple[str, bool, Convert]]] = {}
        self._names: dict[str, dict[int, str]] = {}

    def of(self, held: Any) -> Any:
        """Return the JSON value of a Protobuf value."""
        kind = type_of(held)
        if kind.full_name.startswith(_BUILT_IN):
            return self._built_in(held)
        fields = self._types.get(kind.full_name)
        if fields is None:
            fields = self._types[kind.full_name] = [
                (each.name, each.has_presence, self._convert(each)) for each in kind.fields
            ]
        found = {
            name: convert(getattr(held, name))
            for name, may_be_absent, convert in fields
            if not may_be_absent or type(held).HasField(held, name)
        }
        if kind.is_extendable:
            found.update(self._extensions(held))
        found.update(_unknown(UnknownFieldSet(held)))
        return found

    def _extensions(self, held: Any) -> dict[str, Any]:
        """Return the extensions of a value by their names in brackets, as Protobuf's own JSON has them."""
        return {
            f"[{field.full_name}]": self._convert(field)(value)
            for field, value in fields_of(held)
            if field.is_extension
        }

    def _built_in(self, held: Any) -> Any:
        name = type_of(held).name
        if name in _WRAPPERS:
            return held.value
        return json_format.MessageToDict(
            held, preserving_proto_field_name=True, descriptor_pool=self._pool
        )

    def _convert(self, field: Any) -> Convert:
        if _is_map(field):
            keys, values = field.message_type.fields
            key, value = _of_key(keys), self._of_one(values)
            return lambda held: {key(name): value(held[name]) for name in held}
        one = self._of_one(field)
        return (lambda held: [one(each) for each in held]) if _is_repeated(field) else one

    def _of_one(self, field: Any) -> Convert:
        if field.cpp_type == _NESTED:
            return self.of
        if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
            names = self._names_of(field.enum_type)
            return lambda number: names.get(number, number)
        return text_of if field.type == FieldDescriptor.TYPE_STRING else _same

    def _names_of(self, enum: Any) -> dict[int, str]:
        """Return an enum's names by number, the first of several. Many fields may be of one enum with many names."""
        names = self._names.get(enum.full_name)
        if names is None:
            names = self._names[enum.full_name] = {
                each.number: each.name for each in reversed(enum.values)
            }
        return names


def _unknown(fields: Any) -> dict[str, Any]:
    """Return what the schema has no field for, by field numbers; no name of a field begins like that."""
    found: dict[str, list[Any]] = {}
    for each in fields:
        held = _unknown(each.data) if isinstance(each.data, UnknownFieldSet) else each.data
        found.setdefault(f"#{each.field_number}", []).append(held)
    return {name: held[0] if len(held) == 1 else held for name, held in found.items()}


def kinds(descriptor: Any) -> Kinds:
    """Return the kinds of a type's fields."""
    found = {field.name: _kind(field) for field in descriptor.fields}
    return {name: kind for name, kind in found.items() if kind is not None}


def _kind(field: Any) -> str | None:
    if _is_repeated(field):
        return decoding.JSON
    if field.type == FieldDescriptor.TYPE_BYTES:
        return decoding.BYTES
    if field.cpp_type != _NESTED:
        return _KINDS[field.cpp_type]
    name = field.message_type.full_name
    if not name.startswith(_BUILT_IN):
        return decoding.JSON
    if name == f"{_BUILT_IN}Timestamp":
        return decoding.INSTANT
    return _WRAPPERS.get(field.message_type.name)


def _is_map(field: Any) -> bool:
    return field.cpp_type == _NESTED and bool(field.message_type.GetOptions().map_entry)


def _is_repeated(field: Any) -> bool:
    # Some versions of the runtime lack one of the two.
    known = getattr(field, "is_repeated", None)
    return bool(field.label == FieldDescriptor.LABEL_REPEATED if known is None else known)


def _of_key(field: Any) -> Convert:
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return lambda held: "true" if held else "false"
    return str


def _same(held: Any) -> Any:
    return held

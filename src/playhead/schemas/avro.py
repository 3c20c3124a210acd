"""Avro by fastavro: one record without a container, with the schemas that a schema refers to."""

import io
import json
from dataclasses import dataclass, field
from typing import Any, Final

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from playhead import decoding
from playhead.decoding import Kinds
from playhead.schemas.avro_exact import (
    BOOLEAN,
    DECIMAL,
    TIME_MICROS,
    TIME_MILLIS,
    UUID,
    guard,
    referable,
    with_exact_types,
)
from playhead.schemas.avro_limits import AvroLimits
from playhead.schemas.registry import MOST_REFERENCES, Registry, Schema

_KINDS: Final = {
    "boolean": decoding.BOOLEAN,
    "int": decoding.INTEGER,
    "long": decoding.INTEGER,
    "float": decoding.DOUBLE,
    "double": decoding.DOUBLE,
    "string": decoding.TEXT,
    "enum": decoding.TEXT,
    "bytes": decoding.BYTES,
    "fixed": decoding.BYTES,
    "record": decoding.JSON,
    "array": decoding.JSON,
    "map": decoding.JSON,
    f"fixed-{BOOLEAN}": decoding.BOOLEAN,
    f"bytes-{DECIMAL}": decoding.DECIMAL,
    f"fixed-{DECIMAL}": decoding.DECIMAL,
    f"string-{UUID}": decoding.UUID,
    "int-date": decoding.DATE,
    f"int-{TIME_MILLIS}": decoding.CLOCK_TIME,
    f"long-{TIME_MICROS}": decoding.CLOCK_TIME,
    "long-timestamp-millis": decoding.INSTANT,
    "long-timestamp-micros": decoding.INSTANT,
    "long-local-timestamp-millis": decoding.LOCAL_TIME,
    "long-local-timestamp-micros": decoding.LOCAL_TIME,
}


_AROUND: Final = "playhead-around"
"""No schema can define a type of this name, because Avro's names have no hyphens."""
_VALUE: Final = "value"


@dataclass(frozen=True, slots=True)
class AvroReader:
    """Reads with the schema that the bytes were written with."""

    schema: Any
    limits: AvroLimits
    named: dict[str, Any] = field(default_factory=dict)
    around: Any = None
    """A record with the value as its only field, whose bytes are the value's; None for a record."""

    @classmethod
    def of(cls, registry: Registry, schema: Schema) -> "AvroReader":
        named: dict[str, Any] = {}
        _name_references(registry, schema, named, set())
        document = _document(schema)
        if isinstance(document, dict) and document.get("type") in ("record", "error"):
            parsed = guard(_parsed(document, named), named)
            named = referable(named)
            return cls(parsed, AvroLimits(parsed, named), named)
        # For each value, fastavro parses all but records again; a union of a thousand types takes 30 ms.
        field_ = {"name": _VALUE, "type": document}
        around = _parsed({"type": "record", "name": _AROUND, "fields": [field_]}, named)
        del named[_AROUND]
        inner = around["fields"][0]["type"]
        around = guard(around, named)
        named = referable(named)
        return cls(inner, AvroLimits(inner, named), named, around)

    def read(self, data: bytes) -> Any:
        """Decode bytes; ValueError if they do not fit, or if bytes remain."""
        self.limits.check(data)
        stream = io.BytesIO(data)
        try:
            if self.around is None:
                found = fastavro.schemaless_reader(stream, self.schema, None)
            else:
                found = fastavro.schemaless_reader(stream, self.around, None)[_VALUE]
        except (EOFError, IndexError, StopIteration, UnicodeDecodeError, OverflowError) as exc:
            raise ValueError(f"the bytes do not fit the schema ({type(exc).__name__})") from exc
        left = len(data) - stream.tell()
        if left:
            raise ValueError(f"the schema ends {left} bytes before they do")
        return found

    def kinds(self) -> Kinds:
        """Return the kinds of a record's fields, without fields of several kinds."""
        fields = self.schema.get("fields", ()) if isinstance(self.schema, dict) else ()
        found = {each["name"]: self._kind(each["type"]) for each in fields}
        return {name: kind for name, kind in found.items() if kind is not None}

    def _kind(self, type_: Any) -> str | None:
        if isinstance(type_, list):
            kinds = {self._kind(each) for each in type_ if each != "null"}
            return kinds.pop() if len(kinds) == 1 else None
        if isinstance(type_, str):
            return self._kind(self.named[type_]) if type_ in self.named else _KINDS.get(type_)
        inner = type_["type"]
        if not isinstance(inner, str):
            return self._kind(inner)
        logical = _KINDS.get(f"{inner}-{type_.get('logicalType')}")
        return logical or _KINDS.get(inner)


def _name_references(
    registry: Registry, schema: Schema, named: dict[str, Any], seen: set[tuple[str, int]]
) -> None:
    for reference in schema.references:
        place = (reference.subject, reference.version)
        if place in seen:
            continue
        seen.add(place)
        if len(seen) > MOST_REFERENCES:
            raise ValueError(f"the schema refers to more than {MOST_REFERENCES:,} others")
        other = registry.referred(reference)
        _name_references(registry, other, named, seen)
        if reference.name not in named:
            _parsed(_document(other), named)


def _document(schema: Schema) -> Any:
    try:
        return with_exact_types(json.loads(schema.text))
    except RecursionError as exc:
        raise ValueError("the schema is nested too deeply") from exc


def _parsed(document: Any, named: dict[str, Any]) -> Any:
    try:
        return fastavro.parse_schema(document, named_schemas=named)
    except (SchemaParseException, UnknownType, KeyError, TypeError, AttributeError) as exc:
        raise ValueError(f"invalid schema: {exc}") from exc
    except RecursionError as exc:
        raise ValueError("the schema is nested too deeply") from exc

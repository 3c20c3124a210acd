"""Avro by fastavro: one record without a container, and the schemas that a schema refers to."""

import io
import json
from dataclasses import dataclass
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from playhead.schemas.registry import Registry, Schema


@dataclass(frozen=True, slots=True)
class AvroReader:
    """Reads with the schema that was written with."""

    schema: Any

    @classmethod
    def of(cls, registry: Registry, schema: Schema) -> "AvroReader":
        named: dict[str, Any] = {}
        _name_references(registry, schema, named)
        return cls(_parsed(schema, named))

    def read(self, data: bytes) -> Any:
        """ValueError for bytes that do not fit, and for bytes that are left."""
        stream = io.BytesIO(data)
        try:
            found = fastavro.schemaless_reader(stream, self.schema, None)
        except (EOFError, IndexError, StopIteration, UnicodeDecodeError, OverflowError) as exc:
            raise ValueError(f"the bytes do not fit the schema ({type(exc).__name__})") from exc
        left = len(data) - stream.tell()
        if left:
            raise ValueError(f"the schema ends {left} bytes before they do")
        return found


def _name_references(registry: Registry, schema: Schema, named: dict[str, Any]) -> None:
    for reference in schema.references:
        other = registry.referred(reference)
        _name_references(registry, other, named)
        if reference.name not in named:
            _parsed(other, named)


def _parsed(schema: Schema, named: dict[str, Any]) -> Any:
    try:
        return fastavro.parse_schema(json.loads(schema.text), named_schemas=named)
    except (SchemaParseException, UnknownType) as exc:
        raise ValueError(f"the schema cannot be understood: {exc}") from exc

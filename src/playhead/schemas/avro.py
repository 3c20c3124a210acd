"""Avro by fastavro: one record without a container, with the schemas that a schema refers to."""

import io
import json
from dataclasses import dataclass, field
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any, Final

import fastavro
from fastavro.read import LOGICAL_READERS
from fastavro.schema import SchemaParseException, UnknownType

from playhead import decoding
from playhead.decoding import Kinds
from playhead.schemas.avro_limits import AvroLimits
from playhead.schemas.registry import Registry, Schema

# fastavro rounds a decimal with more digits than its schema allows; this one keeps all digits.
_DECIMAL, _EXACT_DECIMAL = "decimal", "playhead-decimal"
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
    f"bytes-{_EXACT_DECIMAL}": decoding.DECIMAL,
    f"fixed-{_EXACT_DECIMAL}": decoding.DECIMAL,
    "string-uuid": decoding.UUID,
    "int-date": decoding.DATE,
    "int-time-millis": decoding.CLOCK_TIME,
    "long-time-micros": decoding.CLOCK_TIME,
    "long-timestamp-millis": decoding.INSTANT,
    "long-timestamp-micros": decoding.INSTANT,
    "long-local-timestamp-millis": decoding.LOCAL_TIME,
    "long-local-timestamp-micros": decoding.LOCAL_TIME,
}


_CONTEXT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
# A scale of a billion would be written as that many zeros, and the time to convert bytes grows with
# their square. No database has such decimals.
_MOST_SCALE, _MOST_DECIMAL_BYTES = 20_000, 20_000


def _read_decimal(data: bytes, schema: Any, _: Any = None) -> Decimal:
    if len(data) > _MOST_DECIMAL_BYTES:
        raise ValueError(
            f"a decimal of {len(data):,} bytes, needed at most {_MOST_DECIMAL_BYTES:,}"
        )
    unscaled = Decimal(int.from_bytes(data, "big", signed=True))
    return unscaled.scaleb(-schema.get("scale", 0), _CONTEXT)


for _base in ("bytes", "fixed"):
    LOGICAL_READERS[f"{_base}-{_EXACT_DECIMAL}"] = _read_decimal


_MOST_REFERENCES: Final = 300
"""As deep as they can be followed, one through the other."""


@dataclass(frozen=True, slots=True)
class AvroReader:
    """Reads with the schema that the bytes were written with."""

    schema: Any
    limits: AvroLimits
    named: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, registry: Registry, schema: Schema) -> "AvroReader":
        named: dict[str, Any] = {}
        _name_references(registry, schema, named, set())
        parsed = _parsed(schema, named)
        return cls(parsed, AvroLimits(parsed, named), named)

    def read(self, data: bytes) -> Any:
        """Decode bytes; ValueError if they do not fit, or if bytes remain."""
        self.limits.check(data)
        stream = io.BytesIO(data)
        try:
            found = fastavro.schemaless_reader(stream, self.schema, None)
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
        if len(seen) > _MOST_REFERENCES:
            raise ValueError(f"the schema refers to more than {_MOST_REFERENCES:,} others")
        other = registry.referred(reference)
        _name_references(registry, other, named, seen)
        if reference.name not in named:
            _parsed(other, named)


def _parsed(schema: Schema, named: dict[str, Any]) -> Any:
    try:
        document = _with_exact_decimals(json.loads(schema.text))
        return fastavro.parse_schema(document, named_schemas=named)
    except (SchemaParseException, UnknownType, KeyError, TypeError, AttributeError) as exc:
        raise ValueError(f"invalid schema: {exc}") from exc
    except RecursionError as exc:
        raise ValueError("the schema is nested too deeply") from exc


def _with_exact_decimals(node: Any) -> Any:
    if isinstance(node, list):
        return [_with_exact_decimals(each) for each in node]
    if not isinstance(node, dict):
        return node
    copy = {name: _with_exact_decimals(each) for name, each in node.items()}
    if node.get("logicalType") == _EXACT_DECIMAL:
        del copy["logicalType"]  # Decimals within limits are ours; Avro ignores unknown ones.
    scale = node.get("scale", 0)
    if node.get("logicalType") == _DECIMAL and type(scale) is int and scale >= 0:
        if scale > _MOST_SCALE:
            raise ValueError(
                f"the schema has a decimal of scale {scale}, needed at most {_MOST_SCALE}"
            )
        copy["logicalType"] = _EXACT_DECIMAL
    return copy

"""Decodes what was written with a schema of a registry, whichever of its three types it is."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from playhead.errors import MissingPiece
from playhead.record import Headers
from playhead.schemas.decoder import Undecodable, as_json
from playhead.schemas.framing import Framed, SchemaId, find
from playhead.schemas.plain import FORMS
from playhead.schemas.registry import Registry, Schema

Read = Callable[[Framed], Any]
_EXTRA = "pip install 'playhead[schemas]'"
_WORDS = {"AVRO": "avro", "PROTOBUF": "protobuf", "JSON": "json-schema"}


@dataclass(slots=True)
class Registered:
    """Bytes with a schema's id, before them or in a header; `kind` None takes any type of schema."""

    registry: Registry
    kind: str | None = None
    _readers: dict[SchemaId, Read] = field(default_factory=dict)

    def decode(self, data: bytes, headers: Headers, /, *, is_key: bool) -> Any:
        form = "registry" if self.kind is None else _WORDS[self.kind]
        try:
            framed = find(data, headers, is_key=is_key)
        except ValueError as exc:
            raise Undecodable(form, reason=str(exc)) from exc
        try:
            read = self._readers.get(framed.schema_id)
            if read is None:
                read = self._readers[framed.schema_id] = self._reader(framed.schema_id, form)
            return read(framed)
        except ValueError as exc:
            raise Undecodable(form, reason=f"schema {framed.schema_id}: {exc}") from exc

    def _reader(self, schema_id: SchemaId, form: str) -> Read:
        schema = self.registry.schema(schema_id)
        if self.kind not in (None, schema.kind):
            word = _WORDS.get(schema.kind, schema.kind)
            raise Undecodable(form, reason=f"schema {schema_id} is {word}", hint=f"say {word}")
        if schema.kind == "AVRO":
            return _avro(self.registry, schema)
        if schema.kind == "PROTOBUF":
            return _protobuf(self.registry, schema)
        if schema.kind == "JSON":
            # Which is for those who write: what stands there is JSON, valid or not.
            return lambda framed: FORMS["json"](framed.plain())
        raise Undecodable(form, reason=f"schema {schema_id} is of the unknown type {schema.kind}")


def _avro(registry: Registry, schema: Schema) -> Read:
    try:
        from playhead.schemas.avro import AvroReader
    except ImportError as exc:
        raise MissingPiece("fastavro", needed_for="Avro", hint=_EXTRA) from exc

    reader = AvroReader.of(registry, schema)
    return lambda framed: as_json(reader.read(framed.plain()))


def _protobuf(registry: Registry, schema: Schema) -> Read:
    try:
        from playhead.schemas.protobuf import ProtobufReader
    except ImportError as exc:
        raise MissingPiece("protobuf", needed_for="Protobuf", hint=_EXTRA) from exc

    reader = ProtobufReader.of(registry, schema)
    return lambda framed: reader.read(*framed.protobuf())

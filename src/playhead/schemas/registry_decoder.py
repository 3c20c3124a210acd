"""Decodes bytes that were written with a registry's schema of any of its three types."""

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import uuid4

from playhead.decoding import Kinds
from playhead.errors import MissingPiece, PlayheadError
from playhead.record import Headers
from playhead.schemas.errors import Undecodable
from playhead.schemas.plain_forms import FORMS, as_json, finite
from playhead.schemas.registry import Kept, Registry, Schema
from playhead.schemas.schema_id import Framed, SchemaId, find

# Python's JSON encoder has no decimals. They are written as unique texts, whose quotes are removed
# afterwards.
_MARK = uuid4().hex
_MARKED = re.compile(f'"{_MARK}([^"]*)"')

# Texts of schemas; what is made of them takes ten to thirty times as much.
_MOST_KEPT = 16 << 20
_MOST_INVALID = 1_000
_EXTRA = "pip install 'playhead[schemas]'"
_WORDS = {"AVRO": "avro", "PROTOBUF": "protobuf", "JSON": "json-schema"}


@dataclass(frozen=True, slots=True)
class _Reads:
    """Reads bytes of one schema; ValueError if they do not fit."""

    shown: Callable[[Framed], Any]
    exact: Callable[[Framed], bytes]
    kinds: Callable[[Framed], Kinds]


@dataclass(slots=True)
class Registered:
    """Bytes with a schema's id, before them or in a header; `kind` None accepts any type of schema."""

    registry: Registry
    kind: str | None = None
    _reads: Kept[SchemaId, _Reads] = field(default_factory=lambda: Kept(_MOST_KEPT))
    _invalid: Kept[SchemaId, str] = field(default_factory=lambda: Kept(_MOST_INVALID))
    """Why a schema cannot be used. To find that out can take seconds, and each record would again."""

    def decode(self, data: bytes, headers: Headers, /, *, is_key: bool) -> Any:
        return self._read(data, headers, lambda reads: reads.shown, is_key=is_key)

    def exact(self, data: bytes, headers: Headers, /) -> bytes:
        found: bytes = self._read(data, headers, lambda reads: reads.exact, is_key=False)
        return found

    def kinds(self, data: bytes, headers: Headers, /) -> Kinds:
        found: Kinds = self._read(data, headers, lambda reads: reads.kinds, is_key=False)
        return found

    def _read(
        self,
        data: bytes,
        headers: Headers,
        wanted: Callable[[_Reads], Callable[[Framed], Any]],
        *,
        is_key: bool,
    ) -> Any:
        try:
            framed = find(data, headers, is_key=is_key)
        except ValueError as exc:
            raise Undecodable(self._form, reason=str(exc)) from exc
        reads = self._reads_of(framed.schema_id)
        try:
            return wanted(reads)(framed)
        except PlayheadError:
            raise
        # Bytes and schema come from others, and the libraries fail in many ways on invalid ones.
        except Exception as exc:
            raise self._undecodable(framed.schema_id, _reason(exc)) from exc

    def _reads_of(self, schema_id: SchemaId) -> _Reads:
        reads = self._reads.get(schema_id)
        if reads is not None:
            return reads
        if (reason := self._invalid.get(schema_id)) is not None:
            raise self._undecodable(schema_id, reason)
        try:
            schema = self.registry.schema(schema_id)
            reads = self._made(schema_id, schema)
        except PlayheadError:
            raise
        except Exception as exc:
            # What this machine lacked for a moment says nothing about the schema.
            if not isinstance(exc, MemoryError | OSError):
                self._invalid.keep(schema_id, _reason(exc), 1)
            raise self._undecodable(schema_id, _reason(exc)) from exc
        # What is made of a schema has a copy of all that it refers to.
        self._reads.keep(schema_id, reads, self.registry.whole_size(schema))
        return reads

    def _undecodable(self, schema_id: SchemaId, reason: str) -> Undecodable:
        return Undecodable(self._form, reason=f"schema {schema_id}: {reason}")

    @property
    def _form(self) -> str:
        return "registry" if self.kind is None else _WORDS[self.kind]

    def _made(self, schema_id: SchemaId, schema: Schema) -> _Reads:
        if self.kind not in (None, schema.kind):
            word = _WORDS.get(schema.kind, schema.kind)
            raise Undecodable(
                self._form, reason=f"schema {schema_id} is {word}", hint=f"use {word}"
            )
        if schema.kind == "AVRO":
            return _avro(self.registry, schema)
        if schema.kind == "PROTOBUF":
            return _protobuf(self.registry, schema)
        if schema.kind == "JSON":
            return _JSON
        raise Undecodable(
            self._form, reason=f"schema {schema_id} has the unknown type {schema.kind}"
        )


def _reason(exc: Exception) -> str:
    if isinstance(exc, RecursionError):
        return "nested too deeply"
    return str(exc) if isinstance(exc, ValueError) else f"{type(exc).__name__}: {exc}"


def _avro(registry: Registry, schema: Schema) -> _Reads:
    try:
        from playhead.schemas.avro import AvroReader
    except ImportError as exc:
        raise MissingPiece("fastavro", needed_for="Avro", hint=_EXTRA) from exc

    reader = AvroReader.of(registry, schema)
    return _Reads(
        lambda framed: as_json(reader.read(framed.plain())),
        lambda framed: dumped(reader.read(framed.plain())),
        lambda _: reader.kinds(),
    )


def _protobuf(registry: Registry, schema: Schema) -> _Reads:
    try:
        from playhead.schemas.protobuf import ProtobufReader
    except ImportError as exc:
        raise MissingPiece("protobuf", needed_for="Protobuf", hint=_EXTRA) from exc

    reader = ProtobufReader.of(registry, schema)
    return _Reads(
        lambda framed: reader.read(*framed.protobuf()),
        lambda framed: dumped(reader.exact(*framed.protobuf())),
        lambda framed: reader.kinds(framed.protobuf()[0]),
    )


def _same_json(framed: Framed) -> bytes:
    """Check that it is JSON, and return it unchanged: writing it again would round its numbers."""
    held = framed.plain()
    FORMS["json"](held)
    return held


# The schema only binds writers: the content is JSON, valid or not.
_JSON = _Reads(lambda framed: FORMS["json"](framed.plain()), _same_json, lambda _: {})


def dumped(value: Any) -> bytes:
    """Encode as UTF-8, on one line."""
    try:
        text = _ENCODER.encode(value)
    except ValueError:  # JSON has no NaN.
        text = _ENCODER.encode(_finite(value))
    if _MARK in text:
        text = _MARKED.sub(r"\1", text)
    return text.encode()


def _other(value: Any) -> str:
    if isinstance(value, Decimal):
        return f"{_MARK}{value:f}"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    shown = getattr(value, "isoformat", None)
    return shown() if shown is not None else str(value)


_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_other
)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return finite(value) if isinstance(value, float) else value

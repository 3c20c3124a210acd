"""Decoders by the word that people say, and how what they give is shown."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from playhead import decoding
from playhead.decoding import PLAIN_FORMS, REGISTERED_FORMS, WHOLE, Kinds
from playhead.errors import BadValue, MissingPiece, PlayheadError
from playhead.record import Headers
from playhead.schemas import plain

if TYPE_CHECKING:
    from playhead.schemas.registry import Registry

REGISTERED: Final = dict(zip(REGISTERED_FORMS, ("AVRO", "PROTOBUF", "JSON", None), strict=True))
"""Words for what a registry knows, and its own name of the type; `registry` takes what it says."""
WORDS: Final = (*PLAIN_FORMS, *REGISTERED_FORMS)


_KINDS: Final = {
    **dict.fromkeys(("int", "long", "short"), decoding.INTEGER),
    **dict.fromkeys(("float", "double"), decoding.DOUBLE),
    **dict.fromkeys(("string", "base64", "hex"), decoding.TEXT),
    "uuid": decoding.UUID,
}


class Undecodable(PlayheadError):
    """Bytes that are not what they were said to be."""

    def __init__(self, form: str, *, reason: str, hint: str | None = None) -> None:
        self.form, self.reason = form, reason
        super().__init__(f"cannot be decoded as {form}: {reason}", hint=hint)

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (self.form, self.reason, self.hint)


def _again(form: str, reason: str, hint: str | None) -> Undecodable:
    return Undecodable(form, reason=reason, hint=hint)


class Decoder(Protocol):
    """Bytes into what JSON can say: text, numbers, lists, objects."""

    def decode(self, data: bytes, headers: Headers, /, *, is_key: bool) -> Any:
        """What the bytes mean; raises `Undecodable`. Null is never asked about."""
        ...

    def exact(self, data: bytes, headers: Headers, /) -> bytes:
        """A value as JSON or a text that loses nothing, for a machine to read."""
        ...

    def kinds(self, data: bytes, headers: Headers, /) -> Kinds:
        """What its schema says of a value's fields."""
        ...


@dataclass(frozen=True, slots=True)
class Plain:
    """A form that the bytes alone tell."""

    form: str
    read: Callable[[bytes], Any]

    def decode(self, data: bytes, _: Headers, /, *, is_key: bool) -> Any:  # noqa: ARG002
        try:
            return self.read(data)
        except ValueError as exc:
            raise Undecodable(self.form, reason=str(exc)) from exc

    def exact(self, data: bytes, headers: Headers, /) -> bytes:
        try:
            return as_text(self.decode(data, headers, is_key=False)).encode()
        except RecursionError as exc:
            raise Undecodable(self.form, reason="nested too deeply") from exc

    def kinds(self, _: bytes, __: Headers, /) -> Kinds:
        return {WHOLE: _KINDS[self.form]} if self.form in _KINDS else {}


def decoder(word: str, *, registry_url: str | None = None, where: str = "--decode") -> Decoder:
    """The decoder that a word means; one of a registry needs to know where that is."""
    if word in plain.FORMS:
        return Plain(word, plain.FORMS[word])
    if word not in REGISTERED:
        raise BadValue(where, found=word, needed=", ".join(WORDS))
    if registry_url is None:
        raise MissingPiece(
            "the address of a schema registry",
            needed_for=f"{where} {word}",
            hint="give --schema-registry https://… or SCHEMA_REGISTRY_URL, or say schema_registry in a context",
        )
    from playhead.schemas.registered import Registered

    return Registered(_registry(registry_url), REGISTERED[word])


def _registry(url: str) -> "Registry":
    from playhead.schemas.registry import Registry

    return Registry(url)


def as_text(decoded: Any) -> str:
    """How a decoded value stands in a line: a text as it is, all else as JSON."""
    return decoded if isinstance(decoded, str) else json.dumps(decoded, ensure_ascii=False)


def as_json(value: Any) -> Any:
    """What a library gave, as JSON can say it: bytes as `{"base64": …}`, times and decimals as text."""
    if isinstance(value, dict):
        return {str(name): as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, float):
        return plain.finite(value)
    if value is None or isinstance(value, str | bool | int):
        return value
    shown = getattr(value, "isoformat", None)
    return shown() if shown is not None else str(value)

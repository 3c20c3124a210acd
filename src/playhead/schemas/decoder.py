"""Decoders by the name of a form, and the text of decoded values."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from playhead import decoding
from playhead.decoding import PLAIN_FORMS, REGISTERED_FORMS, WHOLE, Kinds
from playhead.errors import BadValue, MissingPiece
from playhead.record import Headers
from playhead.schemas import plain_forms
from playhead.schemas.errors import Undecodable

if TYPE_CHECKING:
    from playhead.schemas.registry import Registry

REGISTERED: Final = dict(zip(REGISTERED_FORMS, ("AVRO", "PROTOBUF", "JSON", None), strict=True))
"""The registry's own name of each type; `registry` means the one that it reports."""
WORDS: Final = (*PLAIN_FORMS, *REGISTERED_FORMS)


_KINDS: Final = {
    **dict.fromkeys(("int", "long", "short"), decoding.INTEGER),
    **dict.fromkeys(("float", "double"), decoding.DOUBLE),
    **dict.fromkeys(("string", "base64", "hex"), decoding.TEXT),
    "uuid": decoding.UUID,
}


class Decoder(Protocol):
    """Decodes bytes into JSON values: text, numbers, lists, objects."""

    def decode(self, data: bytes, headers: Headers, /, *, is_key: bool) -> Any:
        """Return the decoded value; raise `Undecodable`. Null values are never passed."""
        ...

    def exact(self, data: bytes, headers: Headers, /) -> bytes:
        """Return a value as lossless JSON or text, for programs."""
        ...

    def kinds(self, data: bytes, headers: Headers, /) -> Kinds:
        """Return what its schema says about a value's fields."""
        ...


@dataclass(frozen=True, slots=True)
class Plain:
    """A form that needs no schema."""

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
    """Return the decoder of a form; one of a registry needs its address."""
    if word in plain_forms.FORMS:
        return Plain(word, plain_forms.FORMS[word])
    if word not in REGISTERED:
        raise BadValue(where, found=word, needed=", ".join(WORDS))
    if registry_url is None:
        raise MissingPiece(
            "the schema registry's address",
            needed_for=f"{where} {word}",
            hint="set --schema-registry https://…, SCHEMA_REGISTRY_URL, or schema_registry in a context",
        )
    from playhead.schemas.registry_decoder import Registered

    return Registered(_registry(registry_url), REGISTERED[word])


def _registry(url: str) -> "Registry":
    from playhead.schemas.registry import Registry

    return Registry(url)


def as_text(decoded: Any) -> str:
    """Format a decoded value for a line: a text unchanged, other values as JSON."""
    return decoded if isinstance(decoded, str) else json.dumps(decoded, ensure_ascii=False)

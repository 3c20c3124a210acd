"""Decodes keys and values of records as the options say."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from playhead.cli.options import Run
from playhead.errors import PlayheadError
from playhead.record import Headers
from playhead.records import Records

if TYPE_CHECKING:
    from playhead.schemas.decoder import Decoder

_AS_IT_IS = "bytes"
Fits = Callable[[bytes | None, bytes | None], bool]


class NotDecoded(PlayheadError):
    """A record's key or value cannot be decoded, or its headers cannot be read."""

    def __init__(self, records: Records, offset: int, reason: str, hint: str | None = None) -> None:
        self.topic, self.partition, self.offset = records.topic, records.partition, offset
        super().__init__(
            f"{self.topic}:{self.partition} offset {offset}: {reason}",
            hint=hint
            or "--on-error skip leaves such records out, --on-error raw prints their bytes",
        )


@dataclass(slots=True)
class Decoded:
    """Decodes keys and values, and keeps the result of the last records."""

    key: "Decoder | None" = None
    value: "Decoder | None" = None
    rule: str = "fail"
    failed: int = 0
    trouble: NotDecoded | None = None
    """The error that ends the output (rule `fail`); the records before it are printed first."""
    _keys: list[Any] = field(default_factory=list)
    _values: list[Any] = field(default_factory=list)

    def take(
        self, records: Records, indexes: Sequence[int], most: int | None, fits: Fits | None = None
    ) -> list[int]:
        """Return the indexes of records that match and can be decoded, at most `most`."""
        if not (self.key or self.value or fits or records.undecoded):
            return list(indexes if most is None else indexes[:most])
        found: list[int] = []
        self._keys, self._values = [], []
        for index in indexes:
            if len(found) == most or self.trouble:
                break
            pair = self._pair(records, index)
            if pair is not None and (fits is None or fits(_shown(pair[0]), _shown(pair[1]))):
                found.append(index)
                self._keys.append(pair[0])
                self._values.append(pair[1])
        return found

    def _pair(self, records: Records, index: int) -> tuple[Any, Any] | None:
        headers = records.headers[index]
        key, value = records.keys[index], records.values[index]
        offset = records.offsets[index]
        if (unread := records.undecoded.get(offset)) is not None:
            return self._failed(NotDecoded(records, offset, unread), key, value)
        part = "key"
        try:
            decoded_key = _decode(self.key, key, headers, is_key=True)
            part = "value"
            return decoded_key, _decode(self.value, value, headers, is_key=False)
        except PlayheadError as exc:
            if not _is_about_bytes(exc):
                raise
            failure = NotDecoded(records, offset, f"its {part} {exc.message}", exc.hint)
            return self._failed(failure, key, value)

    def _failed(self, failure: NotDecoded, key: Any, value: Any) -> tuple[Any, Any] | None:
        self.failed += 1
        if self.rule == "fail":
            self.trouble = failure
        return (key, value) if self.rule == "raw" else None

    def as_bytes(self, records: Records) -> tuple[Sequence[bytes | None], Sequence[bytes | None]]:
        """Return keys and values of the last records in the form for lines."""
        keys = [_shown(each) for each in self._keys] if self.key else records.keys
        values = [_shown(each) for each in self._values] if self.value else records.values
        return keys, values

    def as_json(self) -> dict[str, Sequence[Any]]:
        """Return the decoded values of the last records; null if they could not be decoded."""
        found: dict[str, Sequence[Any]] = {}
        for name, decoder, held in (
            ("decoded_key", self.key, self._keys),
            ("decoded_value", self.value, self._values),
        ):
            if decoder is not None:
                found[name] = [None if isinstance(each, bytes) else each for each in held]
        return found


def _decode(
    decoder: "Decoder | None", data: bytes | None, headers: Headers, *, is_key: bool
) -> Any:
    if decoder is None or data is None:
        return data
    return decoder.decode(data, headers, is_key=is_key)


def _is_about_bytes(exc: PlayheadError) -> bool:
    """Return whether the error is about a record's bytes, and not about an unavailable server."""
    from playhead.schemas.errors import Undecodable
    from playhead.schemas.registry import UnknownSchema

    return isinstance(exc, Undecodable | UnknownSchema)


def _shown(decoded: Any) -> bytes | None:
    if decoded is None or isinstance(decoded, bytes):
        return decoded
    from playhead.schemas.decoder import as_text

    return as_text(decoded).encode("utf-8", "surrogatepass")


def decoders(run: Run) -> Decoded:
    """Return the decoders that the options choose."""
    return Decoded(
        _decoder(run, "--decode-key", run.values["decode_key"]),
        _decoder(run, "--decode", run.values["decode"]),
        run.values["on_error"],
    )


def _decoder(run: Run, flag: str, word: str | None) -> "Decoder | None":
    if word in (None, _AS_IT_IS):
        return None
    from playhead.schemas.decoder import decoder

    url = run.configuration().get("schema_registry")
    return decoder(word or "", registry_url=url, where=flag)

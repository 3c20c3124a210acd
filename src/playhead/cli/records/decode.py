"""What keys and values are, as the options say it, and records decoded by it."""

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
    """A record whose key or value is not what it was said to be."""

    def __init__(
        self, topic: str, place: tuple[int, int], part: str, *, reason: PlayheadError
    ) -> None:
        self.topic, self.part = topic, part
        self.partition, self.offset = place
        super().__init__(
            f"{topic}:{self.partition} offset {self.offset}: its {part} {reason.message}",
            hint=reason.hint
            or "--on-error skip leaves such records out, --on-error raw shows their bytes",
        )


@dataclass(slots=True)
class Decoded:
    """The decoders of keys and values, and what they made of the records taken last."""

    key: "Decoder | None" = None
    value: "Decoder | None" = None
    rule: str = "fail"
    failed: int = 0
    trouble: NotDecoded | None = None
    """Where it ends, by the rule `fail`: those before are taken and shown first."""
    _keys: list[Any] = field(default_factory=list)
    _values: list[Any] = field(default_factory=list)

    def take(
        self, records: Records, indexes: Sequence[int], most: int | None, fits: Fits | None = None
    ) -> list[int]:
        """Indexes of those that fit and can be decoded, so many at most."""
        if not (self.key or self.value or fits):
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
        part = "key"
        try:
            decoded_key = _decode(self.key, key, headers, is_key=True)
            part = "value"
            return decoded_key, _decode(self.value, value, headers, is_key=False)
        except PlayheadError as exc:
            if not _is_about_bytes(exc):
                raise
            self.failed += 1
            if self.rule == "fail":
                place = records.partition, records.offsets[index]
                self.trouble = NotDecoded(records.topic, place, part, reason=exc)
            return (key, value) if self.rule == "raw" else None

    def as_bytes(self, records: Records) -> tuple[Sequence[bytes | None], Sequence[bytes | None]]:
        """Keys and values of the records taken last as they are shown in lines."""
        keys = [_shown(each) for each in self._keys] if self.key else records.keys
        values = [_shown(each) for each in self._values] if self.value else records.values
        return keys, values

    def as_json(self) -> dict[str, Sequence[Any]]:
        """What was decoded of the records taken last; bytes that could not be are null."""
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
    """Not about a server that is away, or lets nobody in: no other record would fare better."""
    from playhead.schemas.errors import Undecodable
    from playhead.schemas.registry import UnknownSchema

    return isinstance(exc, Undecodable | UnknownSchema)


def _shown(decoded: Any) -> bytes | None:
    if decoded is None or isinstance(decoded, bytes):
        return decoded
    from playhead.schemas.decoder import as_text

    return as_text(decoded).encode("utf-8", "surrogatepass")


def decoders(run: Run) -> Decoded:
    """The decoders that the options name."""
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

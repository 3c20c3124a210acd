"""Decodes the values of whole runs of records, for replays."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from playhead.decoding import MOST_DECODED, Kinds
from playhead.record import Headers
from playhead.records import Records
from playhead.schemas.decoder import Decoder, decoder
from playhead.schemas.errors import Undecodable
from playhead.schemas.registry import UnknownSchema


@dataclass(frozen=True)
class ValueDecoding:
    """Decodes values as `--decode` says; a registry's address may contain a password."""

    word: str
    registry_url: str | None = field(default=None, repr=False)

    def open(self) -> "ValueDecoder":
        return ValueDecoder(decoder(self.word, registry_url=self.registry_url))


@dataclass
class ValueDecoder:
    """Decodes values one by one, with one cache of schemas."""

    by: Decoder

    def decoded_first(self, records: Records, /) -> Records:
        exact = self.by.exact
        found: list[bytes | None] = []
        reasons: dict[int, str] = {}
        size = 0
        for index, value in enumerate(records.values):
            made: bytes | None = None
            if value is not None:
                try:
                    made = exact(value, records.headers[index])
                except (Undecodable, UnknownSchema) as exc:
                    reasons[records.offsets[index]] = exc.message
            found.append(made)
            size += len(made or b"")
            if size >= MOST_DECODED:
                break
        return replace(records.cut(0, len(found)), decoded=found, undecoded=reasons)

    def kinds(self, runs: Iterable[Records], /) -> Kinds:
        kinds: dict[str, str | None] = {}
        for value, headers in _values(runs):
            for name, kind in self.by.kinds(value, headers).items():
                # If two schemas disagree, the values themselves decide.
                kinds[name] = kind if kinds.get(name, kind) == kind else None
        return {name: kind for name, kind in kinds.items() if kind is not None}


def _values(runs: Iterable[Records]) -> Iterator[tuple[bytes, Headers]]:
    for records in runs:
        columns = (records.offsets, records.values, records.headers)
        for offset, value, headers in zip(*columns, strict=True):
            if value is not None and offset not in records.undecoded:
                yield value, headers

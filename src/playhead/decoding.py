"""The forms of `--decode`, and the decoders that turn a value's bytes into JSON or text."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, Protocol

from playhead.account import Account
from playhead.record import Slice
from playhead.records import Records
from playhead.source import NOT_WHOLE, UNREADABLE, Reader, RejectingReader

PLAIN_FORMS: Final = (
    "string",
    "int",
    "long",
    "short",
    "float",
    "double",
    "uuid",
    "json",
    "base64",
    "hex",
)
"""Forms that can be decoded from the bytes alone."""
REGISTERED_FORMS: Final = ("avro", "protobuf", "json-schema", "registry")
"""Forms that need a schema registry; `registry` means the one that the registry names."""
UNDECODED_FORMS: Final = ("json", "string", "bytes", "none")
"""Forms that a table takes without a decoder."""
REPLAYED_FORMS: Final = tuple(dict.fromkeys((*UNDECODED_FORMS, *PLAIN_FORMS, *REGISTERED_FORMS)))

BOOLEAN, INTEGER, DOUBLE, DECIMAL = "boolean", "integer", "double", "decimal"
TEXT, BYTES, UUID, JSON = "text", "bytes", "uuid", "json"
INSTANT, LOCAL_TIME, DATE, CLOCK_TIME = "instant", "local time", "date", "clock time"
Kinds = Mapping[str, str]
"""The fields of values in order, with the kind that the schema gives each."""
WHOLE: Final = "value"
"""The name of the field for a value without fields."""

MOST_DECODED: Final = 64 << 20
"""The maximum of bytes that are decoded at once, but for one value: a few bytes of each may become megabytes."""

_KIND = "undecodable"


class Decoder(Protocol):
    """Decodes values; belongs to one thread and requests each schema once."""

    def decoded_first(self, records: Records, /) -> Records:
        """Return the first of the records with `decoded`, or with the reason of failure, for each non-null
        value: all of them, or as many, and at least one, as take `MOST_DECODED` bytes. See `in_parts`.

        Raises `Unavailable` if the registry does not answer, because that is not the record's
        fault.
        """
        ...

    def kinds(self, runs: Iterable[Records], /) -> Kinds:
        """Return the fields that the schemas of these values define; empty without schemas or if they disagree."""
        ...


class Decoding(Protocol):
    """A picklable description of a decoder."""

    def open(self) -> Decoder:
        """Return a decoder with an empty schema cache."""
        ...


class DecodingReader:
    """A reader whose records are decoded."""

    def __init__(self, reader: Reader, decoder: Decoder) -> None:
        self._reader, self._decoder = reader, decoder

    def read(self, slice_: Slice, /) -> Iterator[Records]:
        for records in self._reader.read(slice_):
            yield from in_parts(self._decoder, records)


def in_parts(decoder: Decoder, records: Records) -> Iterator[Records]:
    """Yield the decoded records, in as many parts as the decoded values need; one part for none."""
    while True:
        part = decoder.decoded_first(records)
        if records.undecoded:  # They could not be read.
            part = replace(part, undecoded=dict(part.undecoded) | records.undecoded)
        yield part
        if len(part) >= len(records):
            return
        records = records.cut(len(part), len(records))


def reading(reader: Reader, decoding: Decoding | None) -> Reader:
    """Return a reader that rejects records which cannot be read, and decodes the others if it has to."""
    rejecting = RejectingReader(reader)
    return rejecting if decoding is None else DecodingReader(rejecting, decoding.open())


def without_undecoded(account: Account, runs: Iterable[Records]) -> Iterator[Records]:
    """Yield the runs without the records that could not be decoded, which are refused in the account."""
    for records in runs:
        if not records.undecoded:
            yield records
            continue
        kept = []
        for index, offset in enumerate(records.offsets):
            reason = records.undecoded.get(offset)
            if reason is None:
                kept.append(index)
            else:
                refused = records.record(index)
                kind = UNREADABLE if reason.startswith(NOT_WHOLE) else _KIND
                account.refuse(refused, kind=kind, reason=reason, is_final=True)
        yield records.pick(kept)

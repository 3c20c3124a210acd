"""What values are, as `--decode` says it: the words, and who makes JSON or text of the bytes."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol

from playhead.account import Account
from playhead.record import Slice
from playhead.records import Records
from playhead.source import Reader

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
"""What the bytes alone tell."""
REGISTERED_FORMS: Final = ("avro", "protobuf", "json-schema", "registry")
"""What only a schema registry knows; `registry` is whichever of the three that says."""
UNDECODED_FORMS: Final = ("json", "string", "bytes", "none")
"""What a table itself knows to take, without anybody decoding it first."""
REPLAYED_FORMS: Final = tuple(dict.fromkeys((*UNDECODED_FORMS, *PLAIN_FORMS, *REGISTERED_FORMS)))

BOOLEAN, INTEGER, DOUBLE, DECIMAL = "boolean", "integer", "double", "decimal"
TEXT, BYTES, UUID, JSON = "text", "bytes", "uuid", "json"
INSTANT, LOCAL_TIME, DATE, CLOCK_TIME = "instant", "local time", "date", "clock time"
Kinds = Mapping[str, str]
"""Fields of values, in their order, and which of these kinds each is by its schema."""
WHOLE: Final = "value"
"""The field that a value is which has none."""

_KIND = "undecodable"


class Decoder(Protocol):
    """Belongs to one thread, and asks for each schema once."""

    def decoded(self, records: Records, /) -> Records:
        """The same records with `decoded`, or why not, for each value that is not null.

        Raises `Unavailable` when a registry is away: that is no fault of the record's.
        """
        ...

    def kinds(self, runs: Iterable[Records], /) -> Kinds:
        """What the schemas of their values say of fields; nothing where they have none, or disagree."""
        ...


class Decoding(Protocol):
    """A picklable description of a decoder."""

    def open(self) -> Decoder:
        """One that knows no schema yet."""
        ...


class DecodingReader:
    """A reader of a source whose records come decoded."""

    def __init__(self, reader: Reader, decoder: Decoder) -> None:
        self._reader, self._decoder = reader, decoder

    def read(self, slice_: Slice, /) -> Iterator[Records]:
        return map(self._decoder.decoded, self._reader.read(slice_))


def reading(reader: Reader, decoding: Decoding | None) -> Reader:
    """The reader, or one that decodes what it reads."""
    return reader if decoding is None else DecodingReader(reader, decoding.open())


def without_undecoded(account: Account, runs: Iterable[Records]) -> Iterator[Records]:
    """The runs less the records whose values could not be decoded, which are refused as they were read."""
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
                account.refuse(refused, kind=_KIND, reason=reason, is_final=True)
        yield records.pick(kept)

"""Lines in the format of Kafka's console tools: headers, key and value with separators between them."""

from collections.abc import Sequence
from dataclasses import dataclass

from playhead.errors import PlayheadError
from playhead.grammar.instant import show_ms
from playhead.record import Headers, TimestampType
from playhead.records import Records

FIELDS = ("topic", "timestamp", "time", "partition", "offset", "headers", "key", "value")
"""The fields of a record that can be printed, in the order of Kafka's consumer; topic and time are ours."""
BEFORE_THE_VALUE = ("timestamp", "partition", "headers", "key")
"""The fields before the value in a line to produce, in this order."""
_STAMPS = {
    TimestampType.CREATE_TIME.value: b"CreateTime:",
    TimestampType.LOG_APPEND_TIME.value: b"LogAppendTime:",
}


class BadLine(PlayheadError):
    """A line or a JSON document that is not a valid record."""

    def __init__(self, number: int, *, reason: str, hint: str | None = None) -> None:
        self.number, self.reason = number, reason
        super().__init__(f"line {number}: {reason}", hint=hint)


@dataclass(frozen=True, slots=True)
class Separators:
    """The separators between the parts; `null` is the text for null, if there is one."""

    key: bytes = b"\t"
    headers: bytes = b","
    header: bytes = b":"
    null: bytes | None = None


@dataclass(slots=True)
class Outgoing:
    """A record to send; `number` is its line; None leaves partition or time to Kafka."""

    # Not frozen, like its parts: there is one for each line, and frozen ones take three times as
    # long.
    number: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None


@dataclass(slots=True)
class Parts:
    """The parts of a line as bytes; None if the part is missing or null."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp: bytes | None = None
    partition: bytes | None = None


@dataclass(frozen=True, slots=True)
class LineReader:
    """Splits lines: the fields first, and then the value, which is the whole rest."""

    fields: Sequence[str] = ()
    separators: Separators = Separators()

    def read(self, line: bytes, number: int) -> Parts:
        """Split a line at the first separator after each field; the value may contain more of them."""
        found: dict[str, bytes] = {}
        rest = line
        for field in self.fields:
            part, separator, rest = rest.partition(self.separators.key)
            if not separator:
                raise BadLine(
                    number,
                    reason=f"no separator {_shown(self.separators.key)} after the {field}",
                    hint="set the separator with --separator",
                )
            found[field] = part
        headers = self._headers(found.get("headers"), number)
        return Parts(
            self._or_null(rest),
            self._or_null(found.get("key")),
            headers,
            found.get("timestamp"),
            found.get("partition"),
        )

    def _or_null(self, part: bytes | None) -> bytes | None:
        return None if part is None or part == self.separators.null else part

    def _headers(self, part: bytes | None, number: int) -> Headers:
        if not part or part in (self.separators.null, b"NO_HEADERS"):
            return ()
        held = []
        for pair in part.split(self.separators.headers):
            name, separator, value = pair.partition(self.separators.header)
            if not separator:
                raise BadLine(
                    number,
                    reason=f"header {_shown(pair)} has no {_shown(self.separators.header)} after its name",
                )
            try:
                held.append((name.decode(), self._or_null(value)))
            except UnicodeDecodeError as exc:
                raise BadLine(
                    number, reason=f"the name of header {_shown(name)} is not UTF-8"
                ) from exc
        return tuple(held)


def _shown(part: bytes) -> str:
    return repr(part.decode("utf-8", "backslashreplace"))


@dataclass(frozen=True, slots=True)
class LineWriter:
    """Formats records as lines, with the unchanged bytes of keys and values."""

    fields: Sequence[str] = ("value",)
    separators: Separators = Separators(null=b"null")
    end: bytes = b"\n"

    def lines(
        self,
        records: Records,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
    ) -> list[bytes]:
        """Return a line with its end for each record; keys and values may be decoded."""
        null = self.separators.null or b""
        columns: dict[str, Sequence[bytes]] = {}
        for field in self.fields:
            if field in ("key", "value"):
                held = keys if field == "key" else values
                columns[field] = [null if each is None else each for each in held]
            else:
                columns[field] = self._column(field, records)
        between = self.separators.key
        shown = (columns[field] for field in FIELDS if field in columns)
        return [between.join(parts) + self.end for parts in zip(*shown, strict=True)]

    def _column(self, field: str, records: Records) -> list[bytes]:
        count = len(records)
        if field == "topic":
            return [records.topic.encode()] * count
        if field == "partition":
            return [b"Partition:%d" % records.partition] * count
        if field == "offset":
            return [b"Offset:%d" % offset for offset in records.offsets]
        if field in ("timestamp", "time"):
            stamps = zip(records.timestamp_types, records.timestamps_ms, strict=True)
            return [self._shown_time(field, kind, ms) for kind, ms in stamps]
        return [self._shown_headers(each) for each in records.headers]

    @staticmethod
    def _shown_time(field: str, kind: int, ms: int) -> bytes:
        if kind not in _STAMPS:
            return b"NO_TIMESTAMP"
        return show_ms(ms).encode() if field == "time" else b"%s%d" % (_STAMPS[kind], ms)

    def _shown_headers(self, headers: Headers) -> bytes:
        if not headers:
            return b"NO_HEADERS"
        null = self.separators.null or b""
        return self.separators.headers.join(
            name.encode() + self.separators.header + (null if value is None else value)
            for name, value in headers
        )

"""Decodes the records of a record batch, independent of the Kafka client."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from playhead.kafka.admin.answer_fields import BadAnswer
from playhead.kafka.read.consumer import OffsetsFall
from playhead.kafka.read.log_heads import CURRENT, HEAD, MAGIC_AT
from playhead.kafka.read.reader import RUN, RUN_BYTES
from playhead.kafka.read.unreadable import (
    BYTES_OF_A_HEADER,
    MOST_OF_A_RECORD,
    PackedTooFar,
    RecordTooLarge,
    UnreadableHeader,
)
from playhead.record import Headers, TimestampType
from playhead.records import Records
from playhead.source import TopicPartition, UnreadableRecord
from playhead.unpacking import CodecMissing, Malformed, UnpacksTooFar, signed_varint, unpacked

_CODEC, _LOG_APPEND = 0x07, 0x08
_ZSTD = 4
_MOST_UNPACKED: Final = 1 << 30
_MOST_MARKED: Final = 100_000
_HALF: Final = 1 << 63
_MOST_HEADERS: Final = 100_000
"""More stay undecoded: each takes memory, and without names and values, millions are some kilobytes in a log."""


class NotDecodedHere(Exception):
    """A record batch from before Kafka 0.11, or one whose codec is not installed."""


@dataclass(slots=True)
class _Undecoded:
    """The unpacked bytes of a record batch, and how far they are decoded."""

    place: TopicPartition
    data: bytes
    left: int
    first: int
    end: int
    first_ms: int
    kind: int
    stamp_ms: int | None
    """The time of all records if the broker set it."""
    start: int
    """The offset of the first record that is needed; the headers of those before it are not read."""
    before: int
    """The offset of the last record that was passed."""
    at: int = 0

    def runs(self) -> Iterator[Records | UnreadableRecord]:
        """Decode all records; yield the error of one that cannot be read, because those behind it can be."""
        while self.left:
            run = Records(*self.place)
            try:
                unreadable = self._fill(run)
            except IndexError as exc:
                raise self._damaged("it ends before its last record does") from exc
            except Malformed as exc:
                raise self._damaged(str(exc)) from exc
            if run.offsets:
                yield run
            if unreadable is not None:
                self.left -= 1
                yield unreadable
        if self.at != len(self.data):
            raise self._damaged(f"{len(self.data) - self.at:,} bytes follow the last record")

    def _fill(self, run: Records) -> UnreadableRecord | None:
        size = 0
        while self.left and size < RUN_BYTES and len(run) < RUN:
            try:
                size += self._add_to(run)
            except UnreadableRecord as exc:
                return exc
            self.left -= 1
        return None

    def _add_to(self, run: Records) -> int:
        """Decode one record; return its size."""
        data = self.data
        length, began = signed_varint(data, self.at)
        end = began + length
        stamp, at = signed_varint(data, began + 1)  # behind the attributes, which mean nothing
        delta, at = signed_varint(data, at)
        key, at = _bytes(data, at)
        value, at = _bytes(data, at)
        count, at = signed_varint(data, at)
        headers: Headers = ()
        offset = self.first + delta
        is_needed = offset >= self.start
        unreadable: UnicodeDecodeError | None = None
        if not is_needed:
            at = max(at, end)
        elif count:
            try:
                headers, at = _headers(data, at, end, count)
            except UnicodeDecodeError as exc:
                unreadable, at = exc, end
        if at != end:
            raise Malformed(f"the record after offset {self.before:,} has not the length it says")
        if not self.before < offset < self.end:
            raise OffsetsFall(self.place, self.before, offset)
        self.before, self.at = offset, end
        if not is_needed:
            return 0
        size = 0
        if length > MOST_OF_A_RECORD:
            size = sum(len(each) for part in ((key, value), *headers) for each in part if each)
        is_too_large = size > MOST_OF_A_RECORD
        into = Records(*self.place) if is_too_large or unreadable is not None else run
        into.offsets.append(offset)
        into.timestamps_ms.append(self._time(stamp) if self.stamp_ms is None else self.stamp_ms)
        into.timestamp_types.append(self.kind)
        into.keys.append(key)
        into.values.append(value)
        into.headers.append(headers)
        if is_too_large:
            # The other reader refuses them, too: a checksum takes ten times the memory of a header.
            raise RecordTooLarge(into, size)
        if unreadable is not None:
            raise UnreadableHeader(into) from unreadable
        return length + BYTES_OF_A_HEADER * count

    def _time(self, delta_ms: int) -> int:
        """Return a time as a number of 64 bits, as which Kafka's own clients compute it."""
        time_ms = self.first_ms + delta_ms
        return time_ms if -_HALF <= time_ms < _HALF else (time_ms + _HALF) % (2 * _HALF) - _HALF

    def _damaged(self, reason: str) -> BadAnswer:
        return _damaged(self.place, self.first, reason)


def records_in(
    place: TopicPartition, whole: memoryview, start: int = 0
) -> Iterator[Records | UnreadableRecord]:
    """Return the records of a record batch from an offset on, in runs; see `_Undecoded.runs`."""
    if whole[MAGIC_AT] != CURRENT:
        raise NotDecodedHere
    head = HEAD.unpack_from(whole)
    first, attributes, last, first_ms, latest_ms, count = (head[n] for n in (0, 5, 6, 7, 8, 12))
    kind = TimestampType.CREATE_TIME
    if attributes & _LOG_APPEND:
        kind = TimestampType.LOG_APPEND_TIME
    try:
        data = bytes(unpacked(attributes & _CODEC, whole[HEAD.size :], _MOST_UNPACKED))
    except CodecMissing as exc:
        raise NotDecodedHere from exc
    except UnpacksTooFar as exc:
        # Of the other codecs, the client unpacks more. With gaps, nothing says which offsets have a record.
        if attributes & _CODEC != _ZSTD or not count == last + 1 <= _MOST_MARKED:
            raise _damaged(place, first, str(exc)) from exc
        for offset in range(max(first, start), first + last + 1):
            rest = Records(*place, [offset], [latest_ms], [kind.value])
            yield PackedTooFar(rest, _MOST_UNPACKED)
        return
    except Malformed as exc:
        raise _damaged(place, first, str(exc)) from exc
    stamp_ms = latest_ms if attributes & _LOG_APPEND else None
    end = first + last + 1
    yield from _Undecoded(
        place, data, count, first, end, first_ms, kind.value, stamp_ms, start, first - 1
    ).runs()


def _damaged(place: TopicPartition, first: int, reason: str) -> BadAnswer:
    """Return the error of a record batch that cannot be decoded."""
    topic, number = place
    error = BadAnswer(f"the record batch of {topic}:{number} at offset {first:,}: {reason}")
    error.hint = (
        "it may be damaged; Kafka's kafka-dump-log shows it; read the records before and after it: "
        f"--offsets {topic}:{number}:FROM-TO"
    )
    return error


def _headers(data: bytes, at: int, end: int, count: int) -> tuple[Headers, int]:
    """Return the headers; what follows the most that are decoded is one more, as it is."""
    if count < 0:
        raise Malformed(f"{count:,} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(min(count, _MOST_HEADERS)):
        name, at = _bytes(data, at)
        if name is None:
            raise Malformed("a header without a name")
        value, at = _bytes(data, at)
        headers.append((name.decode(), value))
    if count > _MOST_HEADERS:
        if at > end:
            raise Malformed("headers that are longer than their record")
        headers.append(("", data[at:end]))
        at = end
    return tuple(headers), at


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    """Return bytes with their length before them, or null, and the position after them."""
    size, at = signed_varint(data, at)
    if size < 0:
        if size != -1:
            raise Malformed(f"a length of {size:,}")
        return None, at
    return data[at : at + size], at + size

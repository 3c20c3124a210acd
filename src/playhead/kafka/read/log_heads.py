"""Reads the record batches of a log directly, independent of what a client returns."""

import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from confluent_kafka import KafkaError

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import BrokerUnavailable
from playhead.kafka.admin.answer_fields import BadAnswer, Fields
from playhead.kafka.admin.broker_socket import Wire, text
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.errors import Need, needing, refused
from playhead.kafka.admin.offsets import describe
from playhead.source import TopicPartition

_FETCH, _VERSION = 1, 10  # Every broker since 2.1 has this version.
_WAIT_MS = 500
_READ_COMMITTED = 1
_NO_SESSION = struct.pack(">ii", 0, -1)
_OUT_OF_BOUNDS = 1
# Another broker leads the partition now, or soon.
_MOVED = {3, 5, 6, 9, 56, 74, 75, 78, 100}
_AT_ONCE = 32
_THROTTLED_S = 60.0
# Of one answer; a record batch comes whole, however large it is, as far as the client takes it.
_HEADS_BYTES, _WITH_RECORDS_BYTES = 64 << 20, 257 << 20

HEAD = struct.Struct(">qiibIhiqqqhii")
_LENGTH_BYTES, MAGIC_AT, CURRENT = 12, 16, 2
_TRANSACTIONAL, _CONTROL, _HORIZON = 0x10, 0x20, 0x40
_LEAST_OLD_BYTES, _MARKER_BYTES = 26, 64
_ABORT = 0
_NOTHING = memoryview(b"")


@dataclass(frozen=True, slots=True)
class Head:
    """The header of one record batch: its offsets, and the kind of its records."""

    first: int
    end: int
    """The offset after the last one."""
    count: int
    """How many records it holds; compaction leaves fewer than it has offsets."""
    producer: int = -1
    is_transactional: bool = False
    is_marker: bool = False
    """Whether it is a transaction marker."""
    is_abort: bool = False
    first_ms: int = -1
    """The time of its first record, if the header has it."""
    latest_ms: int = -1
    """The latest time of its records; unknown of times before 1970, and of records from before 0.11."""
    whole: memoryview = field(default=_NOTHING, repr=False, compare=False)
    """The record batch itself, if it was asked for."""


@dataclass(frozen=True, slots=True)
class Heads:
    """The record batches from an offset on, as far as one answer goes."""

    heads: tuple[Head, ...]
    aborted: tuple[tuple[int, int], ...] = ()
    """Producer and first offset of the aborted transactions among them."""
    is_gone: bool = False
    """Whether the offset is below the log start now."""
    log_start: int = 0
    throttled_ms: int = 0
    """How long the broker wants to wait because a quota is used up; then it answers without any record batch."""

    def with_fate(self) -> Iterator[tuple[Head, bool]]:
        """Return each record batch, and whether it was aborted; a producer has one transaction at a time."""
        waiting = sorted(self.aborted, key=lambda each: each[1], reverse=True)
        open_: set[int] = set()
        for head in self.heads:
            while waiting and waiting[-1][1] < head.end:
                open_.add(waiting.pop()[0])
            if head.is_marker and head.is_abort:
                open_.discard(head.producer)
            yield head, head.is_transactional and not head.is_marker and head.producer in open_


class LogHeads:
    """Asks the leaders of partitions; belongs to one thread, and keeps its connections."""

    def __init__(
        self, connection: KafkaConnection, *, timeout_s: float, keeps_records: bool = False
    ) -> None:
        """Make one; with `keeps_records`, each head has its whole record batch."""
        self._connection, self._timeout_s = connection, timeout_s
        self._read = partial(read_answer, keeps_records=keeps_records)
        self._most_bytes = _WITH_RECORDS_BYTES if keeps_records else _HEADS_BYTES
        self._leaders: dict[TopicPartition, str] = {}
        self._wires: dict[str, Wire] = {}

    def close(self) -> None:
        for wire in self._wires.values():
            wire.close()
        self._wires.clear()

    def look(
        self, place: TopicPartition, offsets: Sequence[int], *, most_bytes: int
    ) -> list[Heads]:
        """Return the record batches from each of the offsets on; the first is complete, however large it is."""
        return self.look_at([(place, offset) for offset in offsets], most_bytes=most_bytes)

    def look_at(
        self, wanted: Sequence[tuple[TopicPartition, int]], *, most_bytes: int
    ) -> list[Heads]:
        """Return the same for offsets of several partitions; each leader is asked about many at once."""
        of_leader: dict[str, list[int]] = {}
        self._find_leaders([place for place, _ in wanted])
        for index, (place, _) in enumerate(wanted):
            of_leader.setdefault(self._leader(place), []).append(index)
        found: dict[int, Heads] = {}
        for address, indexes in of_leader.items():
            for start in range(0, len(indexes), _AT_ONCE):
                part = indexes[start : start + _AT_ONCE]
                answers = self._within_quota(
                    address, [_request(*wanted[i], most_bytes) for i in part]
                )
                for i, answer in zip(part, answers, strict=True):
                    found[i] = self._heads(wanted[i][0], *answer)
        return [found[i] for i in range(len(wanted))]

    def _within_quota(self, address: str, bodies: Sequence[bytes]) -> "list[Answer]":
        """Ask again, as long as a quota keeps back answers and some come."""
        found: dict[int, Answer] = {}
        deadline = time.monotonic() + _THROTTLED_S
        while left := [index for index in range(len(bodies)) if index not in found]:
            answers = self._asked(address, [bodies[index] for index in left])
            kept_back = [each.throttled_ms for code, each in answers if _is_kept_back(code, each)]
            if len(kept_back) < len(answers):
                deadline = time.monotonic() + _THROTTLED_S
            elif time.monotonic() > deadline:
                reason = "a quota for the client id playhead is used up"
                raise BrokerUnavailable(address, waited_s=_THROTTLED_S, reason=reason)
            found |= {
                index: (code, each)
                for index, (code, each) in zip(left, answers, strict=True)
                if not _is_kept_back(code, each)
            }
            left_s = max(0.0, deadline - time.monotonic())
            time.sleep(min(max(kept_back, default=0) / 1_000, left_s))
        return [found[index] for index in range(len(bodies))]

    def _asked(self, address: str, bodies: Sequence[bytes]) -> "list[Answer]":
        wire = self._wires.get(address)
        if wire is not None:
            try:
                return wire.ask_all(_FETCH, _VERSION, bodies, self._read)
            except BrokerUnavailable:
                # An idle connection may have been closed; try a new one.
                self._let_go(address)
        try:
            wire = Wire(
                self._connection,
                address,
                timeout_s=self._timeout_s,
                most_bytes=self._most_bytes,
            )
            self._wires[address] = wire
            return wire.ask_all(_FETCH, _VERSION, bodies, self._read)
        except BrokerUnavailable:
            self._let_go(address)
            self._leaders.clear()
            raise

    def _let_go(self, address: str) -> None:
        wire = self._wires.pop(address, None)
        if wire is not None:
            wire.close()

    def _find_leaders(self, places: Sequence[TopicPartition]) -> None:
        topics = sorted({place[0] for place in places if place not in self._leaders})
        if not topics:
            return
        with Admin(self._connection, timeout_s=self._timeout_s) as admin:
            for topic, found in describe(admin, topics).items():
                self._leaders |= {(topic, n): address for n, (_, address) in found.leaders.items()}

    def _leader(self, place: TopicPartition) -> str:
        if place not in self._leaders:
            raise self._away(place, "it has no leader")
        return self._leaders[place]

    def _heads(self, place: TopicPartition, code: int, found: Heads) -> Heads:
        if code == _OUT_OF_BOUNDS:
            return Heads((), is_gone=True)
        if code in _MOVED:
            self._leaders.clear()
            raise self._away(place, f"its leader answered error {code}")
        if code:
            with needing(Need("Read", "topic", place[0])):
                raise refused(KafkaError(code), f"reading the log of {place[0]}:{place[1]}")
        return found

    def _away(self, place: TopicPartition, reason: str) -> BrokerUnavailable:
        servers = self._connection.bootstrap_servers or ""
        return BrokerUnavailable(servers, waited_s=0, reason=f"{place[0]}:{place[1]}: {reason}")


make_heads: Callable[..., LogHeads] = LogHeads
"""The simulation replaces this with an object that has `look`, `look_at` and `close`."""


def open_heads(
    connection: KafkaConnection, *, timeout_s: float, keeps_records: bool = False
) -> LogHeads:
    """Open a connection to the logs of a cluster."""
    return make_heads(connection, timeout_s=timeout_s, keeps_records=keeps_records)


def _is_kept_back(code: int, answer: Heads) -> bool:
    return not code and answer.throttled_ms > 0


def _request(place: TopicPartition, offset: int, most_bytes: int) -> bytes:
    return b"".join(
        (
            struct.pack(">iiiib", -1, _WAIT_MS, 1, most_bytes, _READ_COMMITTED),
            _NO_SESSION,
            struct.pack(">i", 1),
            text(place[0]),
            struct.pack(">iiiqqi", 1, place[1], -1, offset, -1, most_bytes),
            struct.pack(">i", 0),
        )
    )


Answer = tuple[int, Heads]
"""Of one partition: the error, and the record batches."""


def read_answer(fields: Fields, *, keeps_records: bool = False) -> Answer:
    """Parse an answer about one partition."""
    throttled_ms = fields.int32()
    code = fields.int16()
    fields.int32()
    topics = fields.length()
    if throttled_ms > 0 and not topics:
        return code, Heads((), throttled_ms=throttled_ms)
    if code or topics != 1:
        return code or -1, Heads(())
    fields.text()
    if fields.length() != 1:
        return -1, Heads(())
    fields.int32()
    code = fields.int16()
    _, _, log_start = (fields.int64() for _ in range(3))  # The partition's bounds.
    count = fields.length(least=16)
    aborted = tuple((fields.int64(), fields.int64()) for _ in range(count))
    return code, Heads(
        tuple(heads_in(fields.bytes_(), keeps_records=keeps_records)), aborted, log_start=log_start
    )


def heads_in(data: bytes, *, keeps_records: bool = False) -> Iterator[Head]:
    """Return the complete record batches; a broker cuts the last one if its answer is full."""
    at, least = 0, 0
    while len(data) - at > MAGIC_AT:
        first, length = struct.unpack_from(">qi", data, at)
        end = at + _LENGTH_BYTES + length
        if end > len(data):
            return
        is_current = data[at + MAGIC_AT] == CURRENT
        if end - at < (HEAD.size if is_current else _LEAST_OLD_BYTES):
            raise BadAnswer(f"a record batch of {length:,} bytes")
        # From before 0.11: one record, or several of which only the last offset is visible.
        head = _head(data, at, end) if is_current else Head(first, first + 1, 1)
        if first < least:
            raise BadAnswer(f"a record batch at offset {first:,} after one up to {least:,}")
        yield replace(head, whole=memoryview(data)[at:end]) if keeps_records else head
        at, least = end, head.end


def _head(data: bytes, at: int, end: int) -> Head:
    found = HEAD.unpack_from(data, at)
    first, attributes, last, producer, count = found[0], found[5], found[6], found[9], found[12]
    first_ms, latest_ms = -1 if attributes & _HORIZON else found[7], found[8]
    if last < 0 or count < 0:
        raise BadAnswer(f"a record batch of {count:,} records up to {last:,}")
    is_marker = bool(attributes & _CONTROL)
    if is_marker and last:
        raise BadAnswer(f"a transaction marker of {last + 1:,} offsets")
    # Compaction can leave a batch without records.
    is_abort = is_marker and count > 0 and _is_abort(data[at + HEAD.size : end][:_MARKER_BYTES])
    is_transactional = bool(attributes & _TRANSACTIONAL)
    kind = is_transactional, is_marker, is_abort
    return Head(first, first + last + 1, count, producer, *kind, first_ms, latest_ms)


def _is_abort(record: bytes) -> bool:
    """Return whether a marker aborts: its kind is in the key of its one record."""
    fields = Fields(record)
    fields.skip_signed()  # the length of the record
    fields.is_true()  # its attributes
    fields.skip_signed(bits=64)  # its time
    fields.skip_signed()  # its offset
    fields.skip_signed()  # the length of the key
    fields.int16()  # the key's version
    return fields.int16() == _ABORT

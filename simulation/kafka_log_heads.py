"""A look into the model cluster's logs, past its clients: record batches of one entry each."""

import struct
from collections.abc import Sequence

from playhead.errors import BrokerUnavailable
from playhead.kafka.read.log_heads import Head, Heads
from simulation.kafka_clients import Handle
from simulation.kafka_cluster import ABORT, APPEND_TIME, RECORD, Place, Stored

_MANY = 7


class LogHeads(Handle):
    """As `playhead.kafka.read.log_heads.LogHeads`, which speaks to the brokers' sockets."""

    def close(self) -> None:
        """Nothing is open."""

    def look_at(self, wanted: Sequence[tuple[Place, int]], *, most_bytes: int) -> list[Heads]:
        return [self.look(place, [at], most_bytes=most_bytes)[0] for place, at in wanted]

    def look(self, place: Place, offsets: Sequence[int], *, most_bytes: int) -> list[Heads]:
        self.call()
        log = self.kafka.cluster.log(place)
        if log is None or self.kafka.happens(self.kafka.weather.unavailable):
            raise BrokerUnavailable("simulated", waited_s=0, reason=f"{place} has no leader")
        found = []
        for offset in offsets:
            entries = list(log.between(offset, log.stable_end(place)))
            entries = entries[: 1 if most_bytes == 1 else _MANY]
            heads = tuple(map(_head, entries))
            aborted = {
                _number(each): each.offset for each in reversed(entries) if _is_aborted(each)
            }
            found.append(Heads(heads, tuple(aborted.items()), is_gone=offset < log.start))
        self.scheduler.point()
        return found


def _head(entry: Stored) -> Head:
    is_marker = entry.kind != RECORD
    is_transactional = is_marker or entry.transaction is not None
    kind = {"is_marker": is_marker, "is_abort": entry.kind == ABORT}
    return Head(
        entry.offset,
        entry.offset + 1,
        1,
        producer=-1 if is_marker else _number(entry),
        is_transactional=is_transactional,
        first_ms=entry.timestamp_ms,
        latest_ms=entry.timestamp_ms,
        whole=memoryview(_batch(entry)),
        **kind,
    )


def _batch(entry: Stored) -> bytes:
    """Encode the entry as Kafka keeps it, as far as a reader of records looks at it."""
    parts = [_sized(entry.key), _sized(entry.value), _signed(len(entry.headers))]
    parts += [_sized(each) for name, value in entry.headers for each in (name.encode(), value)]
    record = b"".join((b"\0\0\0", *parts))
    body = _signed(len(record)) + record
    attributes = 8 * (entry.timestamp_type == APPEND_TIME)
    times = entry.timestamp_ms, entry.timestamp_ms
    numbers = entry.offset, len(body) + 49, 0, 2, 0, attributes, 0, *times, -1, -1, -1, 1
    return struct.pack(">qiibIhiqqqhii", *numbers) + body


def _sized(data: bytes | None) -> bytes:
    return _signed(-1) if data is None else _signed(len(data)) + data


def _signed(number: int) -> bytes:
    """Encode a number with its sign as its last bit, seven bits in a byte."""
    left, out = number << 1 ^ number >> 63, bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes((*out, left))


def _number(entry: Stored) -> int:
    """Each transaction has a producer of its own here."""
    return id(entry.transaction)


def _is_aborted(entry: Stored) -> bool:
    return entry.transaction is not None and entry.transaction.is_aborted

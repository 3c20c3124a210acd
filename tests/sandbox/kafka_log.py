"""Writes records to a real topic in every way a producer can, and remembers what a reader must find."""

import gzip
import io
import socket
import struct
import time

from confluent_kafka import Producer, TopicPartition

from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.offsets import bounds_of
from playhead.record import Record, TimestampType

_WITHIN_S = 30.0
SOON_COMPACTED = {
    "cleanup_policy": "compact",
    "segment_bytes": "1048576",
    "segment_ms": "100",
    "min_cleanable_dirty_ratio": "0.0",
    "max_compaction_lag_ms": "100",
    "delete_retention_ms": "0",
}
"""Settings of a topic whose old segments are compacted as soon as another one is begun."""


class Log:
    """One topic, and in `records` what is committed in it, as far as it was written here."""

    def __init__(self, kafka, topic):
        self.kafka, self.topic, self.records = kafka, topic, []
        self._common = kafka.for_librdkafka("producer") | {
            "log_level": 0,
            "message.max.bytes": 50_000_000,
            "linger.ms": 0,
        }
        self._plain = Producer(self._common)
        self._transactional = None

    def write(self, partition, *rows):
        """Rows of (timestamp, key, value, headers), outside of any transaction."""
        self.records += self._produce(self._plain, partition, rows)

    def commit(self, partition, *rows):
        producer = self.begin()
        found = self._produce(producer, partition, rows)
        producer.commit_transaction(_WITHIN_S)
        self._await_marker(partition)
        self.records += found

    def abort(self, partition, *rows):
        producer = self.begin()
        self._produce(producer, partition, rows)
        producer.abort_transaction(_WITHIN_S)
        self._await_marker(partition)

    def leave_open(self, partition, *rows):
        """The producer of a transaction that has not ended; keep it."""
        producer = self.begin()
        self._produce(producer, partition, rows)
        return producer

    def begin(self):
        if self._transactional is None:
            name = {"transactional.id": f"log-of-{self.topic}"}
            self._transactional = Producer(self._common | name)
            self._transactional.init_transactions(_WITHIN_S)
        self._transactional.begin_transaction()
        return self._transactional

    def delete_before(self, partition, offset):
        with Admin(self.kafka) as admin, admin.asking("deleting records") as client:
            asked = client.delete_records([TopicPartition(self.topic, partition, offset)])
            for answer in asked.values():
                answer.result(_WITHIN_S)

    def bounds(self, partition=0):
        with Admin(self.kafka) as admin:
            return bounds_of(admin, [(self.topic, partition)])[self.topic, partition]

    def _await_marker(self, partition):
        """The broker answers the end of a transaction first, and writes its markers then."""
        deadline = time.monotonic() + _WITHIN_S
        while (held := self.bounds(partition)).stable_end < held.high_watermark:
            assert time.monotonic() < deadline, held
            time.sleep(0.005)

    def _produce(self, producer, partition, rows):
        found = []

        def delivered(error, message):
            assert error is None, error
            found.append(message.offset())

        for stamp, key, value, headers in rows:
            producer.produce(
                self.topic,
                value,
                key,
                partition=partition,
                timestamp=stamp,
                headers=list(headers),
                on_delivery=delivered,
            )
        assert producer.flush(_WITHIN_S) == 0
        kind = TimestampType.CREATE_TIME
        return [
            Record(self.topic, partition, offset, stamp, kind, key, value, tuple(headers))
            for offset, (stamp, key, value, headers) in zip(found, rows, strict=True)
        ]


def delete_topic(kafka, topic):
    with Admin(kafka) as admin, admin.asking("deleting a topic") as client:
        for answer in client.delete_topics([topic]).values():
            answer.result(_WITHIN_S)


def recreate(kafka, topic):
    """Delete a topic, and create another one of its name."""
    delete_topic(kafka, topic)
    with Admin(kafka) as admin:
        deadline = time.monotonic() + 20
        while not admin.create_topic(topic, partitions=1):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def produce_raw(kafka, topic, partition, rows, *, places=None, pack=None):
    """Rows of (timestamp, key, value, headers) by Kafka's protocol itself, which forbids nothing.

    Header names are bytes. `places` is what the records say of their offsets, from that of the first, where they lie;
    `pack` makes of their bytes what gzip, or the codec in its attribute `codec`, has packed. Returns the offset of the
    first.
    """
    found = batch(rows, places or range(len(rows)), pack)
    body = struct.pack(">hhii", -1, 1, 30_000, 1)
    name = topic.encode()
    body += struct.pack(">h", len(name)) + name
    body += struct.pack(">iii", 1, partition, len(found)) + found
    header = struct.pack(">hhih", 0, 3, 1, 3) + b"raw"
    host, _, port = kafka.bootstrap_servers.rpartition(":")
    with socket.create_connection((host, int(port)), _WITHIN_S) as link:
        link.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        answer = _exactly(link, struct.unpack(">i", _exactly(link, 4))[0])
    at = 4 + 4 + 2 + len(name) + 4
    _, error, offset = struct.unpack_from(">ihq", answer, at)
    assert error == 0, f"the broker refused with error {error}"
    return offset


def batch(rows, places, pack):
    first, last = rows[0][0], max(row[0] for row in rows)
    codec = getattr(pack, "codec", int(pack is not None))
    each = [_record(n, row, first) for n, row in zip(places, rows, strict=True)]
    checked = struct.pack(">hiqqqhii", codec, len(rows) - 1, first, last, -1, -1, -1, len(rows))
    records = pack(each) if pack else b"".join(each)
    checked += records
    head = struct.pack(">ibI", -1, 2, _crc32c(checked))
    return struct.pack(">qi", 0, len(head) + len(checked)) + head + checked


def gzipped(records):
    """Return what gzip makes of records, for `pack`."""
    return gzip.compress(b"".join(records))


def _record(number, row, first):
    stamp, key, value, headers = row
    out = io.BytesIO()
    out.write(b"\x00" + _varint(stamp - first) + _varint(number) + _sized(key) + _sized(value))
    out.write(_varint(len(headers)))
    for name, held in headers:
        out.write(_sized(name) + _sized(held))
    return _sized(out.getvalue())


def _sized(data):
    return _varint(-1) if data is None else _varint(len(data)) + data


def _varint(number):
    left = (number << 1) ^ (number >> 63)
    left &= (1 << 64) - 1
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def _crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def _exactly(link, count):
    found = b""
    while len(found) < count:
        piece = link.recv(count - len(found))
        assert piece, "the broker hung up"
        found += piece
    return found

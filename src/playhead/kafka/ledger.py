"""The ledger of a cluster: one compacted topic that says what each replay has committed there."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from playhead.connection import KafkaConnection
from playhead.errors import PlayheadError
from playhead.kafka import clients
from playhead.kafka.admin import Admin
from playhead.kafka.failures import LedgerWaits, translated
from playhead.kafka.offsets import describe_those
from playhead.kafka.target_topics import make_topic
from playhead.kafka.transactions import Transactions
from playhead.ledger import Entry
from playhead.record import Slice
from playhead.source import Place

LEDGER_TOPIC = "playhead.ledger"
# A live pipeline writes an entry several times a second under one key, and compaction leaves the segment
# that is being written alone: the smaller it is, the less there is to read.
_SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}
_PLACE = TopicPartition(LEDGER_TOPIC, 0)
# Others' commits hold the end back for milliseconds; one that hangs, until the broker gives it up.
_PATIENCE_S = 90.0
_PER_CALL = 10_000
_WAIT_S = 0.2


class LedgerUnreadable(PlayheadError):
    """The ledger holds something that this Playhead does not understand."""

    def __init__(self, key: str, *, reason: str) -> None:
        self.key, self.reason = key, reason
        super().__init__(
            f"topic {LEDGER_TOPIC}, record {key}: {reason}",
            hint="a later version of Playhead may have written it; use that one",
        )


def make_ledger(admin: Admin) -> None:
    """Make the ledger topic unless it is there."""
    make_topic(admin, LEDGER_TOPIC, partitions=1, settings=_SETTINGS)


def transactional_id(replay_id: str, place: Place) -> str:
    """Stable, so that who comes later fences who was before."""
    return f"playhead-{replay_id}-{place[0]}-{place[1]}"


def key_of(replay_id: str, slice_: Slice) -> bytes:
    """The key of an entry; compaction keeps one record for each."""
    return f"{replay_id}|{slice_.topic}|{slice_.partition}|{slice_.from_offset}".encode()


def settled(connection: KafkaConnection, replay_id: str) -> Mapping[str, Any]:
    """What was written down of a replay before it began; empty when it has not."""
    ledger = Ledger(connection, replay_id)
    ledger.catch_up()
    return ledger.terms()


def settle(connection: KafkaConnection, replay_id: str, terms: Mapping[str, Any]) -> None:
    """Write down what holds for the whole replay; what was settled first stays."""
    transactions = Transactions(connection, replay_id, f"playhead-{replay_id}-terms")
    try:
        if not settled(connection, replay_id):
            transactions.begin()
            transactions.note(LEDGER_TOPIC, _terms_key(replay_id), json.dumps(terms).encode())
            transactions.commit()
    finally:
        transactions.close()


def fence_unfinished(connection: KafkaConnection, replay_id: str) -> None:
    """End the transactions of earlier runs of a replay that a dead process has left open.

    The broker would give them up in its own time, and until then hide what stands behind them.
    """
    stable, end = _ends(connection, IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
    if stable == end:
        return
    prefix = f"{replay_id}|".encode()
    places: set[Place] = set()

    def take(record: Any) -> None:
        key = record.key() or b""
        if key.startswith(prefix) and key != _terms_key(replay_id):
            _, topic, partition, _ = key.decode().rsplit("|", 3)
            places.add((topic, int(partition)))

    with _reading(connection, "read_uncommitted", stable) as reading:
        reading.read_to(end, take)
    for place in sorted(places):
        Transactions(connection, replay_id, transactional_id(replay_id, place)).close()


class Ledger:
    """What one replay has committed, as far as was read; `catch_up` reads on from there."""

    def __init__(self, connection: KafkaConnection, replay_id: str) -> None:
        self._connection, self._replay_id = connection, replay_id
        self._next = 0
        self._found: dict[bytes, bytes] = {}

    def entries(self) -> list[Entry]:
        """All entries, in the order of their slices."""
        return self._parsed(f"{self._replay_id}|".encode())

    def entries_of(self, place: Place) -> list[Entry]:
        """What was committed of one source partition, in order."""
        return self._parsed(f"{self._replay_id}|{place[0]}|{place[1]}|".encode())

    def terms(self) -> Mapping[str, Any]:
        """What was settled before the replay began; empty when nothing was."""
        return dict(json.loads(self._found.get(_terms_key(self._replay_id), b"{}")))

    def catch_up(self) -> None:
        """Read all that was committed before this call, waiting for commits that are on their way.

        A reader of committed records stops at the first open transaction, whosever it is, and there
        may be entries of ours behind it: not to wait for it would be to forget them.
        """
        [end] = _ends(self._connection, IsolationLevel.READ_UNCOMMITTED)
        if end <= self._next:
            return
        with _reading(self._connection, "read_committed", self._next) as reading:
            reading.read_to(end, self._take)
            self._next = reading.position

    def _take(self, record: Any) -> None:
        key = record.key() or b""
        if not key.startswith(f"{self._replay_id}|".encode()):
            return
        value = record.value()
        if value is None:
            self._found.pop(key, None)
        else:
            self._found[key] = value

    def _parsed(self, prefix: bytes) -> list[Entry]:
        terms = _terms_key(self._replay_id)
        own = [key for key in self._found if key.startswith(prefix) and key != terms]
        entries = (_entry(key, self._found[key]) for key in own)
        return sorted(entries, key=lambda entry: entry.slice)


class _Reading:
    """Reads the ledger's only partition up to an offset."""

    def __init__(self, connection: KafkaConnection, consumer: Consumer, position: int) -> None:
        self._connection, self._consumer = connection, consumer
        self.position = position

    def read_to(self, end: int, take: Callable[[Any], None]) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while self.position < end:
            with translated(self._connection, "reading the ledger"):
                # All that is there; else the first to come, for to wait for many is to wait in vain.
                found = self._consumer.consume(_PER_CALL, 0) or self._consumer.consume(1, _WAIT_S)
                for record in found:
                    if self._is_record(record):
                        take(record)
            if not found and time.monotonic() > deadline:
                raise LedgerWaits(LEDGER_TOPIC, offset=self.position, waited_s=_PATIENCE_S)

    def _is_record(self, found: Any) -> bool:
        error = found.error()
        if error is None:
            self.position = found.offset() + 1
            return True
        # The end that it can see: markers of transactions are no records, and have offsets.
        if error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        self.position = max(self.position, found.offset())
        return False


@contextmanager
def _reading(connection: KafkaConnection, isolation: str, start: int) -> Iterator[_Reading]:
    consumer = clients.consumer(
        connection.for_librdkafka("consumer")
        | {
            "group.id": "playhead",
            "client.id": "playhead",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            # Compaction may have taken the very first ones.
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 20,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(LEDGER_TOPIC, 0, start)])
        yield _Reading(connection, consumer, start)
    finally:
        consumer.close()


def _ends(connection: KafkaConnection, *isolations: IsolationLevel) -> list[int]:
    """Where the ledger ends: for readers of committed records at its first open transaction."""
    with Admin(connection) as admin, admin.asking("asking for the end of the ledger") as client:
        if not describe_those(admin, [LEDGER_TOPIC]):
            return [0 for _ in isolations]
        asked = [
            client.list_offsets(
                {_PLACE: OffsetSpec.latest()}, isolation_level=it, request_timeout=admin.timeout_s
            )
            for it in isolations
        ]
        return [int(each[_PLACE].result(admin.timeout_s).offset) for each in asked]


def _entry(key: bytes, value: bytes) -> Entry:
    try:
        return Entry.from_json(value)
    except (ValueError, KeyError, TypeError) as exc:
        raise LedgerUnreadable(key.decode(errors="replace"), reason=str(exc)) from exc


def _terms_key(replay_id: str) -> bytes:
    return f"{replay_id}|||".encode()

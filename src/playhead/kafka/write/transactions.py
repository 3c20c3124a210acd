"""One transactional producer: what it sends becomes visible together, and its errors become ours."""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain, repeat
from operator import length_hint
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as ClientPartition

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import PlayheadError
from playhead.host.threads import call_within
from playhead.kafka.admin import clients
from playhead.kafka.admin.errors import (
    Meaning,
    TransactionLost,
    is_definite,
    meaning_of,
    refused,
    text_of,
)
from playhead.source import TopicPartition
from playhead.target import InUse

_INIT_WITHIN_S = 30.0
_FLUSH_WITHIN_S = 60.0
_COMMIT_WITHIN_S = 60.0
_ABORT_WITHIN_S = 10.0
_GROUP_MOVED_WITHIN_S = 15.0
_LOOK_EVERY_S = 0.2
_FULL_QUEUE_WAIT_S = 0.1
# The broker's default of transaction.max.timeout.ms is 15 minutes. An open transaction holds back all
# who read committed records, so one that nobody will end has to be given up soon.
TRANSACTION_TIMEOUT_S = 60
_SETTINGS: Mapping[str, Any] = {
    "client.id": "playhead",
    "acks": "all",
    "enable.idempotence": True,
    # librdkafka's own bound on a record; the topic's is the one that counts.
    "message.max.bytes": 1_000_000_000,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 262_144,
    "linger.ms": 50,
    "log_level": 0,
}

Acknowledge = Callable[[int], None]
"""Told the offset that a record got."""


class Unacceptable(Exception):
    """Some record of the transaction, nobody says which, is not taken by the cluster."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(error.str())
        self.error = error


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Records on their way to one partition, as `Producer.produce` wants them."""

    topic: str
    partition: int
    offsets: Sequence[int]
    timestamps_ms: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[list[tuple[str, bytes | None]] | None] | None
    """None when there are none at all."""

    def __len__(self) -> int:
        return len(self.offsets)

    def cut(self, start: int, stop: int) -> "RecordColumns":
        """Those with an index in `[start, stop)`."""
        return RecordColumns(
            self.topic,
            self.partition,
            self.offsets[start:stop],
            self.timestamps_ms[start:stop],
            self.keys[start:stop],
            self.values[start:stop],
            self.headers[start:stop] if self.headers is not None else None,
        )

    def pick(self, indexes: Sequence[int]) -> "RecordColumns":
        """Those with the given indexes, in that order."""
        return RecordColumns(
            self.topic,
            self.partition,
            [self.offsets[i] for i in indexes],
            [self.timestamps_ms[i] for i in indexes],
            [self.keys[i] for i in indexes],
            [self.values[i] for i in indexes],
            [self.headers[i] for i in indexes] if self.headers is not None else None,
        )


@dataclass(slots=True)
class Transactions:
    """The transactions of one transactional id, one after the other.

    To make it ends and fences whatever was open under the same id, here or elsewhere. After an error
    that is not `Unacceptable` or the caller's own it is of no more use: `close` it.
    """

    connection: KafkaConnection
    replay_id: str
    transactional_id: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_open: bool = False
    is_lost: bool = False
    """An error has come up after which the producer cannot be used again."""
    _producer: Producer = field(init=False)
    _failed: KafkaError | None = None
    _is_stuck: bool = False
    """A call has never come back: the transaction is open, and this producer cannot end it."""
    _opened: float = 0.0
    _groups: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._connect()

    def _connect(self) -> None:
        said = self.connection.for_librdkafka("producer")
        own = {
            "transactional.id": self.transactional_id,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_S * 1_000,
            "compression.type": "lz4",
        }
        with self._translated("init"):
            every = {**_SETTINGS, **own, **said, **self.settings}
            self._producer = clients.producer(every, logger=_silent())
            # Else the client looks for the coordinator before it has a connection, and again after 0.5 s.
            self._producer.list_topics(timeout=_INIT_WITHIN_S)
            self._producer.init_transactions(_INIT_WITHIN_S)

    def renew(self) -> None:
        """Start afresh after records were refused: the client has numbered them, and the cluster misses them."""
        # To connect ends the transaction; to abort it first would take half a second.
        self._let_go()
        self._connect()

    def begin(self) -> None:
        """Open a transaction; the cluster hears of it with its first record."""
        with self._translated("begin"):
            self._producer.begin_transaction()
        # By the clock on the wall: the other one stands still while the machine sleeps.
        self.is_open, self._failed, self._opened = True, None, time.time()

    def send(self, columns: RecordColumns, acknowledge: Acknowledge) -> None:
        """Hand over records, in their order; the last one's offset is told when it is known."""

        def hear(error: KafkaError | None, record: Any) -> None:
            if error is None:
                acknowledge(record.offset())
            else:
                self._failed = self._failed or error

        with self._translated("send"):
            self._send_all(columns, hear)
            self._producer.poll(0)

    def _send_all(self, columns: RecordColumns, hear: Callable[..., None]) -> None:
        produce, left = self._producer.produce, columns
        while True:
            values = iter(left.values)
            # Not a loop in Python: it would take longer than the client takes to make a record.
            calls = map(
                produce,
                repeat(left.topic),
                values,
                left.keys,
                repeat(left.partition),
                chain(repeat(None, len(left) - 1), (hear,)),
                repeat(None),
                left.timestamps_ms,
                repeat(None) if left.headers is None else left.headers,
            )
            try:
                deque(calls, 0)
                return
            except BufferError:
                # The record that found the queue full is the last that was drawn.
                left = left.cut(len(left) - length_hint(values) - 1, len(left))
                self._producer.poll(_FULL_QUEUE_WAIT_S)

    def note(self, topic: str, key: bytes, value: bytes | None) -> None:
        """Add one record of our own, with the time of now, to partition 0 of a topic."""
        with self._translated("send"):
            self._producer.produce(topic, value, key, 0)

    def flush(self) -> None:
        """Return when all that was sent is acknowledged."""
        deadline = time.monotonic() + _FLUSH_WITHIN_S
        left = before = len(self._producer)
        while left:
            with self._translated("flush"):
                left = self._producer.flush(_LOOK_EVERY_S)
                if left < before:
                    deadline, before = time.monotonic() + _FLUSH_WITHIN_S, left
                # Once a record has failed, those behind it stay in the queue and nobody says so.
                self._raise_error_of_transaction()
                if self._failed is not None:
                    # One that took too long is an error of the transaction only when that is committed.
                    raise KafkaException(self._failed)
            if left and time.monotonic() > deadline:
                self.is_lost = True
                raise TransactionLost(
                    self.transactional_id,
                    reason=f"{left} records were not acknowledged within {_FLUSH_WITHIN_S:g} s",
                )

    def move_group(self, group: str, place: TopicPartition, offset: int) -> None:
        """Let the transaction move a consumer group; source and target are one cluster."""
        moved = ClientPartition(*place, offset)
        with self._translated("move group"):
            if group not in self._groups:
                self._groups[group] = self._metadata_of(group)
            send, metadata = self._producer.send_offsets_to_transaction, self._groups[group]
            try:
                # librdkafka does not keep its own limit: when the group's coordinator dies at the
                # wrong moment, the call never returns (its issues 5456 and 5511).
                call_within(
                    lambda: send([moved], metadata), _GROUP_MOVED_WITHIN_S, name="move group"
                )
            except TimeoutError as exc:
                self.is_lost = self._is_stuck = True
                reason = f"group {group} was not moved within {_GROUP_MOVED_WITHIN_S:g} s"
                raise TransactionLost(self.transactional_id, reason=reason) from exc

    def _metadata_of(self, group: str) -> Any:
        """Of a group without members: only a consumer gives it, and needs no broker for that."""
        consumer = clients.consumer(
            self.connection.for_librdkafka("consumer") | {"group.id": group, "log_level": 0}
        )
        try:
            return consumer.consumer_group_metadata()
        finally:
            consumer.close()

    def commit(self) -> None:
        """Make it visible; any error leaves open whether it is, but `Unacceptable`, when it is not."""
        with self._translated("commit"):
            self._producer.commit_transaction(_COMMIT_WITHIN_S)
        self.is_open = False

    def abort(self) -> None:
        """Undo what was sent since `begin`."""
        if self.is_open:
            with self._translated("abort"):
                self._producer.abort_transaction(_ABORT_WITHIN_S)
            self.is_open = False

    def close(self) -> None:
        """Give up what is open, as far as the cluster can be reached, and let go."""
        with suppress(PlayheadError, Unacceptable):
            if self._is_stuck:
                # Else all who read committed records, we too, would wait until it times out.
                self._connect()
            else:
                self.abort()
        self._let_go()

    def _let_go(self) -> None:
        self.is_open = False
        # One that was fenced says so again at every call.
        with suppress(KafkaException):
            self._producer.purge()
            self._producer.poll(0)

    @contextmanager
    def _translated(self, action: str) -> Iterator[None]:
        try:
            yield
        except KafkaException as exc:
            raise self._ours(action, self._cause(exc.args[0])) from exc

    def _cause(self, error: KafkaError) -> KafkaError:
        """The first error of the transaction, where later calls only say that it is in error."""
        if error.code() in (KafkaError._STATE, KafkaError._FATAL) and self.is_open:
            try:
                self._raise_error_of_transaction()
            except KafkaException as exc:
                return exc.args[0]
        return error

    def _raise_error_of_transaction(self) -> None:
        """The client tells the error of a transaction only to who asks it for something impossible."""
        try:
            self._producer.begin_transaction()
        except KafkaException as exc:
            # In a transaction that is well, to begin one is merely out of place.
            if exc.args[0].code() != KafkaError._STATE:
                raise

    def _ours(self, action: str, error: KafkaError) -> Exception:
        meaning = meaning_of(error)
        if meaning is Meaning.REJECTED_RECORD:
            return Unacceptable(error)
        self.is_lost = True
        if meaning is Meaning.FENCED:
            open_s = time.time() - self._opened
            if self.is_open and open_s > TRANSACTION_TIMEOUT_S:
                # The cluster fences who has let its transaction time out, too.
                reason = f"it was open for {open_s:.0f} s, and the cluster gave it up"
                return TransactionLost(self.transactional_id, reason=reason)
            return InUse(self.replay_id, where="it has fenced this run off the target")
        if is_definite(error):
            return refused(error, f"transaction of {self.transactional_id}: {action}")
        return TransactionLost(self.transactional_id, reason=f"{action}: {text_of(error)}")


def _silent() -> logging.Logger:
    # What is fatal to a producer is written to stderr at every level; here it becomes an error of ours.
    logger = logging.Logger("playhead.kafka")
    logger.addHandler(logging.NullHandler())
    return logger

"""A transactional producer: its records become visible together, and its errors become Playhead's."""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain, repeat
from operator import length_hint
from typing import Any

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    KafkaError,
    KafkaException,
    Producer,
)
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
    words_of,
)
from playhead.source import TopicPartition
from playhead.target import Fenced

_INIT_WITHIN_S = 30.0
_FLUSH_WITHIN_S = 60.0
_COMMIT_WITHIN_S = 60.0
_ABORT_WITHIN_S = 10.0
_GROUP_MOVED_WITHIN_S = 15.0
_LOOK_EVERY_S = 0.2
_FULL_QUEUE_WAIT_S = 0.1
# The broker's default of transaction.max.timeout.ms is 15 minutes. An open transaction blocks all
# readers of committed records, so an abandoned one must be aborted soon.
TRANSACTION_TIMEOUT_S = 60
_SETTINGS: Mapping[str, Any] = {
    "client.id": "playhead",
    "acks": "all",
    "enable.idempotence": True,
    # librdkafka's own limit for a record; the topic's limit applies.
    "message.max.bytes": 1_000_000_000,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 262_144,
    "linger.ms": 50,
    "log_level": 0,
}

Acknowledge = Callable[[int], None]
"""Receives the offset of a record."""


class Unacceptable(Exception):
    """The cluster refuses an unknown record of the transaction."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(words_of(error))
        self.error = error


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Records for one partition, in the form of `Producer.produce`."""

    topic: str
    partition: int
    offsets: Sequence[int]
    timestamps_ms: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[list[tuple[str, bytes | None]] | None] | None
    """None if no record has headers."""

    def __len__(self) -> int:
        return len(self.offsets)

    def cut(self, start: int, stop: int) -> "RecordColumns":
        """Return the records with an index in `[start, stop)`."""
        return self._with_columns(lambda column: column[start:stop])

    def pick(self, indexes: Sequence[int]) -> "RecordColumns":
        """Return the records with the given indexes, in that order."""
        return self._with_columns(lambda column: [column[i] for i in indexes])

    def _with_columns(self, take: Callable[[Sequence[Any]], Sequence[Any]]) -> "RecordColumns":
        return RecordColumns(
            self.topic,
            self.partition,
            take(self.offsets),
            take(self.timestamps_ms),
            take(self.keys),
            take(self.values),
            take(self.headers) if self.headers is not None else None,
        )


@dataclass(slots=True)
class Transactions:
    """The transactions of one transactional id, one after the other.

    Creating it aborts and fences any open one with the same id. After an error that is neither
    `Unacceptable` nor the caller's own, it can only be closed.
    """

    connection: KafkaConnection
    replay_id: str
    transactional_id: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_open: bool = False
    is_lost: bool = False
    """Whether the producer had an error after which it cannot be used."""
    stamped: dict[str, set[int]] = field(default_factory=dict)
    """By topic, the times in answers that name them as the broker's own, in this transaction."""
    _producer: Producer = field(init=False)
    _failed: KafkaError | None = None
    _is_unplaced: bool = False
    """Whether a record was acknowledged without its offset, in this transaction."""
    _is_stuck: bool = False
    """Whether a call never returned: the transaction is open, and this producer cannot end it."""
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
            producer = clients.producer(every, logger=_silent())
            try:
                # Otherwise the client looks for the coordinator before it has a connection, and
                # retries after 0.5 s. Nothing is done with the names.
                with suppress(UnicodeDecodeError):
                    producer.list_topics(timeout=_INIT_WITHIN_S)
                producer.init_transactions(_INIT_WITHIN_S)
            except BaseException:
                # A call that took too long continues inside the client, and would fence the producer
                # that comes next. It ends with the client, which the error's traceback must not keep.
                del producer
                raise
            self._producer = producer

    def renew(self) -> None:
        """Start again after records were refused: the client has numbered them, and the cluster misses them."""
        # Connecting aborts the transaction; an explicit abort would take half a second.
        self._let_go()
        self._connect()

    def begin(self) -> None:
        """Open a transaction; the cluster learns of it with the first record."""
        with self._translated("begin"):
            self._producer.begin_transaction()
        self.stamped.clear()
        self._is_unplaced = False
        # Wall clock on purpose: the monotonic clock stops while the machine sleeps.
        self.is_open, self._failed, self._opened = True, None, time.time()

    def send(self, columns: RecordColumns, acknowledge: Acknowledge) -> None:
        """Send records in order; the offset of the last one is reported when it is known."""

        def hear(error: KafkaError | None, record: Any) -> None:
            if error is None:
                offset = record.offset()
                if offset is None:
                    self._is_unplaced = True
                else:
                    acknowledge(offset)
                kind, time_ms = record.timestamp()
                if kind == TIMESTAMP_LOG_APPEND_TIME:
                    self.stamped.setdefault(columns.topic, set()).add(time_ms)
            else:
                self._failed = self._failed or error

        with self._translated("send"):
            self._send_all(columns, hear)
            self._producer.poll(0)

    def _send_all(self, columns: RecordColumns, hear: Callable[..., None]) -> None:
        produce, left = self._producer.produce, columns
        while True:
            values = iter(left.values)
            # Not a Python loop: it would take longer than the client needs for a record.
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
                # The record that found the queue full is the last one taken from the iterator.
                left = left.cut(len(left) - length_hint(values) - 1, len(left))
                self._producer.poll(_FULL_QUEUE_WAIT_S)

    def note(self, topic: str, key: bytes, value: bytes | None) -> None:
        """Add one record of our own, with the present time, to partition 0 of a topic."""
        with self._translated("send"):
            self._producer.produce(topic, value, key, 0)

    def flush(self) -> None:
        """Return when everything that was sent is acknowledged."""
        deadline = time.monotonic() + _FLUSH_WITHIN_S
        before = len(self._producer)
        while before or self.is_open:
            # Also if nothing is left: a failed record may have left the queue while others were sent.
            with self._translated("flush"):
                left = self._producer.flush(_LOOK_EVERY_S)
                if left < before:
                    deadline, before = time.monotonic() + _FLUSH_WITHIN_S, left
                # After a failed record, those after it silently stay in the queue.
                self._raise_error_of_transaction()
                if self._failed is not None:
                    # A timeout becomes an error of the transaction only at its commit.
                    raise KafkaException(self._failed)
            if not left:
                self._refuse_unplaced()
                return
            if time.monotonic() > deadline:
                self.is_lost = True
                raise TransactionLost(
                    self.transactional_id,
                    reason=f"{left} records were not acknowledged within {_FLUSH_WITHIN_S:g} s",
                )

    def _refuse_unplaced(self) -> None:
        """Refuse a transaction with records whose offsets are unknown, because the ledger names them."""
        if self._is_unplaced:
            self.is_lost = True
            reason = "the log has records already that were sent again, and the broker did not name their offsets"
            raise TransactionLost(self.transactional_id, reason=reason)

    def move_group(self, group: str, place: TopicPartition, offset: int) -> None:
        """Move a consumer group in the transaction, if source and target are one cluster."""
        moved = ClientPartition(*place, offset)
        with self._translated("move group"):
            if group not in self._groups:
                self._groups[group] = self._metadata_of(group)
            send, metadata = self._producer.send_offsets_to_transaction, self._groups[group]
            try:
                # librdkafka ignores its own limit: if the group's coordinator dies at the wrong
                # moment, the call never returns (its issues 5456 and 5511).
                call_within(
                    lambda: send([moved], metadata), _GROUP_MOVED_WITHIN_S, name="move group"
                )
            except TimeoutError as exc:
                self.is_lost = self._is_stuck = True
                reason = f"group {group} was not moved within {_GROUP_MOVED_WITHIN_S:g} s"
                raise TransactionLost(self.transactional_id, reason=reason) from exc

    def _metadata_of(self, group: str) -> Any:
        """Return the metadata of a group without members: only a consumer provides it, without a broker."""
        consumer = clients.consumer(
            self.connection.for_librdkafka("consumer") | {"group.id": group, "log_level": 0}
        )
        try:
            return consumer.consumer_group_metadata()
        finally:
            consumer.close()

    def commit(self) -> None:
        """Make the records visible. After `Unacceptable` they are not; after any other error it is unknown."""
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
        """Abort the open transaction if the cluster can be reached, and release the producer."""
        with suppress(PlayheadError, Unacceptable):
            if self._is_stuck:
                # Otherwise all readers of committed records would wait until it times out.
                self._connect()
            else:
                self.abort()
        self._let_go()

    def _let_go(self) -> None:
        self.is_open = False
        # A fenced producer reports it again at every call.
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
        """Return the first error of the transaction, because later calls only say that it failed."""
        if error.code() in (KafkaError._STATE, KafkaError._FATAL) and self.is_open:
            try:
                self._raise_error_of_transaction()
            except KafkaException as exc:
                return exc.args[0]
        return error

    def _raise_error_of_transaction(self) -> None:
        """Raise the transaction's error, which the client reports only after an impossible call."""
        try:
            self._producer.begin_transaction()
        except KafkaException as exc:
            # In a healthy transaction, `begin` is merely out of order.
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
                # The cluster also fences a producer whose transaction timed out.
                reason = f"it was open for {open_s:.0f} s, and the cluster aborted it"
                return TransactionLost(self.transactional_id, reason=reason)
            return Fenced(self.replay_id)
        if is_definite(error):
            return refused(error, f"transaction of {self.transactional_id}: {action}")
        return TransactionLost(self.transactional_id, reason=f"{action}: {text_of(error)}")


def _silent() -> logging.Logger:
    # A producer's fatal errors go to stderr at every log level; here they become errors of ours.
    logger = logging.Logger("playhead.kafka")
    logger.addHandler(logging.NullHandler())
    return logger

"""Sends records to one topic, and counts which of them were delivered."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from confluent_kafka import KafkaError, KafkaException, Producer

from playhead.config.guards import Guard
from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import PlayheadError
from playhead.kafka.admin import clients
from playhead.kafka.admin.errors import (
    Meaning,
    Need,
    client_error,
    meaning_of,
    missing_acls,
    needing,
    text_of,
    translated,
)
from playhead.kafka.produce.console_lines import Outgoing
from playhead.kafka.write.headers import unsendable

Acks = Literal["0", "1", "all"]
ACKS: Mapping[str, str] = {
    "0": "a record counts as delivered when it is handed to the network; there is no confirmation",
    "1": (
        "a record counts as delivered when its partition's leader has it; it is lost if "
        "that broker fails at once"
    ),
    "all": "a record counts as delivered when every in-sync replica has it; each is written once, in order",
}
_SERVE_EVERY = 1_000
_FULL_QUEUE_WAIT_S = 0.2
_AFTER_THE_END_S = 5.0
_MOST_BYTES = 1_000_000_000  # The broker's limit applies.
_MOST_FAILURES = 10
_NOW = 0


class NotSendable(PlayheadError):
    """A record that Kafka's client cannot send unchanged."""


class TransactionFailed(PlayheadError):
    """A transaction was aborted; none of its records are visible."""

    def __init__(self, transactional_id: str, *, reason: str, committed: int) -> None:
        self.transactional_id, self.reason, self.committed = transactional_id, reason, committed
        super().__init__(
            f"the transaction of {transactional_id} was aborted: {reason}",
            hint=f"{committed:,} records of earlier transactions are in the topic, none of this one",
        )


@dataclass(frozen=True, slots=True)
class Delivery:
    """How records are sent: acks, compression, transactions."""

    acks: Acks = "all"
    compression: str = "none"
    transactional_id: str | None = None
    records_in_transaction: int | None = None
    """Start a new transaction after this many records; None for a single one."""
    timeout_s: float = 60.0
    linger_ms: int = 20
    """How long a record waits for others in the same request."""


@dataclass(slots=True)
class Sender:
    """A producer for one topic; `finish` returns when the outcome of every record is known."""

    connection: KafkaConnection
    topic: str
    guard: Guard
    delivery: Delivery = Delivery()
    set_bytes: int | None = None
    """The maximum size of a record set that the topic accepts."""
    sent: int = 0
    failed: int = 0
    transactions: int = 0
    _producer: Producer = field(init=False)
    _fatal: KafkaError | None = None
    _noted: Any = None
    _in_transaction: int = 0
    _committed: int = 0

    def __post_init__(self) -> None:
        self.guard.need(f"producing to {self.topic}", self.topic)
        self._producer = clients.producer(
            producer_settings(self.connection, self.delivery, self.set_bytes), logger=silent()
        )
        # Otherwise the client asks for its producer id before it has a connection, and retries
        # after half a second.
        self._call(lambda: self._producer.list_topics(self.topic, self.delivery.timeout_s))
        if self.delivery.transactional_id is not None:
            with needing(Need("Write", "transactional-id", self.delivery.transactional_id)):
                self._call(lambda: self._producer.init_transactions(self.delivery.timeout_s))

    @property
    def delivered(self) -> int:
        """Records delivered, as far as the acks guarantee, without those of an open transaction."""
        if self.delivery.transactional_id is not None:
            return self._committed
        return self.sent - self.failed

    def send(self, record: Outgoing) -> None:
        """Send one record; wait while the client's queue is full."""
        _need_sendable(record)
        if self.delivery.transactional_id is not None and not self._in_transaction:
            self._call(self._producer.begin_transaction)
        self._produce(record)
        self.sent += 1
        if self.sent % _SERVE_EVERY == 0:
            self._serve(None)
        if self.delivery.transactional_id is not None:
            self._in_transaction += 1
            if self._in_transaction == self.delivery.records_in_transaction:
                self._commit()

    def _produce(self, record: Outgoing) -> None:
        where: dict[str, int] = {} if record.partition is None else {"partition": record.partition}
        while True:
            try:
                self._producer.produce(
                    self.topic,
                    record.value,
                    record.key,
                    timestamp=_NOW if record.timestamp_ms is None else record.timestamp_ms,
                    headers=list(record.headers) or None,
                    on_delivery=partial(self._note, record.number),
                    **where,
                )
            except BufferError:
                self._producer.poll(_FULL_QUEUE_WAIT_S)
            except (KafkaException, SystemError) as exc:
                # Fails at once: the record is too large, or the client has ended.
                if isinstance(exc, SystemError):
                    self._fatal = client_error(exc)
                    continue
                self._note(record.number, exc.args[0], None)
                return
            else:
                return

    def finish(self) -> None:
        """Return when every record is delivered or failed; commit the open transaction."""
        if self._in_transaction:
            self._commit()
        left = self._serve(self.delivery.timeout_s + 5)
        for _ in range(left):
            self._note(0, None, None)

    def abandon(self) -> None:
        """Abort the open transaction; without one, wait briefly for unconfirmed records."""
        if self._in_transaction:
            self._in_transaction = 0
            self._call(lambda: self._producer.abort_transaction(self.delivery.timeout_s))
        else:
            self._serve(5)

    def _commit(self) -> None:
        count = self._in_transaction
        self._serve(self.delivery.timeout_s)
        if self.failed:
            number, reason = self.failures[0]
            self.abandon()
            raise TransactionFailed(
                self.delivery.transactional_id or "",
                reason=f"line {number}: {reason}",
                committed=self._committed,
            )
        self._call(lambda: self._producer.commit_transaction(self.delivery.timeout_s))
        self._in_transaction = 0
        self.transactions += 1
        self._committed += count

    def _call(self, call: Any) -> None:
        with translated(f"producing to {self.topic}", self.connection.bootstrap_servers):
            call()

    def _serve(self, wait_s: float | None) -> int:
        """Poll, or flush for this long; return how many records are unconfirmed."""
        try:
            if wait_s is None:
                return int(self._producer.poll(0))
            return int(self._producer.flush(wait_s))
        except (KafkaException, SystemError) as exc:
            # A fatal error is raised by the next call, once.
            self._fatal = client_error(exc)
            return int(self._producer.flush(_AFTER_THE_END_S))

    def _note(self, number: int, error: KafkaError | None, _: object) -> None:
        # The client may call this with an error already set, and then nothing written in C works:
        # no list, no text, no len. The notes are evaluated later.
        self.failed += 1
        if self.failed <= _MOST_FAILURES:
            self._noted = (number, error, self._noted)

    @property
    def failures(self) -> list[tuple[int, str]]:
        """The numbers of the first failed records, with the reasons."""
        found: list[tuple[int, str]] = []
        noted = self._noted
        while noted is not None:
            number, error, noted = noted
            found.append((number, self._reason(self._fatal or error)))
        return found[::-1]

    def _reason(self, error: KafkaError | None) -> str:
        if error is None:
            return "no answer in time"
        return reason_of(error, self.topic)


def producer_settings(
    connection: KafkaConnection, delivery: Delivery, set_bytes: int | None
) -> dict[str, Any]:
    """Return librdkafka's settings; the user's own properties override our tuning."""
    said: dict[str, Any] = dict(connection.for_librdkafka("producer"))
    tuning = {
        "linger.ms": delivery.linger_ms,
        "batch.size": min(set_bytes or 1_000_000, 1_000_000),
    }
    own = {
        "acks": delivery.acks,
        "enable.idempotence": delivery.acks == "all",
        # Like Java's producer, so that a key's records stay together with any producer.
        "partitioner": "murmur2_random",
        "delivery.timeout.ms": round(delivery.timeout_s * 1000),
        "delivery.report.only.error": True,
        "log_level": 0,
    }
    if delivery.compression != "none":
        own["compression.type"] = delivery.compression
    if delivery.transactional_id is not None:
        own["transactional.id"] = delivery.transactional_id
    return {"message.max.bytes": _MOST_BYTES} | tuning | said | own


def reason_of(error: KafkaError, topic: str) -> str:
    """Return why a record was not written to a topic."""
    # Without Write on any topic, an idempotent producer gets no producer id: an error of the
    # cluster.
    if meaning_of(error) is Meaning.NOT_AUTHORIZED:
        return f"{text_of(error)}; {missing_acls(Need('Write', 'topic', topic))}"
    return text_of(error)


def _need_sendable(record: Outgoing) -> None:
    if record.timestamp_ms == _NOW:
        raise NotSendable(
            f"line {record.number}: its timestamp is 0 (1970-01-01), which the Kafka client cannot send"
        )
    if record.headers and (reason := unsendable(record.headers)) is not None:
        raise NotSendable(f"line {record.number}: {reason}")


def silent() -> Any:
    import logging

    logger = logging.getLogger("playhead.kafka.produce.sender")
    logger.disabled = True
    return logger

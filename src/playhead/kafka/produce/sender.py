"""Sends records of whatever origin into one topic, and counts which of them arrived."""

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
    "0": "a record counts when it is handed to the network; nobody says whether it arrived",
    "1": "a record counts when its partition's leader has it; lost, should that fail at once",
    "all": "a record counts when every in-sync replica has it; each is written once, in order",
}
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
_SERVE_EVERY = 1_000
_FULL_QUEUE_WAIT_S = 0.2
_AFTER_THE_END_S = 5.0
_MOST_BYTES = 1_000_000_000  # the broker's limit is the one that counts
_MOST_FAILURES = 10
_NOW = 0


class NotSendable(PlayheadError):
    """A record that Kafka's client cannot send as it is."""


class TransactionFailed(PlayheadError):
    """A transaction was given up; nothing of it is in the topic."""

    def __init__(self, transactional_id: str, *, reason: str, committed: int) -> None:
        self.transactional_id, self.reason, self.committed = transactional_id, reason, committed
        super().__init__(
            f"transaction of {transactional_id} was given up: {reason}",
            hint=f"{committed:,} records of earlier transactions are in the topic, and none of this one",
        )


@dataclass(frozen=True, slots=True)
class Delivery:
    """How records are sent: who has to have them, squeezed how, in transactions or not."""

    acks: Acks = "all"
    compression: str = "none"
    transactional_id: str | None = None
    records_in_transaction: int | None = None
    """A new transaction after so many; None is one for all."""
    timeout_s: float = 60.0
    linger_ms: int = 20
    """How long a record waits for others to travel with."""


@dataclass(slots=True)
class Sender:
    """A producer for one topic; `finish` returns when the fate of every record is known."""

    connection: KafkaConnection
    topic: str
    guard: Guard
    delivery: Delivery = Delivery()
    set_bytes: int | None = None
    """How large a set of records the topic takes."""
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
        # Else the client asks for its number before it has a connection, and again after half a second.
        self._call(lambda: self._producer.list_topics(self.topic, self.delivery.timeout_s))
        if self.delivery.transactional_id is not None:
            with needing(Need("Write", "transactional-id", self.delivery.transactional_id)):
                self._call(lambda: self._producer.init_transactions(self.delivery.timeout_s))

    @property
    def delivered(self) -> int:
        """Records that arrived, as far as the acks tell; those of an open transaction did not."""
        if self.delivery.transactional_id is not None:
            return self._committed
        return self.sent - self.failed

    def send(self, record: Outgoing) -> None:
        """Hand over one record; waits while the client's queue is full."""
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
                # Told at once: it is larger than anything can be, or the client has ended for good.
                if isinstance(exc, SystemError):
                    self._fatal = client_error(exc)
                    continue
                self._note(record.number, exc.args[0], None)
                return
            else:
                return

    def finish(self) -> None:
        """Return when each record is delivered or has failed; commits what is open."""
        if self._in_transaction:
            self._commit()
        left = self._serve(self.delivery.timeout_s + 5)
        for _ in range(left):
            self._note(0, None, None)

    def abandon(self) -> None:
        """Give an open transaction up; without one, wait shortly for what is on its way."""
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
        """Poll, or flush for so long: how many are on their way still."""
        try:
            if wait_s is None:
                return int(self._producer.poll(0))
            return int(self._producer.flush(wait_s))
        except (KafkaException, SystemError) as exc:
            # What ends the client for good is raised in whatever is called next, once.
            self._fatal = client_error(exc)
            return int(self._producer.flush(_AFTER_THE_END_S))

    def _note(self, number: int, error: KafkaError | None, _: object) -> None:
        # The client may come here with an error of its own raised already, and then nothing works that
        # is written in C: no list, no text, no len. What was noted is understood later.
        self.failed += 1
        if self.failed <= _MOST_FAILURES:
            self._noted = (number, error, self._noted)

    @property
    def failures(self) -> list[tuple[int, str]]:
        """The first of those that failed: their numbers, and why."""
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
    """What librdkafka is told; the person's own properties count more than our tuning."""
    said: dict[str, Any] = dict(connection.for_librdkafka("producer"))
    tuning = {
        "linger.ms": delivery.linger_ms,
        "batch.size": min(set_bytes or 1_000_000, 1_000_000),
    }
    own = {
        "acks": delivery.acks,
        "enable.idempotence": delivery.acks == "all",
        # As Java's producer does it, so that a key's records stay together whoever writes them.
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
    """Why a record did not get into a topic."""
    # Without Write on any topic an idempotent producer is not even given its number: an error of the cluster.
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

"""Sends records to a topic without waiting; records that do not fit into the memory are dropped and counted."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.admin import clients
from playhead.kafka.admin.errors import client_error, words_of
from playhead.kafka.produce.sender import Acks, Delivery, producer_settings, reason_of, silent
from playhead.record import Headers

FOR_EVER_S = 0.0
"""librdkafka's value for no time limit, however long the broker is away."""
_LINGER_MS = 5
# The client's overhead for a record: measured 220 to 230, and the allocator rounds up.
_RECORD_BYTES, _HEADER_BYTES = 256, 192
_MOST_REASONS = 10
_AFTER_THE_END_S = 5.0


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """The memory for records that wait for the broker."""

    most_bytes: int
    with_headers: bool = False

    def as_settings(self) -> Mapping[str, int]:
        """Return settings that give half to the records' bytes, half to the client's overhead."""
        half = self.most_bytes // 2
        each = _RECORD_BYTES + (_HEADER_BYTES if self.with_headers else 0)
        return {
            "queue.buffering.max.kbytes": max(half // 1024, 1),
            "queue.buffering.max.messages": max(half // each, 1),
        }

    @property
    def most_records(self) -> int:
        """The maximum number of waiting records, however small they are."""
        return self.as_settings()["queue.buffering.max.messages"]


class NonBlockingSender:
    """A sender for one topic; not for two threads at once."""

    def __init__(
        self,
        connection: KafkaConnection,
        topic: str,
        memory: QueueLimits,
        *,
        acks: Acks = "all",
        compression: str = "none",
        set_bytes: int | None = None,
    ) -> None:
        delivery = Delivery(acks, compression, timeout_s=FOR_EVER_S, linger_ms=_LINGER_MS)
        settings = producer_settings(connection, delivery, set_bytes)
        settings["delivery.report.only.error"] = False
        self._settings: dict[str, Any] = settings | dict(memory.as_settings())
        self.topic = topic
        self.offered = self.delivered = self.dropped = self.failed = 0
        """Counts of records; delivered as far as the acks guarantee."""
        self.ends = 0
        """How often a client ended and was replaced."""
        self._noted: Any = None
        self._trouble: KafkaError | None = None
        self._over = False
        self._settings["error_cb"] = self._hear
        self._producer: Any = clients.producer(self._settings, logger=silent())
        """None after close."""

    @property
    def waiting(self) -> int:
        """Records whose outcome is not known yet."""
        return self.offered - self.delivered - self.dropped - self.failed

    def offer(
        self, value: bytes, key: bytes | None, timestamp_ms: int, headers: Headers = ()
    ) -> None:
        """Send one record, or drop it."""
        self.offered += 1
        try:
            self._producer.produce(
                self.topic,
                value,
                key,
                timestamp=timestamp_ms,
                headers=list(headers) or None,
                on_delivery=self._note,
            )
        except BufferError:
            self.dropped += 1
        except KafkaException as exc:
            # Reported only here: the client has ended, or the topic was deleted.
            self._note_failed(exc.args[0])
            self._over |= exc.args[0].fatal()

    def serve(self) -> None:
        """Run the client's callbacks; replace a client that has ended."""
        try:
            self._producer.poll(0)
        except (KafkaException, SystemError) as exc:
            # A fatal error is raised by the next call, once.
            client_error(exc)
            self._over = True
        if self._over or (self._trouble is not None and self._trouble.fatal()):
            self._begin_again()

    def close(self, within_s: float) -> None:
        """Wait for unconfirmed records; those not confirmed in time have failed."""
        deadline = time.monotonic() + within_s
        while self.waiting and (left_s := deadline - time.monotonic()) > 0:
            try:
                self._producer.flush(left_s)
            except (KafkaException, SystemError) as exc:
                client_error(exc)
                self._over = True
                break
        self._give_up()

    def _begin_again(self) -> None:
        self.ends += 1
        self._give_up()
        self._over, self._trouble = False, None
        self._producer = clients.producer(self._settings, logger=silent())

    def _give_up(self) -> None:
        """Count every waiting record as failed, once, by the client's report or by ours."""
        if self.waiting:
            self._producer.purge()
            try:
                self._producer.flush(_AFTER_THE_END_S)
            except (KafkaException, SystemError) as exc:
                client_error(exc)
                self._over = True
        for _ in range(self.waiting):
            self._note_failed(None)
        self._producer = None

    def _note(self, error: KafkaError | None, _: object) -> None:
        if error is None:
            self.delivered += 1
        else:
            self._note_failed(error)

    def _note_failed(self, error: KafkaError | None) -> None:
        # The client may call this with an error already set, and then nothing written in C works.
        # The notes are evaluated later.
        self.failed += 1
        if self.failed <= _MOST_REASONS:
            self._noted = (error, self._noted)

    def _hear(self, error: KafkaError) -> None:
        self._trouble = error

    @property
    def trouble(self) -> str | None:
        """The client's last report about its brokers."""
        return None if self._trouble is None else words_of(self._trouble)

    @property
    def reasons(self) -> list[str]:
        """Why the first failed records failed, each reason once."""
        found: dict[str, None] = {}
        noted = self._noted
        while noted is not None:
            error, noted = noted
            is_ours = error is None or error.code() in (
                KafkaError._PURGE_QUEUE,
                KafkaError._PURGE_INFLIGHT,
            )
            found["no answer in time" if is_ours else reason_of(error, self.topic)] = None
        return list(found)[::-1]

"""A consumer without a group: what arrives from its partitions, and the reason if nothing does."""

import contextlib
import json
import time
from collections.abc import Collection, Mapping
from typing import Any
from uuid import uuid4

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import BrokerUnavailable
from playhead.kafka.admin import clients
from playhead.kafka.admin.errors import Meaning, meaning_of, refused
from playhead.source import TopicPartition

AT_ONCE = 5_000
"""Records per call of the client: with more, Python's objects outgrow the caches, and it is slower."""
_WAIT_S = 0.1
_LEARNED_WITHIN_S = 1.0
_BACKOFF = "reconnect.backoff.ms"
_TUNING: dict[str, Any] = {
    # The end of a partition is reported by an empty answer, which the broker delays by this time.
    "fetch.wait.max.ms": 20,
    # How long the client stops fetching when its queue is full; its default is a whole second.
    "fetch.queue.backoff.ms": 2,
    "fetch.error.backoff.ms": 100,
    "max.partition.fetch.bytes": 4 << 20,
    "queued.min.messages": 500_000,
    # A record takes more memory than its bytes: for 130 B each, this is some 70 MB.
    "queued.max.messages.kbytes": 16 << 10,
    _BACKOFF: 50,
    "reconnect.backoff.max.ms": 1_000,
    # Costs almost nothing, and a proof covers every byte.
    "check.crcs": True,
}
_FIXED: dict[str, Any] = {
    "client.id": "playhead",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    # A record may be larger than any fetch; the broker's limit applies.
    "receive.message.max.bytes": 2_147_483_647,
    "log_level": 0,
}


class PartitionConsumer:
    """Reads committed records of some partitions from given offsets; belongs to one thread.

    Nothing waits longer than the patience without progress.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        *,
        patience_s: float,
        tuning: Mapping[str, Any] | None = None,
        isolation: str = "read_committed",
    ) -> None:
        self._servers = connection.bootstrap_servers or ""
        self._patience_s = patience_s
        self._last_error: str | None = None
        self._statistics = ""
        self._learned: set[str] = set()
        told = connection.for_librdkafka("consumer")
        # A statistic that is not fetched stays in memory, and a paced replay may rest for hours.
        every_ms = round(min(max(patience_s / 4, 0.1), 15.0) * 1_000)
        own = {
            "group.id": f"playhead-{uuid4().hex}",
            "isolation.level": isolation,
            "statistics.interval.ms": every_ms,
            "error_cb": self._on_error,
            "stats_cb": self._on_statistics,
        }
        both = _TUNING | dict(tuning or {}) | told
        if _BACKOFF in told:
            del both["reconnect.backoff.max.ms"]
        self._consumer = clients.consumer(both | _FIXED | own)

    def close(self) -> None:
        """Close the consumer; it has no group to leave."""
        self._consumer.close()

    def assign(self, places: Mapping[TopicPartition, int]) -> None:
        """Continue from these offsets; records under way from other ones are dropped."""
        self._consumer.assign([ClientPartition(*place, at) for place, at in places.items()])
        self._learn({topic for topic, _ in places})

    def _learn(self, topics: Collection[str]) -> None:
        """Have the client learn the topics now; by itself it looks for new ones once a second."""
        for topic in set(topics) - self._learned:
            # The same error comes again with the records, and is handled there.
            with contextlib.suppress(KafkaException):
                self._consumer.list_topics(topic, timeout=_LEARNED_WITHIN_S)
            self._learned.add(topic)

    def unassign(self, places: Collection[TopicPartition]) -> None:
        """Stop reading these partitions."""
        self._consumer.incremental_unassign([ClientPartition(*place) for place in places])

    def buffered(self) -> list[Message]:
        """Return what has already arrived, at most the client's queue."""
        found: list[Message] = self._consumer.consume(AT_ONCE, 0)
        return found

    def poll(self, wait_s: float) -> list[Message]:
        """Return what has arrived, or the first to arrive in time; nothing is not an error here."""
        return self.buffered() or self._consumer.consume(1, wait_s)

    @property
    def last_error(self) -> str | None:
        """The client's last error."""
        return self._last_error

    def poll_or_fail(self, purpose: str) -> list[Message]:
        """Return what has arrived, or the first to arrive; raise if nothing does."""
        began = moved = time.monotonic()
        position = self._position()
        while True:
            if found := self.buffered() or self._consumer.consume(1, _WAIT_S):
                return found
            now = time.monotonic()
            if (stands := self._position()) != position:
                # Long runs of markers and aborted records arrive without giving a record.
                position, moved = stands, now
            if now - moved > self._patience_s:
                raise BrokerUnavailable(
                    self._servers,
                    waited_s=round(now - began, 1),
                    reason=f"{purpose}: {self._last_error or 'nothing came'}",
                )

    def refuse_permanent(self, error: KafkaError, purpose: str) -> None:
        """Raise permanent errors; remember others as the reason if nothing arrives."""
        if meaning_of(error) in (Meaning.NOT_AUTHORIZED, Meaning.CORRUPT) or error.fatal():
            raise refused(error, purpose)
        self._last_error = error.str()

    def _on_error(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._last_error = error.str()

    def _on_statistics(self, statistics: str) -> None:
        # Evaluated only if nothing arrives, which is rare.
        self._statistics = statistics

    def _position(self) -> list[int]:
        """Return the next offset to fetch, which also advances over offsets without records."""
        if not self._statistics:
            return []
        topics = json.loads(self._statistics).get("topics", {})
        return [
            partition.get("next_offset", -1)
            for topic in topics.values()
            for partition in topic.get("partitions", {}).values()
        ]

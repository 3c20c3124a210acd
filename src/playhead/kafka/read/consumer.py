"""A consumer without a group: what arrives from its partitions, and the reason if nothing does."""

import contextlib
import ctypes
import os
import time
from collections.abc import Collection, Mapping, Sequence
from itertools import islice, pairwise
from operator import ge
from typing import Any
from uuid import uuid4

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import BrokerUnavailable, PlayheadError
from playhead.kafka.admin import clients
from playhead.kafka.admin.answer_fields import BadAnswer
from playhead.kafka.admin.errors import (
    KafkaRefused,
    Meaning,
    meaning_of,
    refused,
    text_of,
    words_of,
)
from playhead.kafka.read.client_progress import NOT_KNOWN, Progress, progress_in
from playhead.kafka.read.unreadable import MOST_OF_A_RECORD
from playhead.source import TopicPartition

AT_ONCE = 64
"""Records per call of the client: each may have 100,000 headers, some bytes of a packed record batch, and takes 14 MB.
With more than 500, Python's objects outgrow the caches, and it is slower.
"""
_MOST_UNPACKED = 3 << 30
"""Far more than the client keeps of what it has unpacked: `max.partition.fetch.bytes` counts packed bytes."""
_UNPACKED_HINT = (
    "the record batch is damaged, or unpacks to more than {limit} MiB; replay what is before and after it: "
    "--offsets TOPIC:PARTITION:FROM-TO"
)
_DAMAGED_HINT = (
    "a record batch is damaged, on the broker's disk or on its way; Kafka's kafka-dump-log shows it; read the records "
    "before and after it: --offsets TOPIC:PARTITION:FROM-TO"
)
_PAGE = os.sysconf("SC_PAGE_SIZE")
_WAIT_S = 0.1
_LEARNED_WITHIN_S = 1.0
_SERVED_WITHIN_S = 5.0
_BACKOFF = "reconnect.backoff.ms"
_TUNING: dict[str, Any] = {
    # The end of a partition is reported by an empty answer, which the broker delays by this time.
    "fetch.wait.max.ms": 20,
    # How long the client stops fetching when its queue is full; its default is a whole second.
    "fetch.queue.backoff.ms": 2,
    "fetch.error.backoff.ms": 100,
    "max.partition.fetch.bytes": 4 << 20,
    # The sizes of keys and headers do not count in the next line.
    "queued.min.messages": 50_000,
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
    # A record may be larger than any fetch. What zstd packed is unpacked up to this size, too.
    "receive.message.max.bytes": MOST_OF_A_RECORD,
    "log_level": 0,
}


class UnpacksTooMuch(PlayheadError):
    """What arrived of a topic takes more memory than any records should, before the first record is there."""

    def __init__(self, purpose: str) -> None:
        self.purpose = purpose
        super().__init__(
            f"{purpose}: compressed record batches unpack to more than {_MOST_UNPACKED >> 30} GiB at once",
            hint="Kafka's kafka-dump-log shows them; replay what is before and after them: "
            "--offsets TOPIC:PARTITION:FROM-TO",
        )


class NotUnpacked(KafkaRefused):
    """The client cannot unpack a record batch, which may be damaged or unpack to too much."""

    def __init__(self, action: str, *, reason: str) -> None:
        super().__init__(action, reason=reason)
        self.hint = _UNPACKED_HINT.format(limit=MOST_OF_A_RECORD >> 20)


class OffsetsFall(BadAnswer):
    """A record has an offset that is not after that of the record before it."""

    def __init__(self, place: TopicPartition, before: int, after: int) -> None:
        self.place, self.before, self.after = place, before, after
        super().__init__(f"{place[0]}:{place[1]} has offset {after} after offset {before}")
        self.hint = (
            "a producer may have written a record under an offset that is not its own; read the records before and "
            f"after it: --offsets {place[0]}:{place[1]}:FROM-TO"
        )


class NothingGiven(BadAnswer):
    """The client asks for the same record batch again and again, and gives no record."""

    def __init__(self, place: TopicPartition, offset: int) -> None:
        self.place, self.offset = place, offset
        topic, number = place
        super().__init__(
            f"the client takes no record out of {topic}:{number} from offset {offset:,} on"
        )
        self.hint = (
            "the record batch there may be damaged; Kafka's kafka-dump-log shows it; read the records before and after "
            f"it: --offsets {topic}:{number}:FROM-TO"
        )


def need_order(found: Sequence[Message]) -> None:
    """Raise if the offsets do not ascend: the client believes those of record batches, and a record at a wrong
    offset would be taken for another.
    """
    offsets = list(map(Message.offset, found))
    if not any(map(ge, offsets, islice(offsets, 1, None))):
        return
    before, after = next(pair for pair in pairwise(offsets) if ge(*pair))
    raise OffsetsFall((found[0].topic(), found[0].partition()), before, after)


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
        self._known = "", NOT_KNOWN
        """The statistics that were read last, and what they say."""
        self._still: tuple[float, Progress] | None = None
        """Since when nothing has come, and how far the client was then."""
        self._learned: set[str] = set()
        self._is_abandoned = False
        self._memory_before = _resident()
        """The memory in use when something last arrived: the client unpacks also while its caller works."""
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
        if not self._is_abandoned:
            self._consumer.close()

    def assign(self, places: Mapping[TopicPartition, int]) -> None:
        """Continue from these offsets; records under way from other ones are dropped."""
        self._memory_before = _resident()
        self._consumer.assign([ClientPartition(*place, at) for place, at in places.items()])
        self._learn({topic for topic, _ in places})

    def _learn(self, topics: Collection[str]) -> None:
        """Have the client learn the topics now; by itself it looks for new ones once a second."""
        for topic in set(topics) - self._learned:
            # The same error comes again with the records, and is handled there; a name that is not
            # UTF-8 is no concern of the reading.
            with contextlib.suppress(KafkaException, UnicodeDecodeError):
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
        self._refuse_growth("reading")
        found = self.buffered() or self._consumer.consume(1, wait_s)
        if found:
            self._note_arrival()
        elif self._still_for_s() > self._patience_s:
            self._refuse_withheld()
            self._still = None  # Another broker may have been asked meanwhile, or none.
        return found

    @property
    def last_error(self) -> str | None:
        """The client's last error since something arrived."""
        return self._last_error

    def poll_or_fail(self, purpose: str) -> list[Message]:
        """Return what has arrived, or the first to arrive; raise if nothing does."""
        began, self._still = time.monotonic(), None
        while True:
            self._refuse_growth(purpose)
            if found := self.buffered() or self._consumer.consume(1, _WAIT_S):
                self._note_arrival()
                return found
            if self._still_for_s() > self._patience_s:
                self._refuse_withheld()
                raise BrokerUnavailable(
                    self._servers,
                    waited_s=round(time.monotonic() - began, 1),
                    reason=f"{purpose}: {self._last_error or 'nothing came'}",
                )

    def _note_arrival(self) -> None:
        self._memory_before, self._still, self._last_error = _resident(), None, None

    def _still_for_s(self) -> float:
        """Return for how long nothing has come, while the client's positions have not moved either.

        Long runs of markers and aborted records arrive without giving a record.
        """
        now, progress = time.monotonic(), self._progress()
        if self._still is None or progress.has_moved_since(self._still[1]):
            self._still = now, progress
        return now - self._still[0]

    def _refuse_withheld(self) -> None:
        """Raise if the leader of a partition has answered meanwhile, and not with errors.

        The client also reports no error of a leader that refuses, such as one whose disk is gone; it asks again.
        """
        if self._still and self._last_error is None:
            withheld = self._progress().withheld_since(self._still[1])
            if withheld and self._is_served(withheld[0]):
                raise NothingGiven(*withheld)

    def _is_served(self, place: TopicPartition) -> bool:
        """Return whether the leader of a partition answers without an error; the error is kept otherwise."""
        try:
            self._consumer.get_watermark_offsets(ClientPartition(*place), timeout=_SERVED_WITHIN_S)
        except KafkaException as exc:
            self._last_error = words_of(exc.args[0])
            return False
        return True

    def _progress(self) -> Progress:
        if self._known[0] != self._statistics:
            self._known = self._statistics, progress_in(self._statistics)
        return self._known[1]

    def _refuse_growth(self, purpose: str) -> None:
        """Raise if the memory has filled since something last arrived. The client is left to itself: closing it
        waits until it has unpacked everything, and so does its end as an object.
        """
        if _resident() - self._memory_before > _MOST_UNPACKED:
            self._is_abandoned = True
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._consumer))
            raise UnpacksTooMuch(purpose)

    def refuse_permanent(self, error: KafkaError, purpose: str) -> None:
        """Raise permanent errors; remember others as the reason if nothing arrives."""
        if meaning_of(error) in (Meaning.NOT_AUTHORIZED, Meaning.CORRUPT) or error.fatal():
            if error.code() == KafkaError._BAD_COMPRESSION:
                raise NotUnpacked(purpose, reason=text_of(error))
            found = refused(error, purpose)
            if error.code() == KafkaError._BAD_MSG:
                found.hint = _DAMAGED_HINT
            raise found
        self._last_error = words_of(error)

    def _on_error(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._last_error = words_of(error)

    def _on_statistics(self, statistics: str) -> None:
        # Evaluated only if nothing arrives, which is rare.
        self._statistics = statistics


def _resident() -> int:
    """Return the bytes of memory that this process uses; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - asked at each wait
            return int(file.read().split()[1]) * _PAGE
    except OSError:
        return 0

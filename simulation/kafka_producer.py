"""The model cluster's producer: transactions whose requests are lost, late, fenced, or answered in vain."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from confluent_kafka import TIMESTAMP_CREATE_TIME, KafkaError, KafkaException

from simulation.kafka_clients import Handle, Kafka, failure
from simulation.kafka_cluster import COMMIT, Fenced, Place, Stored

_PRODUCED = ("value", "key", "partition", "callback", "on_delivery", "timestamp", "headers")


@dataclass(slots=True)
class _Sent:
    place: Place
    entry: Stored
    hear: Callable[..., None] | None


class Producer(Handle):
    """Sends, in transactions when it has a transactional id."""

    def __init__(self, kafka: Kafka, settings: dict[str, Any]) -> None:
        super().__init__(kafka)
        self._id: str | None = settings.get("transactional.id")
        self._timeout_ns = int(settings.get("transaction.timeout.ms", 60_000)) * 1_000_000
        self._epoch = -1
        self._queue: list[_Sent] = []
        self._heard: list[tuple[Callable[..., None], Any, Any]] = []
        self._is_open = False
        self._error: Any = None

    def __len__(self) -> int:
        return len(self._queue) + len(self._heard)

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        return self.metadata(topic)

    def init_transactions(self, timeout: float = -1) -> None:
        kafka = self.kafka
        self.call()
        if kafka.happens(kafka.weather.lost_request):
            self.scheduler.sleep(timeout if timeout > 0 else 60)
            raise failure(KafkaError._TIMED_OUT, "init_transactions timed out", retriable=True)
        assert self._id is not None
        self._epoch = kafka.cluster.begin_producer(self._id, self.scheduler.now_ns)
        self.scheduler.point()

    def begin_transaction(self) -> None:
        if self.is_dead:
            self.scheduler.point()
        if self._error is not None:
            raise self._error
        if self._is_open:
            raise failure(KafkaError._STATE, "a transaction is open")
        self._is_open = True

    def produce(self, topic: str, *rest: Any, **named: Any) -> None:
        """As the client takes it, by place or by name."""
        given = dict(zip(_PRODUCED, rest, strict=False)) | named
        hear = given.get("callback") or given.get("on_delivery")
        if self._error is not None:
            raise failure(KafkaError._FATAL, "the producer is in error", fatal=True)
        if self._id is not None and not self._is_open:
            raise failure(KafkaError._STATE, "no transaction is open")
        now_ms = (self.scheduler.now_ns + self.scheduler.wall_ahead_ns) // 1_000_000
        timestamp_ms = given.get("timestamp") or now_ms
        headers = tuple(given.get("headers") or ())
        entry = Stored(0, "record", timestamp_ms, given.get("key"), given.get("value"), headers)
        self._queue.append(_Sent((topic, max(given.get("partition", 0), 0)), entry, hear))
        if self.kafka.happens(self.kafka.weather.early_send):
            self.call()
            self._send()

    def poll(self, timeout: float = -1) -> int:
        heard, self._heard = self._heard, []
        for hear, error, record in heard:
            hear(error, record)
        return len(heard)

    def flush(self, timeout: float = -1) -> int:
        self.call()
        kafka = self.kafka
        if self._queue and kafka.happens(kafka.weather.stuck_flush):
            self.scheduler.sleep(max(timeout, 0.1))
            return len(self._queue)
        self._send()
        self.poll()
        return len(self._queue)

    def purge(self, *_: Any) -> None:
        self._queue.clear()
        self._heard.clear()

    def send_offsets_to_transaction(
        self, positions: Iterable[Any], group: Any, timeout: float = -1
    ) -> None:
        self.call()
        self._send()
        if self._error is not None:
            raise self._error
        held = self._transaction().offsets.setdefault(str(group), {})
        held.update({(each.topic, each.partition): each.offset for each in positions})
        self.scheduler.point()

    def commit_transaction(self, timeout: float = -1) -> None:
        self.call()
        kafka, weather = self.kafka, self.kafka.weather
        self._send()
        self.poll()
        if self._error is not None:
            raise self._error
        if kafka.happens(weather.lost_request):
            self.scheduler.tell(f"the commit of {self._id} is lost on its way")
            raise self._timed_out()
        if kafka.happens(weather.late_request):
            self.scheduler.tell(f"the commit of {self._id} is late")
            delay_s = (0.01, 0.2, 2.0, 20.0)[self.scheduler.choices.below(4)]
            self.scheduler.at(delay_s, self._end_late)
            raise self._timed_out()
        self._end(COMMIT)
        self.scheduler.point()
        if kafka.happens(weather.lost_answer):
            self.scheduler.tell(f"the answer to the commit of {self._id} is lost")
            raise self._timed_out()
        self._is_open = False

    def abort_transaction(self, timeout: float = -1) -> None:
        self.call()
        self._queue.clear()
        self._heard.clear()
        if self._error is not None:
            raise self._error
        self._end("abort")
        self._is_open = False

    def _timed_out(self) -> Any:
        self._error = failure(KafkaError._TIMED_OUT, "the transaction timed out", retriable=True)
        return self._error

    def _end_late(self) -> None:
        if self._id is not None:
            # Nobody waits for the answer any more.
            with suppress(Fenced):
                self._marked(self.kafka.cluster.end_transaction(self._id, self._epoch, COMMIT))

    def _end(self, marker: str) -> None:
        assert self._id is not None
        with self._fencing():
            self._marked(self.kafka.cluster.end_transaction(self._id, self._epoch, marker))

    def _marked(self, transaction: Any) -> None:
        """Markers are written a little after the answer, partition by partition."""
        kafka, scheduler = self.kafka, self.scheduler
        if transaction is None:
            return
        for place in sorted(transaction.firsts):
            if kafka.happens(kafka.weather.late_markers):
                scheduler.at(
                    0.001 * (1 + scheduler.choices.below(200)),
                    lambda place=place: kafka.cluster.complete(
                        transaction, scheduler.now_ns, place
                    ),
                )
            else:
                kafka.cluster.complete(transaction, scheduler.now_ns, place)

    def _transaction(self) -> Any:
        assert self._id is not None
        with self._fencing():
            return self.kafka.cluster.transaction_of(
                self._id, self._epoch, self.scheduler.now_ns, self._timeout_ns
            )

    def _fencing(self) -> "_Fencing":
        return _Fencing(self)

    def _send(self) -> None:
        queue, self._queue = self._queue, []
        for sent in queue:
            if self._error is not None:
                self._queue.append(sent)
                continue
            try:
                self._send_one(sent)
            except KafkaException:
                self._queue.append(sent)

    def _send_one(self, sent: _Sent) -> None:
        if self.kafka.cluster.log(sent.place) is None:
            code = KafkaError.UNKNOWN_TOPIC_OR_PART
            self._hear(sent, KafkaError(code, "no such partition"), None)
            self._error = failure(code, "no such partition")
            return
        transaction = self._transaction() if self._id is not None else None
        offset = self.kafka.cluster.write(transaction, sent.place, sent.entry)
        record = SimpleNamespace(
            offset=lambda: offset, error=lambda: None, timestamp=lambda: (TIMESTAMP_CREATE_TIME, 0)
        )
        self._hear(sent, None, record)

    def _hear(self, sent: _Sent, error: Any, record: Any) -> None:
        if sent.hear is not None:
            self._heard.append((sent.hear, error, record))


class _Fencing:
    """Turns the cluster's refusal into the client's fatal error."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is not None and issubclass(kind, Fenced):
            error = failure(KafkaError._FENCED, "a later producer has this id", fatal=True)
            self._producer._error = error
            raise error

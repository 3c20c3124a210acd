"""Writes records to a cluster and waits until each one is acknowledged."""

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import PlayheadError
from playhead.kafka.admin import clients

_FLUSH_WITHIN_S = 60.0
_FULL_QUEUE_WAIT_S = 0.5


class NotDelivered(PlayheadError):
    """Records were not acknowledged by the cluster."""

    def __init__(self, count: int, *, first_reason: str) -> None:
        self.count, self.first_reason = count, first_reason
        super().__init__(
            f"{count} records were not delivered; reason of the first one: {first_reason}",
            hint="check the broker with `playhead doctor`",
        )


class Writer:
    """An idempotent producer that counts acknowledged records; the end of its `with` block flushes it."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._producer = clients.producer(
            connection.for_librdkafka("producer")
            | {"enable.idempotence": True, "linger.ms": 20, "log_level": 0}
        )
        self._failures: list[str] = []

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.flush()

    def write(
        self, topic: str, *, key: bytes | None, value: bytes | None, timestamp_ms: int
    ) -> None:
        """Send one record; waits when librdkafka's queue is full."""
        while True:
            try:
                self._producer.produce(
                    topic, value, key, timestamp=timestamp_ms, on_delivery=self._note
                )
            except BufferError:
                self._producer.poll(_FULL_QUEUE_WAIT_S)
                continue
            self._producer.poll(0)
            return

    def flush(self) -> None:
        """Wait until all records are acknowledged; raises `NotDelivered` otherwise."""
        left = self._producer.flush(_FLUSH_WITHIN_S)
        if left:
            self._failures.extend([f"no answer within {_FLUSH_WITHIN_S:g} s"] * left)
        if self._failures:
            raise NotDelivered(len(self._failures), first_reason=self._failures[0])

    def _note(self, error: object, _: object) -> None:
        if error is not None:
            self._failures.append(str(error))

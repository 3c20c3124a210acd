"""Clients of the model cluster with the interface of confluent_kafka, and the ways in which they go wrong."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException

from simulation.kafka_cluster import Cluster, Place
from simulation.scheduler import Process, Scheduler


@dataclass
class Weather:
    """How often what goes wrong: one in so many times, 0 for never."""

    premature_end: int = 0
    in_pieces: int = 0
    trouble: int = 0
    unavailable: int = 0
    lost_request: int = 0
    lost_answer: int = 0
    late_request: int = 0
    late_markers: int = 0
    early_send: int = 0
    stuck_flush: int = 0


@dataclass
class Kafka:
    """A cluster, and what its clients need beside it."""

    cluster: Cluster
    scheduler: Scheduler
    weather: Weather = field(default_factory=Weather)
    lies: set[tuple[Any, Place, int]] = field(default_factory=set)
    """Where a process was told an end too early; it is told so once, and a second look shows the truth."""

    def happens(self, one_in: int) -> bool:
        return self.scheduler.choices.happens(one_in)

    def consumer(self, settings: dict[str, Any]) -> Any:
        from simulation.kafka_consumer import Consumer

        return Consumer(self, settings)

    def producer(self, settings: dict[str, Any], **_: Any) -> Any:
        from simulation.kafka_producer import Producer

        return Producer(self, settings)

    def admin(self, settings: dict[str, Any]) -> Any:
        from simulation.kafka_admin import Admin

        return Admin(self, settings)


def failure(code: int, text: str = "", *, retriable: bool = False, fatal: bool = False) -> Any:
    """What the client raises."""
    return KafkaException(KafkaError(code, text or "simulated", fatal, retriable, False))


class Handle:
    """A client of one process; once that is dead, nothing that is done with it reaches a server."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka, self.scheduler = kafka, kafka.scheduler
        task = self.scheduler.current
        self.process: Process | None = task.process if task is not None else None

    @property
    def is_dead(self) -> bool:
        return self.process is not None and self.process.is_dead

    def call(self) -> None:
        """One round trip's way there."""
        self.scheduler.point()
        self.kafka.cluster.expire(self.scheduler.now_ns)

    def metadata(self, topic: str | None) -> Any:
        """As `list_topics` gives it."""
        self.call()
        found = self.kafka.cluster.topics
        names = list(found) if topic is None else [topic]
        broker = SimpleNamespace(id=1, host="broker", port=9092)
        topics = {}
        for name in names:
            count = len(found[name].logs) if name in found else 0
            missing = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART) if name not in found else None
            topics[name] = SimpleNamespace(
                topic=name,
                error=missing,
                partitions={n: SimpleNamespace(id=n, leader=1) for n in range(count)},
            )
        return SimpleNamespace(
            cluster_id=self.kafka.cluster.cluster_id, brokers={1: broker}, topics=topics
        )


def read_committed(level: Any) -> bool:
    """Whether a question is about what is committed."""
    return level is None or level == IsolationLevel.READ_COMMITTED

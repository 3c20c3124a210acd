"""An admin client with deadlines, whose errors name the broker."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from playhead.config import exposed_logins
from playhead.config.kafka_connection import KafkaConnection
from playhead.host.clock import wait_until
from playhead.kafka.admin import clients
from playhead.kafka.admin.errors import Meaning, is_unknown_topic, meaning_of, translated, words_of

DEFAULT_TIMEOUT_S = 10.0
LEADER_REQUEST_S = 2.0
"""librdkafka may wait for the leader of a new topic until a request's own limit; the next one finds it at once."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster that answered."""

    cluster_id: str
    brokers: tuple[str, ...]
    topics: dict[str, int]
    """The number of partitions of each topic, without Kafka's internal topics."""


class Admin:
    """One admin client of a cluster, as a context manager, so that its threads end."""

    def __init__(
        self, connection: KafkaConnection, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        self._connection = connection
        self._timeout_s = timeout_s
        self._said: list[str] = []
        self._client = clients.admin(
            connection.for_librdkafka("client")
            | {"error_cb": self._hear, "log_level": 0, "client.id": "playhead"}
        )

    def __enter__(self) -> "Admin":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the client; librdkafka ends its threads with the last reference."""
        del self._client

    def cluster(self) -> Cluster:
        """Return brokers and topics; raise if no broker answers within the deadline."""
        with self.asking("asking for metadata"):
            found = self._client.list_topics(timeout=self._timeout_s)
        brokers = tuple(f"{each.host}:{each.port}" for each in found.brokers.values())
        protocol, given = self._connection.protocol, self._connection.bootstrap_servers
        exposed_logins.of_kafka(protocol, given or "", brokers)
        return Cluster(
            found.cluster_id or "",
            brokers,
            {
                name: len(topic.partitions)
                for name, topic in sorted(found.topics.items())
                if not name.startswith("__")
            },
        )

    def create_topic(
        self,
        name: str,
        *,
        partitions: int,
        settings: dict[str, str] | None = None,
        replication: int | None = None,
    ) -> bool:
        """Create a topic; return False if it existed."""
        # -1: the cluster's default number of replicas.
        copies = {"replication_factor": replication} if replication is not None else {}
        wanted = NewTopic(name, partitions, config=settings or {}, **copies)
        with self.asking(f"creating topic {name}"):
            try:
                made = self._client.create_topics([wanted], request_timeout=self._timeout_s)
                made[name].result(self._timeout_s)
            except KafkaException as exc:
                if exc.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    return False
                raise
            self._await_leaders(name, partitions)
        return True

    def _await_leaders(self, topic: str, partitions: int) -> None:
        """Return when all partitions of a new topic can be used."""
        places = [TopicPartition(topic, number) for number in range(partitions)]
        wanted = dict.fromkeys(places, OffsetSpec.latest())

        last = KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))

        def have_leaders() -> bool:
            nonlocal last
            try:
                asked = self._client.list_offsets(
                    wanted,
                    isolation_level=IsolationLevel.READ_COMMITTED,
                    request_timeout=min(LEADER_REQUEST_S, self._timeout_s),
                )
                return all(answer.result(self._timeout_s) for answer in asked.values())
            except KafkaException as exc:
                error = exc.args[0]
                is_early = meaning_of(error) in (Meaning.AWAY, Meaning.NOT_READY)
                if not is_early and not is_unknown_topic(error):
                    raise
                last = exc
                self._look_again(topic)
                return False

        # The topic exists: a broker on a busy machine may only be late.
        if not wait_until(have_leaders, deadline_s=3 * self._timeout_s, every_s=0.05):
            raise last

    def _look_again(self, topic: str) -> None:
        """Fetch where a topic is: librdkafka was seen to find no leaders for 30 s that other clients found at once."""
        with suppress(KafkaException):
            self._client.list_topics(topic, timeout=min(LEADER_REQUEST_S, self._timeout_s))

    def _hear(self, error: Any) -> None:
        """Remember why librdkafka cannot connect; its calls only report timeouts."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._said.append(words_of(error))

    def _why(self, otherwise: str) -> str:
        self._client.poll(0)
        return self._said[0] if self._said else otherwise

    def answer(self, future: Any, *, none_if: Callable[[KafkaError], bool]) -> Any:
        """Return the result of one part of a request, or None for the errors that `none_if` accepts."""
        try:
            return future.result(self._timeout_s)
        except KafkaException as exc:
            if none_if(exc.args[0]):
                return None
            raise

    @property
    def timeout_s(self) -> float:
        """The time limit of one request."""
        return self._timeout_s

    @contextmanager
    def asking(self, action: str) -> Iterator[AdminClient]:
        """The client for a request; its errors are raised as Playhead's."""
        with translated(action, self._connection.bootstrap_servers, reason=self._why):
            yield self._client

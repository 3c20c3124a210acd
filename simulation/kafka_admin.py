"""The model cluster's admin client: its answers are there at once, or are errors."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from simulation.kafka_clients import Handle, Kafka, failure, read_committed


class _Answer:
    """A future that is done."""

    def __init__(self, value: Any = None, error: Any = None) -> None:
        self._value, self._error = value, error

    def result(self, timeout: float | None = None) -> Any:
        if self._error is not None:
            raise self._error
        return self._value


class _Description(SimpleNamespace):
    """One and the same object is one and the same answer."""

    __hash__ = object.__hash__


@lru_cache(maxsize=1024)
def _description(name: str, topic_id: str, count: int) -> _Description:
    leader = SimpleNamespace(id=1, host="broker", port=9092)
    partitions = [
        SimpleNamespace(id=n, leader=leader, replicas=[leader], isr=[leader]) for n in range(count)
    ]
    return _Description(name=name, topic_id=topic_id, partitions=partitions, is_internal=False)


_DEFAULTS = {"cleanup.policy": "delete", "message.timestamp.type": "CreateTime"}


class Admin(Handle):
    """Questions and orders that the product asks and gives; any other is an AttributeError."""

    def __init__(self, kafka: Kafka, _settings: dict[str, Any]) -> None:
        super().__init__(kafka)

    def poll(self, timeout: float = -1) -> int:
        return 0

    def _ask(self) -> None:
        self.call()
        kafka = self.kafka
        if kafka.happens(kafka.weather.unavailable):
            raise failure(KafkaError._TIMED_OUT, "no answer from the broker", retriable=True)

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        self._ask()
        return self.metadata(topic)

    def create_topics(self, topics: Iterable[Any], **_: Any) -> Mapping[str, _Answer]:
        self._ask()
        found = {}
        for each in topics:
            if each.topic in self.kafka.cluster.topics:
                error = failure(KafkaError.TOPIC_ALREADY_EXISTS, "it is there")
                found[each.topic] = _Answer(error=error)
                continue
            self.kafka.cluster.create(each.topic, max(each.num_partitions, 1), each.config or {})
            found[each.topic] = _Answer()
        self.scheduler.point()
        return found

    def describe_topics(self, topics: Any, **_: Any) -> Mapping[str, _Answer]:
        self._ask()
        return {name: self._described(name) for name in topics.topic_names}

    def _described(self, name: str) -> _Answer:
        topic = self.kafka.cluster.topics.get(name)
        if topic is None:
            return _Answer(error=failure(KafkaError.UNKNOWN_TOPIC_OR_PART, "no such topic"))
        return _Answer(_description(name, topic.topic_id, len(topic.logs)))

    def describe_configs(self, resources: Iterable[Any], **_: Any) -> Mapping[Any, _Answer]:
        self._ask()
        found = {}
        for each in resources:
            topic = self.kafka.cluster.topics.get(each.name)
            if topic is None:
                found[each] = _Answer(error=failure(KafkaError.UNKNOWN_TOPIC_OR_PART))
                continue
            settings = {**_DEFAULTS, **topic.settings}
            found[each] = _Answer(
                {
                    name: SimpleNamespace(
                        name=name, value=value, is_sensitive=False, is_default=False, source=1
                    )
                    for name, value in settings.items()
                }
            )
        return found

    def list_offsets(
        self, wanted: Mapping[Any, Any], isolation_level: Any = None, **_: Any
    ) -> Mapping[Any, _Answer]:
        self._ask()
        is_stable = read_committed(isolation_level)
        return {where: self._offset(where, spec, is_stable) for where, spec in wanted.items()}

    def _offset(self, where: Any, spec: Any, is_stable: bool) -> _Answer:
        place = (where.topic, where.partition)
        log = self.kafka.cluster.log(place)
        if log is None:
            return _Answer(error=failure(KafkaError.UNKNOWN_TOPIC_OR_PART))
        end = log.stable_end(place) if is_stable else log.end
        kind = type(spec).__name__
        if kind == "EarliestSpec":
            offset = log.start
        elif kind == "LatestSpec":
            offset = end
        elif kind == "TimestampSpec":
            offset = log.first_at(spec._value, end)
        else:
            raise NotImplementedError(kind)
        return _Answer(SimpleNamespace(offset=offset, timestamp=-1, leader_epoch=None))

    def list_consumer_groups(self, **_: Any) -> _Answer:
        self._ask()
        return _Answer(SimpleNamespace(valid=[], errors=[]))

    def describe_consumer_groups(self, names: Iterable[str], **_: Any) -> Mapping[str, _Answer]:
        """No group here has members: a live pipeline only moves the offsets of its own."""
        self._ask()
        broker = SimpleNamespace(id=1, host="broker", port=9092)
        return {
            name: _Answer(
                SimpleNamespace(
                    group_id=name,
                    type=ConsumerGroupType.CLASSIC,
                    state=ConsumerGroupState.EMPTY,
                    partition_assignor="",
                    coordinator=broker,
                    members=[],
                )
            )
            if name in self.kafka.cluster.groups
            else _Answer(error=failure(KafkaError.GROUP_ID_NOT_FOUND))
            for name in names
        }

    def list_consumer_group_offsets(self, groups: Iterable[Any], **_: Any) -> Mapping[str, _Answer]:
        self._ask()
        found = {}
        for each in groups:
            held = self.kafka.cluster.groups.get(each.group_id, {})
            places = [TopicPartition(*place, offset) for place, offset in sorted(held.items())]
            found[each.group_id] = _Answer(SimpleNamespace(topic_partitions=places))
        return found

    def __getattr__(self, name: str) -> Any:
        raise KafkaException(KafkaError(KafkaError._NOT_IMPLEMENTED, f"not modelled: {name}"))

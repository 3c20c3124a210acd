"""The model cluster's consumer: what it is given comes in pieces, late, and now and then with an end that is none."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, Message, TopicPartition

from simulation.kafka_clients import Handle, Kafka
from simulation.kafka_cluster import Log, Place, Stored

_MOST_AT_ONCE = 50


@dataclass(slots=True)
class _Stand:
    """Where a consumer is in one partition."""

    position: int
    told_end: int = -1
    is_reset: bool = False


class Consumer(Handle):
    """Reads what is assigned to it."""

    def __init__(self, kafka: Kafka, settings: dict[str, Any]) -> None:
        super().__init__(kafka)
        self._group = str(settings.get("group.id", ""))
        self._committed_only = settings.get("isolation.level") != "read_uncommitted"
        self._tells_ends = bool(settings.get("enable.partition.eof"))
        self._reset = settings.get("auto.offset.reset", "latest")
        self._stands: dict[Place, _Stand] = {}

    def assign(self, partitions: Iterable[Any]) -> None:
        self.scheduler.point()
        self._stands = {(each.topic, each.partition): _Stand(each.offset) for each in partitions}

    def incremental_unassign(self, partitions: Iterable[Any]) -> None:
        for each in partitions:
            self._stands.pop((each.topic, each.partition), None)

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        return self.metadata(topic)

    def consumer_group_metadata(self) -> Any:
        return self._group

    def commit(self, offsets: Iterable[Any], asynchronous: bool = True) -> list[Any]:
        self.call()
        held = self.kafka.cluster.groups.setdefault(self._group, {})
        moved = {(each.topic, each.partition): each.offset for each in offsets}
        held.update(moved)
        return [TopicPartition(*place, offset) for place, offset in moved.items()]

    def poll(self, timeout: float = -1) -> Any:
        return next(iter(self.consume(1, timeout)), None)

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Any]:
        self.call()
        found = self._arrived(num_messages)
        if not found and timeout > 0:
            self.scheduler.wait(self._has_more, timeout)
            self.kafka.cluster.expire(self.scheduler.now_ns)
            found = self._arrived(num_messages)
        return found

    def close(self) -> None:
        self._stands = {}

    def _has_more(self) -> bool:
        return any(self._is_news(place, stand) for place, stand in self._stands.items())

    def _is_news(self, place: Place, stand: _Stand) -> bool:
        log = self.kafka.cluster.log(place)
        if log is None or stand.position < log.start:
            return not stand.is_reset
        end = self._end(log, place)
        is_told = self._tells_ends and stand.told_end != stand.position == end
        return stand.position < end or is_told

    def _end(self, log: Log, place: Place) -> int:
        return log.stable_end(place) if self._committed_only else log.end

    def _arrived(self, most: int) -> list[Any]:
        kafka, found = self.kafka, list[Any]()
        if self._stands and kafka.happens(kafka.weather.trouble):
            found.append(Message(error=KafkaError(KafkaError._TRANSPORT, "connection lost")))
        places = list(self._stands)
        if len(places) > 1:
            first = self.scheduler.choices.below(len(places))
            places = places[first:] + places[:first]
        for place in places:
            if len(found) < most:
                self._take(place, self._stands[place], most - len(found), found)
        return found[:most]

    def _take(self, place: Place, stand: _Stand, most: int, found: list[Any]) -> None:
        kafka = self.kafka
        log = kafka.cluster.log(place)
        if log is None:
            self._complain(place, stand, KafkaError.UNKNOWN_TOPIC_OR_PART, found)
            return
        if stand.position < 0:
            stand.position = log.start if self._reset == "earliest" else log.end
        if not log.start <= stand.position <= log.end:
            if self._reset == "error":
                self._complain(place, stand, KafkaError._AUTO_OFFSET_RESET, found)
                return
            stand.position = log.start if self._reset == "earliest" else log.end
        end = self._end(log, place)
        if stand.position < end and self._lies(place, stand, end, found):
            return
        room = min(most, _MOST_AT_ONCE)
        if stand.position < end and kafka.happens(kafka.weather.in_pieces):
            room = min(room, self.scheduler.choices.below(4))
            if room == 0:
                return
        self._give(place, stand, log, (end, room), found)
        # Who stands behind the last stable offset is told nothing.
        is_news = stand.position == end != stand.told_end
        if self._tells_ends and is_news and len(found) < most:
            stand.told_end = stand.position
            found.append(_end_message(place, stand.position))

    def _give(
        self, place: Place, stand: _Stand, log: Log, until: tuple[int, int], found: list[Any]
    ) -> None:
        end, room = until
        for entry in log.between(stand.position, end):
            if room == 0:
                return
            stand.position = entry.offset + 1
            if self._shows(entry):
                found.append(_message(place, entry))
                room -= 1
        if room:
            stand.position = max(stand.position, end)

    def _shows(self, entry: Stored) -> bool:
        if self._committed_only:
            return entry.is_visible
        return entry.kind == "record"

    def _lies(self, place: Place, stand: _Stand, end: int, found: list[Any]) -> bool:
        """Tell an end that is none, as clients have been seen to do, and go on behind what it hides."""
        kafka, at = self.kafka, stand.position
        if not self._tells_ends or (self.process, place, at) in kafka.lies or end - at < 2:
            return False
        if not kafka.happens(kafka.weather.premature_end):
            return False
        kafka.lies.add((self.process, place, at))
        stand.position = stand.told_end = at + 2 + self.scheduler.choices.below(end - at - 1)
        self.scheduler.tell(f"a client is told that {place} ends at {stand.position}, read to {at}")
        found.append(_end_message(place, stand.position))
        return True

    def _complain(self, place: Place, stand: _Stand, code: int, found: list[Any]) -> None:
        if not stand.is_reset:
            stand.is_reset = True
            error = KafkaError(code, "simulated")
            found.append(
                Message(topic=place[0], partition=place[1], offset=stand.position, error=error)
            )


def _end_message(place: Place, position: int) -> Any:
    error = KafkaError(KafkaError._PARTITION_EOF, "end")
    return Message(topic=place[0], partition=place[1], offset=position, error=error)


def _message(place: Place, entry: Stored) -> Any:
    return Message(
        topic=place[0],
        partition=place[1],
        offset=entry.offset,
        key=entry.key,
        value=entry.value,
        headers=list(entry.headers) or None,
        timestamp=(entry.timestamp_type, entry.timestamp_ms),
    )

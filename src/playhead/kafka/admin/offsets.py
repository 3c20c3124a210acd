"""Asks a cluster for topics and offsets: the partitions, their bounds, and the offsets of times."""

import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import ListOffsetsResultInfo, OffsetSpec, TopicDescription

from playhead.endpoint import check_topic
from playhead.errors import PlayheadError, Unavailable
from playhead.kafka.admin.client import LEADER_REQUEST_S, Admin
from playhead.kafka.admin.errors import Meaning, is_unknown_topic, meaning_of
from playhead.source import Bounds, TopicPartition

_INTERNAL = "__"
_FIRST_INSTANT_MS = 0
NO_ENTRY = -1
"""The answer to a time after the last entry; the client's own values, for lost answers, are smaller."""
# A topic that is deleted and created again between two requests is asked once more.
_LOOKS = 3
_RETRY_S = 0.1


class NoSuchTopic(PlayheadError):
    """There is no topic of this name; the hint names similar ones."""

    def __init__(self, wanted: str, *, existing: Collection[str]) -> None:
        self.wanted = wanted
        self.nearest = tuple(get_close_matches(wanted, existing, n=3, cutoff=0.6))
        hint = f"did you mean {' or '.join(self.nearest)}?" if self.nearest else _listing(existing)
        super().__init__(f"there is no topic {wanted!r} on this cluster", hint=hint)


class NoTopicMatches(PlayheadError):
    """A pattern matches no topic."""

    def __init__(self, pattern: str, *, existing: Collection[str]) -> None:
        self.pattern = pattern
        super().__init__(
            f"no topic on this cluster matches the pattern /{pattern}/", hint=_listing(existing)
        )


@dataclass(frozen=True, slots=True)
class Described:
    """A topic as the cluster describes it."""

    topic_id: str
    partitions: tuple[int, ...]
    leaders: Mapping[int, tuple[int, str]] = field(default_factory=dict)
    """The broker that leads each partition, with its `host:port`; partitions without a leader are missing."""


def is_like(pattern: str, topic: str) -> bool:
    """Return whether a pattern stands for a topic; none stands for Kafka's internal ones."""
    return not topic.startswith(_INTERNAL) and re.search(pattern, topic) is not None


def topics_like(admin: Admin, pattern: str) -> tuple[str, ...]:
    """Return the topics whose name contains the pattern, without Kafka's internal ones."""
    existing = _existing(admin)
    found = tuple(name for name in existing if is_like(pattern, name))
    if not found:
        raise NoTopicMatches(pattern, existing=existing)
    return found


class LogChanged(Unavailable):
    """A partition's log became shorter between requests, again and again."""

    def __init__(self, place: TopicPartition, *, start: int, stable: int, end: int) -> None:
        self.place = place
        super().__init__(
            f"found contradictory bounds of {place[0]}:{place[1]}: start {start:,}, stable "
            f"end {stable:,}, then end {end:,}",
            hint="the topic was deleted and created again, or lost records, during the requests; try again",
        )


def describe(admin: Admin, topics: Sequence[str]) -> dict[str, Described]:
    """Return ids and partitions of topics; a missing topic is an error."""
    found = describe_those(admin, topics)
    for topic in topics:
        if topic not in found:
            raise NoSuchTopic(topic, existing=_existing(admin))
    return found


def describe_those(admin: Admin, topics: Sequence[str]) -> dict[str, Described]:
    """Return ids and partitions of the topics that exist."""
    for topic in topics:
        check_topic(topic)
    found: dict[str, Described] = {}
    with admin.asking(f"asking for the partitions of {', '.join(topics)}") as client:
        asked = client.describe_topics(
            TopicCollection(list(topics)), request_timeout=admin.timeout_s
        )
        for topic, answer in asked.items():
            said = admin.answer(answer, none_if=is_unknown_topic)
            if said is not None:
                found[topic] = _description(said)
    return found


def _description(said: TopicDescription) -> Described:
    leaders = {
        partition.id: (leader.id, f"{leader.host}:{leader.port}")
        for partition in said.partitions
        if (leader := partition.leader) is not None and leader.id >= 0
    }
    return Described(
        str(said.topic_id), tuple(sorted(each.id for each in said.partitions)), leaders
    )


def places_of(described: Mapping[str, Described]) -> list[TopicPartition]:
    """Return every partition of the topics."""
    return [
        (topic, number) for topic in sorted(described) for number in described[topic].partitions
    ]


def bounds_of(admin: Admin, places: Sequence[TopicPartition]) -> dict[TopicPartition, Bounds]:
    """Return the partitions' bounds, asked in the order that keeps them ascending while the log changes."""
    for _ in range(_LOOKS):
        # The log start only grows, so it may pass an earlier stable end, but never a later one.
        earliest = log_starts(admin, places)
        stable, high = stable_ends(admin, places), log_ends(admin, places)
        # Without an open transaction the stable end of now has reached the end of before.
        behind = [place for place in places if stable[place] < high[place]]
        again = stable_ends(admin, behind) if behind else {}
        stable |= {place: high[place] for place, end in again.items() if end >= high[place]}
        odd = [place for place in places if not earliest[place] <= stable[place] <= high[place]]
        if not odd:
            return {place: Bounds(earliest[place], stable[place], high[place]) for place in places}
    place = odd[0]
    raise LogChanged(place, start=earliest[place], stable=stable[place], end=high[place])


def stable_ends(admin: Admin, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the last stable offset of each partition."""
    return _offsets(ask(admin, places, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED))


def log_ends(admin: Admin, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the end of each partition, open transactions included."""
    return _offsets(ask(admin, places, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED))


def log_starts(admin: Admin, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the log start of each partition."""
    return _offsets(ask(admin, places, OffsetSpec.earliest(), IsolationLevel.READ_COMMITTED))


def entries_at(
    admin: Admin, places: Sequence[TopicPartition], instant_ms: int
) -> dict[TopicPartition, int]:
    """Return the first entry that is not before the time, by Kafka's time index, where there is
    one.

    An entry is a record, aborted or not, or a transaction marker. Kafka accepts no times before 1970; for
    those, the answer is the log start.
    """
    if instant_ms < _FIRST_INSTANT_MS:
        return log_starts(admin, places)
    at = OffsetSpec.for_timestamp(instant_ms)
    found = ask(admin, places, at, IsolationLevel.READ_COMMITTED, least=NO_ENTRY)
    return {place: offset for place, offset in _offsets(found).items() if offset >= 0}


def _offsets(
    found: Mapping[TopicPartition, ListOffsetsResultInfo],
) -> dict[TopicPartition, int]:
    return {place: answer.offset for place, answer in found.items()}


def ask(
    admin: Admin,
    places: Sequence[TopicPartition],
    which: OffsetSpec,
    isolation: IsolationLevel,
    *,
    least: int = 0,
) -> dict[TopicPartition, ListOffsetsResultInfo]:
    """Return the brokers' answers; one that is lost, or comes too early, is asked for again, with twice the limit."""
    if not places:
        return {}
    wanted = {ClientPartition(*place): which for place in places}
    topics = ", ".join(sorted({topic for topic, _ in places}))
    deadline, limit_s = time.monotonic() + admin.timeout_s, LEADER_REQUEST_S
    with admin.asking(f"asking for the offsets of {topics}") as client:
        while True:
            limit_s = min(limit_s, admin.timeout_s)
            asked = client.list_offsets(wanted, isolation_level=isolation, request_timeout=limit_s)
            try:
                found = {
                    (place.topic, place.partition): answer.result(admin.timeout_s)
                    for place, answer in asked.items()
                }
                if all(answer.offset >= least for answer in found.values()):
                    return found
                # The client gives an offset of its own, and no error, if the answer of one leader was lost.
                if time.monotonic() > deadline:
                    raise KafkaException(KafkaError(KafkaError._TRANSPORT))
            except KafkaException as exc:
                # A partition that is new, or whose leader changes, has no leader for a moment.
                is_early = meaning_of(exc.args[0]) is Meaning.NOT_READY
                is_short = exc.args[0].code() == KafkaError._TIMED_OUT and limit_s < admin.timeout_s
                if not (is_early or is_short) or time.monotonic() > deadline:
                    raise
            time.sleep(_RETRY_S)
            limit_s *= 2


def _existing(admin: Admin) -> list[str]:
    return [name for name in admin.cluster().topics if not name.startswith(_INTERNAL)]


def _listing(existing: Collection[str]) -> str | None:
    if not existing:
        return "the cluster has no topics"
    return f"the cluster's topics: {', '.join(sorted(existing))}" if len(existing) <= 12 else None

"""What requests about partitions have in common that only their leaders answer."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from playhead.kafka.admin.answer_fields import BadAnswer
from playhead.kafka.admin.offsets import Described
from playhead.source import TopicPartition

_NO_TAGS = b"\0"
_Told = TypeVar("_Told")


def by_leader(
    described: Mapping[str, Described], places: Sequence[TopicPartition]
) -> dict[str, list[TopicPartition]]:
    """Return the partitions by the address of their leader; those without a leader are missing."""
    led: dict[str, list[TopicPartition]] = {}
    for topic, number in places:
        leader = described[topic].leaders.get(number) if topic in described else None
        if leader is not None:
            led.setdefault(leader[1], []).append((topic, number))
    return led


def of_those(
    places: Collection[TopicPartition], answers: Iterable[tuple[TopicPartition, _Told]]
) -> list[tuple[TopicPartition, _Told]]:
    """Return the answers about partitions; one about a partition that was not asked for is an error."""
    found = [*answers]
    for (topic, number), _ in found:
        if (topic, number) not in places:
            raise BadAnswer(f"it is about {topic[:100]}:{number}, which was not asked for")
    return found


def topics_body(partitions: Mapping[TopicPartition, bytes], first: bytes = b"") -> bytes:
    """Return the body of a flexible request: what comes first, then each partition's part, by topic."""
    by_topic: dict[str, list[bytes]] = {}
    for (topic, _), part in partitions.items():
        by_topic.setdefault(topic, []).append(part)
    body = _NO_TAGS + first + _count(len(by_topic))
    for topic, parts in by_topic.items():
        name = topic.encode()
        body += _count(len(name)) + name + _count(len(parts)) + b"".join(parts) + _NO_TAGS
    return body + _NO_TAGS


def _count(items: int) -> bytes:
    """As flexible requests have it: one more, seven bits to a byte."""
    left, encoded = items + 1, b""
    while left > 0x7F:
        encoded += bytes([left & 0x7F | 0x80])
        left >>= 7
    return encoded + bytes([left])

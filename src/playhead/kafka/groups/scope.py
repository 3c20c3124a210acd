"""Which partitions of which topics are in scope: `orders`, or `orders:0,2`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from playhead.errors import UsageError
from playhead.grammar.cursor import Cursor
from playhead.source import TopicPartition

_FORM = "write TOPIC, or TOPIC:PARTITION,PARTITION as in orders:0,2"
_TOPIC = re.compile(r"[A-Za-z0-9._-]+")
_MOST_PARTITION = 2**31 - 1


class NoSuchPartition(UsageError):
    """A topic has no partition of this number."""

    def __init__(self, topic: str, partition: int, *, known: Sequence[int], where: str) -> None:
        self.topic, self.partition, self.known = topic, partition, tuple(known)
        has = f"partitions 0 to {max(known)}" if known else "no partitions"
        super().__init__(f"{where}: there is no partition {topic}:{partition}; {topic} has {has}")


@dataclass(frozen=True, slots=True)
class Scope:
    """Topics with the partitions in scope; None is all of them.

    With `all_topics`, it is every topic for which the group has committed an offset.
    """

    topics: Mapping[str, frozenset[int] | None] = field(default_factory=dict)
    all_topics: bool = False

    @classmethod
    def of(cls, written: Sequence[str], *, all_topics: bool = False) -> "Scope":
        """Parse repeated `--topic` options and `--all-topics`."""
        if written and all_topics:
            raise UsageError("--topic and --all-topics contradict each other")
        topics: dict[str, frozenset[int] | None] = {}
        for text in written:
            topic, partitions = _read(Cursor.of(text, "--topic"))
            before = topics.get(topic, frozenset())
            both = None if before is None or partitions is None else before | partitions
            topics[topic] = both
        return cls(topics, all_topics)

    @property
    def is_empty(self) -> bool:
        return not self.topics and not self.all_topics

    def places(self, known: Mapping[str, Sequence[int]]) -> list[TopicPartition]:
        """Return the partitions of the named topics, which are all in `known`."""
        found: list[TopicPartition] = []
        for topic, partitions in self.topics.items():
            for missing in sorted((partitions or frozenset()) - set(known[topic])):
                raise NoSuchPartition(topic, missing, known=known[topic], where="--topic")
            wanted = known[topic] if partitions is None else partitions
            found += [(topic, number) for number in wanted]
        return sorted(found)

    def holds(self, place: TopicPartition) -> bool:
        """Return whether an existing partition is in scope."""
        if self.all_topics:
            return True
        if place[0] not in self.topics:
            return False
        partitions = self.topics[place[0]]
        return partitions is None or place[1] in partitions


def _read(phrase: Cursor) -> tuple[str, frozenset[int] | None]:
    topic, colon, numbers = phrase.text.partition(":")
    if not _TOPIC.fullmatch(topic):
        raise phrase.refuse(f"{topic!r} is not a topic name", hint=_FORM)
    if not colon:
        return topic, None
    found, at = set(), len(topic) + 1
    for text in numbers.split(","):
        number = text.strip()
        if not (
            number.isascii()
            and number.isdigit()
            and len(number) < 11
            and int(number) <= _MOST_PARTITION
        ):
            shown = f"{number!r:.60}" if number else "nothing"
            raise phrase.refuse(f"found {shown}, needed a partition number", at=at, hint=_FORM)
        found.add(int(number))
        at += len(text) + 1
    return topic, frozenset(found)

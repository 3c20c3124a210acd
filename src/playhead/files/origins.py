"""Of which topic an archive's records are: a topic created again, or of another cluster, has another id."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from playhead.files.archive import Archive
from playhead.files.errors import AnotherTopic, SeveralTopics
from playhead.files.terms import kept_terms
from playhead.note import Note
from playhead.terms import Terms

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Origin:
    """From where a replay took the records of a topic, by its terms."""

    replay_id: str
    source: str
    topic_id: str
    """Empty where the source has no ids."""

    def __str__(self) -> str:
        id_ = f"id {self.topic_id}" if self.topic_id else "no id"
        return f"replay {self.replay_id} from {self.source} ({id_})"


@dataclass(frozen=True, slots=True)
class Origins:
    """The origins of each topic of an archive to which several replays wrote, by topic.

    A replay without terms has none: an earlier version or another tool wrote it.
    """

    where: str
    by_topic: Mapping[str, tuple[Origin, ...]]

    @classmethod
    def of(cls, archive: Archive, replays: Mapping[str, Collection[str]]) -> "Origins":
        """Read the terms of these replays; the archive's topics with the ids of their replays."""
        wanted = {each for ids in replays.values() for each in ids}
        terms = {each: kept_terms(archive, each) for each in sorted(wanted)}
        found = {topic: tuple(_origins(topic, ids, terms)) for topic, ids in replays.items()}
        return cls(archive.store.identity, found)

    def refuse_several(self) -> None:
        """Refuse an archive in which one name stands for several topics: their offsets overlap."""
        for topic, origins in sorted(self.by_topic.items()):
            firsts = {each.topic_id: each for each in reversed(origins) if each.topic_id}
            if len(firsts) > 1:
                shown = [str(firsts[each]) for each in sorted(firsts)][:_SHOWN]
                raise SeveralTopics(self.where, topic=topic, origins=shown)

    def refuse_another(self, topics: Mapping[str, str]) -> None:
        """Refuse records of topics with these ids where others of their names are archived."""
        for topic, origins in sorted(self.by_topic.items()):
            wanted = topics.get(topic, "")
            other = next((each for each in origins if each.topic_id not in ("", wanted)), None)
            if wanted and other is not None:
                raise AnotherTopic(self.where, topic=topic, found=str(other), needed=wanted)

    def notes(self) -> Iterator[Note]:
        """Yield where sources without topic ids leave open whether records are of one topic."""
        for topic, origins in sorted(self.by_topic.items()):
            sources = sorted({each.source for each in origins})
            if len(sources) > 1 and not all(each.topic_id for each in origins):
                text = f"{topic} was archived from {', '.join(sources[:_SHOWN])}; not all of them have "
                yield Note(
                    "archive.origins", f"{text}topic ids: whether it is one topic is unknown"
                )


def _origins(
    topic: str, replay_ids: Iterable[str], terms: Mapping[str, Terms | None]
) -> Iterator[Origin]:
    for each in sorted(replay_ids):
        its = terms[each]
        if its is not None and topic in its.topics:
            yield Origin(each, its.source, its.topics[topic])


def replays_by_topic(pairs: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """Return the replays of each topic, of pairs of both."""
    found: dict[str, set[str]] = {}
    for topic, replay_id in pairs:
        found.setdefault(topic, set()).add(replay_id)
    return found

"""Builds the index of a capture: its partitions by topic name, their bounds, and notes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from playhead.host.collector import seldom_collecting
from playhead.note import Note
from playhead.source import UNREAD, Bounds, TopicPartition
from playhead.traffic.catalog import Catalog
from playhead.traffic.contradictions import Contents
from playhead.traffic.partition_offsets import CapturedPartition
from playhead.traffic.record_sets import ID_MARK
from playhead.traffic.unchanged import Unchanged

_SHOWN: Final = 4
_NOTHING: Final = Bounds(0, 0, 0)
_TOLD: Final = {
    "filtered": "left out by the filter",
    "other": "pairs of other protocols",
    "markers": "markers of transactions",
    "aborted": "records of aborted transactions",
    "refused": "sets of records that the broker refused when they were produced",
    "bodiless": "requests without a body",
    "responses": "responses",
}


class _Lanes(Mapping[TopicPartition, CapturedPartition | None]):
    """Builds each partition on first use, because a task reads one partition only."""

    def __init__(
        self,
        catalog: Catalog,
        sources: Mapping[TopicPartition, Sequence[TopicPartition]],
        contents: Contents,
    ) -> None:
        self._catalog, self._sources, self._contents = catalog, sources, contents
        self._made: dict[TopicPartition, CapturedPartition | None] = {}

    def __getitem__(self, place: TopicPartition) -> CapturedPartition | None:
        held = self._sources[place]
        if place not in self._made:
            with seldom_collecting():
                self._made[place] = self._lane(held)
        return self._made[place]

    def _lane(self, held: Sequence[TopicPartition]) -> CapturedPartition | None:
        if len(held) == 1:
            apart = CapturedPartition.apart(self._catalog.rows[held[0]])
            if apart is not None:
                return apart
        rows = [row for each in held for row in self._catalog.rows_of(each)]
        if len(held) > 1:
            rows.sort(key=lambda row: (row.file, row.start, row.nth))
        return CapturedPartition.of(rows, self._contents) if rows else None

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)


@dataclass(slots=True)
class TrafficIndex:
    """Every partition of every captured topic, including lower-numbered ones without captured records."""

    catalog: Catalog
    lanes: Mapping[TopicPartition, CapturedPartition | None]
    unchanged: Unchanged
    unnamed: tuple[str, ...]
    """Ids of topics whose names were not captured; the id is used as the name."""

    @classmethod
    def of(cls, catalog: Catalog, contents: Contents, unchanged: Unchanged) -> "TrafficIndex":
        sources: dict[TopicPartition, list[TopicPartition]] = {}
        unnamed: set[str] = set()
        for topic, partition in catalog.rows:
            name = topic
            if topic.startswith(ID_MARK):
                id_ = topic.removeprefix(ID_MARK)
                name = catalog.names.get(id_, id_)
                if name == id_:
                    unnamed.add(id_)
            sources.setdefault((name, partition), []).append((topic, partition))
        counts: dict[str, int] = {}
        for topic, partition in sources:
            counts[topic] = max(counts.get(topic, 0), partition)
        for topic, last in counts.items():
            for other in range(last):
                sources.setdefault((topic, other), [])
        lanes = _Lanes(catalog, dict(sorted(sources.items())), contents)
        return cls(catalog, lanes, unchanged, tuple(sorted(unnamed)))

    def bounds(self) -> dict[TopicPartition, Bounds]:
        return {place: lane.bounds if lane else _NOTHING for place, lane in self.lanes.items()}

    def notes(self) -> Iterator[Note]:
        """Yield notes on what was found, left out and not readable."""
        yield Note("captured", self._summary(), "info")
        yield from self._on_unread()
        yield from self._on_offsets()
        if self.unnamed:
            listed = ", ".join(self.unnamed[:_SHOWN])
            text = f"topics whose names were not captured have their ids as names: {listed}"
            yield Note("topic-id", text)
        counts = self.catalog.counts
        if counts.get("replaced"):
            text = (
                f"{counts['replaced']:,} pairs contain the character U+FFFD in their records: values that were "
                "not valid text may have lost bytes when they were captured"
            )
            yield Note("replaced-bytes", text)

    def _summary(self) -> str:
        counts = self.catalog.counts
        partitions = sum(lane is not None for lane in self.lanes.values())
        records = counts.get("records", 0)
        found = f"{_many(records, 'record')} of {_many(partitions, 'partition')}"
        if "pairs" in counts:
            found += f" in {_many(counts['pairs'], 'pair')}"
        left = [f"{counts[name]:,} {text}" for name, text in _TOLD.items() if counts.get(name)]
        return f"{found}; left out: {', '.join(left)}" if left else found

    def _on_unread(self) -> Iterator[Note]:
        troubles = self.catalog.troubles.values()
        for each in troubles:
            yield Note(UNREAD, f"not readable and not replayed: {each}")

    def _on_offsets(self) -> Iterator[Note]:
        twice = sum(lane.twice for lane in self.lanes.values() if lane)
        if twice:
            text = f"{twice:,} offsets were captured more than once; each is replayed once"
            yield Note("captured-twice", text, "info")
        numbered = [(place, lane) for place, lane in self.lanes.items() if lane and lane.reason]
        for (topic, partition), lane in numbered[:_SHOWN]:
            text = (
                f"{topic}:{partition}: {lane.reason}, so offsets are numbers in the order of capture, "
                "and a record that was captured twice may be replayed twice"
            )
            yield Note("numbered", text)
        if len(numbered) > _SHOWN:
            yield Note("numbered", f"the same applies to {len(numbered) - _SHOWN} more partitions")


def _many(count: int, name: str) -> str:
    return f"{count:,} {name}" if count == 1 else f"{count:,} {name}s"

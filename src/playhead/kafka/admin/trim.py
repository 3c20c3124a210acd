"""Deletes the oldest records of a topic, exactly those that were shown before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import TopicPartition as ClientPartition

from playhead.config.guards import Guard
from playhead.errors import BadValue, PlayheadError
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.errors import Need, needing
from playhead.kafka.admin.offsets import log_starts
from playhead.source import Bounds, TopicPartition
from playhead.span import OffsetSpan


class NotTrimmed(PlayheadError):
    """The log does not start at the expected offset after the trim."""

    def __init__(self, place: TopicPartition, *, expected: int, found: int) -> None:
        self.place, self.expected, self.found = place, expected, found
        super().__init__(
            f"{place[0]}:{place[1]} starts at offset {found} after the trim, expected {expected}",
            hint="check with playhead topics describe --offsets",
        )


@dataclass(frozen=True, slots=True)
class Trim:
    """The offsets of one partition to delete: those before `to_offset`."""

    topic: str
    partition: int
    earliest: int
    to_offset: int
    end: int

    @property
    def deleted(self) -> int:
        """How many offsets are deleted; some of them may hold no record."""
        return self.to_offset - self.earliest

    def row(self) -> dict[str, object]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "earliest": self.earliest,
            "new_earliest": self.to_offset,
            "end": self.end,
            "deleted": self.deleted,
            "kept": self.end - self.to_offset,
        }


def by_offsets(spans: Sequence[OffsetSpan], held: Mapping[TopicPartition, Bounds]) -> list[Trim]:
    """Trim each partition to the end of its span, which must begin at the log's start."""
    topics = {topic for topic, _ in held}
    found: dict[TopicPartition, Trim] = {}
    for span in spans:
        topic = span.topic or next(iter(topics))
        place = (topic, span.partition)
        needed = _wrong(span, place, held, found)
        if needed is not None:
            raise BadValue("--offsets", found=str(span), needed=needed, where="the trim")
        bounds = held[place]
        to_offset = bounds.high_watermark if span.to_offset is None else span.to_offset
        found[place] = _trim(place, bounds, to_offset)
    return [found[place] for place in sorted(found)]


def _wrong(
    span: OffsetSpan,
    place: TopicPartition,
    held: Mapping[TopicPartition, Bounds],
    found: Mapping[TopicPartition, Trim],
) -> str | None:
    if place not in held:
        there = ", ".join(str(number) for topic, number in sorted(held) if topic == place[0])
        return f"a partition of the topic: {there}" if there else "the topic to trim"
    if place in found:
        return "each partition once"
    bounds = held[place]
    if span.from_offset not in (None, bounds.earliest):
        return (
            f"a span from the log's start, {span.partition}:-{span.to_offset}: only the "
            "oldest records can be deleted"
        )
    if span.to_offset is not None and span.to_offset > bounds.high_watermark:
        return f"an offset up to the end, which is {bounds.high_watermark}"
    return None


def before(
    firsts: Mapping[TopicPartition, int], held: Mapping[TopicPartition, Bounds]
) -> list[Trim]:
    """Trim every partition to these offsets."""
    return [_trim(place, held[place], firsts[place]) for place in sorted(held)]


def _trim(place: TopicPartition, bounds: Bounds, to_offset: int) -> Trim:
    kept_from = min(max(to_offset, bounds.earliest), bounds.high_watermark)
    return Trim(*place, bounds.earliest, kept_from, bounds.high_watermark)


def carry_out(admin: Admin, trims: Sequence[Trim], guard: Guard) -> None:
    """Delete the records, read the log starts back, and compare."""
    due = [each for each in trims if each.deleted]
    if not due:
        return
    topics = sorted({each.topic for each in due})
    names, deleted = ", ".join(topics), sum(each.deleted for each in due)
    guard.need(f"deleting {deleted:,} offsets of topic {names}", names, is_final=True)
    needs = [Need("Delete", "topic", topic) for topic in topics]
    with needing(*needs), admin.asking(f"deleting records of {names}") as client:
        asked = client.delete_records(
            [ClientPartition(each.topic, each.partition, each.to_offset) for each in due],
            request_timeout=admin.timeout_s,
        )
        for answer in asked.values():
            answer.result(admin.timeout_s)
    starts = log_starts(admin, [(each.topic, each.partition) for each in due])
    for each in due:
        place = (each.topic, each.partition)
        # Retention may have deleted more meanwhile.
        if starts[place] < each.to_offset:
            raise NotTrimmed(place, expected=each.to_offset, found=starts[place])

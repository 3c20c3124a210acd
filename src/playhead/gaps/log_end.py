"""Finds offsets that replays have read behind the end that the log has now: it lost records, or its end is wrong."""

from collections.abc import Mapping, Sequence
from typing import Final

from playhead.host.clock import wait_until
from playhead.ledger import Entry
from playhead.note import Note
from playhead.source import Bounds, Source, SourceFacts, TopicPartition

SHORTER_LOG: Final = "shorter-log"
_END_WITHIN_S = 3.0
"""How long a partition may report an earlier end: a new leader learns late what was committed."""
_MOST_SAID = 4


def behind_the_log(
    source: Source, facts: SourceFacts, committed: Mapping[str, Sequence[Entry]]
) -> tuple[int, list[Note]]:
    """Return how many offsets replays of these very topics have read behind the end of the log, and notes.

    A comparison of the offsets that the log has now would leave them out and find nothing missing. The ends
    are asked after the ledger was read, so that a live pipeline is never ahead of them.
    """
    read = _read_up_to(facts, committed)
    if not read:
        return 0, []
    bounds: dict[TopicPartition, Bounds] = {}

    def behind() -> dict[TopicPartition, int]:
        bounds.clear()
        bounds.update(source.bounds())
        ends = {place: bounds[place].high_watermark if place in bounds else 0 for place in read}
        return {place: end for place, end in ends.items() if end < read[place][0]}

    wait_until(lambda: not behind(), deadline_s=_END_WITHIN_S, every_s=0.2)
    found = {
        place: bounds[place].high_watermark if place in bounds else None
        for place in sorted(behind())
    }
    notes = [_note(place, end, *read[place]) for place, end in [*found.items()][:_MOST_SAID]]
    if len(found) > _MOST_SAID:
        more = len(found) - _MOST_SAID
        notes.append(Note(SHORTER_LOG, f"and {more} more partitions of which replays read more"))
    return sum(read[place][0] - (end or 0) for place, end in found.items()), notes


def _read_up_to(
    facts: SourceFacts, committed: Mapping[str, Sequence[Entry]]
) -> dict[TopicPartition, tuple[int, str]]:
    """Return how far replays have read the partitions of topics with an ID, and which one read furthest."""
    read: dict[TopicPartition, tuple[int, str]] = {}
    for replay_id, entries in committed.items():
        for entry in entries:
            topic, place = facts.topics.get(entry.slice.topic), entry.slice.place
            if (
                topic is not None
                and topic.topic_id
                and entry.slice.to_offset > read.get(place, (0,))[0]
            ):
                read[place] = entry.slice.to_offset, replay_id
    return read


def _note(place: TopicPartition, end: int | None, read: int, replay_id: str) -> Note:
    ends = "is gone" if end is None else f"ends at offset {end:,}"
    text = (
        f"{place[0]}:{place[1]} {ends}, but replay {replay_id} has read offsets up to {read:,} of this topic: the "
        "log lost records, and may have others at earlier offsets too, or a broker does not report its end; "
        f"playhead verify {replay_id} compares the records"
    )
    return Note(SHORTER_LOG, text)

"""Finds records that replays have read and the log lost since: it ends before them, or has others at their offsets.

A comparison of the offsets that the log has now leaves the first out, and takes rows of the second for those of
the present records: both would be whole.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from playhead.ledger import Entry, remaining
from playhead.note import Note
from playhead.record import Slice
from playhead.source import KeepsEpochs, Source, SourceFacts, TopicPartition, bounds_reaching
from playhead.terms import Terms

LOST: Final = "lost-from-log"
_MOST_SAID = 4


@dataclass(frozen=True, slots=True)
class Committed:
    """What a replay has committed, under its terms."""

    replay_id: str
    terms: Terms
    entries: Sequence[Entry]


def lost_from_log(
    source: Source, facts: SourceFacts, spans: Sequence[Slice], committed: Sequence[Committed]
) -> tuple[int, list[Note]]:
    """Return how many offsets have lost the records that replays of these very topics read there, and notes.

    The ends are asked after the ledger was read, so that a live pipeline is never ahead of them.
    """
    behind, notes = _behind_the_end(source, facts, committed)
    replaced, others = _replaced(source, facts, spans, committed)
    return behind + replaced, [*notes, *others]


def _behind_the_end(
    source: Source, facts: SourceFacts, committed: Iterable[Committed]
) -> tuple[int, list[Note]]:
    read = _read_up_to(facts, committed)
    if not read:
        return 0, []
    bounds = bounds_reaching(source.bounds, {place: end for place, (end, _) in read.items()})
    ends = {place: bounds[place].high_watermark if place in bounds else None for place in read}
    found = {place: end for place, end in sorted(ends.items()) if (end or 0) < read[place][0]}
    notes = [_shorter(place, end, *read[place]) for place, end in found.items()]
    return sum(read[place][0] - (end or 0) for place, end in found.items()), _few(notes)


def _read_up_to(
    facts: SourceFacts, committed: Iterable[Committed]
) -> dict[TopicPartition, tuple[int, str]]:
    """Return how far replays have read the partitions of topics with an ID, and which one read furthest."""
    read: dict[TopicPartition, tuple[int, str]] = {}
    for each in committed:
        for slice_ in (entry.slice for entry in each.entries):
            topic = facts.topics.get(slice_.topic)
            is_known = topic is not None and bool(topic.topic_id)
            if is_known and slice_.to_offset > read.get(slice_.place, (0,))[0]:
                read[slice_.place] = slice_.to_offset, each.replay_id
    return read


def _shorter(place: TopicPartition, end: int | None, read: int, replay_id: str) -> Note:
    ends = "is gone" if end is None else f"ends at offset {end:,}"
    text = (
        f"{place[0]}:{place[1]} {ends}, but replay {replay_id} has read offsets up to {read:,} of this topic: the "
        "log lost records, and may have others at earlier offsets too, or a broker does not report its end; "
        f"playhead verify {replay_id} compares the records"
    )
    return Note(LOST, text)


def _replaced(
    source: Source, facts: SourceFacts, spans: Sequence[Slice], committed: Sequence[Committed]
) -> tuple[int, list[Note]]:
    """Find offsets of the spans whose records are of a later leader than those that were read."""
    if not isinstance(source, KeepsEpochs):
        return 0, []
    # Other topics of the replays may be gone, or forbidden by now.
    wanted = {
        (at, epoch) for each in committed for at, epoch in _epochs(each) if at[0] in facts.topics
    }
    ends = _ends_of_epochs(source, wanted)
    kept: list[Slice] = []
    cut: list[tuple[Committed, list[Slice]]] = []
    for each in committed:
        epochs = dict(_epochs(each))
        slices = [entry.slice for entry in each.entries]
        beyond = [
            Slice(*slice_.place, max(slice_.from_offset, end), slice_.to_offset)
            for slice_ in slices
            if slice_.place in epochs
            and (end := ends.get((slice_.place, epochs[slice_.place]))) is not None
            and end < slice_.to_offset
        ]
        kept += remaining(slices, beyond)
        cut.append((each, beyond))
    # What one replay read before, another may have written again since.
    found = [(each, remaining(beyond, kept)) for each, beyond in cut]
    notes = [_other(each.replay_id, lost) for each, lost in found if lost]
    lost = [slice_ for _, slices in found for slice_ in slices]
    return sum(map(len, spans)) - sum(map(len, remaining(spans, lost))), _few(notes)


def _ends_of_epochs(
    source: KeepsEpochs, wanted: set[tuple[TopicPartition, int]]
) -> dict[tuple[TopicPartition, int], int]:
    """Ask for the end of each epoch; a request has one epoch of each partition."""
    ends: dict[tuple[TopicPartition, int], int] = {}
    left = sorted(wanted)
    while left:
        asked = dict(left)
        ends |= {(place, asked[place]): end for place, end in source.ends_of_epochs(asked).items()}
        left = [each for each in left if each not in asked.items()]
    return ends


def _epochs(committed: Committed) -> Iterator[tuple[TopicPartition, int]]:
    """Yield the leaders' epochs of a replay's plan; a live pipeline has none, nor has an earlier version's plan."""
    topics = (committed.terms.plan or {}).get("source", {}).get("topics", {})
    for topic, facts in topics.items():
        for number, epoch in facts.get("leader_epochs", {}).items():
            yield (topic, int(number)), int(epoch)


def _other(replay_id: str, lost: Sequence[Slice]) -> Note:
    first = min(lost)
    text = (
        f"replay {replay_id} read {sum(map(len, lost)):,} offsets, from {first.topic}:{first.partition} offset "
        f"{first.from_offset:,} on, before the log lost their records and other ones were written there, as "
        f"after an unclean leader election; playhead verify {replay_id} compares the records"
    )
    return Note(LOST, text)


def _few(notes: Sequence[Note]) -> list[Note]:
    more = len(notes) - _MOST_SAID
    said = [Note(LOST, f"and {more:,} more notes of this kind")] if more > 0 else []
    return [*notes[:_MOST_SAID], *said]

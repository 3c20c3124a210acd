"""Finds offsets that may be of a span, and that nothing can read before a transaction ends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from playhead.gaps.gap import Gap, GracePeriod
from playhead.gaps.log_scan import young_at_the_end
from playhead.note import Note
from playhead.record import Slice
from playhead.replay.planner import Frozen, open_at_the_end
from playhead.source import Bounds, Source, TopicPartition
from playhead.span import Resolved, are_named_to_the_end
from playhead.time_span import OPEN_TRANSACTION


@dataclass(frozen=True, slots=True)
class Unstable:
    """The offsets of a partition behind a transaction that was open, and the stable ones before them."""

    before: Slice
    hidden: Slice

    def note(self) -> Note:
        place, at = f"{self.hidden.topic}:{self.hidden.partition}", self.hidden
        text = (
            f"{place} offsets {at.from_offset}-{at.to_offset} are behind an open transaction: nothing can read "
            "them, and records of the span may be among them; run the command again when the transaction has "
            f"ended (kafka-transactions.sh find-hanging --topic {at.topic} names one that never does)"
        )
        return Note(OPEN_TRANSACTION, text)


def unstable_of(
    source: Source,
    bounds: Mapping[TopicPartition, Bounds],
    resolved: Resolved,
    frozen: Frozen,
) -> tuple[Unstable, ...]:
    """Return what is unstable where the span reaches the last stable offset; named offsets end before."""
    named = resolved.offsets
    parts = [each for each in frozen.partitions if not are_named_to_the_end(named, each.place)]
    found = {
        each.place: Unstable(
            Slice(*each.place, each.earliest, each.stable_end),
            Slice(*each.place, each.stable_end, each.high_watermark),
        )
        for each in open_at_the_end(source, parts, bounds, frozen.reaching)
    }
    return tuple(found[place] for place in sorted(found))


def unstable_gaps(
    source: Source, found: Sequence[Unstable], settling: GracePeriod
) -> tuple[list[Gap], list[Note]]:
    """Return them as gaps with notes, but those that are young: on a busy topic some transaction is always open."""
    if not found:
        return [], []
    young = young_at_the_end(source, [each.before for each in found], settling)
    old = [each for each in found if (each.hidden.topic, each.hidden.partition) not in young]
    return [Gap(each.hidden, "unstable") for each in old], [each.note() for each in old]

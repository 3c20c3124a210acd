"""Translates a group's offsets to the copy that a replay made, with the replay's offset map."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from playhead.errors import UsageError
from playhead.kafka.groups.plan import CommittedOffset
from playhead.kafka.write.offset_map import OffsetMap, OffsetRun
from playhead.ledger import Entry
from playhead.source import TopicPartition


class NothingCopied(UsageError):
    """The replay's ledger has no offset map for what the group has committed."""

    def __init__(self, replay_id: str, group: str, *, reason: str) -> None:
        self.replay_id, self.group = replay_id, group
        super().__init__(
            f"cannot translate the offsets of group {group} through replay {replay_id}: {reason}",
            hint=f"`playhead runs {replay_id}` shows what it has copied",
        )


@dataclass(frozen=True, slots=True)
class Translated:
    """The offsets in the copy, with notes."""

    offsets: Mapping[TopicPartition, CommittedOffset]
    remarks: tuple[str, ...]


@dataclass(slots=True)
class _Copied:
    """What the ledger has of one source partition, slice by slice in order."""

    first: int | None = None
    end: int = 0
    maps: list[tuple[Entry, OffsetMap]] = field(default_factory=list)

    def targets(self) -> list[TopicPartition]:
        return sorted({(end.topic, end.partition) for _, map_ in self.maps for end in map_.ends})


def translate(
    replay_id: str,
    group: str,
    entries: Iterable[Entry],
    committed: Mapping[TopicPartition, CommittedOffset],
) -> Translated:
    """Return the offset of the first record in the copy that the group has not processed.

    If the map has gaps, or several partitions were copied into one, it is the last offset before which
    everything is processed: records may be repeated, and none is skipped.
    """
    copied = _by_source(entries)
    if not any(each.maps for each in copied.values()):
        raise NothingCopied(replay_id, group, reason="its ledger has no offset map")
    if not copied.keys() & committed.keys():
        reason = f"it copied {_shown(copied)}, but the group has committed {_shown(committed)}"
        raise NothingCopied(replay_id, group, reason=reason)
    remarks = _remarks(copied, committed)
    found: dict[TopicPartition, CommittedOffset] = {}
    for target in sorted({place for each in copied.values() for place in each.targets()}):
        sources = [place for place, each in copied.items() if target in each.targets()]
        stands = [place for place in sources if place in committed]
        if not stands:
            remarks.append(
                f"{_name(target)} gets no offset, because the group has none for its source"
            )
            continue
        offset, is_exact = _first_left(target, sources, copied, committed)
        found[target] = CommittedOffset(offset, committed[stands[0]].metadata)
        if not is_exact:
            remarks.append(
                f"{_name(target)} at {offset}: nothing is skipped, records may come again"
            )
    return Translated(found, tuple(remarks))


def _by_source(entries: Iterable[Entry]) -> dict[TopicPartition, _Copied]:
    copied: dict[TopicPartition, _Copied] = {}
    for entry in sorted(entries, key=lambda each: each.slice):
        slice_ = entry.slice
        each = copied.setdefault((slice_.topic, slice_.partition), _Copied())
        each.first = slice_.from_offset if each.first is None else each.first
        each.end = slice_.to_offset
        if "offsets" in entry.details:
            each.maps.append((entry, OffsetMap.from_details(entry.details)))
    return copied


def _first_left(
    target: TopicPartition,
    sources: Sequence[TopicPartition],
    copied: Mapping[TopicPartition, _Copied],
    committed: Mapping[TopicPartition, CommittedOffset],
) -> tuple[int, bool]:
    """Return the smallest offset of all sources; exact if there is only one, or all agree."""
    found = []
    for place in sources:
        at = committed[place].offset if place in committed else 0
        found.append(_first_from(target, copied[place], at))
    is_exact = len(found) == 1 and found[0][1]
    return min(offset for offset, _ in found), is_exact


def _first_from(target: TopicPartition, copied: _Copied, at: int) -> tuple[int, bool]:
    """Return the position of the first record from `at` on in the target, or the one after the last."""
    after = 0
    for entry, map_ in copied.maps:
        ends = [end for end in map_.ends if (end.topic, end.partition) == target]
        if not ends:
            continue
        if at < entry.slice.to_offset:
            runs = [run for run in map_.runs if (run.topic, run.partition) == target]
            found = _in_slice(runs, at, ends[0].first, is_whole=map_.exact)
            if found is not None:
                return found
        after = max(after, *(end.last + 1 for end in ends))
    return after, True


def _in_slice(
    runs: Sequence[OffsetRun], at: int, first: int, *, is_whole: bool
) -> tuple[int, bool] | None:
    """Return None if every record of the slice is before `at`."""
    before = first
    for run in sorted(runs):
        if run.source_offset <= at < run.source_offset + run.length:
            return run.target_offset + at - run.source_offset, True
        if run.source_offset > at:
            # Between two runs: a complete map has no records there, an incomplete one may.
            return (run.target_offset, True) if is_whole else (before, False)
        before = run.target_offset + run.length
    return None if is_whole else (before, False)


def _remarks(
    copied: Mapping[TopicPartition, _Copied], committed: Mapping[TopicPartition, CommittedOffset]
) -> list[str]:
    remarks = []
    for place, at in sorted(committed.items()):
        each = copied.get(place)
        if each is None or each.first is None:
            remarks.append(
                f"{_name(place)} was not copied; its offset {at.offset} is not translated"
            )
        elif at.offset < each.first:
            remarks.append(
                f"{_name(place)} is at {at.offset}, but the copy begins with offset {each.first}"
            )
        elif at.offset > each.end:
            remarks.append(
                f"{_name(place)} is at {at.offset}, but the copy ends before offset {each.end}"
            )
    return remarks


def _name(place: TopicPartition) -> str:
    return f"{place[0]}:{place[1]}"


def _shown(places: Iterable[TopicPartition]) -> str:
    return ", ".join(sorted({topic for topic, _ in places})) or "nothing"

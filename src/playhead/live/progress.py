"""The progress of a pipeline: where each partition continues, what was written, and what was dropped."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from playhead.extra_fields import ExtraFields
from playhead.ledger import remaining
from playhead.record import Slice, joined_spans
from playhead.replay.pipelines import STARTING
from playhead.source import Bounds, TopicPartition
from playhead.task.round import Outcome


class LedgerWentBack(Exception):
    """The target lost commits: it was restored, or another server replaced it."""

    def __init__(self, place: TopicPartition, *, committed: int, found: int) -> None:
        super().__init__(
            f"the ledger of {place[0]}:{place[1]} ends at {found:,}, but was at {committed:,} "
            "before: the target was reset"
        )


def went_back(
    committed: Mapping[TopicPartition, int], ledger: Mapping[TopicPartition, int]
) -> LedgerWentBack | None:
    """Return what a ledger lacks of what was committed; None if it has all of it."""
    for place, end in committed.items():
        if (found := ledger.get(place, 0)) < end:
            return LedgerWentBack(place, committed=end, found=found)
    return None


@dataclass(slots=True)
class PipelineProgress:
    """Written by the thread of the rounds, read by all."""

    at: dict[TopicPartition, int]
    """The next offset of each partition."""
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    """The ledger's end, as last seen."""
    state: str = STARTING
    away: str | None = None
    records: int = 0
    """The records that were written."""
    rejected: int = 0
    details: Counter[str] = field(default_factory=Counter)
    left_out: ExtraFields = field(default_factory=ExtraFields)
    rounds: int = 0
    lost: list[Slice] = field(default_factory=list)
    last_commit_ms: int | None = None
    last_record_ms: int | None = None

    def due(self, ends: Mapping[TopicPartition, int]) -> list[Slice]:
        """Return the slices of a round with these ends."""
        return [
            Slice(*place, at, end)
            for place, end in sorted(ends.items())
            # A partition that is new is read from its first offset.
            if (at := self.at.setdefault(place, 0)) < end
        ]

    def note(self, outcomes: Iterable[Outcome]) -> None:
        """Add the commits of the tasks."""
        for each in (one for outcome in outcomes for one in outcome.written):
            self.at[each.place] = max(self.at.get(each.place, 0), each.to_offset)
            self.committed[each.place] = self.at[each.place]
            self.records += each.written
            self.rejected += each.rejected
            self.details.update(each.details)
            self.left_out = ExtraFields.total([self.left_out, ExtraFields.of(each.left_out)])
            self.last_commit_ms = time.time_ns() // 1_000_000
            if each.last_ms is not None:
                self.last_record_ms = max(self.last_record_ms or 0, each.last_ms)

    def follow(self, ledger: Mapping[TopicPartition, int]) -> None:
        """Continue from the ledger's end, which may include commits whose answer was lost."""
        if (found := went_back(self.committed, ledger)) is not None:
            raise found
        for place, end in ledger.items():
            self.at[place] = max(self.at.get(place, 0), end)
            self.committed[place] = end

    def read_again(self, starts: Mapping[TopicPartition, int]) -> None:
        """Continue from earlier offsets; what was given up behind them is read, too."""
        back = [
            Slice(*place, at, end)
            for place, at in starts.items()
            if at < (end := self.at.get(place, at))
        ]
        self.lost = remaining(self.lost, back)
        self.at |= starts

    def give_up(self, slices: Sequence[Slice]) -> None:
        """Continue after offsets that could not be written."""
        for each in slices:
            self.at[each.topic, each.partition] = each.to_offset
            self.lost.append(each)
            if len(self.lost) > _MANY:
                self.lost = joined_spans(self.lost)

    @property
    def lost_offsets(self) -> int:
        return sum(map(len, self.lost))

    def lag(self, bounds: Mapping[TopicPartition, Bounds]) -> int:
        """Return how many readable offsets are not committed yet."""
        return sum(
            max(0, held.stable_end - self.at.get(place, held.earliest))
            for place, held in bounds.items()
        )

    def as_document(self) -> dict[str, Any]:
        offsets: dict[str, dict[str, int]] = {}
        for (topic, partition), at in sorted(self.at.items()):
            offsets.setdefault(topic, {})[str(partition)] = at
        return {
            "state": self.state,
            "away": self.away,
            "records": self.records,
            "rejected": self.rejected,
            "details": dict(sorted(self.details.items())),
            "extra_fields": self.left_out.as_document(),
            "rounds": self.rounds,
            "lost_offsets": self.lost_offsets,
            "lost": [str(each) for each in joined_spans(self.lost)],
            "last_commit_ms": self.last_commit_ms,
            "last_record_ms": self.last_record_ms,
            "offsets": offsets,
        }


_MANY = 1_000


def still_lost(lost: Sequence[Slice], committed: Sequence[Slice]) -> list[Slice]:
    """Return the dropped offsets that the ledger lacks: the answer of a successful write may have been lost."""
    return remaining(joined_spans(lost), committed)

"""A planned change of a group's offsets: before and after for each partition, and its blast radius."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from playhead.grammar.instant import show_ms
from playhead.kafka.groups.position import Facts, Position
from playhead.source import Bounds, TopicPartition


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A group's committed offset for one partition, with its metadata."""

    offset: int
    metadata: str | None = None
    leader_epoch: int | None = None


class AffectedOffsets(NamedTuple):
    """The offsets `[first, end)` between before and after."""

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Move:
    """One partition of the plan; None as after means no committed offset."""

    place: TopicPartition
    before: CommittedOffset | None
    after: CommittedOffset | None
    bounds: Bounds | None
    """The partition's bounds; None if it no longer exists."""
    note: str | None = None
    first_ms: int | None = None
    """The time of the first record that is repeated or skipped."""
    last_ms: int | None = None

    @property
    def again(self) -> int | None:
        """How many offsets will be delivered again; None without an offset before or after."""
        reach = self._between()
        return None if reach is None else max(0, reach[0] - reach[1])

    @property
    def skipped(self) -> int | None:
        """How many offsets will never be delivered."""
        reach = self._between()
        return None if reach is None else max(0, reach[1] - reach[0])

    @property
    def reach(self) -> AffectedOffsets | None:
        """The offsets that are repeated or skipped, if there are any."""
        between = self._between()
        if between is None or between[0] == between[1]:
            return None
        return AffectedOffsets(min(between), max(between))

    def _between(self) -> tuple[int, int] | None:
        """Return the offsets between before and after that the log still holds."""
        if self.before is None or self.after is None or self.bounds is None:
            return None
        low, high = self.bounds.earliest, self.bounds.high_watermark
        before, after = (min(max(at.offset, low), high) for at in (self.before, self.after))
        return before, after

    def row(self) -> dict[str, Any]:
        """Return the row for people and programs."""
        return {
            "topic": self.place[0],
            "partition": self.place[1],
            "before": self.before.offset if self.before else None,
            "after": self.after.offset if self.after else None,
            "again": self.again,
            "skipped": self.skipped,
            "from": None if self.first_ms is None else show_ms(self.first_ms),
            "to": None if self.last_ms is None else show_ms(self.last_ms),
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """All changes of one group."""

    group: str
    does: str
    """The description for people and for the snapshot: `reset to the start of the log`."""
    is_there: bool
    """False if the plan creates the group."""
    moves: tuple[Move, ...]

    @property
    def again(self) -> int:
        return sum(move.again or 0 for move in self.moves)

    @property
    def skipped(self) -> int:
        return sum(move.skipped or 0 for move in self.moves)

    @property
    def first_ms(self) -> int | None:
        return min((m.first_ms for m in self.moves if m.first_ms is not None), default=None)

    @property
    def last_ms(self) -> int | None:
        return max((m.last_ms for m in self.moves if m.last_ms is not None), default=None)

    @property
    def places(self) -> list[TopicPartition]:
        return [move.place for move in self.moves]

    def offsets(self) -> dict[TopicPartition, int]:
        """The offsets to commit."""
        return {move.place: move.after.offset for move in self.moves if move.after is not None}

    def with_times(
        self, times: Mapping[TopicPartition, tuple[int | None, int | None]]
    ) -> "GroupPlan":
        """Return the plan with the times of records that are repeated or skipped."""
        moves = []
        for move in self.moves:
            first_ms, last_ms = times.get(move.place, (None, None))
            moves.append(replace(move, first_ms=first_ms, last_ms=last_ms))
        return replace(self, moves=tuple(moves))

    def blast(self) -> str:
        """The blast radius as one sentence."""
        parts = []
        if self.again:
            parts.append(f"{self.again:,} records will be delivered again")
        if self.skipped:
            parts.append(f"{self.skipped:,} records will be skipped")
        gone = sum(move.after is None for move in self.moves)
        if gone:
            parts.append(
                f"{gone} partitions lose their offset: auto.offset.reset decides where to start"
            )
        if not parts:
            parts.append("no record is repeated, and none is skipped")
        nowhere = sum(move.before is None and move.after is not None for move in self.moves)
        if nowhere:
            parts.append(f"{nowhere} partitions had no committed offset")
        text = ", ".join(parts)
        if self.first_ms is None or self.last_ms is None:
            return text
        return f"{text}: from {show_ms(self.first_ms)} to {show_ms(self.last_ms)}"

    def as_document(self) -> dict[str, Any]:
        return {
            "group": self.group,
            "does": self.does,
            "creates": not self.is_there,
            "again": self.again,
            "skipped": self.skipped,
            "from": None if self.first_ms is None else show_ms(self.first_ms),
            "to": None if self.last_ms is None else show_ms(self.last_ms),
            "partitions": [
                move.row() | {"bounds": asdict(move.bounds) if move.bounds else None}
                for move in self.moves
            ],
        }


def decide(
    mode: Position,
    facts: Iterable[Facts],
    before: Mapping[TopicPartition, CommittedOffset],
) -> tuple[Move, ...]:
    """Return the moves of a mode; `before` belongs to the group that is written."""
    moves = []
    for each in sorted(facts, key=lambda one: one.place):
        offset, note = mode.answer(each)
        held = before.get(each.place)
        moves.append(Move(each.place, held, CommittedOffset(offset), each.bounds, note))
    return tuple(moves)

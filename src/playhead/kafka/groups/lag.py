"""The lag of a group, partition by partition: in records and in time."""

from collections.abc import Mapping
from dataclasses import dataclass

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import PlayheadError
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.errors import Need, needing
from playhead.kafka.admin.offsets import bounds_of
from playhead.kafka.groups.consumer_offsets_topic import read_log
from playhead.kafka.groups.describe import Group, Member
from playhead.kafka.groups.partitions import PATIENCE_S, split
from playhead.kafka.groups.plan import AffectedOffsets, CommittedOffset
from playhead.kafka.groups.record_times import first_times
from playhead.source import Bounds, TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition of a group; values are None if nothing is committed or they are unknown."""

    place: TopicPartition
    committed: CommittedOffset | None
    bounds: Bounds | None
    next_ms: int | None
    """The time of the record at the committed offset, the next one to process."""
    committed_ms: int | None
    member: Member | None

    @property
    def lag(self) -> int | None:
        """The offsets from the committed one to the end; None, never 0, if that has no meaning."""
        if self.committed is None or self.bounds is None or self.is_beyond:
            return None
        return self.bounds.high_watermark - self.committed.offset

    @property
    def is_beyond(self) -> bool:
        """Whether the offset belongs to another log: the topic was created again, or cut."""
        if self.committed is None or self.bounds is None:
            return False
        return self.committed.offset > self.bounds.high_watermark

    @property
    def expired(self) -> int:
        """Records that were deleted before the group read them."""
        if self.committed is None or self.bounds is None:
            return 0
        return max(0, self.bounds.earliest - self.committed.offset)

    def lag_ms(self, now_ms: int) -> int | None:
        """How long the next record has been waiting."""
        if self.lag == 0:
            return 0
        return None if self.next_ms is None else max(0, now_ms - self.next_ms)


@dataclass(frozen=True, slots=True)
class GroupLag:
    """All partitions of a group, and notes on what is unknown."""

    behind: tuple[PartitionLag, ...]
    remarks: tuple[str, ...]


def lags(
    admin: Admin,
    connection: KafkaConnection,
    group: Group,
    committed: Mapping[TopicPartition, CommittedOffset],
    *,
    with_times: bool,
) -> GroupLag:
    """Return the lag of all committed and assigned partitions."""
    held = {place: member for member in group.members for place in member.places}
    there, gone = split(admin, dict.fromkeys([*committed, *held]))
    with needing(*(Need("Describe", "topic", topic) for topic in sorted({t for t, _ in there}))):
        bounds = bounds_of(admin, there)
    remarks = [f"{topic}:{number} no longer exists, but its offset does" for topic, number in gone]
    next_ms: Mapping[TopicPartition, int] = {}
    committed_ms: Mapping[TopicPartition, int] = {}
    if with_times and committed:
        next_ms, reason = _next_times(connection, bounds, committed)
        log = read_log(admin, connection, group.group)
        committed_ms = log.committed_ms
        remarks += [f"the times of records are unknown: {reason}"] if reason else []
        remarks += [f"the times of commits are unknown: {log.reason}"] if log.reason else []
    behind = tuple(
        PartitionLag(
            place,
            committed.get(place),
            bounds.get(place),
            next_ms.get(place),
            committed_ms.get(place),
            held.get(place),
        )
        for place in sorted([*there, *gone])
    )
    remarks += [
        f"{each.place[0]}:{each.place[1]}: the committed offset is beyond the end; the topic "
        "may have been created again"
        for each in behind
        if each.is_beyond
    ]
    return GroupLag(behind, tuple(remarks))


def _next_times(
    connection: KafkaConnection,
    bounds: Mapping[TopicPartition, Bounds],
    committed: Mapping[TopicPartition, CommittedOffset],
) -> tuple[dict[TopicPartition, int], str | None]:
    reaches = {}
    for place, at in committed.items():
        if place in bounds:
            first = max(at.offset, bounds[place].earliest)
            if first < bounds[place].stable_end:
                reaches[place] = AffectedOffsets(first, bounds[place].stable_end)
    try:
        return first_times(connection, reaches, patience_s=PATIENCE_S), None
    except PlayheadError as exc:
        return {}, str(exc)

"""Writes a group's offsets, only while it has no members, and reads them back."""

import time
from collections.abc import Collection, Mapping

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from playhead.config.kafka_connection import KafkaConnection
from playhead.endpoint import check_group
from playhead.errors import EXIT_DIFFERENT, PlayheadError
from playhead.host.faults import abort_point
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.errors import KafkaRefused, Meaning, Need, meaning_of, needing
from playhead.kafka.groups.delete_offsets import forget
from playhead.kafka.groups.describe import committed
from playhead.kafka.groups.plan import CommittedOffset, GroupPlan
from playhead.source import TopicPartition

_AGAIN_AFTER_S = 0.1


class JoinedMeanwhile(KafkaRefused):
    """A member joined the group after it was checked."""

    def __init__(self, group: str, *, reason: str) -> None:
        self.group = group
        super().__init__(
            f"writing the offsets of group {group}", reason=f"it has members now ({reason})"
        )
        self.hint = (
            f"stop its members (`playhead groups describe {group} --members` shows them), "
            "then run the command again"
        )


class NotAsWritten(PlayheadError):
    """The cluster has other offsets after the write than those written."""

    exit_code = EXIT_DIFFERENT

    def __init__(
        self, group: str, different: Mapping[TopicPartition, tuple[int | None, int | None]]
    ) -> None:
        self.group, self.different = group, dict(different)
        shown = ", ".join(
            f"{topic}:{number} is {_shown(found)}, not {_shown(wanted)}"
            for (topic, number), (wanted, found) in list(different.items())[:5]
        )
        super().__init__(
            f"group {group} has other offsets than written in {len(different)} partitions: {shown}",
            hint=f"another client commits for the group; `playhead groups undo {group}` "
            "restores the earlier offsets",
        )


def carry_out(admin: Admin, connection: KafkaConnection, plan: GroupPlan) -> None:
    """Write the plan's offsets, read them back, and compare."""
    wanted = {move.place: move.after for move in plan.moves}
    commit(admin, plan.group, {place: at for place, at in wanted.items() if at is not None})
    gone = [place for place, at in wanted.items() if at is None]
    abort_point("groups.written")
    forget_offsets(admin, connection, plan.group, gone)
    found = committed(admin, plan.group)
    different = {
        place: (_offset(at), _offset(found.get(place)))
        for place, at in wanted.items()
        if _offset(at) != _offset(found.get(place))
    }
    if different:
        raise NotAsWritten(plan.group, different)


def forget_offsets(
    admin: Admin, connection: KafkaConnection, group: str, places: Collection[TopicPartition]
) -> None:
    """Delete the group's committed offsets for these partitions; missing ones are no error."""
    there = sorted(set(places) & committed(admin, group).keys()) if places else []
    if not there:
        return
    with (
        needing(Need("Delete", "group", group), *_read_topics(there)),
        admin.asking(f"deleting offsets of group {group}"),
    ):
        refused = forget(admin, connection, group, there)
        for error in refused.values():
            if meaning_of(error) is Meaning.GROUP_IN_USE:
                raise JoinedMeanwhile(group, reason=error.str())
            raise KafkaException(error)


def commit(admin: Admin, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
    """Write these offsets, retrying while the group's coordinator moves."""
    if not offsets:
        return
    deadline = time.monotonic() + admin.timeout_s
    left = dict(offsets)
    while left:
        refused = _ask(admin, group, left)
        if any(meaning_of(error) is Meaning.GROUP_IN_USE for error in refused.values()):
            raise JoinedMeanwhile(group, reason=next(iter(refused.values())).str())
        lasting = [e for e in refused.values() if meaning_of(e) is not Meaning.NOT_READY]
        if lasting or (refused and time.monotonic() > deadline):
            with (
                needing(*_read_topics(refused), Need("Read", "group", group)),
                admin.asking(f"writing the offsets of group {group}"),
            ):
                raise KafkaException((lasting or list(refused.values()))[0])
        left = {place: offsets[place] for place in refused}
        if left:
            time.sleep(_AGAIN_AFTER_S)


def _ask(
    admin: Admin, group: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> dict[TopicPartition, KafkaError]:
    """Send the request; return the partitions that were refused."""
    check_group(group)
    wanted = ConsumerGroupTopicPartitions(group, [_partition(*each) for each in offsets.items()])
    with (
        needing(Need("Read", "group", group), *_read_topics(offsets)),
        admin.asking(f"writing the offsets of group {group}") as client,
    ):
        asked = client.alter_consumer_group_offsets([wanted], request_timeout=admin.timeout_s)
        answer = asked[group].result(admin.timeout_s).topic_partitions
    return {(each.topic, each.partition): each.error for each in answer if each.error is not None}


def _partition(place: TopicPartition, at: CommittedOffset) -> ClientPartition:
    more = {"metadata": at.metadata} if at.metadata is not None else {}
    epoch = {"leader_epoch": at.leader_epoch} if at.leader_epoch is not None else {}
    return ClientPartition(*place, at.offset, **more, **epoch)


def _read_topics(places: Collection[TopicPartition]) -> list[Need]:
    return [Need("Read", "topic", topic) for topic in sorted({topic for topic, _ in places})]


def _offset(at: CommittedOffset | None) -> int | None:
    return None if at is None else at.offset


def _shown(offset: int | None) -> str:
    return "nothing" if offset is None else str(offset)

"""Writes a group's offsets, only while it has no members, and reads them back."""

import struct
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from playhead.config.kafka_connection import KafkaConnection
from playhead.endpoint import check_group
from playhead.errors import EXIT_DIFFERENT, BrokerUnavailable, PlayheadError
from playhead.host.clock import wait_until
from playhead.host.faults import abort_point
from playhead.kafka.admin import clients
from playhead.kafka.admin.answer_fields import Fields
from playhead.kafka.admin.broker_socket import Wire, array, text
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.errors import (
    KafkaRefused,
    Meaning,
    Need,
    is_definite,
    meaning_of,
    needing,
    refused,
    words_of,
)
from playhead.kafka.groups.describe import committed, described
from playhead.kafka.groups.plan import CommittedOffset, GroupPlan
from playhead.source import TopicPartition

_OFFSET_DELETE, _VERSION = 47, 0  # Every broker since 2.4 has this request.

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
                raise JoinedMeanwhile(group, reason=words_of(error))
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
            raise JoinedMeanwhile(group, reason=words_of(next(iter(refused.values()))))
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


def forget(
    admin: Admin, connection: KafkaConnection, group: str, places: Sequence[TopicPartition]
) -> dict[TopicPartition, KafkaError]:
    """Delete the group's committed offsets for these partitions; return those that were refused."""
    request = _request(group, places)

    def ask() -> tuple[int, dict[TopicPartition, int]] | None:
        coordinator = described(admin, [group])[group].coordinator
        if coordinator is None:
            return None
        with closing(Wire(connection, coordinator, timeout_s=admin.timeout_s)) as wire:
            code, codes = wire.ask(_OFFSET_DELETE, _VERSION, request, read_answer)
        # The group may move to another coordinator between the two requests.
        return None if meaning_of(KafkaError(code)) is Meaning.NOT_READY else (code, codes)

    answer = wait_until(ask, deadline_s=admin.timeout_s, every_s=_AGAIN_AFTER_S)
    if answer is None:
        raise KafkaException(KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE))
    of_all, codes = answer
    if of_all:
        codes = dict.fromkeys(places, of_all)
    return {place: KafkaError(code) for place, code in codes.items() if code}


def _request(group: str, places: Sequence[TopicPartition]) -> bytes:
    topics = {topic: [number for name, number in places if name == topic] for topic, _ in places}
    named = (
        text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
        for topic, numbers in topics.items()
    )
    return text(group) + array(list(named))


def read_answer(fields: Fields) -> tuple[int, dict[TopicPartition, int]]:
    """Return the error of the whole request, and that of each partition."""
    code = fields.int16()
    fields.int32()  # The throttle time.
    codes: dict[TopicPartition, int] = {}
    for _ in range(fields.length()):
        topic = fields.text()
        for _ in range(fields.length()):
            number = fields.int32()
            codes[topic, number] = fields.int16()
    return code, codes


class GroupMover:
    """A consumer that is not a member of its group and reads nothing; it only commits.

    An admin client could commit too, but a coordinator that disappears during its request makes librdkafka
    abort the process (`rd_kafka_enq_once_del_source_return: Assertion failed`).
    """

    def __init__(self, connection: KafkaConnection, group: str) -> None:
        self._connection, self._group = connection, group
        own = {
            "group.id": group,
            "client.id": "playhead",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        self._consumer = clients.consumer(connection.for_librdkafka("consumer") | own)

    def move(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit these offsets; wait for the group's coordinator as long as necessary."""
        wanted = [ClientPartition(*place, offset) for place, offset in offsets.items()]
        try:
            found = self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as exc:
            raise self._translated(exc.args[0]) from exc
        for each in found or ():
            if each.error is not None:
                raise self._translated(each.error)

    def close(self) -> None:
        self._consumer.close()

    def _translated(self, error: KafkaError) -> Exception:
        if meaning_of(error) is Meaning.GROUP_IN_USE:
            return JoinedMeanwhile(self._group, reason=words_of(error))
        if is_definite(error):
            return refused(error, f"writing the offsets of group {self._group}")
        servers = self._connection.bootstrap_servers or ""
        return BrokerUnavailable(servers, waited_s=0, reason=words_of(error))

"""Asks a cluster for its consumer groups, classic and new: states, members, committed offsets."""

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException

from playhead.config.kafka_connection import KafkaConnection
from playhead.endpoint import check_group
from playhead.errors import UsageError
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.errors import Meaning, Need, meaning_of, needing
from playhead.kafka.groups.plan import CommittedOffset
from playhead.source import TopicPartition

PREFIX = "playhead."

IDLE = frozenset({"empty", "dead"})
"""States in which offsets may be written from outside."""
_AGAIN_AFTER_S = 0.1


class NoSuchGroup(UsageError):
    """The cluster has no group of this name."""

    def __init__(self, group: str, *, existing: Collection[str], hint: str | None = None) -> None:
        self.group = group
        self.nearest = tuple(get_close_matches(group, existing, n=3, cutoff=0.6))
        near = f"did you mean {' or '.join(self.nearest)}?" if self.nearest else None
        super().__init__(
            f"there is no consumer group {group!r} on this cluster",
            hint="; ".join(filter(None, (near, hint))) or "`playhead groups list` lists the groups",
        )


@dataclass(frozen=True, slots=True)
class Listed:
    """A group by name."""

    group: str
    kind: str
    """classic, or consumer: the new protocol, KIP-848."""
    state: str


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group now."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    places: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A group as its coordinator describes it; an unknown one is dead."""

    group: str
    kind: str
    state: str
    assignor: str | None
    coordinator: str | None
    coordinator_id: int | None
    members: tuple[Member, ...]

    @property
    def is_idle(self) -> bool:
        return self.state in IDLE


def listed(admin: Admin) -> list[Listed]:
    """Return every visible group; a broker without an answer is an error, not a shorter list."""
    with (
        needing(Need("Describe", "cluster")),
        admin.asking("listing consumer groups") as client,
    ):
        asked = client.list_consumer_groups(request_timeout=admin.timeout_s)
        found = asked.result(admin.timeout_s)
        for error in found.errors or ():
            raise KafkaException(error)
    rows = (Listed(g.group_id, _word(g.type), _word(g.state)) for g in found.valid)
    return sorted(rows, key=lambda each: each.group)


def described(admin: Admin, groups: Sequence[str]) -> dict[str, Group]:
    """Return the groups by name; a missing one is dead, and has no members."""
    for group in groups:
        check_group(group)
    deadline = time.monotonic() + admin.timeout_s
    found: dict[str, Group] = {}
    while True:
        left = [group for group in groups if group not in found]
        answers, is_late = _describe(admin, left), time.monotonic() > deadline
        with (
            needing(*(Need("Describe", "group", group) for group in left)),
            admin.asking(f"describing {_names(left)}"),
        ):
            for group, answer in answers.items():
                if isinstance(answer, Group):
                    found[group] = answer
                elif is_late or meaning_of(answer.args[0]) is not Meaning.NOT_READY:
                    raise answer
        if len(found) == len(set(groups)):
            return found
        time.sleep(_AGAIN_AFTER_S)


def _describe(admin: Admin, groups: Sequence[str]) -> dict[str, Group | KafkaException]:
    found: dict[str, Group | KafkaException] = {}
    with admin.asking(f"describing {_names(groups)}") as client:
        asked = client.describe_consumer_groups(groups, request_timeout=admin.timeout_s)
        for group, answer in asked.items():
            try:
                found[group] = _group(answer.result(admin.timeout_s))
            except KafkaException as exc:
                is_missing = exc.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND
                dead = Group(group, "unknown", "dead", None, None, None, ())
                found[group] = dead if is_missing else exc
    return found


def committed(admin: Admin, group: str) -> dict[TopicPartition, CommittedOffset]:
    """Return everything that the group has committed."""
    # Before the coordinator knows the group, as on a new cluster, this request makes librdkafka
    # abort the process (its issue 5040); a description waits for the coordinator, or fails with an
    # error.
    described(admin, [group])
    with (
        needing(Need("Describe", "group", group)),
        admin.asking(f"reading the offsets of group {group}") as client,
    ):
        asked = client.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group)], request_timeout=admin.timeout_s
        )
        answer = asked[group].result(admin.timeout_s).topic_partitions
        for each in answer:
            if each.error is not None:
                raise KafkaException(each.error)
    return {
        (each.topic, each.partition): CommittedOffset(
            each.offset,
            each.metadata or None,
            None if each.leader_epoch is None or each.leader_epoch < 0 else each.leader_epoch,
        )
        for each in answer
        if each.offset >= 0
    }


def delete(admin: Admin, group: str) -> None:
    """Delete a group with everything it has committed."""
    check_group(group)
    with (
        needing(Need("Delete", "group", group)),
        admin.asking(f"deleting group {group}") as client,
    ):
        asked = client.delete_consumer_groups([group], request_timeout=admin.timeout_s)
        asked[group].result(admin.timeout_s)


def need_groups(admin: Admin, groups: Iterable[str], *, hint: str | None = None) -> None:
    """Return if the cluster has all of these groups; the hint tells what the command would do with one."""
    names = [each.group for each in listed(admin)]
    for group in groups:
        if group not in names:
            raise NoSuchGroup(group, existing=names, hint=hint)


def _group(found: Any) -> Group:
    node = found.coordinator
    return Group(
        found.group_id,
        _word(getattr(found, "type", None)),
        _word(found.state),
        found.partition_assignor or None,
        f"{node.host}:{node.port}" if node is not None else None,
        node.id if node is not None else None,
        tuple(sorted(map(_member, found.members), key=lambda each: each.member_id)),
    )


def _member(found: Any) -> Member:
    places = (found.assignment.topic_partitions if found.assignment else None) or ()
    return Member(
        found.member_id,
        found.group_instance_id or None,
        found.client_id,
        # The broker formats a socket's address like Java: /127.0.0.1
        found.host.removeprefix("/"),
        tuple(sorted((place.topic, place.partition) for place in places)),
    )


def _word(name: Any) -> str:
    """Return Kafka's own word; librdkafka does not know the rebalancing states of new groups."""
    if name is None:
        return "unknown"
    return str(name.name).lower().replace("rebalancing", "rebalance").replace("_", "")


def _names(groups: Sequence[str]) -> str:
    return f"group {groups[0]}" if len(groups) == 1 else f"{len(groups)} groups"


def remove_groups(connection: KafkaConnection, replay_ids: Collection[str]) -> list[str]:
    """Remove the groups of these replays; return those that existed. A group with members stays, with an error."""
    wanted = {PREFIX + replay_id for replay_id in replay_ids}
    with Admin(connection) as admin:
        there = [each.group for each in listed(admin) if each.group in wanted]
        for group in there:
            delete(admin, group)
    return there

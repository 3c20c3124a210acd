"""Checks that a group has no members before its offsets are written, or reports them."""

import time
from collections.abc import Callable

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import Refused
from playhead.grammar.duration import show_duration_ms
from playhead.grammar.instant import show_ms
from playhead.host.clock import Clock, SystemClock, wait_until
from playhead.kafka.admin.client import Admin
from playhead.kafka.groups.consumer_offsets_topic import read_log, session_of
from playhead.kafka.groups.describe import Group, Member, described
from playhead.source import TopicPartition

_LOOK_EVERY_S = 0.25
_SHOWN = 8


class GroupActive(Refused):
    """The group has members, which would overwrite the written offsets."""

    def __init__(self, group: Group, *, sessions_ms: dict[str, int | None], now_ms: int) -> None:
        self.group, self.sessions_ms = group, sessions_ms
        count = len(group.members)
        who = "".join(
            f"\n    {_member(m, sessions_ms.get(m.member_id))}" for m in group.members[:_SHOWN]
        )
        more = f"\n    and {count - _SHOWN} more" if count > _SHOWN else ""
        super().__init__(
            f"group {group.group} is {group.state} with {count} members; offsets can be "
            f"written only without members{who}{more}",
            hint=_way_out(sessions_ms, now_ms),
        )


def need_idle(
    admin: Admin,
    connection: KafkaConnection,
    group: Group,
    *,
    wait_s: float,
    say: Callable[[str], None],
) -> None:
    """Return when the group has no members; wait for that if asked to."""
    if group.is_idle:
        return
    refusal = _refusal(admin, connection, group)
    if wait_s <= 0:
        raise refusal
    say(str(refusal))
    say(f"waiting up to {wait_s:g} s until they have left")
    clock: Clock = SystemClock()

    def look() -> bool:
        return described(admin, [group.group])[group.group].is_idle

    if not wait_until(look, deadline_s=wait_s, clock=clock, every_s=_LOOK_EVERY_S):
        raise _refusal(admin, connection, described(admin, [group.group])[group.group])


def sessions(admin: Admin, connection: KafkaConnection, group: Group) -> dict[str, int | None]:
    """Return how long the coordinator waits for each silent member; None if unknown."""
    if not group.members:
        return {}
    log = read_log(admin, connection, group.group).session_ms if group.kind != "consumer" else {}
    first = group.members[0].member_id
    if group.kind == "consumer":
        common = session_of(admin, log, first, group.kind, group.coordinator_id)
        return {member.member_id: common for member in group.members}
    return {member.member_id: log.get(member.member_id) for member in group.members}


def _refusal(admin: Admin, connection: KafkaConnection, group: Group) -> GroupActive:
    found = sessions(admin, connection, group)
    return GroupActive(group, sessions_ms=found, now_ms=time.time_ns() // 1_000_000)


def _member(member: Member, session_ms: int | None) -> str:
    session = f", session {show_duration_ms(session_ms)}" if session_ms is not None else ""
    reads = shown_places(member.places) or "nothing"
    return f"{member.client_id} on {member.host} reads {reads}{session} ({member.member_id})"


def _way_out(sessions_ms: dict[str, int | None], now_ms: int) -> str:
    known = [ms for ms in sessions_ms.values() if ms is not None]
    if not known:
        return "stop them, then run the command again; --wait 45s waits until they have left"
    longest = max(known)
    return (
        "stop them, then run the command again; a killed one is removed when its session "
        f"ends, at most {show_duration_ms(longest)} after its last heartbeat: by "
        f"{show_ms(now_ms + longest)}; --wait {show_duration_ms(longest)} waits for that"
    )


def shown_places(places: tuple[TopicPartition, ...]) -> str:
    """Format an assignment like Kafka's tool: `orders:0,1;payments:2`."""
    by_topic: dict[str, list[str]] = {}
    for topic, number in places:
        by_topic.setdefault(topic, []).append(str(number))
    return ";".join(f"{topic}:{','.join(numbers)}" for topic, numbers in by_topic.items())

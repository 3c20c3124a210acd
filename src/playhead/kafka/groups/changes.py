"""Plans and makes changes of groups' offsets: reset, clone, undo, deletion; always with a snapshot."""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from playhead.config.context import Configuration
from playhead.config.guards import Consent, Guard
from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import UsageError
from playhead.host.faults import abort_point
from playhead.kafka.admin.broker_socket import need_login
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.errors import KafkaRefused
from playhead.kafka.admin.offsets import bounds_of, describe_those
from playhead.kafka.groups.commit import carry_out
from playhead.kafka.groups.describe import Group, NoSuchGroup, committed, delete, described, listed
from playhead.kafka.groups.idle import need_idle
from playhead.kafka.groups.partitions import facts, gather, partitions_meant, split, with_times
from playhead.kafka.groups.plan import CommittedOffset, GroupPlan, Move, decide
from playhead.kafka.groups.position import Position
from playhead.kafka.groups.scope import Scope
from playhead.kafka.groups.snapshot import NothingLeftToRestore, Snapshot, Snapshots
from playhead.source import TopicPartition

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Reset:
    """The request for a reset of one group."""

    group: str
    mode: Position
    scope: Scope
    to_group: str | None = None
    create: bool = False

    @property
    def target(self) -> str:
        """The group that is written."""
        return self.to_group or self.group


class GroupAdmin:
    """The groups of one cluster, for commands that change them.

    A read-only context allows no change; one marked production requires the group's name.
    """

    def __init__(
        self,
        admin: Admin,
        configuration: Configuration,
        connection: KafkaConnection | None = None,
        say: Say = lambda _: None,
        consent: Consent = None,
    ) -> None:
        self._admin, self.guard = admin, Guard(configuration, consent)
        self._connection, self._say = connection or configuration.kafka(), say

    # --- plans

    def plan_reset(self, asked: Reset) -> GroupPlan:
        """Return the new offset of each partition."""
        held = committed(self._admin, asked.group)
        before = held if asked.target == asked.group else committed(self._admin, asked.target)
        meant = partitions_meant(self._admin, asked.scope, asked.mode, held)
        self._tell_gone(asked.group, meant.gone)
        if not meant.places:
            raise self._nothing_meant(asked, held)
        found = gather(self._admin, self._connection, asked.mode, meant.places)
        moves = decide(asked.mode, facts(asked.group, found, held), before)
        does = f"reset to {asked.mode}"
        if asked.target != asked.group:
            does += f", as {asked.group} would be"
        is_there = self._need_there(asked.target, before, create=asked.create)
        return self._timed(GroupPlan(asked.target, does, is_there, moves))

    def plan_copy(
        self,
        group: str,
        other: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        *,
        does: str,
    ) -> GroupPlan:
        """Return a plan for exactly these offsets; a clone creates the group if necessary."""
        before = committed(self._admin, other)
        there, gone = split(self._admin, offsets)
        self._tell_gone(group, gone)
        bounds = bounds_of(self._admin, there)
        moves = tuple(Move(p, before.get(p), offsets[p], bounds[p]) for p in there)
        is_there = self._need_there(other, before, create=True)
        return self._timed(GroupPlan(other, does, is_there, moves))

    def plan_forget(self, group: str, scope: Scope | None) -> GroupPlan:
        """Return a plan that deletes the committed offsets in scope, or all."""
        before = committed(self._admin, group)
        self._need_there(group, before, create=False)
        places = sorted(p for p in before if scope is None or scope.holds(p))
        if not places and scope is not None:
            raise UsageError(
                f"group {group} has no committed offsets for the topics of --topic",
                hint=f"`playhead groups describe {group}` shows its offsets",
            )
        there, _ = split(self._admin, dict.fromkeys(places))
        bounds = bounds_of(self._admin, there)
        moves = tuple(Move(place, before[place], None, bounds.get(place)) for place in places)
        return GroupPlan(group, "delete" if scope is None else "delete offsets", True, moves)

    def plan_undo(self, snapshot: Snapshot) -> GroupPlan:
        """Return a plan for the state before the snapshot's change, including missing offsets."""
        before = committed(self._admin, snapshot.group)
        kept = {each.place: each for each in snapshot.kept}
        there, gone = split(self._admin, kept)
        self._tell_gone(snapshot.group, gone)
        there = self._same_topics(snapshot, there)
        if kept and not there:
            raise NothingLeftToRestore(snapshot.group, snapshot=snapshot.snapshot_id)
        bounds = bounds_of(self._admin, there)
        moves = []
        for place in there:
            now = before.get(place)
            moved = (now.offset if now else None) != kept[place].after
            note = "has moved since the change" if moved else None
            then = kept[place].before
            if then is not None and then.offset > bounds[place].high_watermark:
                note = "beyond the end; the topic may have been created again"
            moves.append(Move(place, now, then, bounds[place], note))
        is_there = bool(before) or self._group(snapshot.group).state != "dead"
        does = f"undo of: {snapshot.does}"
        return self._timed(GroupPlan(snapshot.group, does, is_there, tuple(moves)))

    # --- changes

    def need_idle(self, group: str, *, wait_s: float) -> None:
        """Return when the group has no members."""
        found = self._group(group)
        need_idle(self._admin, self._connection, found, wait_s=wait_s, say=self._say)

    def is_idle(self, group: str) -> bool:
        return self._group(group).is_idle

    def write(self, plan: GroupPlan, *, is_undo: bool = False) -> Snapshot:
        """Save the present offsets, write, read back, compare."""
        self._need_consent(plan)
        if any(move.before and not move.after for move in plan.moves):
            need_login(self._connection, needed_for=f"deleting offsets of group {plan.group}")
        snapshots = self.snapshots()
        snapshot = snapshots.take(plan, self._topic_ids(plan.places), is_undo=is_undo)
        abort_point("groups.snapshot_saved")
        try:
            carry_out(self._admin, self._connection, plan)
        except KafkaRefused:
            if self._is_untouched(plan):
                snapshots.drop(snapshot)
            raise
        return snapshot

    def delete(self, plan: GroupPlan) -> Snapshot:
        """Delete a group after saving its offsets, which can be restored."""
        self._need_consent(plan)
        snapshots = self.snapshots()
        snapshot = snapshots.take(plan, self._topic_ids(plan.places))
        try:
            delete(self._admin, plan.group)
        except KafkaRefused:
            snapshots.drop(snapshot)
            raise
        return snapshot

    def undo(self, plan: GroupPlan, snapshot: Snapshot) -> None:
        """Carry out an undo; delete a group that the change had created."""
        self.write(plan, is_undo=True)
        abort_point("groups.put_back")
        if not snapshot.was_there and not committed(self._admin, plan.group):
            # The cluster may have deleted it with its last offset.
            with suppress(KafkaRefused):
                delete(self._admin, plan.group)
        self.snapshots().note_undone(snapshot)

    def _need_consent(self, plan: GroupPlan) -> None:
        self.guard.need(f"{plan.does} of group {plan.group}", plan.group)

    def names(self) -> list[str]:
        """Return every group of the cluster."""
        return [each.group for each in listed(self._admin)]

    def committed(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """Return everything that a group has committed."""
        return committed(self._admin, group)

    def snapshots(self) -> Snapshots:
        """The snapshots of this cluster."""
        return Snapshots(self._admin.cluster().cluster_id)

    # --- parts

    def _group(self, name: str) -> Group:
        return described(self._admin, [name])[name]

    def _topic_ids(self, places: Collection[TopicPartition]) -> dict[str, str]:
        topics = sorted({topic for topic, _ in places})
        found = describe_those(self._admin, topics) if topics else {}
        return {name: each.topic_id for name, each in found.items()}

    def _same_topics(
        self, snapshot: Snapshot, there: Collection[TopicPartition]
    ) -> list[TopicPartition]:
        """Return those in the topics of the snapshot, and tell about the others."""
        now, then = self._topic_ids(there), snapshot.topic_ids
        other = {name for name, id_ in now.items() if then.get(name, id_) != id_}
        for topic, number in there:
            if topic in other:
                self._say(
                    f"skipping {topic}:{number}: the topic was created again since, and the offset of group "
                    f"{snapshot.group} was one of the deleted topic"
                )
        return [place for place in there if place[0] not in other]

    def _need_there(
        self, group: str, held: Mapping[TopicPartition, CommittedOffset], *, create: bool
    ) -> bool:
        """Return whether the group exists; refuse a missing one unless it may be created."""
        if held or self._group(group).state != "dead":
            return True
        if not create:
            names = self.names()
            raise NoSuchGroup(group, existing=names, hint="create it with --create")
        return False

    def _timed(self, plan: GroupPlan) -> GroupPlan:
        return with_times(self._connection, plan)

    def _tell_gone(self, group: str, gone: Collection[TopicPartition]) -> None:
        for topic, number in gone:
            self._say(
                f"skipping {topic}:{number}, which no longer exists (group {group} still has an offset for it)"
            )

    def _nothing_meant(
        self, asked: Reset, held: Mapping[TopicPartition, CommittedOffset]
    ) -> UsageError:
        if not held and self._group(asked.group).state == "dead":
            return NoSuchGroup(asked.group, existing=self.names())
        return UsageError(
            f"group {asked.group} has committed no offsets, so its topics are unknown",
            hint="name the topics: --topic TOPIC",
        )

    def _is_untouched(self, plan: GroupPlan) -> bool:
        with suppress(KafkaRefused):
            now = committed(self._admin, plan.group)
            return all(now.get(move.place) == move.before for move in plan.moves)
        return False

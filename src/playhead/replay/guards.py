"""Refuses to go on with a plan when one of its ends is another one now."""

from collections.abc import Sequence

from playhead.errors import Refused
from playhead.plan import Plan
from playhead.record import Slice
from playhead.source import OutOfBounds, Source
from playhead.target import Target


class SourceReplaced(Refused):
    """What is at the address now is not what was planned."""

    def __init__(self, what: str, *, planned: str, found: str, replay_id: str) -> None:
        super().__init__(
            f"replay {replay_id} was planned with {what} {planned}; there is {found} now",
            hint="name the same servers as then (-b, --database, -c), or plan a new replay",
        )


class TargetReplaced(Refused):
    """What was begun in one place would be done all over again in another."""

    def __init__(self, replay_id: str, *, planned: str, found: str) -> None:
        self.planned, self.found = planned, found
        super().__init__(
            f"replay {replay_id} was planned into {planned}; the target is {found} now, and its ledger "
            "does not know this replay",
            hint="name the same servers as then (-b, --database, -c), or plan a new replay",
        )


class LedgerForgot(Refused):
    """The target's ledger has less of a replay than this machine has seen there."""

    def __init__(self, replay_id: str, *, known: int, found: int) -> None:
        self.replay_id, self.known, self.found = replay_id, known, found
        super().__init__(
            f"{known:,} offsets of replay {replay_id} were committed, by this machine's journal, and the "
            f"ledger of its target has {found:,}: what it has forgotten would be written again",
            hint="find out why: was the ledger deleted, or emptied, or the target restored? If what it "
            f"says is the truth now, data and ledger alike: playhead resume {replay_id} --trust-ledger",
        )


def refuse_another_target(target: Target, plan: Plan) -> None:
    """Return when the target is the one that was planned, or one that was restored from it.

    A ledger that knows the replay has come from there, together with what it says is committed.
    """
    found = target.identity()
    if found != plan.target.identity and not target.entries(plan.replay_id):
        raise TargetReplaced(plan.replay_id, planned=plan.target.identity, found=found)


def refuse_what_is_gone(source: Source, plan: Plan, left: Sequence[Slice]) -> None:
    """What is still to be read must still be there, in the topic that was planned."""
    facts = source.facts()
    if facts.identity != plan.source.identity:
        raise SourceReplaced(
            "source", planned=plan.source.identity, found=facts.identity, replay_id=plan.replay_id
        )
    for topic, planned in plan.source.topics.items():
        found = facts.topics.get(topic)
        if planned.topic_id and found is not None and found.topic_id != planned.topic_id:
            raise SourceReplaced(
                f"topic {topic} of id",
                planned=planned.topic_id,
                found=str(found.topic_id),
                replay_id=plan.replay_id,
            )
    bounds = source.bounds()
    for slice_ in left:
        held = bounds.get((slice_.topic, slice_.partition))
        if held is None or slice_.from_offset < held.earliest or slice_.to_offset > held.stable_end:
            raise OutOfBounds(slice_, held)

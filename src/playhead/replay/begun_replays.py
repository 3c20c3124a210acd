"""Replays as the ledger of their target has them: the plan that counts, whoever made it and wherever."""

from playhead import secrets
from playhead.config.context import Configuration
from playhead.endpoint import Endpoint
from playhead.errors import UsageError
from playhead.plan import Plan
from playhead.replay.assemble import target_at
from playhead.request import Request
from playhead.target import Target
from playhead.terms import OtherTerms, Terms, differing, differing_rules


class NotBegun(UsageError):
    """The ledger of a target does not know a replay."""

    def __init__(self, replay_id: str, target: Endpoint) -> None:
        self.replay_id = replay_id
        super().__init__(
            f"the ledger of {target.shown()} has no replay {replay_id!r}",
            hint="a whole id is needed; `playhead runs` lists the replays of this machine",
        )


class PlanNotKept(UsageError):
    """The ledger knows a replay, and has no plan of it."""

    def __init__(self, replay_id: str, *, reason: str) -> None:
        super().__init__(
            f"the ledger has no plan of {replay_id}: {reason}",
            hint="resume it where it was started, or with the file of its plan: "
            f"playhead replay … --id {replay_id} --plan FILE",
        )


def begun_plan(target: Target, request: Request, replay_id: str) -> Plan | None:
    """The plan that an id has in the ledger, when it was begun with this very request; else None.

    Another request under the same id is refused.
    """
    kept = target.terms(replay_id)
    if kept is None:
        return None
    if kept.is_endless:
        raise OtherTerms(replay_id, differences=["this is a replay, and that a live pipeline"])
    if differences := differing_rules(kept.rules, request.said()):
        raise OtherTerms(replay_id, differences=differences)
    return None if kept.plan is None else _read(replay_id, kept)


def plan_from_ledger(replay_id: str, end: Endpoint, configuration: Configuration) -> Plan:
    """The plan of a replay that another machine began to write there."""
    kept = target_at(end, configuration).terms(replay_id)
    if kept is None:
        raise NotBegun(replay_id, end)
    plan = _plan(replay_id, kept)
    there = plan.request.target_endpoint
    if not _is_named_by(there, end.from_anywhere()):
        raise UsageError(
            f"replay {replay_id} goes into {there.shown()}, and {end.shown()} was named",
            hint=f"name {there.shown()} instead",
        )
    if secrets.has_reference(plan.request.source):
        raise PlanNotKept(
            replay_id, reason="its source refers to what this machine keeps to itself"
        )
    if "/" in plan.request.on_error:
        reason = f"its dead letters would go where {plan.request.on_error} says, which nobody named"
        raise PlanNotKept(replay_id, reason=reason)
    return plan


def _is_named_by(there: Endpoint, end: Endpoint) -> bool:
    """Whether it is the end that was named. Who can write a ledger chooses no server, and no `${NAME}`."""
    return (
        (there.system, there.name) == (end.system, end.name)
        and there.address in (None, end.address)
        and there.context in (None, end.context)
    )


def refuse_other_terms(target: Target, plan: Plan) -> None:
    """Return when the ledger was begun with this plan; one without terms cannot tell."""
    kept = target.terms(plan.replay_id)
    if kept is not None and (differences := differing(kept, plan.terms())):
        raise OtherTerms(plan.replay_id, differences=differences)


def _plan(replay_id: str, kept: Terms) -> Plan:
    if kept.is_endless:
        reason = "it is a live pipeline, which goes on with `playhead live`"
        raise PlanNotKept(replay_id, reason=reason)
    if kept.plan is None:
        raise PlanNotKept(replay_id, reason="it was too large for a record")
    return _read(replay_id, kept)


def _read(replay_id: str, kept: Terms) -> Plan:
    """The plan in a ledger, which may have been written by anybody who may write there."""
    try:
        plan = Plan.from_document(kept.plan or {})
    except (ValueError, LookupError, TypeError, AttributeError, UsageError) as exc:
        raise PlanNotKept(replay_id, reason=f"what is there is none: {exc}") from exc
    if (plan.replay_id, plan.digest()) != (replay_id, kept.digest):
        raise PlanNotKept(replay_id, reason="what is there is another one's")
    return plan

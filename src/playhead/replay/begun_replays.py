"""Replays that the ledger of their target knows: its plan is used, whichever machine made it."""

from dataclasses import replace

from playhead import secrets
from playhead.config.context import Configuration
from playhead.config.layers import Precedence, Resolved
from playhead.endpoint import Endpoint
from playhead.errors import UsageError
from playhead.plan import Plan
from playhead.replay.assemble import target_at
from playhead.request import Request
from playhead.target import Target
from playhead.terms import OtherTerms, Terms, differing, differing_rules


class NotBegun(UsageError):
    """The ledger of a target does not contain a replay."""

    def __init__(self, replay_id: str, target: Endpoint) -> None:
        self.replay_id = replay_id
        super().__init__(
            f"the ledger of {target.shown()} has no replay {replay_id!r}",
            hint="give the whole ID; `playhead runs` lists the replays of this machine",
        )


class PlanNotKept(UsageError):
    """The ledger has the replay, but not its plan."""

    def __init__(self, replay_id: str, *, reason: str) -> None:
        super().__init__(
            f"the ledger lacks the plan of {replay_id}: {reason}",
            hint="resume the replay on its own machine, or with its plan file: playhead "
            f"replay … --id {replay_id} --plan FILE",
        )


def begun_plan(target: Target, request: Request, replay_id: str) -> Plan | None:
    """Return the plan of an id in the ledger if it has the same request, else None.

    Another request under the same id is refused.
    """
    kept = target.terms(replay_id)
    if kept is None:
        return None
    if kept.is_endless:
        raise OtherTerms(replay_id, differences=["this is a replay, the ledger's a live pipeline"])
    if differences := differing_rules(kept.rules, request.said()):
        raise OtherTerms(replay_id, differences=differences)
    return None if kept.plan is None else _read(replay_id, kept)


def plan_from_ledger(replay_id: str, end: Endpoint, configuration: Configuration) -> Plan:
    """Return the plan of a replay that another machine began."""
    kept = target_at(end, configuration).terms(replay_id)
    if kept is None:
        raise NotBegun(replay_id, end)
    plan = plan_of_terms(replay_id, kept)
    there = plan.request.target_endpoint
    if not _is_named_by(there, end.from_anywhere()):
        has_server = bool(end.address or end.context) > bool(there.address or there.context)
        more = ", and -b or -c for the server" if has_server else ""
        raise UsageError(
            f"replay {replay_id} goes into {there.shown()}, but TARGET is {end.shown()}",
            hint=f"use {there.shown()} as TARGET{more}",
        )
    if secrets.has_reference(plan.request.source):
        raise PlanNotKept(replay_id, reason="its source refers to a secret of this machine")
    if elsewhere := _unnamed(plan.request, there):
        reason = f"{elsewhere}, which this command does not name"
        raise PlanNotKept(replay_id, reason=reason)
    return plan


def _unnamed(request: Request, target: Endpoint) -> str | None:
    """Return which records would go to a server or a topic that is not that of the target; None if none would."""
    if "/" in request.on_error:
        return f"its dead letters would go to {request.on_error}"
    if request.topic_map:
        return f"its topics would go to others ({', '.join(request.topic_map)})"
    if request.redrive and not target.name:
        return "its records would go to topics that their headers and its plan name"
    return None


def _is_named_by(there: Endpoint, end: Endpoint) -> bool:
    """Return whether it is the named end: a ledger must not choose a server or a `${NAME}`."""
    return there == end or (_is_database(end) and there == replace(end, address=None))


def _is_database(end: Endpoint) -> bool:
    return end.system == "postgres" and end.address is not None


def with_named_database(end: Endpoint, configuration: Configuration) -> Configuration:
    """Return the configuration whose database is the named one, for a plan that names a table alone."""
    if not _is_database(end):
        return configuration
    named = Resolved(str(end.address), "TARGET", Precedence.COMMAND_LINE)
    return replace(configuration, settings={**configuration.settings, "database": named})


def refuse_other_terms(target: Target, plan: Plan) -> None:
    """Refuse a ledger that was begun with another plan; one without terms cannot be checked."""
    kept = target.terms(plan.replay_id)
    if kept is not None and (differences := differing(kept, plan.terms())):
        raise OtherTerms(plan.replay_id, differences=differences)


def plan_of_terms(replay_id: str, kept: Terms) -> Plan:
    """Return the plan that a ledger has of a replay."""
    if kept.is_endless:
        reason = "it is a live pipeline; continue it with `playhead live`"
        raise PlanNotKept(replay_id, reason=reason)
    if kept.plan is None:
        raise PlanNotKept(replay_id, reason="it was too large for a record")
    return _read(replay_id, kept)


def _read(replay_id: str, kept: Terms) -> Plan:
    """Return the plan of a ledger, which other users may have written."""
    try:
        plan = Plan.from_document(kept.plan or {})
    except (ValueError, LookupError, TypeError, AttributeError, UsageError) as exc:
        raise PlanNotKept(replay_id, reason=f"the stored plan is invalid: {exc}") from exc
    if (plan.replay_id, plan.digest()) != (replay_id, kept.digest):
        raise PlanNotKept(replay_id, reason="the stored plan belongs to another replay")
    # The rules of the terms were compared with what was asked for; those of queries have more names.
    asked = {name: kept.rules[name] for name in kept.rules.keys() & plan.request.as_document()}
    if differences := differing_rules(asked, plan.request.said()):
        reason = f"the stored plan is of another request: {differences[0]}"
        raise PlanNotKept(replay_id, reason=reason)
    return plan

"""`playhead groups delete`: takes a snapshot first, so that undo can restore the offsets."""

from playhead.cli.groups.options import scope_of, wait_s
from playhead.cli.groups.render import report, show_plans
from playhead.cli.options import Run, command
from playhead.errors import UsageError
from playhead.options.groups import CONSENT, DELETE, GROUP, TOPICS, WAIT
from playhead.options.shared import CONNECTION


@command(DELETE, WAIT, CONSENT, CONNECTION)
def delete(run: Run, group: list[str]) -> None:
    """Delete groups with their committed offsets; `playhead groups undo` restores the offsets.

    With --topic, the groups stay, and only their offsets for these topics are deleted. A topic that a
    member reads is refused.
    """
    from playhead.cli.groups.confirm import confirm, desk

    if not group:
        raise UsageError("no group was given", hint="`playhead groups list` names them")
    if run.values["topic"]:
        if run.values["wait"] is not None:
            raise UsageError("--wait and --topic contradict each other")
        _delete_offsets(run, group)
        return
    with desk(run) as here:
        plans = [here.plan_forget(each, None) for each in dict.fromkeys(group)]
        show_plans(run, plans)
        if not run.values["dry_run"]:
            for plan in plans:
                here.need_idle(plan.group, wait_s=wait_s(run))
            confirm(run, here, plans, "deleting")
            for plan in plans:
                here.delete(plan)
                run.output.say(f"group {plan.group} was deleted")
        report(run, plans, is_done=not run.values["dry_run"])


@command(GROUP, TOPICS, CONSENT, CONNECTION, now="playhead groups delete --topic")
def delete_offsets(run: Run, group: str) -> None:
    """Delete the committed offsets of a group for some topics; topics in use are refused."""
    _delete_offsets(run, [group])


def _delete_offsets(run: Run, groups: list[str]) -> None:
    from playhead.cli.groups.confirm import confirm, desk

    scope = scope_of(run)
    if scope.is_empty:
        raise UsageError("no topics were given", hint="--topic TOPIC, or TOPIC:0,2")
    with desk(run) as here:
        plans = [here.plan_forget(each, scope) for each in dict.fromkeys(groups)]
        show_plans(run, plans)
        if not run.values["dry_run"]:
            confirm(run, here, plans, "deleting offsets of")
            for plan in plans:
                here.write(plan)
                run.output.say(f"group {plan.group}: offsets deleted, as read back")
        report(run, plans, is_done=not run.values["dry_run"])

"""`playhead groups delete` and `delete-offsets`: with a snapshot first, so that undo brings them back."""

from playhead.cli.groups.options import scope_of, wait_s
from playhead.cli.groups.render import report, show_plans
from playhead.cli.options import Run, command
from playhead.errors import UsageError
from playhead.options.groups import CONSENT, GROUP, GROUPS, TOPICS, WAIT
from playhead.options.shared import CONNECTION


@command(GROUPS, WAIT, CONSENT, CONNECTION)
def delete(run: Run, group: list[str]) -> None:
    """Delete groups with all they have committed; `playhead groups undo` brings the offsets back."""
    from playhead.cli.groups.confirm import confirm, desk

    if not group:
        raise UsageError("no group is named", hint="`playhead groups list` names them")
    with desk(run) as here:
        plans = [here.plan_forget(each, None) for each in dict.fromkeys(group)]
        show_plans(run, plans)
        if not run.values["dry_run"]:
            for plan in plans:
                here.need_idle(plan.group, wait_s=wait_s(run))
            confirm(run, here, plans, "deleting")
            for plan in plans:
                here.delete(plan)
                run.output.say(f"group {plan.group} is deleted")
        report(run, plans, is_done=not run.values["dry_run"])


@command(GROUP, TOPICS, CONSENT, CONNECTION)
def delete_offsets(run: Run, group: str) -> None:
    """Delete what a group has committed for some topics; a topic that it reads now is refused."""
    from playhead.cli.groups.confirm import confirm, desk

    scope = scope_of(run)
    if scope.is_empty:
        raise UsageError("it is not said which topics", hint="--topic TOPIC, or TOPIC:0,2")
    with desk(run) as here:
        plan = here.plan_forget(group, scope)
        show_plans(run, [plan])
        if not run.values["dry_run"]:
            confirm(run, here, [plan], "deleting offsets of")
            here.write(plan)
            run.output.say(f"group {group}: deleted, and read back so")
        report(run, [plan], is_done=not run.values["dry_run"])

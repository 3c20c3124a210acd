"""`playhead groups reset` and `clone`: plan, confirmation, snapshot, write, check."""

from typing import TYPE_CHECKING, Any

from playhead.cli.groups.options import Modes, scope_of, wait_s
from playhead.cli.groups.render import report, show_plans
from playhead.cli.options import Run, command
from playhead.errors import UsageError
from playhead.kafka.groups import offsets_csv
from playhead.options.groups import CLONE, CONSENT, MODE, RESET, SCOPE, WAIT
from playhead.options.shared import CONNECTION, TIME

if TYPE_CHECKING:
    from playhead.kafka.groups.changes import GroupAdmin


@command(RESET, MODE, SCOPE, WAIT, CONSENT, TIME, CONNECTION)
def reset(run: Run, group: list[str]) -> None:
    """Change the committed offsets of groups: plan, confirm, snapshot, write, check.

    The plan shows the offsets before and after for each partition, how many records will be delivered
    again or skipped, and their times. Only groups without members can be changed. `playhead groups undo`
    restores the offsets.
    """
    values = run.values
    if values["dry_run"] and values["execute"]:
        raise UsageError("--dry-run and --execute contradict each other")
    named = list(dict.fromkeys(group or ()))
    modes, scope = Modes(run, named), scope_of(run)
    if scope.is_empty and not values["from_file"]:
        raise UsageError("no topics were given", hint="--topic TOPIC, or --all-topics")
    if values["from_file"] and not scope.is_empty:
        run.output.say("--topic and --all-topics have no effect: the file names the partitions")
    from playhead.cli.groups.confirm import desk
    from playhead.kafka.groups.changes import Reset

    with desk(run) as here:
        groups = _groups(run, named, modes, here)
        _need_one_target(values["to_group"], groups)
        to_group, create = values["to_group"], bool(values["create"])
        asked = [Reset(each, modes.of(each), scope, to_group, create) for each in groups]
        plans = [here.plan_reset(each) for each in asked]
        _carry_out(run, here, plans, is_single=len(groups) == 1 and not values["all_groups"])


@command(CLONE, SCOPE, WAIT, CONSENT, CONNECTION)
def clone(run: Run, group: str, other: str, through: str | None) -> None:
    """Copy the offsets of GROUP to another group; with --through, for the copy of a replay."""
    from playhead.cli.groups.confirm import cloned, desk

    scope = scope_of(run)
    if through is not None:
        from playhead.cli.groups.through import through_replay

        with through_replay(run, through, group, scope) as (here, offsets):
            does = f"clone of {group} through replay {through}"
            plan = here.plan_copy(group, other, offsets, does=does)
            _carry_out(run, here, [plan], is_single=True)
        return
    if group == other:
        raise UsageError(f"{group} has its own offsets already", hint="name another group")
    with desk(run) as here:
        plan = here.plan_copy(group, other, cloned(here, group, scope), does=f"clone of {group}")
        _carry_out(run, here, [plan], is_single=True)


def _groups(run: Run, named: list[str], modes: Modes, here: "GroupAdmin") -> list[str]:
    """Return the groups that are named, all, or those of a file."""
    if named and run.values["all_groups"]:
        raise UsageError("groups by name and --all-groups contradict each other")
    if run.values["all_groups"]:
        every = here.names()
        if run.values["from_file"]:
            for left in sorted(set(every) - set(modes.named)):
                run.output.say(f"skipping group {left}: the file has no offsets for it")
            return [each for each in every if each in modes.named]
        if run.values["all_topics"]:
            return [each for each in every if _has_offsets(run, each, here)]
        return every
    if named or modes.named:
        return named or modes.named
    raise UsageError("no group was given", hint="name some, or --all-groups")


def _has_offsets(run: Run, group: str, here: "GroupAdmin") -> bool:
    found = bool(here.committed(group))
    if not found:
        run.output.say(f"skipping group {group}: it has no committed offsets")
    return found


def _need_one_target(to_group: str | None, groups: list[str]) -> None:
    if to_group is not None and len(groups) != 1:
        raise UsageError(
            f"--to-group takes the offsets of one group, but found {len(groups)}",
            hint="name one group",
        )


def _carry_out(run: Run, here: "GroupAdmin", plans: list[Any], *, is_single: bool) -> None:
    """Show, ask, write; `--export` alone only prints."""
    from playhead.cli.groups.confirm import is_meant, write_all

    values = run.values
    is_export = bool(values.get("export"))
    is_dry = bool(values["dry_run"]) or (is_export and not is_meant(run))
    show_plans(run, plans)
    if is_dry:
        for plan in plans:
            if not here.is_idle(plan.group):
                run.output.say(f"group {plan.group} has members now; a reset would fail")
    else:
        write_all(run, here, plans, wait_s=wait_s(run))
    if is_export:
        offsets = {plan.group: plan.offsets() for plan in plans}
        run.output.text(offsets_csv.write(offsets, with_group=not is_single))
    else:
        report(run, plans, is_done=not is_dry)

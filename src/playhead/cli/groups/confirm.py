"""The common steps of commands that change groups: the cluster, the confirmation, the write."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from playhead.cli.confirm import answer
from playhead.cli.groups.render import table
from playhead.cli.options import Run
from playhead.errors import UsageError
from playhead.kafka.admin.client import Admin
from playhead.kafka.groups.changes import GroupAdmin
from playhead.kafka.groups.plan import CommittedOffset, GroupPlan
from playhead.kafka.groups.scope import Scope
from playhead.source import TopicPartition

_MOST_ASKED = 40


@contextmanager
def desk(run: Run) -> Iterator[GroupAdmin]:
    """Return the groups of the cluster that the options name."""
    configuration = run.configuration()
    with Admin(configuration.kafka()) as admin:
        consent = answer(yes=is_meant(run))
        yield GroupAdmin(admin, configuration, say=run.output.say, consent=consent)


def is_meant(run: Run) -> bool:
    """Return whether the options already give the consent."""
    return bool(run.values["yes"] or run.values.get("execute"))


def cloned(here: GroupAdmin, group: str, scope: Scope) -> dict[TopicPartition, CommittedOffset]:
    """Return the group's committed offsets in the scope."""
    return within(group, here.committed(group), scope)


def within(
    group: str, held: Mapping[TopicPartition, CommittedOffset], scope: Scope
) -> dict[TopicPartition, CommittedOffset]:
    """Return the offsets in the scope; raise an error if there are none."""
    found = {place: at for place, at in held.items() if scope.is_empty or scope.holds(place)}
    if not found:
        what = "no offsets" if scope.is_empty else "no offsets for the topics of --topic"
        raise UsageError(
            f"group {group} has committed {what}", hint="`playhead groups list` lists the groups"
        )
    return found


def confirm(run: Run, here: GroupAdmin, plans: Sequence[GroupPlan], action: str) -> None:
    """Ask once for all plans, after showing the table."""
    if not is_meant(run) and sum(len(plan.moves) for plan in plans) <= _MOST_ASKED:
        table(run, plans)
    groups = [plan.group for plan in plans]
    here.guard.agree(f"{action} {', '.join(groups)}", *groups)


def write_all(run: Run, here: GroupAdmin, plans: Sequence[GroupPlan], *, wait_s: float) -> None:
    """With consent and no members: save, write, and read back, group by group."""
    for plan in plans:
        here.need_idle(plan.group, wait_s=wait_s)
    confirm(run, here, plans, "writing the offsets of")
    for plan in plans:
        here.write(plan)
        run.output.say(
            f"group {plan.group}: wrote {len(plan.moves)} partitions and read back the same "
            f"offsets; undo it with: playhead groups undo {plan.group}"
        )

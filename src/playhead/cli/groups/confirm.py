"""What the commands that change groups have in common: the cluster, the question, the write."""

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
    """The groups of the cluster that the options name."""
    configuration = run.configuration()
    with Admin(configuration.kafka()) as admin:
        consent = answer(yes=is_meant(run))
        yield GroupAdmin(admin, configuration, say=run.output.say, consent=consent)


def is_meant(run: Run) -> bool:
    """Whether the options say yes already."""
    return bool(run.values["yes"] or run.values.get("execute"))


def cloned(here: GroupAdmin, group: str, scope: Scope) -> dict[TopicPartition, CommittedOffset]:
    """What the group has committed of what is meant."""
    return within(group, here.committed(group), scope)


def within(
    group: str, held: Mapping[TopicPartition, CommittedOffset], scope: Scope
) -> dict[TopicPartition, CommittedOffset]:
    """The offsets that are meant; none at all is an error."""
    found = {place: at for place, at in held.items() if scope.is_empty or scope.holds(place)}
    if not found:
        what = "no offsets" if scope.is_empty else "no offsets for what --topic names"
        raise UsageError(
            f"group {group} has committed {what}", hint="`playhead groups list` names the groups"
        )
    return found


def confirm(run: Run, here: GroupAdmin, plans: Sequence[GroupPlan], action: str) -> None:
    """Ask for all of the plans at once, with the table before the eyes of who is asked."""
    if not is_meant(run) and sum(len(plan.moves) for plan in plans) <= _MOST_ASKED:
        table(run, plans)
    groups = [plan.group for plan in plans]
    here.guard.agree(f"{action} {', '.join(groups)}", *groups)


def write_all(run: Run, here: GroupAdmin, plans: Sequence[GroupPlan], *, wait_s: float) -> None:
    """Nobody reads, somebody said yes: save, write, read back; one group after the other."""
    for plan in plans:
        here.need_idle(plan.group, wait_s=wait_s)
    confirm(run, here, plans, "writing the offsets of")
    for plan in plans:
        here.write(plan)
        run.output.say(
            f"group {plan.group}: written, and read back the same in {len(plan.moves)} partitions; "
            f"take it back with: playhead groups undo {plan.group}"
        )

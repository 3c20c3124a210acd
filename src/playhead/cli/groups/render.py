"""Plans for groups as lines for people and as data."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from playhead.cli.options import Run

if TYPE_CHECKING:
    from playhead.kafka.groups.plan import GroupPlan


def show_plans(run: Run, plans: "Sequence[GroupPlan]") -> None:
    """Print a plan in a few lines; the table is the data."""
    for plan in plans:
        makes = "" if plan.is_there else ", which does not exist yet and will be created"
        run.output.say(f"group {plan.group}{makes}: {plan.does}")
        run.output.say(f"  blast radius: {plan.blast()}")


def report(run: Run, plans: "Sequence[GroupPlan]", *, is_done: bool) -> None:
    """Print the table of before and after."""
    rows = [{"group": plan.group} | row for plan in plans for row in _rows(plan)]
    document = {"done": is_done, "groups": [plan.as_document() for plan in plans]}
    run.output.emit(document, rows)


def table(run: Run, plans: "Sequence[GroupPlan]") -> None:
    """Print before and after as lines, before the user is asked."""
    for plan in plans:
        for row in _rows(plan):
            before = "-" if row["before"] is None else row["before"]
            after = "-" if row["after"] is None else row["after"]
            moved = [f"{row[name]:,} {name}" for name in ("again", "skipped") if row[name]]
            note = f"  {row['note']}" if row["note"] else ""
            place = f"{row['topic']}:{row['partition']}"
            run.output.say(f"  {place:<40} {before:>12} → {after:<12} {', '.join(moved)}{note}")


def _rows(plan: "GroupPlan") -> list[dict[str, Any]]:
    return [move.row() for move in plan.moves]

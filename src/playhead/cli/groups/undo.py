"""`playhead groups undo`: restores the offsets from before the last change."""

from typing import Any

from playhead.cli.groups.options import wait_s
from playhead.cli.groups.render import report, show_plans
from playhead.cli.options import Run, command
from playhead.grammar.instant import show_ms
from playhead.options.groups import CONSENT, UNDO, WAIT
from playhead.options.shared import CONNECTION


@command(UNDO, WAIT, CONSENT, CONNECTION)
def undo(run: Run, group: str, snapshot_id: str | None, list_: bool) -> None:
    """Restore the offsets from before the last reset, clone or deletion on this machine.

    Partitions without a committed offset have none again, and a group that the change created is
    deleted.
    """
    from playhead.cli.groups.confirm import confirm, desk

    with desk(run) as here:
        if list_:
            rows = [_row(each) for each in here.snapshots().of(group)]
            run.output.emit({"group": group, "snapshots": rows}, rows)
            return
        known = here.snapshots()
        snapshot = known.find(group, snapshot_id) if snapshot_id else known.latest(group)
        plan = here.plan_undo(snapshot)
        show_plans(run, [plan])
        if not run.values["dry_run"]:
            here.need_idle(group, wait_s=wait_s(run))
            confirm(run, here, [plan], "restoring the offsets of")
            here.undo(plan, snapshot)
            skipped = len(snapshot.kept) - len(plan.moves)
            some = f" in {len(plan.moves)} of {len(snapshot.kept)} partitions" if skipped else ""
            run.output.say(
                f"group {group} has its offsets from before {show_ms(snapshot.made_at_ms)} again{some}, as read back"
            )
        report(run, [plan], is_done=not run.values["dry_run"])


def _row(snapshot: Any) -> dict[str, Any]:
    undone_ms = snapshot.undone_at_ms
    return {
        "snapshot": snapshot.snapshot_id,
        "made": show_ms(snapshot.made_at_ms),
        "before": snapshot.does,
        "partitions": len(snapshot.kept),
        "undone": None if undone_ms is None else show_ms(undone_ms),
    }

"""`playhead runs`: the replays of this machine."""

from typing import Any

from playhead.cli.options import Run, command
from playhead.cli.replay.render import plan_lines, run_row
from playhead.errors import PlayheadError
from playhead.options.replays import RUNS
from playhead.replay.journal import FAILED, RUNNING, STOPPED
from playhead.replay.journal import JournalEntry as JournalRun
from playhead.standby.history import History

_NOT_DONE = (RUNNING, STOPPED, FAILED)
_ANSWERS_WITHIN_S = 5.0


@command(RUNS)
def runs(run: Run, replay_id: str | None) -> None:
    """List the replays of this machine, the latest first; or show one with its plan and proof.

    For an unfinished replay, the progress comes from the ledger in its target; the list connects to no
    server.
    """
    journal = History()
    triggers = journal.triggers()
    if replay_id is None:
        found = [run_row(each, triggers) for each in journal.runs()]
        if not found:
            run.output.say("no replay has run here yet; begin with: playhead replay --help")
        run.output.emit({"runs": found}, found)
        return
    one = journal.find(replay_id)
    for line in plan_lines(one.plan):
        run.output.say(line)
    if one.proof is not None:
        run.output.say(one.proof["verdict"])
    row = run_row(one, triggers) | (_reached(run, one) if one.state in _NOT_DONE else {})
    document = row | {
        "plan": one.plan.as_document(),
        "proof": one.proof,
        "verification": one.verification,
        "started": one.started_at_ms,
        "ended": one.ended_at_ms,
    }
    run.output.emit(document, [row])


def _reached(run: Run, one: JournalRun) -> dict[str, Any]:
    """How far the ledger says it is, if the target can be reached by what is configured here and now."""
    from playhead.cli.replay.run_replay import with_servers
    from playhead.replay.assemble import ends
    from playhead.replay.ledger_watch import one_look

    try:
        configuration = with_servers(run, dict(one.servers)).configuration()
        target = ends(one.plan.request, configuration).target
        entries = one_look(target, one.replay_id, within_s=_ANSWERS_WITHIN_S)
    except PlayheadError as exc:
        run.output.say(f"how far it is cannot be told, its target was not reached: {exc}")
        if exc.hint:
            run.output.say(f"hint: {exc.hint}")
        return {}
    committed = sum(len(entry.slice) for entry in entries)
    run.output.say(f"  so far   {committed:,} of {one.plan.planned:,} offsets are committed")
    return {"written": sum(entry.written for entry in entries), "committed": committed}

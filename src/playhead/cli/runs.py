"""`playhead runs`: the replays of this machine."""

from typing import Annotated

import typer

from playhead.cli.complete import replay_ids
from playhead.cli.options import Run, with_options
from playhead.cli.shown import plan_lines, run_row
from playhead.standby.history import History

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
@with_options()
def runs(
    run: Run,
    replay_id: Annotated[
        str | None,
        typer.Argument(help="One of them, wholly.", autocompletion=replay_ids, show_default=False),
    ] = None,
) -> None:
    """List the replays of this machine, the latest first; or show one with its plan and proof.

    How far a running one is, its ledger knows: `playhead resume ID` shows it, and refuses to run it twice.
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
    row = run_row(one, triggers)
    document = row | {
        "plan": one.plan.as_document(),
        "proof": one.proof,
        "verification": one.verification,
        "started": one.started_at_ms,
        "ended": one.ended_at_ms,
    }
    run.output.emit(document, [row])

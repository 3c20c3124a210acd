"""`playhead verify`: read a target back and compare it with its source."""

from typing import Annotated

import typer

from playhead.cli.complete import replay_ids
from playhead.cli.options import CONNECTION, SPARK, Run, with_options
from playhead.cli.playing import with_servers
from playhead.errors import EXIT_DIFFERENT
from playhead.journal import Journal
from playhead.replay import api

app = typer.Typer(rich_markup_mode=None, add_completion=False)
_SHOWN = 10


@app.command()
@with_options(CONNECTION, SPARK)
def verify(
    run: Run,
    replay_id: Annotated[
        str, typer.Argument(help="Its id, or the beginning of it.", autocompletion=replay_ids)
    ],
) -> None:
    """Read the records of a replay again, from source and target, and compare them.

    Counts and a checksum that does not depend on order per slice, then each difference where they
    disagree. Exit code 4 when there is one. Nothing is written.
    """
    saved = Journal().find(replay_id)
    with_saved = with_servers(run, dict(saved.servers))
    planned = api.planned(saved.plan, with_saved.configuration())
    found = planned.verify()
    run.output.say(found.verdict())
    for each in found.differences[:_SHOWN]:
        place = f"{each['topic']}:{each['partition']} offset {each['offset']}"
        run.output.say(f"  {each['kind']:<8} {place}: {each['text']}")
    if len(found.differences) > _SHOWN:
        run.output.say("  -o json has more of them")
    document = found.as_document()
    run.output.emit(document, document["partitions"])
    if not found.agrees:
        raise typer.Exit(EXIT_DIFFERENT)

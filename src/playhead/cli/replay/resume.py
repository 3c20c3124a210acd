"""`playhead resume`: what the ledger does not have yet of a replay that stopped."""

from typing import Annotated

import typer

from playhead.cli.completion import replay_ids
from playhead.cli.options import CONNECTION, REGISTRY, SPARK, Run, with_options
from playhead.cli.replay.replay_options import MACHINE
from playhead.cli.replay.run_replay import LedgerSource, resume_from_ledger, resume_saved
from playhead.endpoint import Endpoint
from playhead.replay.journal import Journal

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
@with_options(MACHINE, CONNECTION, REGISTRY, SPARK)
def resume(
    run: Run,
    replay_id: Annotated[
        str, typer.Argument(help="Its id, or the beginning of it.", autocompletion=replay_ids)
    ],
    target: Annotated[
        str | None,
        typer.Argument(
            help="Where it goes, when another machine began it: its plan is in the ledger there.",
            show_default=False,
        ),
    ] = None,
    source: LedgerSource = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask, also where it was not asked before.")
    ] = False,
    trust_ledger: Annotated[
        bool,
        typer.Option(
            "--trust-ledger",
            help="Go on from a ledger with less than was committed: data and ledger were restored.",
        ),
    ] = False,
) -> None:
    """Go on with a replay: its plan minus what its target's ledger has.

    The servers are those it was started with, unless others are named. A replay that is finished
    reads and writes nothing and shows its proof again. One that this machine does not know goes on
    from the ledger of its TARGET; then its servers are named here, and with --yes its source.
    """
    if target is None:
        resume_saved(run, Journal().find(replay_id), yes=yes, trusts_ledger=trust_ledger)
    else:
        resume_from_ledger(
            run,
            replay_id,
            Endpoint.parse(target),
            source=Endpoint.parse(source) if source else None,
            yes=yes,
            trusts_ledger=trust_ledger,
        )

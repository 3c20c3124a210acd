"""`playhead resume`: completes a stopped replay with what its ledger lacks."""

from playhead.cli.options import Run, command
from playhead.cli.replay.run_replay import resume_from_ledger, resume_saved
from playhead.endpoint import Endpoint
from playhead.options.replays import MACHINE, RESUME
from playhead.options.shared import CONNECTION, REGISTRY, SPARK, WARM
from playhead.replay.journal import Journal


@command(RESUME, MACHINE, CONNECTION, REGISTRY, SPARK, WARM)
def resume(
    run: Run, replay_id: str, target: str | None, source: str | None, yes: bool, trust_ledger: bool
) -> None:
    """Continue a replay: its plan minus what is in its target's ledger.

    It uses the servers it was started with, unless you name others. A finished replay writes nothing
    and shows its proof again. A replay of another machine continues from the ledger of TARGET; name its
    servers and, with --yes, its source.
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

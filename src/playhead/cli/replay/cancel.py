"""`playhead cancel`: stop a replay that runs on this machine."""

from playhead.cli.options import Run, command
from playhead.errors import PlayheadError, UsageError
from playhead.host.clock import wait_until
from playhead.options.replays import CANCEL
from playhead.replay.journal import Journal

_LOOK_EVERY_S = 0.1


@command(CANCEL)
def cancel(run: Run, replay_id: str, wait: float) -> None:
    """Stop a running replay of this machine after its current slice, and wait for it.

    Committed records stay; `playhead resume` continues the replay.
    """
    journal = Journal()
    found = journal.find(replay_id)
    if not journal.ask_to_stop(found.replay_id):
        raise UsageError(
            f"replay {found.replay_id} is not running on this machine; it is {found.state}",
            hint="`playhead runs` lists the running replays",
        )
    has_ended = wait_until(
        lambda: not journal.is_held(found.replay_id), deadline_s=wait, every_s=_LOOK_EVERY_S
    )
    if not has_ended:
        raise PlayheadError(
            f"replay {found.replay_id} did not stop within {wait:g} s",
            hint="it stops after its current slice; check with `playhead runs`",
        )
    state = journal.find(found.replay_id).state
    run.output.emit(
        {"id": found.replay_id, "state": state}, [{"id": found.replay_id, "state": state}]
    )

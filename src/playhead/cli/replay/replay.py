"""`playhead replay`: plan it, show it, ask, run it, prove it."""

from pathlib import Path

from playhead.cli.options import Run, command
from playhead.cli.replay.replay_options import request, share
from playhead.cli.replay.run_replay import load_plan, play, resume_saved, save_plan, show
from playhead.endpoint import Endpoint
from playhead.errors import BadValue, UsageError
from playhead.host.kept_open import keeping_open
from playhead.options.replays import MACHINE, REPLAY, RULES, SPAN, TRAFFIC, TRANSFORM, ZONE
from playhead.options.shared import CONNECTION, REGISTRY, SPARK, WARM
from playhead.plan import REPLAY_ID
from playhead.replay import api
from playhead.replay.engine import EngineUse
from playhead.replay.journal import Journal
from playhead.request import Request


@command(SPAN, ZONE, TRANSFORM, TRAFFIC, *RULES, MACHINE, REPLAY, CONNECTION, REGISTRY, SPARK, WARM)
@keeping_open()
def replay(run: Run, source: str, target: str) -> None:
    """Replay a span of SOURCE into TARGET: exactly once, resumable, with a proof.

    Without a span, the whole log. Times without a zone are UTC. The command shows its plan and asks
    before it writes; the proof goes to stdout. Exit code 4 if the proof does not add up, 5 if stopped
    before the end.
    """
    asked = request(run, Endpoint.parse(source), Endpoint.parse(target))
    replay_id = _checked(run.values["replay_id"])
    earlier = Journal().get(replay_id) if replay_id else None
    if earlier is not None:
        _need_same(asked, earlier.plan.request, f"replay {replay_id}")
        resume_saved(run, earlier, yes=run.values["yes"], names_source=True)
        return
    file: Path | None = run.values["plan_file"]
    is_dry = run.values["dry_run"]
    part = share(run, asked.target_endpoint)
    if file is not None and file.exists():
        saved = load_plan(file)
        _need_same(asked, saved.request, str(file))
        planned = api.planned(saved, run.configuration(), share=part)
        planned.refuse_another_source()
    else:
        warm = run.values["yes"] and not is_dry
        planned = api.plan(
            asked,
            run.configuration(),
            replay_id=replay_id,
            use=EngineUse(part, warm, run.output.say),
        )
        if planned.is_begun:
            planned.refuse_another_source()
        if file is not None:
            save_plan(run, planned.plan, file)
    if is_dry:
        show(run, planned)
    else:
        play(run, planned, yes=run.values["yes"])


def _checked(replay_id: str | None) -> str | None:
    if replay_id is not None and not REPLAY_ID.fullmatch(replay_id):
        needed = "letters, digits, '.', '_' and '-', at most 64"
        raise BadValue("--id", found=replay_id, needed=needed)
    return replay_id


def _need_same(asked: Request, planned: Request, where: str) -> None:
    """Refuse options that differ from a saved plan, because the plan runs unchanged."""
    was, now = planned.from_anywhere().as_document(), asked.from_anywhere().as_document()
    different = sorted(name for name in now if _plain(now[name]) != _plain(was[name]))
    if different:
        told = ", ".join(f"{name} {was[name]!r}, now {now[name]!r}" for name in different[:3])
        raise UsageError(
            f"{where} has the plan of another replay: {told}",
            hint="use the options of that plan, or choose another --id or --plan",
        )


def _plain(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value

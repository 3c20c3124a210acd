"""`playhead runs`: the replays of this machine."""

import sys
from typing import Any

from playhead.cli.options import Run, command
from playhead.cli.replay.render import run_row
from playhead.cli.time_option import instant_ms
from playhead.errors import PlayheadError, Refused, UsageError
from playhead.options.replays import RUNS
from playhead.replay.journal import FAILED, RUNNING, STOPPED
from playhead.replay.journal import JournalEntry as JournalRun
from playhead.shown import plan_lines
from playhead.standby.history import History

_NOT_DONE = (RUNNING, STOPPED, FAILED)
_ANSWERS_WITHIN_S = 5.0


@command(RUNS)
def runs(run: Run, replay_id: str | None, limit: int, since: str | None, kind: str | None) -> None:
    """List the replays of this machine, the latest first; or show one with its plan and proof.

    For an unfinished replay, the progress comes from the ledger in its target; the list connects to no
    server.
    """
    journal = History()
    if replay_id is None:
        if run.values["forget"]:
            raise UsageError("--forget needs the ID of a run", hint="playhead runs ID --forget")
        _list(run, journal, limit, since, kind)
        return
    one = journal.find(replay_id)
    if run.values["forget"]:
        _forget(run, journal, one)
        return
    for line in plan_lines(one.plan):
        run.output.say(line)
    if one.proof is not None:
        run.output.say(str(one.proof.get("verdict", "its proof has no verdict")))
    [listed] = journal.listed(replay_id=one.replay_id)
    row = run_row(listed) | (_reached(run, one) if one.state in _NOT_DONE else {})
    document = row | {
        "plan": one.plan.as_document(),
        "proof": one.proof,
        "verification": one.verification,
        "started": one.started_at_ms,
        "ended": one.ended_at_ms,
    }
    run.output.emit(document, [row])


def _forget(run: Run, journal: History, one: JournalRun) -> None:
    from playhead.cli.confirm import answer
    from playhead.cli.replay.run_replay import with_servers
    from playhead.config.guards import need_consent
    from playhead.replay.old_groups import remove_group

    if one.state == RUNNING:
        hint = f"stop it first: playhead cancel {one.replay_id}"
        raise UsageError(f"replay {one.replay_id} is running", hint=hint)
    triggered = journal.trigger_of(one.replay_id)
    if triggered is not None:
        hint = f"playhead standby remove {triggered.standby} removes the standby"
        name = f"standby {triggered.standby}"
        raise Refused(f"replay {one.replay_id} is in the history of {name}", hint=hint)
    configuration = with_servers(run, dict(one.servers)).configuration()
    consent = answer(yes=run.values["yes"])
    need_consent(f"forget replay {one.replay_id}", one.replay_id, configuration, consent)
    groups = remove_group(one.plan, configuration)
    journal.forget(one.replay_id)
    document = {"id": one.replay_id, "state": "forgotten", "groups": groups}
    run.output.emit(document, [document | {"groups": ", ".join(groups)}])


def _list(run: Run, journal: History, limit: int, since: str | None, kind: str | None) -> None:
    since_ms = None if since is None else instant_ms("--since", since, run.configuration())
    # Ask for one more than is shown, to know whether there are more.
    most = min(limit + 1, sys.maxsize) if limit else -1  # The limit of SQLite's integers.
    found = journal.listed(most=most, since_ms=since_ms, kind=kind)
    if not found and since is None and kind is None:
        run.output.say("no replay has run here yet; see playhead replay --help")
    if limit and len(found) > limit:
        found.pop()
        run.output.say(f"showing the latest {limit:,} runs; for all: playhead runs --limit 0")
    rows = [run_row(each) for each in found]
    run.output.emit({"runs": rows}, rows)


def _reached(run: Run, one: JournalRun) -> dict[str, Any]:
    """Print how far the ledger is, if the target can be reached with the present configuration."""
    from playhead.cli.replay.run_replay import with_servers
    from playhead.replay.assemble import ends
    from playhead.replay.ledger_watch import one_look

    try:
        configuration = with_servers(run, dict(one.servers)).configuration()
        target = ends(one.plan.request, configuration).target
        entries = one_look(target, one.replay_id, within_s=_ANSWERS_WITHIN_S)
    except PlayheadError as exc:
        run.output.say(f"the progress is unknown, because its target was not reached: {exc}")
        if exc.hint:
            run.output.say(f"hint: {exc.hint}")
        return {}
    committed = sum(len(entry.slice) for entry in entries)
    run.output.say(f"  so far   {committed:,} of {one.plan.planned:,} offsets are committed")
    return {"written": sum(entry.written for entry in entries), "committed": committed}

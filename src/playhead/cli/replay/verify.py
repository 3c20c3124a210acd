"""`playhead verify`: read a target back and compare it with its source."""

from playhead.cli.options import Run, command, end
from playhead.cli.replay.replay_options import request
from playhead.cli.replay.run_replay import need_letters, need_source, with_servers
from playhead.endpoint import Endpoint
from playhead.errors import EXIT_DIFFERENT, UsageError
from playhead.options.option import unset
from playhead.options.replays import INTO_TABLES, RULES, SPAN, TRAFFIC, TRANSFORM, VERIFY, ZONE
from playhead.options.shared import CONNECTION, REGISTRY, SPARK, WARM
from playhead.replay import api
from playhead.replay.engine import EngineUse
from playhead.replay.journal import Journal
from playhead.replay.verify import Verification

_SHOWN = 10
# The options that identify and format rows; other rules are only for writing.
_OF_TABLES = INTO_TABLES.without("create")
_UNSAID = unset(RULES)


@command(VERIFY, SPAN, ZONE, TRANSFORM, TRAFFIC, _OF_TABLES, CONNECTION, REGISTRY, SPARK, WARM)
def verify(run: Run, replay_id: str, target: str | None, source: str | None) -> None:
    """Read the records of a replay again, from source and target, and compare them.

    Each record is the same, different or unknown; dead letters are compared too. The verdict is
    "verified" only if all are the same, otherwise the exit code is 4. Nothing is written.

    To verify a run of another machine, pass ID, TARGET and --source; the plan comes from the ledger in
    TARGET, the servers from your settings.

    Without a run, pass SOURCE and TARGET: archives are compared record by record, tables row by row
    (except rows that belong to no record of the span), copies of topics by counts and a checksum.
    """
    if source is not None and (target is None or ":" in replay_id):
        raise UsageError("--source goes with ID and TARGET", hint="playhead verify SOURCE TARGET")
    if target is not None and ":" in replay_id:
        whole = Run(run.output, _UNSAID | run.values)
        asked = request(whole, Endpoint.parse(replay_id), Endpoint.parse(target))
        planned = api.plan(asked, run.configuration(), use=EngineUse(say=run.output.say))
        found = planned.compare(say=run.output.say)
    elif ":" in replay_id:
        source = Endpoint.parse(replay_id).shown()
        raise UsageError(
            f"{source} is a source; its TARGET is missing",
            hint=f"playhead verify {source} TARGET; for a run: playhead verify ID",
        )
    elif target is not None:
        _need_no_span(run)
        begun = api.resumed(replay_id, Endpoint.parse(target), run.configuration())
        need_source(begun.plan, Endpoint.parse(source) if source else None, will_ask=False)
        need_letters(begun.plan, will_ask=False, will_read=True)
        found = begun.verify(say=run.output.say)
    else:
        _need_no_span(run)
        saved = Journal().find(replay_id)
        with_saved = with_servers(run, dict(saved.servers))
        found = api.planned(saved.plan, with_saved.configuration()).verify(say=run.output.say)
    _report(run, found)


def _need_no_span(run: Run) -> None:
    rows = (*SPAN, *TRANSFORM, *TRAFFIC, *_OF_TABLES)
    given = [row.shown_name for row in rows if run.values[row.name] != row.unset]
    if given:
        raise UsageError(
            f"{given[0]} does not go with a run, which has its own",
            hint="without a run: playhead verify SOURCE TARGET",
        )


def _report(run: Run, found: Verification) -> None:
    run.output.say(found.verdict())
    for each in found.differences[:_SHOWN]:
        place = f"{each['topic']}:{each['partition']} offset {each['offset']}"
        run.output.say(f"  {each['kind']:<8} {place}: {each['text']}")
    if len(found.differences) > _SHOWN:
        run.output.say("  -o json has more of them")
    for note in found.notes():
        run.output.say(f"  {note.weight:<8} {note.text}")
    document = found.as_document()
    run.output.emit(document, document["partitions"])
    if not found.agrees:
        raise end(EXIT_DIFFERENT)

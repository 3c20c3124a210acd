"""`playhead live`: a pipeline from topics into a table or topics, until it is stopped."""

import shutil
from collections.abc import Mapping
from typing import Any

from playhead.cli.confirm import answer
from playhead.cli.options import Run, command, end
from playhead.cli.replay.replay_options import request
from playhead.cli.replay.run_replay import stopping, with_servers
from playhead.config.context import Configuration
from playhead.endpoint import Endpoint
from playhead.errors import EXIT_FAILED, UsageError
from playhead.live.pipeline_spec import PipelineSpec, group_for, name_for, start_of, trigger_of
from playhead.options.replays import LIVE, RULES, TRANSFORM
from playhead.options.shared import CONNECTION, REGISTRY, SPARK
from playhead.replay.api import Planned
from playhead.replay.pipelines import Pipelines, pipeline_id
from playhead.shown import sample_lines

# Options for a pace or for single runs do not apply to an endless stream.
_RULES = [group.without("pace", "max_gap_ms", "redrive", "typed") for group in RULES]
_STOPS_WITHIN_S = 60.0
_STOPPING = "stopping after this round; press again to stop immediately"


@command(LIVE, TRANSFORM, *_RULES, CONNECTION, REGISTRY, SPARK)
def live(run: Run, source: str | None, target: str | None) -> None:
    """Write new records of SOURCE to TARGET, exactly once, until you stop it.

    It continues from the ledger in TARGET, after a stop or a kill. While TARGET is away, it waits and
    then catches up. Ctrl-C, SIGTERM or --stop end it after the current round.
    """
    if run.values["status"] or run.values["stop"]:
        _ask_or_stop(run, source or run.values["name"], target)
        return
    if source is None or target is None:
        raise UsageError(
            "a live pipeline needs SOURCE and TARGET",
            hint="playhead live kafka:TOPIC postgres:TABLE; or --status, --stop NAME",
        )
    _play(run, _wish(run, source, target))


def _wish(run: Run, source: str, target: str) -> PipelineSpec:
    values = run.values
    asked = request(run, Endpoint.parse(source), Endpoint.parse(target))
    name = name_for(values["name"], asked.target_endpoint)
    group = group_for(values["group"], name)
    return PipelineSpec(
        name=name,
        request=asked,
        group=group,
        start=start_of(values["from_"] or "latest", group),
        trigger_ms=trigger_of(values["trigger"]),
        drop_when_down=values["drop_when_down"],
        accept_loss=values["accept_loss"],
    )


def _play(run: Run, wish: PipelineSpec) -> None:
    from playhead.live import api
    from playhead.live.runner import Runner

    pipelines = Pipelines()
    values = run.values
    warm = values["yes"] and not values["dry_run"]
    planned = api.plan(wish, run.configuration(), pipelines, run.output.say, warm=warm)
    for line in _lines(wish, planned):
        run.output.say(line)
    if values["dry_run"]:
        for line in sample_lines(planned.plan, shutil.get_terminal_size((160, 24)).columns):
            run.output.say(line)
        run.output.emit(_document(wish, planned), [_document(wish, planned)])
        return
    planned.copies_again = bool(values["again"])
    planned.agree(answer(yes=values["yes"]))
    runner = Runner(wish, planned, pipelines, run.output.say)
    with stopping(run, pipelines.journal, pipeline_id(wish.name), _STOPPING):
        done = runner.run()
    run.output.say(f"live {wish.name}: {done['state']}; {_sum(done)}")
    run.output.emit(done, [_row(done)])


def _sum(done: dict[str, Any]) -> str:
    rejected = f", {done['rejected']:,} rejected," if done["rejected"] else ""
    told = f"{done['records']:,} records written{rejected} in {done['rounds']:,} rounds"
    counts = done["details"].items()
    parts = [f"{count:,} {name.replace('_', ' ')}" for name, count in counts if count]
    records = done["extra_fields"]["records"]
    parts += [f"{records:,} with fields that no column takes"] if records else []
    parts += [f"{done['lost_offsets']:,} offsets were lost"] if done["lost_offsets"] else []
    return ", ".join([told, *parts])


def _document(wish: PipelineSpec, planned: Planned) -> dict[str, Any]:
    return {
        "name": wish.name,
        "source": wish.request.source_endpoint.shown(),
        "target": wish.request.target_endpoint.shown(),
        "from": wish.start,
        "trigger": wish.trigger,
        "group": wish.group,
        "drop_when_down": wish.drop_when_down,
        "creates": list(planned.plan.target.creates),
        "notes": [note.text for note in planned.plan.notes],
    }


def _lines(wish: PipelineSpec, planned: Planned) -> list[str]:
    asked, plan = wish.request, planned.plan
    both = f"{asked.source_endpoint.shown()} → {asked.target_endpoint.shown()}"
    lines = [
        f"live {wish.name}: {both}",
        f"  rounds   every {wish.trigger}; records that cannot be written: {asked.on_error}",
        f"  group    {wish.group} shows how far it is",
    ]
    for name in ("where", "select"):
        if getattr(asked, name):
            lines.append(f"  {name:<8} {getattr(asked, name)}")
    if wish.drop_when_down:
        lines.append("  DROPS    records that arrive while the target is away")
    lines += [f"  creates  {each}" for each in plan.target.creates]
    return lines + [f"  {note.weight:<8} {note.text}" for note in plan.notes]


def _ask_or_stop(run: Run, name: str | None, more: str | None) -> None:
    from playhead.live import api

    if more is not None or (run.values["stop"] and not name):
        raise UsageError("--status and --stop take only the name of one pipeline")
    pipelines = Pipelines()
    if run.values["stop"]:
        done = api.stop(str(name), pipelines, wait_s=_STOPS_WITHIN_S)
        run.output.emit(done, [done])
        return
    if name is None and not pipelines.names():
        run.output.say("no live pipeline has run here yet; see playhead live --help")

    def configured(saved: Mapping[str, str]) -> Configuration:
        return with_servers(run, dict(saved)).configuration()

    one = [api.status(name, pipelines, configured)] if name else None
    found = api.status_of_all(pipelines, configured) if one is None else one
    for each in found:
        for remark in each["remarks"]:
            run.output.say(f"{each['name']}: {remark}")
        if "error" in each:
            run.output.say(f"{each['name']}: error: {each['error']}")
    document = found[0] if name else {"pipelines": found}
    run.output.emit(document, [_row(each) for each in found])
    if any("error" in each for each in found):
        raise end(EXIT_FAILED)


def _row(found: dict[str, Any]) -> dict[str, Any]:
    from playhead.grammar.instant import show_ms

    last = found.get("last_commit_ms")
    lag_s = found.get("lag_s")
    return {
        "name": found["name"],
        "state": found["state"],
        "lag": found.get("lag"),
        "lag_s": None if lag_s is None else round(lag_s, 1),
        "records": found.get("records"),
        "rejected": found.get("rejected"),
        "lost": found.get("lost_offsets"),
        "committed": show_ms(last) if last is not None else None,
        "away": found.get("away"),
    }

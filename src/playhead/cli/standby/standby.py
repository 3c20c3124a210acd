"""`playhead standby`: replays saved under a name, which run when they get a span."""

from collections import Counter
from typing import Any

from playhead.cli.confirm import ask_plainly
from playhead.cli.options import Run, command, group
from playhead.cli.replay.replay_options import request
from playhead.cli.replay.run_replay import report, run_shown, show
from playhead.cli.standby.watch import watch
from playhead.config.saved_servers import not_kept
from playhead.endpoint import Endpoint
from playhead.errors import PlayheadError, Unavailable
from playhead.grammar.instant import show_ms
from playhead.options.replays import (
    RULES,
    SPAN,
    STANDBY_ADD,
    STANDBY_NAME,
    STANDBY_REMOVE,
    STANDBY_RUN,
    TRAFFIC,
    TRANSFORM,
    ZONE,
)
from playhead.options.shared import CONNECTION, REGISTRY, SPARK
from playhead.standby import create, runner
from playhead.standby.history import UNREADABLE, History
from playhead.standby.runner import RunHooks
from playhead.standby.store import SavedStandby, StandbyExists, Standbys
from playhead.standby.trigger_file import span_of

_LATENESS = SPAN.only("lateness_ms", "read_on")
_WORDS = SPAN.without("lateness_ms", "read_on")


@command(STANDBY_ADD, ZONE, TRANSFORM, TRAFFIC, *RULES, _LATENESS, CONNECTION, REGISTRY, SPARK)
def add(
    run: Run, name: str, source: str, target: str, replace: bool, no_check: bool, dry_run: bool
) -> None:
    """Save a replay under NAME, with all rules of `playhead replay` and without a span.

    The replay is planned once over the whole log, so that errors appear now. A context is saved by its
    name; secrets are never saved.
    """
    standbys = Standbys()
    if name in standbys.names() and not replace:
        raise StandbyExists(name)
    asked = request(run, Endpoint.parse(source), Endpoint.parse(target))
    configuration = run.configuration()
    try:
        made = create.make(name, asked, configuration, check=not no_check)
    except Unavailable as exc:
        exc.hint = f"{exc.hint or 'try again'}; to save it without a check: --no-check"
        raise
    for setting in not_kept(configuration, made.servers):
        run.output.say(f"{setting} contains a secret and is not saved: set it for each run")
    if not dry_run:
        standbys.add(made, replace=replace)
        run.output.say(f"standby {name} is saved; run it: playhead standby run {name} --last 2h")
    row = _row(made, 0)
    run.output.emit(made.as_document(), [{each: row[each] for each in _COLUMNS[:5]}])


@command()
def list_(run: Run) -> None:
    """List the standbys, with the outcome of the last run of each."""
    standbys, rows = Standbys(), []
    runs = Counter(standby for standby, _ in History().triggers().values())
    for name in standbys.names():
        try:
            rows.append(_row(standbys.get(name), runs[name]))
        except PlayheadError as exc:
            rows.append(dict.fromkeys(_COLUMNS) | {"name": name, "error": str(exc)})
    if not rows:
        run.output.say("no standbys yet; make one: playhead standby add NAME SOURCE TARGET")
    run.output.emit({"standbys": rows}, rows)


@command(STANDBY_NAME)
def show_(run: Run, name: str) -> None:
    """Print a standby: source, target, rules and settings of its servers."""
    found = Standbys().get(name).as_document()
    told = {**found, **found["request"], **found["servers"]}
    for nested in ("request", "servers", "version"):
        del told[nested]
    said = {key: value for key, value in told.items() if value not in (None, False, [], ())}
    run.output.emit(found, [{"what": key, "value": value} for key, value in said.items()])


@command(STANDBY_RUN, _WORDS, ZONE)
def run_(run: Run, name: str, wait: bool, dry_run: bool, yes: bool) -> None:
    """Run a standby over a span.

    The command shows its plan and asks before it writes; the proof goes to stdout. Each run has an ID
    and a consumer group of its own. Only one run is active at a time. `playhead resume ID` continues a
    stopped run.
    """
    found = Standbys().get(name)
    words = {row.name.rstrip("_"): run.values[row.name] for row in _WORDS}
    zone = run.values["timezone"] or runner.zone_of(found)
    span = span_of(words, timezone=zone)
    if dry_run:
        show(run, runner.plan(found, span))
        return
    face = RunHooks(
        play=lambda planned: run_shown(run, planned, yes=yes),
        keep_waiting=lambda: wait,
        warm=yes,
    )
    if wait and runner.is_held(name):
        run.output.say(f"waiting for the end of another run of standby {name}")
    report(run, runner.run(name, span, trigger="command", face=face))


@command(STANDBY_NAME)
def history(run: Run, name: str) -> None:
    """List the runs of a standby, the latest first: trigger, span and outcome of each."""
    found = History().of(name)
    if not found:
        Standbys().get(name)  # A removed standby still has its history.
        run.output.say(f"standby {name} has not run yet")
    rows = [each.as_row() for each in found]
    if bad := sum(each.outcome == UNREADABLE for each in found):
        run.output.say(f"{bad:,} of {len(found):,} runs cannot be read; their errors say why")
    run.output.emit({"standby": name, "runs": rows}, rows)


@command(STANDBY_REMOVE)
def remove(run: Run, name: str, dry_run: bool, yes: bool) -> None:
    """Remove a standby; its history stays, and its runs can be resumed."""
    standbys = Standbys()
    if name not in standbys.names():
        standbys.get(name)  # Raises an error with the known names if it does not exist.
    if not dry_run:
        if not yes:
            ask_plainly(f"remove standby {name}")
        standbys.remove(name)
        run.output.say(f"standby {name} is removed")
    run.output.emit({"removed": name, "dry_run": dry_run}, [{"removed": name}])


_COLUMNS = ("name", "source", "target", "context", "made", "runs", "last", "error")


def _row(standby: SavedStandby, runs: int) -> dict[str, Any]:
    last = History().of(standby.name, most=1) if runs else []
    return {
        "name": standby.name,
        "source": standby.request.source_endpoint.shown(),
        "target": standby.request.target_endpoint.shown(),
        "context": standby.servers.get("context"),
        "made": show_ms(standby.made_at_ms),
        "runs": runs,
        "last": last[0].outcome if last else None,
        "error": None,
    }


standby = group(
    "Replays that are saved under a name, and run when they get a span.",
    add,
    list_,
    show_,
    run_,
    history,
    remove,
    watch,
    name="standby",
)

"""`playhead standby watch`: files that appear in a folder trigger standbys."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from playhead.cli.confirm import ask_plainly
from playhead.cli.options import Run, command, end
from playhead.cli.replay.run_replay import STOPS_WITHIN_S, run_aloud
from playhead.cli.signals import first_signal
from playhead.errors import EXIT_FAILED, PlayheadError
from playhead.options.replays import STANDBY_WATCH
from playhead.standby.folder_watch import Watch, dropped_files
from playhead.standby.runner import zone_of
from playhead.standby.store import Standbys
from playhead.standby.trigger_file import (
    REQUEST,
    MeansNoStandby,
    read_words,
    span_of,
    standby_of,
)

_SHOWN = ("file", "standby", "replay_id", "span", "outcome", "error")


@command(STANDBY_WATCH)
def watch(run: Run, folder: Path, once: bool, dry_run: bool, yes: bool) -> None:
    """Run a standby for each file that appears in FOLDER.

    NAME.json or NAME-anything.json, with {"from": …, "to": …}, {"last": "2h"} or {"offsets": …} in it,
    triggers NAME and moves to done/ or failed/ with its outcome beside it. Runs of a killed watcher are
    resumed. Ctrl-C stops after the current slice, with exit code 5 if a run is active.
    """
    if dry_run:
        rows = [_meant(file) for file in dropped_files(folder)]
        run.output.emit({"folder": str(folder), "files": rows}, rows)
        return
    if not yes:
        ask_plainly(f"run standbys for files in {folder}")
    told: list[Mapping[str, Any]] = []
    watcher = Watch(
        folder, say=run.output.say, tell=lambda outcome: _tell(run, told, outcome), warm=True
    )
    watcher.play = lambda planned: run_aloud(run, planned, heed=watcher.heed)
    run.output.say(f"watching {folder}; Ctrl-C ends the watch")

    def stop(_: int) -> None:
        run.output.say("stopping at the next slice boundary; press again to stop immediately")
        watcher.stop()

    try:
        with first_signal(stop, within_s=STOPS_WITHIN_S):
            watcher.run(once=once)
    finally:
        if run.output.form != "jsonl":
            run.output.emit({"folder": str(folder), "files": told}, [_row(each) for each in told])
    if once and watcher.failed:
        raise end(EXIT_FAILED)


def _tell(run: Run, told: list[Mapping[str, Any]], outcome: Mapping[str, Any]) -> None:
    """Print an outcome at once if the format can be read line by line; a watcher may never end."""
    row = _row(outcome)
    run.output.say(f"{outcome['file']}: {outcome['outcome']}{_because(outcome)}")
    if run.output.form == "jsonl":
        run.output.emit(outcome, [row])
    else:
        told.append(outcome)


def _because(outcome: Mapping[str, Any]) -> str:
    if outcome["error"]:
        return f": {outcome['error']}"
    return f": {outcome['proof']['verdict']}" if outcome["proof"] else ""


def _row(outcome: Mapping[str, Any]) -> dict[str, Any]:
    return {name: outcome[name] for name in _SHOWN}


def _meant(file: Path) -> dict[str, Any]:
    """Return what a file would trigger, or why it would not."""
    row: dict[str, Any] = {"file": file.name, "standby": None, "span": None, "error": None}
    standbys = Standbys()
    try:
        row["standby"] = name = standby_of(file.name.removesuffix(REQUEST), standbys.names())
        if name is None:
            raise MeansNoStandby(file.name, known=standbys.names())
        zone = zone_of(standbys.get(name))
        row["span"] = str(span_of(read_words(file, file.name), timezone=zone))
    except PlayheadError as exc:
        row["error"] = str(exc)
    return row

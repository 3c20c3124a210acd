"""`playhead gaps`: finds the offsets of a topic that a target lacks, and replays exactly these."""

from typing import TYPE_CHECKING, Any

from playhead.cli.options import Run, command, end
from playhead.cli.replay.charts import paper_for_talk, save_picture
from playhead.cli.replay.replay_options import request, share
from playhead.cli.replay.run_replay import run_shown, show
from playhead.endpoint import Endpoint
from playhead.errors import EXIT_DIFFERENT, UsageError
from playhead.gaps.gap import Gap, Gaps, touching
from playhead.host.kept_open import keeping_open
from playhead.options.option import unset
from playhead.options.replays import CLOSING_GAPS, GAPS, MACHINE, RULES, SPAN, TRANSFORM, ZONE
from playhead.options.shared import CONNECTION, REGISTRY, SPARK, WARM
from playhead.shown import proof_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playhead.gaps.search import GapFinder
    from playhead.proof import Proof
    from playhead.request import Request
    from playhead.timeline.timeline import Timeline

_SHOWN = 20
_BUCKETS = 120
# The replay is exactly of the missing offsets, so nothing is read past them; and the table exists.
_SPAN = SPAN.without("lateness_ms")
_RULES = [group.without("create", "redrive", "typed") for group in RULES]
_UNSAID = unset((SPAN, *RULES))


@command(
    GAPS, CLOSING_GAPS, _SPAN, ZONE, TRANSFORM, *_RULES, MACHINE, CONNECTION, REGISTRY, SPARK, WARM
)
@keeping_open()
def gaps(run: Run, source: str, target: str) -> None:
    """Find the offsets of SOURCE that are not in TARGET; with --replay, fill exactly these gaps.

    A table with columns _partition and _offset is compared by offsets, in one pass; others by key
    (--by key --key COLS) or by the ledger. Missing offsets are then read in the log: compacted and
    aborted records and markers are not a gap, and records younger than --settle are not missing yet.
    Exit code 4 if records are missing.
    """
    from playhead.gaps.search import GapFinder

    asked = request(
        Run(run.output, _UNSAID | run.values), Endpoint.parse(source), Endpoint.parse(target)
    )
    search = GapFinder(_question(run, asked), run.configuration(), run.output.say)
    found = search.find()
    _tell(run, found)
    if run.values["picture"] is not None:
        _draw(run, search, found)
    if run.values["replay"] and found.of("missing"):
        _close(run, search, found)
        return
    _emit(run, found)
    if not found.is_whole:
        raise end(EXIT_DIFFERENT)


def _question(run: Run, asked: Any) -> Any:
    from playhead.gaps.search import SETTLE_MS, GapQuery

    values = run.values
    if values["dry_run"] and not values["replay"]:
        raise UsageError(
            "--dry-run shows the plan of a replay, but --replay is missing",
            hint="add --replay, or remove --dry-run",
        )
    settle = values["settle"]
    return GapQuery(
        asked,
        SETTLE_MS if settle is None else settle,
        values["by"],
        values["time_column"],
        tuple(values["ledger"] or ()),
        values["quick"],
    )


def _tell(run: Run, found: Gaps) -> None:
    """Print the verdict and the notes; the gaps themselves are data."""
    run.output.say(found.verdict())
    for note in found.notes:
        run.output.say(f"  {note.weight:<8} {note.text}")


def _emit(run: Run, found: Gaps) -> None:
    if found.found or run.output.form != "table":
        run.output.emit(found.as_document(), found.rows())


# --- filling them


def _close(run: Run, search: "GapFinder", before: Gaps) -> None:
    """Plan, show, ask, replay, prove, and check the same offsets again."""
    from playhead.replay import api
    from playhead.replay.engine import EngineUse

    for each in before.of("missing")[:_SHOWN]:
        run.output.say(f"  {_line(each)}")
    asked = search.replay_of(before)
    for line in _rule_lines(search.question.request, asked):
        run.output.say(f"  {line}")
    for note in search.left_out:
        run.output.say(f"  {note.text}")
    part = share(run, asked.target_endpoint)
    use = EngineUse(part, run.values["yes"], run.output.say)
    planned = api.plan(asked, run.configuration(), use=use)
    if run.values["dry_run"]:
        show(run, planned)
        raise end(EXIT_DIFFERENT)
    proof = run_shown(run, planned, yes=run.values["yes"])
    for line in proof_lines(proof):
        run.output.say(line)
    _look_again(run, search, before, proof)


def _rule_lines(said: "Request", asked: "Request") -> "Iterator[str]":
    """Yield what the replay does otherwise than the options say."""
    if asked.on_conflict != said.on_conflict:
        why = "because the table has a key"
        version = ""
        if asked.version_column != said.version_column:
            version = f" --version-column {asked.version_column}"
            why = "so that no later row is replaced"
        yield f"existing rows: --on-conflict {asked.on_conflict}{version}, {why}"


def _look_again(run: Run, search: "GapFinder", before: Gaps, proof: "Proof") -> None:
    after = search.find()
    _tell(run, after)
    was_missing, is_left = (
        touching(before.missing_slices()),
        touching([g.slice for g in after.found]),
    )
    if left := [each for each in after.of("missing") if was_missing(each.slice)]:
        run.output.say(
            f"  warn     {sum(each.count for each in left):,} of them were replayed, but no "
            "row has their offset: rows of the same key hide them, or the rule left them "
            "out; --key COLS compares those"
        )
    document = {
        "before": before.as_document(),
        "replay": proof.as_document(),
        "after": after.as_document(),
    }
    rows = [
        row if is_left(each.slice) else row | {"state": _closed(each)}
        for each, row in zip(before.found, before.rows(), strict=True)
    ]
    run.output.emit(document, rows)
    if not (after.is_whole and proof.adds_up):
        raise end(EXIT_DIFFERENT)


def _closed(gap: Gap) -> str:
    return "replayed" if gap.kind == "missing" else "arrived"


def _line(gap: Gap) -> str:
    unit = "offsets" if gap.records is None else "records"
    return f"{gap.slice}  {gap.count:,} {unit}"


# --- over time


def _draw(run: Run, search: "GapFinder", found: Gaps) -> None:
    from playhead.timeline.svg_chart import picture

    over = _timeline(run, search)
    bars = over.buckets(found.missing_slices())
    zone = run.output.zone
    drawn = picture(over.title, over.caption(), bars, absent_from=found.target, zone=zone)
    save_picture(drawn, run.values["picture"])
    run.output.say(f"the chart is saved in {run.values['picture']}")
    _say_histogram(run, found, over)


def _say_histogram(run: Run, found: Gaps, over: "Timeline") -> None:
    from playhead.timeline.text_chart import histogram, legend

    paper = paper_for_talk()
    bars = over.buckets(found.missing_slices())
    for line in histogram(bars, paper, run.output.zone):
        run.output.say(line)
    if missing := sum(each.missing for each in bars):
        run.output.say(legend(missing, found.target, paper))


def _timeline(run: Run, search: "GapFinder") -> "Timeline":
    from playhead.replay.timelines import timeline_of

    end = search.question.request.source_endpoint
    return timeline_of(end, run.configuration(), search.resolved, buckets=_BUCKETS)

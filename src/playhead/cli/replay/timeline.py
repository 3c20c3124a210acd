"""`playhead timeline`: counts the records of a topic over time without reading them all."""

import sys
import time
from pathlib import Path

from playhead.cli.options import Run, command
from playhead.cli.replay.charts import paper_for, save_picture
from playhead.cli.replay.replay_options import span
from playhead.endpoint import Endpoint
from playhead.options.replays import SPAN, TIMELINE, USUAL_BUCKETS, ZONE
from playhead.options.shared import CONNECTION
from playhead.timeline.timeline import Timeline

_BY_TIME = SPAN.only("from_", "to", "for_", "last")


@command(TIMELINE, _BY_TIME, ZONE, CONNECTION)
def timeline(run: Run, topic: str, buckets: int | None, picture: Path | None) -> None:
    """Draw the number of records of TOPIC over time, without reading them all.

    Kafka returns the offset at which each bucket begins in each partition, so the counts are
    approximate: transaction markers count as records, compacted records may count, and a record out of
    order counts at its position in the log. A note says if clocks disagree. Without a span, from the
    first record to the last.
    """
    found = _asked(run, _endpoint(topic), _checked(run, buckets))
    _show(run, found)
    if picture is not None:
        from playhead.timeline.svg_chart import picture as drawn

        save_picture(
            drawn(found.title, found.caption(), found.buckets(), zone=run.output.zone), picture
        )
        run.output.say(f"the chart is saved in {picture}")


def _asked(run: Run, end: Endpoint, buckets: int) -> Timeline:
    from playhead.replay.timelines import timeline_of

    resolved = span(Run(run.output, run.values | {"offsets": None})).resolve(time.time_ns())
    return timeline_of(end, run.configuration(), resolved, buckets=buckets)


def _show(run: Run, found: Timeline) -> None:
    from playhead.timeline.text_chart import histogram

    bars = found.buckets()
    run.output.say(f"{found.caption()}; approximate")
    if run.output.form == "table":
        run.output.text("\n".join(histogram(bars, paper_for(sys.stdout), run.output.zone)))
    else:
        run.output.emit(found.as_document(), [each.row() for each in bars])
    for count, where in ((found.before, "before"), (found.after, "after")):
        if count:
            run.output.say(f"{count:,} offsets stand {where} it")
    if (elsewhere := found.whole()) is not None:
        run.output.say(elsewhere)
    if found.disorder is not None and (text := found.disorder.text()) is not None:
        run.output.say(text)


def _endpoint(text: str) -> Endpoint:
    """Return the endpoint of a topic, also if only its name is given."""
    return Endpoint.parse(text if ":" in text else f"kafka:{text}")


def _checked(run: Run, buckets: int | None) -> int:
    if buckets is None:
        is_drawn = run.output.form == "table"
        return min(USUAL_BUCKETS, paper_for(sys.stdout).columns) if is_drawn else USUAL_BUCKETS
    return buckets

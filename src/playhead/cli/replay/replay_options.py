"""Builds the request from the options of a replay."""

import dataclasses
import re

from playhead.cli.options import Run
from playhead.endpoint import Endpoint
from playhead.errors import BadValue, UsageError
from playhead.replay.pipelines import Pipelines
from playhead.request import Request
from playhead.span import Span
from playhead.time_span import LATENESS_MS, ReadOn

_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]+)?)%|(0?\.[0-9]+|1(?:\.0*)?)")


def share(run: Run, target: Endpoint) -> float | None:
    """Return the share of this machine's cores for a replay; None for all."""
    text = run.values["max_share"]
    if text is None:
        live = Pipelines().running_into(str(target))
        if not live:
            return None
        run.output.say(
            f"half of the cores, because {', '.join(live)} writes to {target.shown()} live "
            "(--max-share 100% takes all)"
        )
        return Pipelines().share_beside(str(target))
    match = _SHARE.fullmatch(text.strip())
    found = 0.0 if match is None else float(match[1]) / 100 if match[1] else float(match[2])
    if not 0 < found <= 1:
        raise BadValue("--max-share", found=text, needed="1% to 100%, or 0.5")
    return found


def request(run: Run, source: Endpoint, target: Endpoint) -> Request:
    """Return the request; refuse invalid values."""
    fields = {each.name for each in dataclasses.fields(Request)}
    given = {name: value for name, value in run.values.items() if value is not None}
    rules = {name: value for name, value in given.items() if name in fields}
    rules |= {"source": str(source), "target": str(target), "read_on": read_on(run)}
    if "to" in run.values:  # A live pipeline has no span.
        rules["span"] = str(span(run))
    asked = Request(**rules)
    _ = asked.spec  # Refuse it before the user is asked anything.
    return asked


def read_on(run: Run) -> str:
    """Return how far to read past the end of a span, in the form of a request."""
    text = run.values.get("read_on")
    if text is None:
        return "auto"
    if ReadOn.parse(text).fixed_ms is not None and run.values.get("lateness_ms") is not None:
        raise UsageError(
            "--read-on and --lateness contradict each other",
            hint="--read-on sets how far to read, --lateness only a minimum",
        )
    return str(text)


def span(run: Run) -> Span:
    values = run.values
    timezone = run.configuration().get("timezone") or "UTC"
    return Span.of(
        values["from_"],
        values["to"],
        values["for_"],
        values["last"],
        values["offsets"],
        timezone=timezone,
    )


def lateness_ms(run: Run) -> int:
    """Return how far to read at least for late records."""
    given: int | None = run.values.get("lateness_ms")
    return LATENESS_MS if given is None else given

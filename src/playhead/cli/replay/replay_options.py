"""The options that say a replay, each declared once, and the request that they make."""

import re
from typing import Annotated, Any

import typer

from playhead.cli.options import Parameters, Run, text_option
from playhead.decoding import REPLAYED_FORMS
from playhead.endpoint import Endpoint
from playhead.errors import BadValue, UsageError
from playhead.grammar.duration import parse_duration_ms
from playhead.replay.pipelines import Pipelines
from playhead.request import Request
from playhead.span import Span
from playhead.time_span import LATENESS_MS, ReadOn

_CONFLICTS = ("ignore", "newer", "update", "error")
_TOMBSTONES = ("delete", "skip", "null")
_PARTITIONS = ("auto", "keep", "key", "any")
_TIMES = ("record", "pair")


def _texts(*names: str, text: str, metavar: str) -> Any:
    return Annotated[list[str] | None, typer.Option(*names, help=text, metavar=metavar)]


def _switch(*names: str, text: str) -> Any:
    return Annotated[bool, typer.Option(*names, help=text)]


SPAN: Parameters = {
    "from_": (
        text_option(
            "--from", text="First instant or `start`: 2021-08-04T12:30, now-2h, 12:30.", metavar="T"
        ),
        None,
    ),
    "to": (
        text_option(
            "--to", text="End, itself not in the span; `end` is all there is.", metavar="T"
        ),
        None,
    ),
    "for_": (
        text_option("--for", text="Length, instead of an end: 2h, PT30M.", metavar="DURATION"),
        None,
    ),
    "last": (
        text_option("--last", text="From so long before now to the end: 6h.", metavar="DURATION"),
        None,
    ),
    "offsets": (
        text_option(
            "--offsets", text="By offsets: TOPIC:PARTITION:FROM-TO, more by commas.", metavar="SPEC"
        ),
        None,
    ),
    "lateness": (
        text_option(
            "--lateness",
            text="Read on at least so long for late records; 10 minutes.",
            metavar="DURATION",
        ),
        None,
    ),
    "read_on": (
        text_option(
            "--read-on",
            text="Read on to the `end`, or just so long; as far as it takes.",
            metavar="WHERETO",
        ),
        None,
    ),
}
TRANSFORM: Parameters = {
    "where": (
        text_option(
            "--where",
            text="Only records for which this SQL is true: \"value:car = 'A'\".",
            metavar="SQL",
        ),
        None,
    ),
    "select": (
        text_option(
            "--select", text='What of each record, as SQL: "value:car AS car".', metavar="SQL"
        ),
        None,
    ),
}
RULES: Parameters = {
    "pace": (
        text_option("--pace", text="max, a speed as 2x, or a rate as 5000/s.", metavar="PACE"),
        None,
    ),
    "max_gap": (
        text_option("--max-gap", text="Play longer silences as short as this.", metavar="DURATION"),
        None,
    ),
    "on_error": (
        text_option(
            "--on-error",
            text="A record that cannot be written: fail, skip or dlq:TOPIC, dlq:CONTEXT/TOPIC.",
            metavar="RULE",
        ),
        None,
    ),
    "key": (
        text_option(
            "--key", text="Columns that tell a table's rows apart, by commas.", metavar="COLS"
        ),
        None,
    ),
    "on_conflict": (
        text_option(
            "--on-conflict",
            text=f"A row that is there already: {', '.join(_CONFLICTS)}.",
            metavar="RULE",
        ),
        None,
    ),
    "version_column": (
        text_option(
            "--version-column", text="What `newer` compares, if not the time.", metavar="COL"
        ),
        None,
    ),
    "tombstones": (
        text_option(
            "--tombstones",
            text=f"Records with a null value: {', '.join(_TOMBSTONES)}.",
            metavar="RULE",
        ),
        None,
    ),
    "decode": (
        text_option(
            "--decode", text=f"What values are: {' '.join(REPLAYED_FORMS)}.", metavar="FORM"
        ),
        None,
    ),
    "create": (
        _switch("--create", text="Make a table that is not there, as the records are."),
        False,
    ),
    "headers": (
        _texts("--headers", text="keep, drop:NAME or add:NAME=VALUE; repeatable.", metavar="RULE"),
        None,
    ),
    "provenance": (
        _switch("--provenance", text="Add headers that say where each record came from."),
        False,
    ),
    "partition": (
        text_option(
            "--partition", text=f"The target's partition: {', '.join(_PARTITIONS)}.", metavar="RULE"
        ),
        None,
    ),
    "redrive": (_switch("--redrive", text="Return dead letters to where they came from."), False),
    "typed": (_switch("--typed", text="Parquet: columns of the JSON values, too."), False),
}


TRAFFIC: Parameters = {
    "filter": (
        text_option(
            "--filter",
            text="Only these pairs of captured traffic: '(command IS \"Fetch\")'.",
            metavar="FILTER",
        ),
        None,
    ),
    "times": (
        text_option(
            "--times",
            text="Time of a captured record: its own (record) or its pair's (pair).",
            metavar="WHOSE",
        ),
        None,
    ),
    "topic_map": (
        _texts(
            "--topic-map",
            text="A topic that goes elsewhere: CAPTURED=TARGET; repeatable.",
            metavar="MAP",
        ),
        None,
    ),
}


MACHINE: Parameters = {
    "max_share": (
        text_option(
            "--max-share",
            text="How much of the cores it may have, as 50%; half beside a live pipeline.",
            metavar="SHARE",
        ),
        None,
    ),
}
_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]+)?)%|(0?\.[0-9]+|1(?:\.0*)?)")


def share(run: Run, target: Endpoint) -> float | None:
    """How much of this machine a replay may have; None for all of it."""
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
        raise BadValue(
            "--max-share", found=text, needed="1% to 100%, or 0.5", where="the command line"
        )
    return found


def request(run: Run, source: Endpoint, target: Endpoint) -> Request:
    """What the options say; a word that an option does not know is refused here."""
    values = run.values
    rules: dict[str, Any] = {
        "key": tuple(each.strip() for each in (values["key"] or "").split(",") if each.strip()),
        "headers": tuple(values["headers"] or ()),
        "lateness_ms": _duration("--lateness", values.get("lateness"), LATENESS_MS),
        "read_on": read_on(run),
        "max_gap_ms": _duration("--max-gap", values.get("max_gap"), None),
        "on_conflict": _known("--on-conflict", values["on_conflict"], _CONFLICTS),
        "tombstones": _known("--tombstones", values["tombstones"], _TOMBSTONES),
    }
    rules |= {
        name: value
        for name, value in (
            ("decode", _known("--decode", values["decode"], REPLAYED_FORMS)),
            ("partition", _known("--partition", values["partition"], _PARTITIONS)),
            ("pace", values.get("pace")),
            ("on_error", values["on_error"]),
            ("filter", values.get("filter")),
            ("times", _known("--times", values.get("times"), _TIMES)),
            ("topic_map", tuple(values.get("topic_map") or ())),
        )
        if value is not None
    }
    same = ("where", "select", "version_column", "create", "provenance", "redrive", "typed")
    rules |= {name: values[name] for name in same if name in values}
    if "to" in values:  # a live pipeline has no span
        rules["span"] = str(span(run))
    asked = Request(source=str(source), target=str(target), **rules)
    _ = asked.spec  # refused before anybody is asked
    return asked


def read_on(run: Run) -> str:
    """How far is read behind the end of a span, in the form of a request."""
    text = run.values.get("read_on")
    if text is None:
        return "auto"
    if ReadOn.parse(text).fixed_ms is not None and run.values.get("lateness") is not None:
        raise UsageError(
            "--read-on and --lateness contradict each other",
            hint="--read-on says how far is read, --lateness how far at least",
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


def _known(flag: str, found: str | None, words: tuple[str, ...]) -> str | None:
    if found is not None and found not in words:
        raise BadValue(flag, found=found, needed=", ".join(words), where="the command line")
    return found


def _duration(flag: str, found: str | None, otherwise: int | None) -> int | None:
    return otherwise if found is None else parse_duration_ms(found, where=flag)

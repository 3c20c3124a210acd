"""The options of replays: their span, their rules, and what is done with them."""

from typing import Final

from playhead.decoding import REPLAYED_FORMS
from playhead.options.option import DRY_RUN, YES, Argument, Option, Options, dry_run, switch
from playhead.options.shared import TIME

_SPAN, _RECORDS, _PACE, _TARGET, _RUN = "Span", "Records", "Pace", "Target", "Run"
_CONFLICTS = ("ignore", "newer", "update", "error")
_TOMBSTONES = ("delete", "skip", "null")
_PARTITIONS = ("auto", "keep", "key", "any")
_AS_REPLAY: Final = "As `playhead replay` takes it."
LEAST_BUCKETS, MOST_BUCKETS, USUAL_BUCKETS = 1, 2_000, 120

SPAN = Options(
    _SPAN,
    Option("from_", "First instant or `start`: 2021-08-04T12:30, now-2h, 12:30.", "T"),
    Option("to", "End, itself not in the span; `end` is all there is.", "T"),
    Option("for_", "Length, instead of an end: 2h, PT30M.", "DURATION"),
    Option("last", "From so long before now to the end: 6h.", "DURATION"),
    Option("offsets", "By offsets: TOPIC:PARTITION:FROM-TO, more by commas.", "SPEC"),
    Option("lateness", "Read on at least so long for late records; 10 minutes.", "DURATION"),
    Option("read_on", "Read on to the `end`, or just so long; as far as it takes.", "WHERETO"),
)
ZONE = Options(_SPAN, *TIME)
TRANSFORM = Options(
    _RECORDS,
    Option("where", "Only records for which this SQL is true: \"value:car = 'A'\".", "SQL"),
    Option("select", 'What of each record, as SQL: "value:car AS car".', "SQL"),
    Option(
        "decode",
        f"What values are: {' '.join(REPLAYED_FORMS)}.",
        "FORM",
        choices=REPLAYED_FORMS,
    ),
)
TRAFFIC = Options(
    _RECORDS,
    Option("filter", "Only these pairs of captured traffic: '(command IS \"Fetch\")'.", "FILTER"),
    Option(
        "times",
        "Time of a captured record: its own (record) or its pair's (pair).",
        "WHOSE",
        choices=("record", "pair"),
    ),
    Option(
        "topic_map",
        "A topic that goes elsewhere: CAPTURED=TARGET; repeatable.",
        "MAP",
        repeatable=True,
    ),
)
ERRORS = Options(
    _RECORDS,
    Option(
        "on_error",
        "A record that cannot be written: fail, skip or dlq:TOPIC, dlq:CONTEXT/TOPIC.",
        "RULE",
    ),
)
PACE = Options(
    _PACE,
    Option("pace", "max, a speed as 2x, or a rate as 5000/s.", "PACE"),
    Option("max_gap", "Play longer silences as short as this.", "DURATION"),
)
MACHINE = Options(
    _PACE,
    Option(
        "max_share",
        "How much of the cores it may have, as 50%; half beside a live pipeline.",
        "SHARE",
    ),
)
INTO_TABLES = Options(
    _TARGET,
    Option("key", "Columns that tell a table's rows apart, by commas.", "COLS"),
    Option(
        "on_conflict",
        f"A row that is there already: {', '.join(_CONFLICTS)}.",
        "RULE",
        choices=_CONFLICTS,
    ),
    Option("version_column", "What `newer` compares, if not the time.", "COL"),
    Option(
        "tombstones",
        f"Records with a null value: {', '.join(_TOMBSTONES)}.",
        "RULE",
        choices=_TOMBSTONES,
    ),
    switch("create", "Make a table that is not there, as the records are."),
)
INTO_TOPICS = Options(
    _TARGET,
    Option("headers", "keep, drop:NAME or add:NAME=VALUE; repeatable.", "RULE", repeatable=True),
    switch("provenance", "Add headers that say where each record came from."),
    Option(
        "partition",
        f"The target's partition: {', '.join(_PARTITIONS)}.",
        "RULE",
        choices=_PARTITIONS,
    ),
    switch("redrive", "Return dead letters to where they came from."),
    switch("typed", "Parquet: columns of the JSON values, too."),
)
RULES = (ERRORS, PACE, INTO_TABLES, INTO_TOPICS)
"""What is done with the records of a span."""

# --- replay, resume, runs, cancel

REPLAY = Options(
    _RUN,
    Argument(
        "source",
        "kafka:TOPIC, kafka:/REGEX/, kafka:CONTEXT/TOPIC, kafka://HOST:PORT/TOPIC, "
        "parquet:, json:, csv:FOLDER, rrpair:SNAPSHOT, extract:, gor:, har:FILE.",
        "SOURCE",
        completes="topics",
    ),
    Argument(
        "target",
        "A topic, an archive, or postgres:SCHEMA.TABLE; {topic} stands for its name.",
        "TARGET",
    ),
    Option("replay_id", "An id of your own; again, it goes on or is done.", "ID", flags=("--id",)),
    Option(
        "plan_file",
        "Save the plan here; when it is there, run just it.",
        "FILE",
        flags=("--plan",),
        kind="file",
    ),
    DRY_RUN,
    YES,
)
_RUNS_ID = Argument("replay_id", "Its id, or the beginning of it.", "ID", completes="replays")
LEDGER_SOURCE = Option(
    "source",
    "What it reads, when its plan is only in the ledger, where others may write.",
    "SOURCE",
)
RESUME = Options(
    _RUN,
    _RUNS_ID,
    Argument(
        "target",
        "Where it goes, when another machine began it: its plan is in the ledger there.",
        "TARGET",
        required=False,
    ),
    LEDGER_SOURCE,
    switch("yes", "Do not ask, also where it was not asked before.", "-y", "--yes"),
    switch(
        "trust_ledger",
        "Go on from a ledger with less than was committed: data and ledger were restored.",
    ),
)
RUNS = Options(
    _RUN,
    Argument("replay_id", "One of them, wholly.", "ID", required=False, completes="replays"),
)
CANCEL = Options(
    _RUN,
    _RUNS_ID,
    Option(
        "wait", "Seconds to wait until it has stopped.", "S", kind="decimal", default=30.0, low=0
    ),
)

# --- verify, gaps, timeline

VERIFY = Options(
    _RUN,
    Argument(
        "replay_id",
        "A run's id, or the beginning of it; or a source, as for replay.",
        "ID|SOURCE",
        completes="replays",
    ),
    Argument(
        "target",
        "With a source: what to hold against it. With an id: where the run's records went, when "
        "another machine began it.",
        "TARGET",
        required=False,
    ),
    LEDGER_SOURCE,
)
GAPS = Options(
    "Gaps",
    Argument("source", "A source, as for replay.", "SOURCE", completes="topics"),
    Argument("target", "postgres:SCHEMA.TABLE; an archive or a topic by its ledger.", "TARGET"),
    Option("settle", "Younger records may be on their way; 30s.", "DURATION"),
    Option("by", "Compare by offsets, key or ledger; it chooses itself.", "WAY"),
    Option(
        "time_column",
        "With --by key: a column of times, as part of it.",
        "COL",
        flags=("--time",),
    ),
    Option("ledger", "With --by ledger: whose, a run's id; repeatable.", "ID", repeatable=True),
    switch("quick", "Do not look into the log for what is missing."),
    Option("picture", "Draw topic and gaps over time, as SVG.", "FILE", kind="file"),
)
CLOSING_GAPS = Options(
    _RUN,
    switch("replay", "Replay what is missing, and look again."),
    dry_run("With --replay: only show its plan."),
    YES,
)
TIMELINE = Options(
    "Options",
    Argument(
        "topic",
        "TOPIC, kafka:TOPIC, kafka:/REGEX/, kafka:CONTEXT/TOPIC, kafka://HOST:PORT/TOPIC.",
        "TOPIC",
        completes="topics",
    ),
    Option(
        "buckets",
        f"How many stretches of time; {USUAL_BUCKETS}, or as many as fit.",
        "N",
        kind="number",
        low=LEAST_BUCKETS,
        high=MOST_BUCKETS,
    ),
    Option("picture", "Draw it as SVG, too.", "FILE", kind="file"),
)

# --- live, standby

LIVE = Options(
    "Pipeline",
    Argument(
        "source",
        "kafka:TOPIC, as in replay; with --status or --stop a pipeline's NAME.",
        "SOURCE",
        required=False,
        completes="topics",
    ),
    Argument("target", "postgres:SCHEMA.TABLE or kafka:TOPIC.", "TARGET", required=False),
    Option("name", "Its name; else the target's.", "NAME"),
    Option("from_", "Where a new one begins: latest, earliest, group:NAME or a time.", "START"),
    Option(
        "trigger",
        "A round every 200ms, 1s …; available-now ends when all is read.",
        "EVERY",
        default="200ms",
    ),
    Option("group", "The group that shows how far it is; else playhead.live.NAME.", "GROUP"),
    switch("drop_when_down", "Lose what comes while the target is away."),
    switch("accept_loss", "Go on behind records that expired unread."),
    switch("status", "How pipelines are; all, or the one named."),
    switch("stop", "Stop the pipeline that is named, after its round."),
    *TIME,
    DRY_RUN,
    YES,
)
_STANDBY = Argument("name", "The standby's name.", "NAME", completes="standbys")
STANDBY_ADD = Options(
    _RUN,
    Argument("name", "Letters, digits, - and _.", "NAME"),
    Argument("source", _AS_REPLAY, "SOURCE", completes="topics"),
    Argument("target", _AS_REPLAY, "TARGET"),
    switch("replace", "Put it in the place of one of that name."),
    switch("no_check", "Do not ask the servers now whether it would work."),
    DRY_RUN,
)
STANDBY_NAME = Options("Options", _STANDBY)
STANDBY_RUN = Options(
    _RUN, _STANDBY, switch("wait", "Wait while another run of it goes on."), DRY_RUN, YES
)
STANDBY_REMOVE = Options("Options", _STANDBY, DRY_RUN, YES)
STANDBY_WATCH = Options(
    "Options",
    Argument("folder", "Where files are dropped.", "FOLDER", kind="file"),
    switch("once", "Take the files that are there, then end."),
    dry_run("Only show what the files there would trigger."),
    YES,
)

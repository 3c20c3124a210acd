"""The options of replays: spans, rules and actions. A rule has the name of its field in `Request`."""

from typing import Final

from playhead.decoding import REPLAYED_FORMS
from playhead.options.option import DRY_RUN, YES, Argument, Option, Options, dry_run, switch
from playhead.options.shared import TIME
from playhead.rule_words import CONFLICTS, PARTITIONS, TIMES, TOMBSTONES

_SPAN, _RECORDS, _PACE, _TARGET, _RUN = "Span", "Records", "Pace", "Target", "Run"
_AS_REPLAY: Final = "As for `playhead replay`."
RUN_KINDS = ("replay", "standby")
USUAL_RUNS = 100
LEAST_BUCKETS, MOST_BUCKETS, USUAL_BUCKETS = 1, 2_000, 120

SPAN = Options(
    _SPAN,
    Option(
        "from_", "Start of the span, inclusive: 2021-08-04T12:30, now-2h, 12:30 or `start`.", "T"
    ),
    Option("to", "End of the span, exclusive: an instant, or `end` for the end of the log.", "T"),
    Option("for_", "Length of the span, instead of --to: 2h, PT30M.", "DURATION"),
    Option("last", "Length of the span that ends at the end of the log: 6h.", "DURATION"),
    Option(
        "offsets", "Offsets instead of times: TOPIC:PARTITION:FROM-TO, comma-separated.", "SPEC"
    ),
    Option(
        "lateness_ms",
        "Read past the end by this duration to find late records; default 10m.",
        flags=("--lateness",),
        kind="duration",
    ),
    Option(
        "read_on",
        "Read past the end: by a duration, or up to the `end` of the log; default: as far as the disorder of the "
        "timestamps makes necessary.",
        "END|DURATION",
    ),
)
ZONE = Options(_SPAN, *TIME)
TRANSFORM = Options(
    _RECORDS,
    Option("where", "Replay only records for which this SQL is true: \"value:car = 'A'\".", "SQL"),
    Option("select", 'Replace each record by these SQL expressions: "value:car AS car".', "SQL"),
    Option(
        "decode", f"Format of values: {' '.join(REPLAYED_FORMS)}.", "FORM", choices=REPLAYED_FORMS
    ),
)
TRAFFIC = Options(
    _RECORDS,
    Option("filter", "Filter for pairs of captured traffic: '(command IS \"Fetch\")'.", "FILTER"),
    Option(
        "times",
        "Timestamps of captured records: record (the record's own) or pair (the pair's).",
        "WHICH",
        choices=TIMES,
    ),
    Option(
        "topic_map",
        "Send a captured topic to another target topic: CAPTURED=TARGET; repeatable.",
        "MAP",
        repeatable=True,
    ),
)
ERRORS = Options(
    _RECORDS,
    Option(
        "on_error",
        "What to do with a record that cannot be written: fail, skip, dlq:TOPIC or dlq:CONTEXT/TOPIC; default fail.",
        "RULE",
    ),
)
PACE = Options(
    _PACE,
    Option(
        "pace",
        "Speed: max, a multiple of the recorded speed (2x), or a rate (5000/s); default max.",
        "PACE",
    ),
    Option(
        "max_gap_ms",
        "Cap pauses between records at this duration (needs a speed, such as --pace 1x).",
        flags=("--max-gap",),
        kind="duration",
    ),
)
MACHINE = Options(
    _PACE,
    Option(
        "max_share",
        "Share of the cores to use, such as 50%; default all, or half beside a live pipeline.",
        "SHARE",
    ),
)
INTO_TABLES = Options(
    _TARGET,
    Option("key", "Key columns of the table, comma-separated.", "COLS", kind="names"),
    Option(
        "on_conflict",
        f"What to do if the row exists: {', '.join(CONFLICTS)}.",
        "RULE",
        choices=CONFLICTS,
    ),
    Option("version_column", "Column that `newer` compares; default: the record's time.", "COL"),
    Option(
        "tombstones",
        f"What to do with null values (tombstones): {', '.join(TOMBSTONES)}.",
        "RULE",
        choices=TOMBSTONES,
    ),
    Option(
        "extra_fields",
        "Fields that no column takes: note (count them), fail, or a column of type jsonb that keeps them; "
        "default note.",
        "RULE",
    ),
    switch(
        "create",
        "Create the table or topic if it does not exist; columns are inferred from a sample.",
    ),
)
INTO_TOPICS = Options(
    _TARGET,
    Option(
        "headers",
        "Headers of copies: keep, drop:NAME or add:NAME=VALUE; repeatable.",
        "RULE",
        repeatable=True,
    ),
    switch("provenance", "Add headers with the origin of each record."),
    Option(
        "partition",
        f"How to choose the target's partition: {', '.join(PARTITIONS)}.",
        "RULE",
        choices=PARTITIONS,
    ),
    switch(
        "redrive",
        "Return dead letters to the topics they came from, as far as TARGET or the plan names them.",
    ),
    switch("typed", "Parquet: add columns for the fields of JSON values."),
)
RULES = (ERRORS, PACE, INTO_TABLES, INTO_TOPICS)
"""The rules for the records of a span."""
REPLAY_RULES = {
    row.name: row
    for group in (SPAN.only("lateness_ms", "read_on"), TRANSFORM, TRAFFIC, *RULES)
    for row in group.without("pace")
}
"""The options of a replay beside its span and its pace; in Python, the keywords of `Replay`."""

# --- replay, resume, runs, cancel

AGAIN = switch("again", "Copy records into a topic although another run has copied them there.")
REPLAY = Options(
    _RUN,
    Argument(
        "source",
        "kafka:TOPIC, kafka:/REGEX/, kafka:CONTEXT/TOPIC, kafka://HOST:PORT/TOPIC, "
        "parquet:, json:, csv:FOLDER, rrpair:SNAPSHOT, extract:, gor:, har:FILE, csvlog:, jsonlog:, pglog:LOG.",
        "SOURCE",
        completes="sources",
    ),
    Argument(
        "target",
        "A topic, an archive, or postgres:SCHEMA.TABLE; {topic} is replaced by the topic's name.",
        "TARGET",
        completes="targets",
    ),
    Option(
        "replay_id",
        "Replay ID. Run again with the same ID to resume; a finished replay is left alone.",
        "ID",
        flags=("--id",),
    ),
    Option(
        "plan_file",
        "File for the plan: saved if it does not exist, otherwise run exactly as saved.",
        "FILE",
        flags=("--plan",),
        kind="file",
    ),
    DRY_RUN,
    YES,
    AGAIN,
)
_RUNS_ID = Argument("replay_id", "Replay ID, or its beginning.", "ID", completes="replays")
LEDGER_SOURCE = Option(
    "source", "Source of the replay; required if its plan is only in the target's ledger.", "SOURCE"
)
RESUME = Options(
    _RUN,
    _RUNS_ID,
    Argument(
        "target",
        "Target, if another machine began the replay; its ledger has the plan.",
        "TARGET",
        required=False,
    ),
    LEDGER_SOURCE,
    AGAIN,
    switch(
        "yes",
        "Do not ask for confirmation; refused for a ledger's plan with rules that was not confirmed here before.",
        "-y",
        "--yes",
    ),
    switch(
        "trust_ledger",
        "Accept a ledger with fewer entries than before, because data and ledger were restored.",
    ),
)
RUNS = Options(
    _RUN,
    Argument(
        "replay_id",
        "Show one replay with its plan and proof.",
        "ID",
        required=False,
        completes="replays",
    ),
    Option(
        "limit",
        "List the latest N runs; 0 lists all.",
        "N",
        kind="number",
        default=USUAL_RUNS,
        low=0,
    ),
    Option("since", "List only runs planned at this time or later: now-2h.", "T"),
    Option(
        "kind", f"List only runs of this kind: {', '.join(RUN_KINDS)}.", "KIND", choices=RUN_KINDS
    ),
    switch("forget", "Remove run ID from the list, and its consumer group playhead.ID."),
    YES,
)
CANCEL = Options(
    _RUN,
    _RUNS_ID,
    Option(
        "wait",
        "Seconds to wait until the replay has stopped.",
        "S",
        kind="decimal",
        default=30.0,
        low=0,
    ),
)

# --- verify, gaps, timeline

VERIFY = Options(
    _RUN,
    Argument(
        "replay_id",
        "Replay ID, or its beginning; or a source, as for replay.",
        "ID|SOURCE",
        completes="replays",
    ),
    Argument(
        "target",
        "With a source: the target to compare. With an ID: the target of the run, if another "
        "machine began it.",
        "TARGET",
        required=False,
    ),
    LEDGER_SOURCE,
)
GAPS = Options(
    "Gaps",
    Argument("source", "Source, as for replay.", "SOURCE", completes="sources"),
    Argument(
        "target",
        "postgres:SCHEMA.TABLE; or an archive or a topic, compared by its ledger.",
        "TARGET",
        completes="targets",
    ),
    Option(
        "settle",
        "Records younger than this may still arrive and are not missing; default 30s.",
        kind="duration",
    ),
    Option(
        "by",
        "How to compare: offsets, key or ledger; default: a table by its offsets, or by --key if it has none; "
        "other targets by their ledger.",
        "WAY",
    ),
    Option(
        "time_column",
        "With --by key: a time column that has to match too.",
        "COL",
        flags=("--time",),
    ),
    Option(
        "ledger",
        "With --by ledger: ID of a run whose ledger to use; repeatable.",
        "ID",
        repeatable=True,
    ),
    switch("quick", "Do not read the missing offsets in the log."),
    Option("picture", "Save a chart of topic and gaps over time, as SVG.", kind="file"),
)
CLOSING_GAPS = Options(
    _RUN,
    switch("replay", "Replay the missing records, then check again."),
    dry_run("With --replay: only show the plan."),
    YES,
    AGAIN,
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
        f"Number of buckets; default {USUAL_BUCKETS}, or as many as fit the terminal.",
        kind="number",
        low=LEAST_BUCKETS,
        high=MOST_BUCKETS,
    ),
    Option("picture", "Save the chart as SVG.", kind="file"),
)

# --- live, standby

LIVE = Options(
    "Pipeline",
    Argument(
        "source",
        "kafka:TOPIC, as for replay; with --status or --stop the NAME of a pipeline.",
        "SOURCE",
        required=False,
        completes="sources",
    ),
    Argument(
        "target",
        "postgres:SCHEMA.TABLE or kafka:TOPIC.",
        "TARGET",
        required=False,
        completes="targets",
    ),
    Option("name", "Name of the pipeline; default: the target's name.", "NAME"),
    Option(
        "from_",
        "Start of a new pipeline: latest, earliest, group:NAME or a time; default latest.",
        "START",
    ),
    Option(
        "trigger",
        "Time between rounds: 200ms, 1s; available-now writes all existing records and ends.",
        "EVERY",
        default="200ms",
    ),
    Option("group", "Consumer group that shows the progress; default playhead.live.NAME.", "GROUP"),
    AGAIN,
    switch("drop_when_down", "Drop records that arrive while the target is away."),
    switch("accept_loss", "Continue after records that the log lost, by expiry or otherwise."),
    switch("status", "Show the status of all pipelines, or of one."),
    switch("stop", "Stop a pipeline after its current round."),
    *TIME,
    DRY_RUN,
    YES,
)
_STANDBY = Argument("name", "The standby's name.", "NAME", completes="standbys")
STANDBY_ADD = Options(
    _RUN,
    Argument("name", "Name of the standby: letters, digits, - and _.", "NAME"),
    Argument("source", _AS_REPLAY, "SOURCE", completes="sources"),
    Argument("target", _AS_REPLAY, "TARGET", completes="targets"),
    switch("replace", "Replace a standby with the same name."),
    switch("no_check", "Do not check source, target and engine now."),
    DRY_RUN,
)
STANDBY_NAME = Options("Options", _STANDBY)
STANDBY_RUN = Options(
    _RUN,
    _STANDBY,
    switch("wait", "Wait for the end of another run of this standby."),
    DRY_RUN,
    YES,
    AGAIN,
)
STANDBY_REMOVE = Options("Options", _STANDBY, DRY_RUN, YES)
STANDBY_WATCH = Options(
    "Options",
    Argument("folder", "Folder to watch for trigger files.", "FOLDER", kind="file"),
    switch("once", "Run the files that exist, then end."),
    dry_run("Only show what the existing files would trigger."),
    YES,
)

"""The options of query replays."""

from typing import Final

from playhead.options.option import DRY_RUN, YES, Argument, Option, Options, switch
from playhead.options.replays import SPAN

SHIP = Options(
    "Options",
    Argument(
        "logs", "Log file to follow, or a quoted pattern: '/var/log/postgresql/*.csv'.", "GLOB"
    ),
    Argument("target", "Topics to write to, one per database: kafka:pg_raw_{db}.", "TARGET"),
    switch("once", "Exit when the ends of the files are reached."),
    Option(
        "name",
        "Name of this shipper, under which its positions are saved; default: a hash of GLOB and TARGET.",
        "NAME",
    ),
    Option(
        "log_line_prefix",
        "log_line_prefix of the server, for logs of the form stderr. It must contain a time and a session.",
        "TEXT",
    ),
    Option(
        "partitions",
        "Number of partitions of a new topic.",
        "N",
        default="4",
        kind="number",
        low=1,
    ),
    Option(
        "max_topics",
        "Largest number of topics that match TARGET. Rows of further databases go to the topic of rows without "
        "a database.",
        "N",
        default="100",
        kind="number",
        low=1,
    ),
    Option(
        "on_large",
        "What to do with a row that is too large for its topic: fail or skip.",
        "RULE",
        choices=("fail", "skip"),
        default="fail",
    ),
)

_QUERIES, _TARGET, _RUN, _REPORT = "Statements", "Target", "Run", "Report"
_OLDER: Final = "The older tool's flags"
ORDERS = ("session", "commit", "strict")
OUTSIDE = ("alter-system", "role", "database", "elsewhere", "copy-elsewhere", "unclear-text")

LOG = Options(
    _RUN,
    Argument(
        "source",
        "Log to read: csvlog:FILES, jsonlog:FILES, pglog:FILES, or kafka:TOPIC.",
        "SOURCE",
        required=False,
        completes="sources",
    ),
)
SERVER = Options(
    _TARGET,
    Option(
        "server",
        "Server and database to play on: postgresql://USER@HOST/DB.",
        "URL",
        flags=("--to",),
    ),
    Option(
        "most_connections",
        "Most connections at the same time; default: the number that the server has free.",
        kind="number",
        low=1,
        flags=("--max-connections",),
    ),
    Option(
        "idle",
        "Close a connection that was idle for this time outside of a transaction; default: never.",
        kind="duration",
        flags=("--close-idle",),
    ),
    switch("no_marks", "Write no marks; a run that was killed cannot be resumed then."),
)
BESIDE = Options(
    _TARGET,
    Option(
        "beside",
        "Second server, restored from the same base as --to. It plays the log first; the answers of --to are "
        "compared with its answers.",
        "URL",
    ),
)
FOLLOW = Options(
    _RUN,
    Option(
        "follow",
        "Also play rows that are added to the topic, until Ctrl-C; default with -t.",
        kind="switch",
        flags=("--follow",),
        off="--no-follow",
    ),
)
SPAN_OF_LOG = Options(
    "Span",
    *SPAN.only("from_", "for_", "last", "offsets"),
    Option(
        "to", "End of the span, exclusive; default: the end of the log.", "T", flags=("--before",)
    ),
)
STATEMENTS = Options(
    _QUERIES,
    Option("users", "Play only statements of these users, comma-separated.", "NAMES"),
    Option("databases", "Play only statements of these databases, comma-separated.", "NAMES"),
    Option("applications", "Play only statements of these applications, comma-separated.", "NAMES"),
    switch(
        "skip_selects",
        "Leave out SELECT statements that change nothing.",
        "-s",
        "--skip-selects",
    ),
    Option(
        "tables",
        "Play only statements that name one of these tables, or none; patterns with *, comma-separated.",
        "NAMES",
    ),
    Option(
        "queries",
        "Play only statements like this pattern, in which * is any text and ? a value; repeatable.",
        "PATTERN",
        repeatable=True,
    ),
    Option(
        "allow_outside",
        f"Play what reaches beyond the database, or may do so: {', '.join(OUTSIDE)}; repeatable.",
        "KIND",
        flags=("--allow",),
        choices=OUTSIDE,
        repeatable=True,
    ),
)
ORDER = Options(
    _RUN,
    Option(
        "order",
        "Order between sessions: session (none), commit (as transactions were committed), "
        "strict (one statement at a time).",
        "ORDER",
        choices=ORDERS,
        default="commit",
    ),
    Option(
        "replay_id",
        "Replay ID. Run again with the same ID to resume.",
        "ID",
        flags=("--id",),
    ),
    DRY_RUN,
    YES,
)
REPORT = Options(
    _REPORT,
    Option("report", "Save the report as one HTML page.", "FILE", kind="file"),
    Option("junit", "Save the checks of --fail-if as JUnit XML.", "FILE", kind="file"),
    Option(
        "fail_if",
        "Exit with code 4 if this is true: 'p95 > 1.2x' (relative to the source, or to --beside), "
        "'p99 > 50ms', 'divergences > 0'; repeatable.",
        "CHECK",
        repeatable=True,
    ),
    switch("literals", "Show the values of statements in the report and in its query plans."),
)
UNTIL = Options(
    _RUN,
    Option(
        "until",
        "Limit at which the search ends, on a percentile of the latency: 'p99 > 50ms'.",
        "CHECK",
    ),
    Option(
        "step",
        "Duration of each stretch; longer if it would have fewer than 100 statements.",
        kind="duration",
        default="10s",
    ),
    DRY_RUN,
    YES,
)
OLDER_FLAGS = Options(
    _OLDER,
    Option(
        "topic",
        "Topic with the log, followed unless --no-follow is given.",
        "TOPIC",
        flags=("-t", "--topic"),
    ),
    Option("db_name", "Database to play in; default postgres.", "NAME", flags=("-d", "--db-name")),
    Option("db_user", "User to log in as.", "NAME", flags=("-u", "--db-user")),
    Option(
        "db_password",
        "Password; '${NAME}' takes it from the environment.",
        "TEXT",
        flags=("-p", "--db-password"),
    ),
    Option("db_host", "Host of the server.", "HOST", flags=("-H", "--db-host")),
    Option("db_port", "Port of the server.", flags=("-P", "--db-port"), kind="number", low=1),
    Option(
        "timeout_ms",
        "Like --close-idle, in milliseconds.",
        flags=("-m", "--timeout-ms"),
        kind="number",
        low=0,
    ),
    Option(
        "after",
        "Play statements from this time on, in seconds since 1970; 0 plays all.",
        flags=("-a", "--after"),
        kind="number",
        low=0,
    ),
    Option(
        "ignore_errors",
        "Expect errors of integrity in the first N seconds of the log; -1 expects them in all of it.",
        flags=("-i", "--ignore-error-seconds"),
        kind="number",
        low=-1,
        default=0,
    ),
)

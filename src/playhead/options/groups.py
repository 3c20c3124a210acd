"""The options of `groups`."""

from playhead.options.option import YES, Argument, Option, Options, dry_run, switch

_OPTIONS = "Options"
_FLAGS = ("--group",)
_GROUP = Argument("group", "Name of the group.", "GROUP", completes="groups", kafka_flags=_FLAGS)
_GROUPS = Argument(
    "group",
    "Names of the groups.",
    "GROUP",
    repeatable=True,
    required=False,
    completes="groups",
    kafka_flags=_FLAGS,
)

LIST = Options(
    _OPTIONS,
    Option("state", "Only groups in these states, comma-separated: empty,stable,…", "STATES"),
    Option("kind", "Only groups of this type: classic or consumer.", "TYPES", flags=("--type",)),
)
DESCRIBE = Options(
    _OPTIONS,
    _GROUPS,
    switch("all_groups", "Show all groups."),
    switch("members", "Show the members: client, host, partitions and session timeout."),
    switch("no_times", "Do not read records for their times."),
)
GROUP = Options(_OPTIONS, _GROUP)
DELETE = Options(
    _OPTIONS,
    _GROUPS,
    Option(
        "topic",
        "Delete only the offsets of a topic or of some partitions: orders:0,2; repeatable.",
        "TOPIC",
        repeatable=True,
        completes="topics",
    ),
)
MODE = Options(
    "Where to",
    Option(
        "to",
        "The first record at or after an instant, `start` or `end`: 2021-08-04T12:30, now-2h.",
        "T",
    ),
    Option("to_datetime", "Kafka's name for --to.", "T"),
    Option("by_duration", "This long before now: PT2H0M0S, 2h.", "DURATION"),
    Option("shift_by", "Move forward by N offsets; back if negative.", "N"),
    Option("to_offset", "This offset in all partitions.", "N"),
    switch("to_earliest", "The start of the log."),
    switch("to_latest", "The end of the log."),
    switch("to_current", "The committed offset; the end of the log where nothing is committed."),
    Option("from_file", "The offsets in a CSV file of Kafka's own tool.", "CSV", kind="file"),
)
TOPICS = Options(
    "Which partitions",
    Option(
        "topic",
        "Topic, or some of its partitions: orders:0,2; repeatable.",
        "TOPIC",
        repeatable=True,
        completes="topics",
    ),
)
SCOPE = Options(
    TOPICS.heading,
    *TOPICS,
    switch("all_topics", "All topics for which the group has committed offsets."),
)
RESET = Options(
    _OPTIONS,
    _GROUPS,
    switch("all_groups", "All groups."),
    Option("to_group", "Write to this group instead.", "GROUP", completes="groups"),
    switch("create", "Create the group if it does not exist."),
    switch("export", "Print the plan as CSV of Kafka's own tool; write only with --execute."),
    switch("execute", "The same as --yes."),
)
WAIT = Options(
    _OPTIONS,
    Option("wait", "How long to wait until the group has no members: 45s.", kind="duration"),
)
CONSENT = Options(_OPTIONS, dry_run("Only show the plan, and write nothing."), YES)
CLONE = Options(
    _OPTIONS,
    _GROUP,
    Argument("other", "Group that gets the offsets.", "OTHER"),
    Option(
        "through",
        "Translate the offsets to the copy that this replay made.",
        "RUN",
        completes="replays",
    ),
)
UNDO = Options(
    _OPTIONS,
    _GROUP,
    Option(
        "snapshot_id", "Snapshot to restore; default: the last one.", "ID", flags=("--snapshot",)
    ),
    switch("list_", "Only list the snapshots of the group."),
)

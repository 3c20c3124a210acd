"""The options of `groups`."""

from playhead.options.option import YES, Argument, Option, Options, dry_run, switch

_OPTIONS = "Options"
_GROUP = Argument("group", "The group.", "GROUP", completes="groups")
_GROUPS = Argument(
    "group", "The groups.", "GROUP", repeatable=True, required=False, completes="groups"
)

LIST = Options(
    _OPTIONS,
    Option("state", "Only these, by commas.", "STATES"),
    Option("kind", "Only classic, or consumer.", "TYPES", flags=("--type",)),
)
DESCRIBE = Options(
    _OPTIONS,
    _GROUPS,
    switch("all_groups", "All of them."),
    switch("members", "Who reads: client, host, partitions, and how long its session lasts."),
    switch("no_times", "Do not look at records for their times."),
)
GROUP = Options(_OPTIONS, _GROUP)
DELETE = Options(
    _OPTIONS,
    _GROUPS,
    Option(
        "topic",
        "Only what is committed for a topic, or some partitions: orders:0,2; repeatable.",
        "TOPIC",
        repeatable=True,
        completes="topics",
    ),
)
MODE = Options(
    "Where to",
    Option("to", "An instant, `start` or `end`: 2021-08-04T12:30, now-2h.", "T"),
    Option("to_datetime", "The same, by Kafka's own name for it.", "T"),
    Option("by_duration", "So long before now: PT2H0M0S, 2h.", "DURATION"),
    Option("shift_by", "So many offsets on; back, when negative.", "N"),
    Option("to_offset", "This offset, in all partitions.", "N"),
    switch("to_earliest", "The start of the log."),
    switch("to_latest", "The end of the log."),
    switch("to_current", "Where it stands; else the end."),
    Option("from_file", "As a CSV file of Kafka's own tool says.", "CSV", kind="file"),
)
TOPICS = Options(
    "Which partitions",
    Option(
        "topic",
        "A topic, or some partitions of it: orders:0,2; repeatable.",
        "TOPIC",
        repeatable=True,
        completes="topics",
    ),
)
SCOPE = Options(TOPICS.heading, *TOPICS, switch("all_topics", "All that the group has committed."))
RESET = Options(
    _OPTIONS,
    _GROUPS,
    switch("all_groups", "All groups."),
    Option("to_group", "Write to this group instead.", "GROUP", completes="groups"),
    switch("create", "Make a group that is not there."),
    switch("export", "The plan as CSV of Kafka's own tool; writes only with --execute."),
    switch("execute", "The same as --yes."),
)
WAIT = Options(
    _OPTIONS, Option("wait", "Wait so long for the group's members to go: 45s.", "DURATION")
)
CONSENT = Options(_OPTIONS, dry_run("Only show the plan; writes nothing."), YES)
CLONE = Options(
    _OPTIONS,
    _GROUP,
    Argument("other", "The group that gets them.", "OTHER"),
    Option("through", "Onto the topic that this replay copied.", "RUN", completes="replays"),
)
UNDO = Options(
    _OPTIONS,
    _GROUP,
    Option("snapshot_id", "Not the last one, but this.", "ID", flags=("--snapshot",)),
    switch("list_", "Only list the snapshots of the group."),
)

"""The options of `topics`."""

from playhead.options.option import YES, Argument, Option, Options, dry_run, switch
from playhead.options.shared import TIME, need_topic

_OPTIONS = "Options"
_BY = ("replica", "partition", "topic", "log-dir")
_TOPIC = Argument("topic", "The topic.", "TOPIC", completes="topics", check=need_topic)
_ALL_OR_SOME = Argument(
    "topics",
    "All, when none is named.",
    "TOPIC",
    repeatable=True,
    required=False,
    completes="topics",
    check=need_topic,
)
_SIZES_BY = Option("by", f"What a row of sizes is: {', '.join(_BY)}.", "WHAT", choices=_BY)
_OFFSETS_AT = Option("at", "With the offsets, the first one not before this time.", "T")
_PARTITIONS = Option("partitions", "How many.", "N", kind="number", low=1)
_DRY_RUN = dry_run("Show what would change, and change nothing.")
_IF_EXISTS = switch("if_exists", "One that is not there is no error.")

LIST = Options(
    _OPTIONS,
    Argument("pattern", "Only names in which this regex is found.", "PATTERN", required=False),
    switch("internal", "Kafka's own topics, too, as kafka-topics does."),
)
DESCRIBE = Options(
    _OPTIONS,
    _ALL_OR_SOME,
    switch("configs", "The settings as rows, those by default included."),
    switch("sizes", "Bytes on the brokers' disks instead: each replica, or sums."),
    _SIZES_BY,
    switch("offsets", "Offsets instead: earliest, last stable, latest."),
    _OFFSETS_AT,
    *TIME,
)
SIZES = Options(_OPTIONS, _ALL_OR_SOME, _SIZES_BY)
OFFSETS = Options(_OPTIONS, _ALL_OR_SOME, _OFFSETS_AT, *TIME)
CREATE = Options(
    _OPTIONS,
    Argument("topic", "Its name.", "TOPIC", check=need_topic),
    _PARTITIONS,
    Option("replication", "Replicas of each partition.", "N", kind="number", low=1),
    switch("if_not_exists", "One that is there is taken as it is."),
    _DRY_RUN,
)
ALTER = Options(
    _OPTIONS,
    _TOPIC,
    _PARTITIONS,
    Option("reset", "Leave a setting to the brokers again.", "KEY", repeatable=True),
    _IF_EXISTS,
    _DRY_RUN,
    YES,
)
SETTINGS = Options(
    "Settings",
    Option("retain", "Keep records so long: 7d, or forever.", "DURATION"),
    Option("retain_bytes", "Keep so much of each partition: 10GiB, or unlimited.", "SIZE"),
    Option(
        "compact",
        "Keep the latest record of each key; with --retain also drop old ones.",
        kind="switch",
        off="--no-compact",
    ),
    Option(
        "config",
        "Any setting of Kafka's, key=value; repeatable.",
        "KEY=VALUE",
        flags=("--set",),
        repeatable=True,
    ),
)
"""Settings in people's words, for create and alter."""
DELETE = Options(
    _OPTIONS,
    Argument(
        "topics",
        "The topics.",
        "TOPIC",
        repeatable=True,
        completes="topics",
        check=need_topic,
    ),
    _IF_EXISTS,
    _DRY_RUN,
    YES,
)
TRIM = Options(
    _OPTIONS,
    _TOPIC,
    Option("to", "Delete all records before the first of this time; `end` is all.", "T"),
    Option("offsets", "Delete all before an offset: 0:-1200,1:-900.", "SPEC"),
    dry_run("Show what would go, and delete nothing."),
    YES,
)

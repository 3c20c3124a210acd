"""The options of `topics`."""

from playhead.options.option import YES, Argument, Option, Options, dry_run, switch
from playhead.options.shared import TIME, need_topic

_OPTIONS = "Options"
_BY = ("replica", "partition", "topic", "log-dir")
_FLAGS = ("--topic",)
_TOPIC = Argument(
    "topic",
    "Name of the topic.",
    "TOPIC",
    completes="topics",
    check=need_topic,
    kafka_flags=_FLAGS,
)
_ALL_OR_SOME = Argument(
    "topics",
    "Names of the topics; default: all topics.",
    "TOPIC",
    repeatable=True,
    required=False,
    completes="topics",
    check=need_topic,
    kafka_flags=_FLAGS,
)
_SIZES_BY = Option("by", f"With --sizes: sum by {', '.join(_BY)}.", "WHAT", choices=_BY)
_OFFSETS_AT = Option("at", "With --offsets: the first offset at or after this time.", "T")
_PARTITIONS = Option("partitions", "Number of partitions.", kind="number", low=1)
_DRY_RUN = dry_run("Show what would change, and change nothing.")
_IF_EXISTS = switch("if_exists", "Do not fail if a topic does not exist.")

LIST = Options(
    _OPTIONS,
    Argument(
        "pattern", "Only names that match this regular expression.", "PATTERN", required=False
    ),
    switch("internal", "Also list Kafka's own topics, as kafka-topics does."),
)
DESCRIBE = Options(
    _OPTIONS,
    _ALL_OR_SOME,
    switch("configs", "Show all settings as rows, including defaults."),
    switch("sizes", "Show bytes on the brokers' disks instead, for each replica or summed."),
    _SIZES_BY,
    switch("offsets", "Show offsets instead: earliest, last stable, latest."),
    _OFFSETS_AT,
    *TIME,
)
SIZES = Options(_OPTIONS, _ALL_OR_SOME, _SIZES_BY)
OFFSETS = Options(_OPTIONS, _ALL_OR_SOME, _OFFSETS_AT, *TIME)
CREATE = Options(
    _OPTIONS,
    switch("yes", "Accepted as by the commands that ask; this one does not ask.", "-y", "--yes"),
    Argument("topic", "Name of the topic.", "TOPIC", check=need_topic, kafka_flags=_FLAGS),
    _PARTITIONS,
    Option(
        "replication",
        "Number of replicas of each partition.",
        kind="number",
        low=1,
        kafka_flags=("--replication-factor",),
    ),
    switch("if_not_exists", "Do not fail if the topic exists; leave it unchanged."),
    _DRY_RUN,
)
ALTER = Options(
    _OPTIONS,
    _TOPIC,
    _PARTITIONS,
    Option(
        "reset", "Setting to return to the brokers' default; repeatable.", "KEY", repeatable=True
    ),
    _IF_EXISTS,
    _DRY_RUN,
    YES,
)
SETTINGS = Options(
    "Settings",
    Option("retain", "How long to keep records: 7d, or forever.", "DURATION"),
    Option("retain_bytes", "How much of each partition to keep: 10GiB, or unlimited.", "SIZE"),
    Option(
        "compact",
        "Keep the latest record of each key; with --retain, also delete old ones.",
        kind="switch",
        off="--no-compact",
    ),
    Option(
        "config",
        "Any of Kafka's topic settings, key=value; repeatable.",
        "KEY=VALUE",
        flags=("--set",),
        repeatable=True,
    ),
)
"""Settings in plain words, for create and alter."""
DELETE = Options(
    _OPTIONS,
    Argument(
        "topics",
        "Names of the topics.",
        "TOPIC",
        repeatable=True,
        completes="topics",
        check=need_topic,
        kafka_flags=_FLAGS,
    ),
    _IF_EXISTS,
    _DRY_RUN,
    YES,
)
TRIM = Options(
    _OPTIONS,
    _TOPIC,
    Option("to", "Delete all records before the first one at this time; `end` deletes all.", "T"),
    Option("offsets", "Delete all records before an offset: 0:-1200,1:-900.", "SPEC"),
    dry_run("Show what would be deleted, and delete nothing."),
    YES,
)

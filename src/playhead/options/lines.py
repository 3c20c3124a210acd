"""The options of `produce` and `consume`: which records, and the format of lines."""

from dataclasses import replace

from playhead.decoding import PLAIN_FORMS, REGISTERED_FORMS
from playhead.errors import UsageError
from playhead.options.option import Argument, Option, Options, dry_run, switch
from playhead.options.replays import SPAN, ZONE
from playhead.options.shared import ACKS, COMPRESSION, SEPARATORS, TIME, need_topic


def _need_topic(name: str) -> None:
    """As `need_topic`; kcat's -f takes a format, and here it is --follow."""
    if "%" in name:
        raise UsageError(
            f"{name!r} is not a topic's name",
            hint="-f is --follow; the text of a record is --format TEXT",
        )
    need_topic(name)


_LINES = "Lines"
FORMATS = ("lines", "jsonl")
_FORMS = f"{' '.join(PLAIN_FORMS)}; {' '.join(REGISTERED_FORMS)}"

PRODUCE = Options(
    "Options",
    Argument(
        "topic",
        "The topic.",
        "TOPIC",
        completes="topics",
        check=need_topic,
        kafka_flags=("--topic", "-t"),
    ),
    Argument("file", "File to read; default stdin.", kind="file", required=False),
    Option(
        "on_error",
        "What to do with an invalid line: fail or skip.",
        "RULE",
        choices=("fail", "skip"),
        default="fail",
    ),
    dry_run("Read and check everything, and send nothing."),
)
LINES = Options(
    _LINES,
    Option(
        "format_",
        f"Format of lines: {' or '.join(FORMATS)}.",
        "FORM",
        choices=FORMATS,
        default="lines",
    ),
    Option(
        "with_", "Fields before the value of each line: timestamp,partition,headers,key.", "FIELDS"
    ),
    Option("separator", "Separator after each field; default \\t, a tab.", "TEXT"),
    *SEPARATORS,
    Option("null", "Text that means null.", "TEXT"),
    Option("key", "Key of all records.", "TEXT"),
    Option("timestamp", "Timestamp of all records; default now.", "T"),
    *TIME,
    Option("partition", "Partition of all records: a number, or `auto` to choose by key.", "N"),
    Option("header", "Header to add to all records; repeatable.", "NAME=VALUE", repeatable=True),
    Option(
        "property",
        "Property of Kafka's console producer: parse.key=true, key.separator=:, …",
        "KEY=VALUE",
        kafka_flags=("--reader-property",),
        repeatable=True,
    ),
)
"""The format of lines, and the values that all records of a run get."""
DELIVERY = Options(
    "Delivery",
    replace(ACKS, choices=(*ACKS.choices, "-1")),
    COMPRESSION,
    switch("transaction", "Write all records in one transaction."),
    Option("transaction_records", "Start a new transaction after N records.", kind="number", low=1),
    Option("transactional_id", "Transactional ID; default: a new one.", "ID"),
    Option(
        "delivery_timeout",
        "Seconds until an unconfirmed record counts as failed.",
        "S",
        flags=("--timeout",),
        kind="decimal",
        default=60.0,
        low=1,
    ),
)
CONSUME = Options(
    "Options",
    Argument(
        "topics",
        "Topics, or /regex/ for all matching topics.",
        "TOPIC",
        repeatable=True,
        completes="topics",
        check=_need_topic,
        kafka_flags=("--topic", "-t"),
    ),
    Option("partition", "Only this partition; repeatable.", kind="number", low=0, repeatable=True),
    Option("grep", "Only records whose value matches this regular expression.", "REGEX"),
    Option("grep_key", "Only records whose key matches this regular expression.", "REGEX"),
    Option(
        "most",
        "Stop after N records.",
        "N",
        flags=("--max",),
        kafka_flags=("--max-messages", "--limit", "-n"),
        kind="number",
        low=1,
    ),
    Option(
        "group",
        "Start at the offsets that this group has committed; it stays as it is.",
        "GROUP",
        completes="groups",
    ),
    Option("tail", "Start N offsets before the end of each partition.", kind="number", low=0),
)
CONSUME_SPAN = Options(
    SPAN.heading,
    *SPAN,
    *ZONE,
    switch("from_beginning", "The same as --from start."),
    switch("follow", "Keep printing new records; without a span, only new ones.", "-f", "--follow"),
)
SHOWN = Options(
    _LINES,
    Option(
        "show",
        "Fields to print: topic,timestamp,time,partition,offset,headers,key,value; default value.",
        "FIELDS",
    ),
    Option(
        "format_",
        "Text for each record, with kcat's signs: %t %p %o %T %k %s %h; %D is the time in UTC.",
        "TEXT",
    ),
    Option("separator", "Separator between fields; default \\t, a tab.", "TEXT"),
    *SEPARATORS,
    Option("null", "Text for null; default null.", "TEXT"),
    Option("line_separator", "Text after each record; default \\n.", "TEXT"),
    Option(
        "property",
        "Property of Kafka's console consumer: print.key=true, key.separator=:, …",
        "KEY=VALUE",
        kafka_flags=("--formatter-property",),
        repeatable=True,
    ),
)
DECODING = Options(
    _LINES,
    Option("decode", f"Format of values: bytes {_FORMS}.", "FORM"),
    Option("decode_key", "Format of keys, one of the same.", "FORM"),
    Option(
        "on_error",
        "What to do with a record that cannot be decoded or read: fail, skip, or print it raw.",
        "RULE",
        choices=("fail", "skip", "raw"),
        default="fail",
    ),
)

"""The options of `produce` and `consume`: which records, and how a line says one."""

from playhead.decoding import PLAIN_FORMS, REGISTERED_FORMS
from playhead.options.option import Argument, Option, Options, dry_run, switch
from playhead.options.replays import SPAN, ZONE
from playhead.options.shared import COMPRESSIONS, SEPARATORS, TIME, need_topic

_LINES = "Lines"
FORMATS = ("lines", "jsonl")
_FORMS = f"{' '.join(PLAIN_FORMS)}; {' '.join(REGISTERED_FORMS)}"

PRODUCE = Options(
    "Options",
    Argument("topic", "The topic.", "TOPIC", completes="topics", check=need_topic),
    Argument("file", "Instead of stdin.", "FILE", kind="file", required=False),
    Option(
        "on_error",
        "A line that is no record: fail or skip.",
        "RULE",
        choices=("fail", "skip"),
        default="fail",
    ),
    dry_run("Read and check everything, and send nothing."),
)
LINES = Options(
    _LINES,
    Option("format_", f"{' or '.join(FORMATS)}.", "FORM", choices=FORMATS, default="lines"),
    Option("with_", "What a line has before its value: timestamp,partition,headers,key.", "FIELDS"),
    Option("separator", "After each of them; \\t is a tab, and the default.", "TEXT"),
    *SEPARATORS,
    Option("null", "The text that means null.", "TEXT"),
    Option("timestamp", "Time of every record.", "T"),
    *TIME,
    Option(
        "partition",
        "Partition of every record: a number, or `auto` for that of its key.",
        "N",
    ),
    Option("header", "A header of every record; repeatable.", "NAME=VALUE", repeatable=True),
)
"""What a line is, and what all records of a run get."""
DELIVERY = Options(
    "Delivery",
    Option(
        "acks",
        "Who must have a record: 0, 1 or all.",
        "ACKS",
        choices=("0", "1", "all", "-1"),
        default="all",
    ),
    Option(
        "compression",
        f"{', '.join(COMPRESSIONS)}.",
        "CODEC",
        choices=COMPRESSIONS,
        default="none",
    ),
    switch("transaction", "All records in one transaction."),
    Option("transaction_records", "A new transaction after so many.", "N", kind="number", low=1),
    Option("transactional_id", "Its name; made up when not given.", "ID"),
    Option(
        "delivery_timeout",
        "Seconds after which a record failed.",
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
        "Or /regex/ for all that fit.",
        "TOPIC",
        repeatable=True,
        completes="topics",
        check=need_topic,
    ),
    Option("partition", "Only this one; repeatable.", "N", kind="number", low=0, repeatable=True),
    Option("grep", "Only with this regex in the value.", "REGEX"),
    Option("grep_key", "Only with this regex in the key.", "REGEX"),
    Option("most", "Stop after so many records.", "N", flags=("--max",), kind="number", low=1),
)
CONSUME_SPAN = Options(
    SPAN.heading,
    *SPAN,
    *ZONE,
    switch("from_beginning", "As --from start."),
    switch("follow", "Go on as records come; alone, with new ones only.", "-f", "--follow"),
)
SHOWN = Options(
    _LINES,
    Option("show", "topic,timestamp,partition,offset,headers,key,value; value.", "FIELDS"),
    Option("separator", "Between them; \\t is a tab, and the default.", "TEXT"),
    *SEPARATORS,
    Option("null", "The text for null: null.", "TEXT"),
    Option("line_separator", "After each record; \\n.", "TEXT"),
    Option(
        "property",
        "As Kafka's console consumer: print.key=true, key.separator=:, …",
        "KEY=VALUE",
        repeatable=True,
    ),
)
DECODING = Options(
    _LINES,
    Option("decode", f"What values are: bytes {_FORMS}.", "FORM"),
    Option("decode_key", "What keys are, by the same words.", "FORM"),
    Option(
        "on_error",
        "A record that cannot be decoded: fail, skip, or raw as it is.",
        "RULE",
        choices=("fail", "skip", "raw"),
        default="fail",
    ),
)

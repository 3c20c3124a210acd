"""The options of `ingest`, `capture` and `extract`."""

from dataclasses import replace

from playhead.options.option import Argument, Option, Options, dry_run, switch
from playhead.options.shared import ACKS, COMPRESSION, OPEN_TO_OTHERS, OUTPUT, TIME

_FIGURES, _ENDS = (
    Option("stats_every", "Time between statistics on stderr.", default="5s", kind="duration"),
    Option("for_", "Stop after this time.", kind="duration"),
)
TELLING = Options("Options", _FIGURES, _ENDS)

INGEST = Options(
    "Options",
    Argument("address", "udp://HOST:PORT; port 0 chooses a free port.", "ADDRESS"),
    Argument("target", "kafka:TOPIC to write to.", "TARGET"),
    dry_run("Open the port, check the topic, and send nothing."),
)
RECORDS = Options(
    "Records",
    Option("key", "Key of each record: a JSON path, or bytes:0-4; default no key.", "PATH"),
    Option("timestamp", "Time of each record: a JSON path, or arrival.", "PATH", default="arrival"),
    *TIME,
    switch("by_lines", "Make a record of each line of a datagram.", "--lines"),
    switch("with_peers", "Add the sender's address as header `peer`.", "--header-peer"),
    Option(
        "on_bad",
        "What to do with a datagram without the requested key or time: skip, fail or dlq:TOPIC.",
        "RULE",
        default="skip",
    ),
)
SENDING = Options(
    "Delivery",
    ACKS,
    COMPRESSION,
    Option(
        "max_memory",
        "Memory for records that wait for the broker; more are dropped.",
        default="64MiB",
        kind="size",
        low=1 << 20,
    ),
    Option(
        "flush",
        "On shutdown, wait this long for outstanding deliveries.",
        default="30s",
        kind="duration",
    ),
)
LISTENING = Options(
    "Listening",
    Option(
        "receive_buffer",
        "Socket receive buffer to request from the kernel, which may grant less.",
        default="8MiB",
        kind="size",
        low=1,
    ),
    Option(
        "max_datagram",
        "Longest datagram; longer ones are refused.",
        default="65535",
        kind="size",
        low=1,
        high=65_535,
    ),
    *OPEN_TO_OTHERS,
)

CAPTURE = Options("Options", dry_run("Open the port, show what would be done, and end."))
PLACES = Options(
    "Listening",
    Option(
        "listen",
        "Address for clients; other brokers get the ports after it.",
        "HOST:PORT",
        default="127.0.0.1:19092",
    ),
    Option("upstream", "First broker of the cluster.", "HOST:PORT", required=True),
    Option("out", "Folder for the captured traffic; empty or new.", "FOLDER", required=True),
    Option("advertise", "Host name for clients; default: the host of --listen.", "HOST"),
    *OPEN_TO_OTHERS,
)
COPYING = Options(
    "Records",
    Option(
        "on_slow",
        "If writing is slower than the traffic: block clients or drop pairs.",
        "RULE",
        choices=("block", "drop"),
        default="block",
    ),
    Option(
        "max_memory",
        "Memory for captured pairs that are not on disk yet.",
        default="64MiB",
        kind="size",
        low=1 << 20,
    ),
    Option("topics", "Record only these topics, comma-separated: orders,pay*.", "NAMES"),
    Option(
        "redact",
        "Remove a part of each record: $.a.b, key, value, header:NAME; repeatable.",
        "PATH",
        repeatable=True,
    ),
    Option(
        "rotate",
        "Start a new file after a size (1GiB) or a time (1h); repeatable.",
        "SIZE|DURATION",
        repeatable=True,
    ),
)
EXTRACT = Options(
    "Options",
    Argument(
        "snapshot", "raw.jsonl, a folder, or the ID of a snapshot.", "SNAPSHOT", required=False
    ),
    Option(
        "path",
        "Path of a value to extract: a.b.0.c; # or * matches every element; repeatable.",
        "PATH",
        repeatable=True,
    ),
    Option("filter_", "Filter for pairs: '(command IS \"Fetch\")'.", "FILTER", flags=("--filter",)),
    switch("all_records", "Print each fetched or produced record as a whole."),
    Option("snapshot_option", "The same as SNAPSHOT.", "SNAPSHOT", flags=("--snapshot",)),
)
AS_CSV = Options(
    OUTPUT.heading, *(replace(row, default="csv") for row in OUTPUT if row.name == "form")
)
"""`extract` prints CSV by default, on a terminal too."""

"""The options of what takes in traffic and values of others: `ingest`, `capture` and `extract`."""

from dataclasses import replace

from playhead.options.option import Argument, Option, Options, dry_run, switch
from playhead.options.shared import COMPRESSIONS, OPEN_TO_OTHERS, OUTPUT, TIME

_FIGURES, _ENDS = (
    Option("stats_every", "Figures on stderr.", "DURATION", default="5s"),
    Option("for_", "Stop after so long.", "DURATION"),
)
TELLING = Options("Options", _FIGURES, _ENDS)

INGEST = Options(
    "Options",
    Argument("address", "udp://HOST:PORT; port 0 takes a free one.", "ADDRESS"),
    Argument("target", "kafka:TOPIC", "TARGET"),
    dry_run("Take the port, look at the topic, and send nothing."),
)
RECORDS = Options(
    "Records",
    Option("key", "A JSON path, or bytes:0-4; no key.", "PATH"),
    Option("timestamp", "A JSON path, or arrival.", "PATH", default="arrival"),
    *TIME,
    switch("by_lines", "Each line of a datagram is a record.", "--lines"),
    switch("with_peers", "The sender's address as header `peer`.", "--header-peer"),
    Option(
        "on_bad",
        "A record without key or time: skip, fail or dlq:TOPIC.",
        "RULE",
        default="skip",
    ),
)
SENDING = Options(
    "Delivery",
    Option(
        "acks",
        "Who must have a record: 0, 1 or all.",
        "ACKS",
        choices=("0", "1", "all"),
        default="all",
    ),
    Option(
        "compression",
        f"{', '.join(COMPRESSIONS)}.",
        "CODEC",
        choices=COMPRESSIONS,
        default="none",
    ),
    Option(
        "max_memory", "Of records that wait for the broker; then drop.", "SIZE", default="64MiB"
    ),
    Option("flush", "How long the end waits for the broker.", "DURATION", default="30s"),
)
LISTENING = Options(
    "Listening",
    Option(
        "receive_buffer",
        "The kernel's buffer to ask for; it may give less.",
        "SIZE",
        default="8MiB",
    ),
    Option("max_datagram", "Longer ones are cut, and refused.", "SIZE", default="65535"),
    *OPEN_TO_OTHERS,
)

CAPTURE = Options("Options", dry_run("Take the port, say what would be, and end."))
PLACES = Options(
    "Listening",
    Option(
        "listen",
        "For clients; further brokers get ports after it.",
        "HOST:PORT",
        default="127.0.0.1:19092",
    ),
    Option("upstream", "The broker to begin with.", "HOST:PORT", required=True),
    Option("out", "A folder, empty or new.", "FOLDER", required=True),
    Option("advertise", "What clients are told; the host of --listen.", "HOST"),
    *OPEN_TO_OTHERS,
)
COPYING = Options(
    "Records",
    Option(
        "on_slow",
        "When writing down is slower: block or drop.",
        "RULE",
        choices=("block", "drop"),
        default="block",
    ),
    Option("max_memory", "Of pairs not yet written.", "SIZE", default="64MiB"),
    Option("topics", "Records of these only; a*, b.", "NAMES"),
    Option("redact", "$.a.b, key, value, header:NAME; repeatable.", "PATH", repeatable=True),
    Option(
        "rotate",
        "A new file after 1GiB, or 1h; repeatable.",
        "SIZE|DURATION",
        repeatable=True,
    ),
)
EXTRACT = Options(
    "Options",
    Argument(
        "snapshot",
        "raw.jsonl, a folder, or the id of a snapshot.",
        "SNAPSHOT",
        required=False,
    ),
    Option(
        "path", "What of each pair: a.b.0.c, # or * for all; repeatable.", "PATH", repeatable=True
    ),
    Option("filter_", "Only these pairs: '(command IS \"Fetch\")'.", "FILTER", flags=("--filter",)),
    switch("all_records", "Each record that was fetched or produced, whole."),
    Option("snapshot_option", "The same as SNAPSHOT.", "SNAPSHOT", flags=("--snapshot",)),
)
AS_CSV = Options(
    OUTPUT.heading, *(replace(row, default="csv") for row in OUTPUT if row.name == "form")
)
"""What `extract` is for is CSV, on a terminal as well."""

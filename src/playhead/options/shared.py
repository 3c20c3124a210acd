"""The options that commands of all kinds share: servers, Spark, the zone of times, and output."""

from typing import Final

from playhead.endpoint import check_topic
from playhead.options.option import Option, Options, setting, switch

SERVERS: Final = "Servers"
FORMATS = ("table", "json", "jsonl", "csv")
PROGRESS = ("auto", "plain", "json", "none")
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")

OUTPUT = Options(
    "Output",
    Option(
        "form",
        f"Form of the data: {', '.join(FORMATS)}.",
        "FORM",
        flags=("-o", "--output"),
        choices=FORMATS,
        default="table",
    ),
    switch("quiet", "Only data and errors.", "-q", "--quiet"),
    Option("verbose", "-vv adds tracebacks.", flags=("-v", "--verbose"), kind="count", default=0),
    Option(
        "progress",
        f"Form of progress: {', '.join(PROGRESS)}.",
        "FORM",
        choices=PROGRESS,
        default="auto",
    ),
)
CONNECTION = Options(
    SERVERS,
    setting("bootstrap_servers", "HOST:PORT", "-b"),
    Option(
        "context",
        "A context by name.",
        "NAME",
        flags=("-c", "--context"),
        completes="contexts",
    ),
    Option(
        "assignment",
        "A Kafka client property, key=value; repeatable; -X list names them.",
        "KEY=VALUE",
        flags=("-X",),
        repeatable=True,
        completes="properties",
    ),
    setting("kafka_config", "FILE"),
    setting("database", "URL"),
)
SPARK = Options(
    SERVERS,
    setting("spark_master", "URL"),
    setting("spark_remote", "URL"),
    setting("spark_memory", "SIZE"),
)
REGISTRY = Options(SERVERS, setting("schema_registry", "URL"))
TIME = Options("Options", setting("timezone", "ZONE"))
SANDBOX = Options(
    "Options", Option("directory", "The sandbox's folder.", "FOLDER", flags=("--dir",))
)
SEPARATORS = Options(
    "Options",
    Option("headers_separator", "Between headers: ','.", "TEXT"),
    Option("header_separator", "After a header's name: ':'.", "TEXT"),
)
"""How headers stand in a line, read or written."""
OPEN_TO_OTHERS = Options(
    "Options",
    switch("anywhere", "Allow an address that others can reach.", "--listen-anywhere"),
    Option("allow", "Who may connect then: 10.1.0.0/16; repeatable.", "NETWORK", repeatable=True),
)
"""Who may come to a port of ours."""


def need_topic(name: str) -> None:
    """Return when it can be a topic; a `/regex/` is for the command to take or not."""
    if len(name) < 2 or not name[0] == name[-1] == "/":
        check_topic(name)

"""The options that many commands share: servers, Spark, the time zone, and output."""

from typing import Final

from playhead.endpoint import check_topic
from playhead.options.option import Option, Options, setting, switch

SERVERS: Final = "Servers"
FORMATS = ("table", "json", "jsonl", "csv")
PROGRESS = ("auto", "plain", "json", "none")
_COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")

OUTPUT = Options(
    "Output",
    Option(
        "form",
        f"Format of the data: {', '.join(FORMATS)}.",
        "FORM",
        flags=("-o", "--output"),
        choices=FORMATS,
        default="table",
    ),
    switch("quiet", "Print only data and errors.", "-q", "--quiet"),
    Option(
        "verbose",
        "Print more; -vv adds tracebacks.",
        flags=("-v", "--verbose"),
        kind="count",
        default=0,
    ),
    Option(
        "progress",
        f"Format of progress: {', '.join(PROGRESS)}.",
        "FORM",
        choices=PROGRESS,
        default="auto",
    ),
)
CONNECTION = Options(
    SERVERS,
    setting(
        "bootstrap_servers", "HOST:PORT", "-b", kafka_flags=("--bootstrap-server",), joined=True
    ),
    Option(
        "context",
        "Name of the context to use.",
        "NAME",
        flags=("-c", "--context"),
        completes="contexts",
    ),
    Option(
        "assignment",
        "Kafka client property, key=value; repeatable; -X list prints all.",
        "KEY=VALUE",
        flags=("-X",),
        repeatable=True,
        completes="properties",
    ),
    setting("kafka_config", "FILE", kafka_flags=("--command-config",)),
    setting("database", "URL"),
)
SPARK = Options(
    SERVERS,
    setting("spark_master", "URL"),
    setting("spark_remote", "URL"),
    setting("spark_memory", "SIZE"),
)
WARM = Options(
    SERVERS,
    Option(
        "warm",
        "Use the warm engine of an earlier command, or leave one behind for later ones; this is the rule.",
        kind="switch",
        off="--no-warm",
    ),
)
REGISTRY = Options(SERVERS, setting("schema_registry", "URL"))
TIME = Options("Options", setting("timezone", "ZONE"))
ACKS, COMPRESSION = (
    Option(
        "acks",
        "Acknowledgements to wait for: 0, 1 or all.",
        "ACKS",
        choices=("0", "1", "all"),
        default="all",
    ),
    Option(
        "compression",
        f"Compression: {', '.join(_COMPRESSIONS)}.",
        "CODEC",
        choices=_COMPRESSIONS,
        default="none",
    ),
)
"""How records are sent to a topic."""
SANDBOX = Options(
    "Options", Option("directory", "Folder of the sandbox.", "FOLDER", flags=("--dir",))
)
SEPARATORS = Options(
    "Options",
    Option("headers_separator", "Separator between headers; default ','.", "TEXT"),
    Option("header_separator", "Separator after a header's name; default ':'.", "TEXT"),
)
"""How headers are written in a line."""
OPEN_TO_OTHERS = Options(
    "Options",
    switch(
        "anywhere",
        "Allow an address that other machines can reach; needs --allow.",
        "--listen-anywhere",
    ),
    Option(
        "allow", "Network that may connect: 10.1.0.0/16; repeatable.", "NETWORK", repeatable=True
    ),
)
"""Which machines may connect to a port that Playhead opens."""


def need_topic(name: str) -> None:
    """Raise unless the text can be a topic's name; whether a `/regex/` is allowed depends on the command."""
    if len(name) < 2 or not name[0] == name[-1] == "/":
        check_topic(name)

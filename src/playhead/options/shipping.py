"""The options of `queries ship`."""

from playhead.options.option import Argument, Option, Options, switch

SHIP = Options(
    "Options",
    Argument("logs", "Log file, or a quoted pattern: '/var/log/postgresql/*.csv'.", "GLOB"),
    Argument("target", "Topics to write to, one for each database: kafka:pg_raw_{db}.", "TARGET"),
    switch("once", "Ship up to the ends of the files, and end."),
    Option(
        "name",
        "Name of this shipper, which its positions are kept under; default: made of GLOB and TARGET.",
        "NAME",
    ),
    Option(
        "log_line_prefix",
        "The server's log_line_prefix, for logs of stderr; it needs a time and a session.",
        "TEXT",
    ),
    Option(
        "partitions",
        "Partitions of topics that are created.",
        "N",
        default="4",
        kind="number",
        low=1,
    ),
    Option(
        "max_topics",
        "Most topics that may fit TARGET; rows of further databases go to the topic of rows without a "
        "database.",
        "N",
        default="100",
        kind="number",
        low=1,
    ),
    Option(
        "on_large",
        "What to do with a row that is too large for its topic: fail or skip.",
        "RULE",
        choices=("fail", "skip"),
        default="fail",
    ),
)

"""The options of `queries ship`."""

from playhead.options.option import Argument, Option, Options, switch

SHIP = Options(
    "Options",
    Argument(
        "logs", "Log file to follow, or a quoted pattern: '/var/log/postgresql/*.csv'.", "GLOB"
    ),
    Argument("target", "Topics to write to, one per database: kafka:pg_raw_{db}.", "TARGET"),
    switch("once", "Exit when the ends of the files are reached."),
    Option(
        "name",
        "Name of this shipper, under which its positions are saved; default: a hash of GLOB and TARGET.",
        "NAME",
    ),
    Option(
        "log_line_prefix",
        "log_line_prefix of the server, for logs of the form stderr. It must contain a time and a session.",
        "TEXT",
    ),
    Option(
        "partitions",
        "Number of partitions of a new topic.",
        "N",
        default="4",
        kind="number",
        low=1,
    ),
    Option(
        "max_topics",
        "Largest number of topics that match TARGET. Rows of further databases go to the topic of rows without "
        "a database.",
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

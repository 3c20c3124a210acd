"""Where the fixtures are: one file for each concern."""

pytest_plugins = [
    "playhead.testing.fixtures",
    "tests.fix_environment",
    "tests.fix_commands",
    "tests.fix_capture",
    "tests.fix_engine",
    "tests.fix_cluster",
    "tests.fix_kafka_tools",
    "tests.fix_registry",
    "tests.fix_groups",
    "tests.fix_ingest",
    "tests.fix_replay",
    "tests.fix_live",
    "tests.fix_s3",
    "tests.fix_sandbox",
    "tests.fix_tls",
    "tests.fix_torture",
]

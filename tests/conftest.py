"""Where the fixtures are: one file for each concern."""

from hypothesis import settings

pytest_plugins = [
    "playhead.testing.fixtures",
    "tests.fix_environment",
    "tests.fix_budget",
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

# How long an example takes says more about what else the machine does.
settings.register_profile("playhead", deadline=None)
settings.load_profile("playhead")
# `make test-unit` draws fewer examples, by the commit's seed; `make torture` draws many.
settings.register_profile("ci", settings.get_profile("playhead"), max_examples=50)
settings.register_profile("torture", settings.get_profile("playhead"), max_examples=500)

"""Every setting, declared once: name, environment variable, default, help, and whether it is
secret.

The command line, the environment, project files, contexts, `context show` and the reference use
this table.
"""

import re
from dataclasses import dataclass
from typing import Final

from playhead.errors import BadValue
from playhead.grammar.cursor import NotUnderstood
from playhead.grammar.zone import zone_name
from playhead.host import paths


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, with its command line option if it has one."""

    name: str
    help: str
    flag: str | None = None
    environment: str | None = None
    default: str | None = None
    secret: bool = False
    # A guard that one place switches on stays on, whatever the other places say.
    is_guard: bool = False
    is_zone: bool = False
    is_heap: bool = False

    @property
    def ways(self) -> str:
        """The ways to set it, for a hint."""
        return (
            " or ".join(filter(None, (self.environment, self.flag))) or f"{self.name} in a context"
        )


SETTINGS: Final = (
    Setting(
        "bootstrap_servers",
        "Kafka brokers to connect to first: host:port,…",
        "--bootstrap-servers",
        "KAFKA_BOOTSTRAP_SERVERS",
    ),
    Setting(
        "kafka_config",
        "File of Kafka client properties, in Java's or librdkafka's spelling.",
        "--config",
    ),
    Setting(
        "database",
        "URL of the PostgreSQL database: postgresql://…",
        "--database",
        "DATABASE_URL",
        secret=True,
    ),
    Setting(
        "spark_master",
        "Spark master that runs the tasks: local[*], spark://HOST:PORT, …",
        "--master",
        "PLAYHEAD_SPARK_MASTER",
        "local[*]",
    ),
    Setting(
        "spark_remote",
        "URL of a Spark Connect server: sc://…",
        "--spark-remote",
        "SPARK_REMOTE",
        secret=True,
    ),
    Setting(
        "spark_memory",
        "Memory (Java heap) of a local engine.",
        "--spark-memory",
        "PLAYHEAD_SPARK_MEMORY",
        "1g",
        is_heap=True,
    ),
    Setting(
        "engine_idle",
        "Time without a command after which the warm engine ends.",
        environment="PLAYHEAD_ENGINE_IDLE",
        default="10m",
    ),
    Setting(
        "schema_registry",
        "URL of the schema registry: https://…",
        "--schema-registry",
        "SCHEMA_REGISTRY_URL",
        secret=True,
    ),
    Setting(
        "timezone",
        "Zone of times without one: UTC, +05:30, Europe/Berlin.",
        "--timezone",
        "PLAYHEAD_TIMEZONE",
        "UTC",
        is_zone=True,
    ),
    Setting(
        "read_only",
        "Refuse every command that writes.",
        environment="PLAYHEAD_READ_ONLY",
        default="false",
        is_guard=True,
    ),
    Setting(
        "production",
        "Ask to type the target's name before every write.",
        default="false",
        is_guard=True,
    ),
)

BY_NAME: Final = {setting.name: setting for setting in SETTINGS}

_HEAP: Final = re.compile("([0-9]{1,15})([kmgt]?)", re.IGNORECASE)
_SCALES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
# Spark needs 450 MiB of Java's maximum memory, which is up to a thirtieth less than the heap. Java cannot
# reserve the addresses of a far larger heap.
_HEAPS: Final = range(480 << 20, (16 << 40) + 1)
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def as_switch(value: str, *, key: str, where: str) -> bool:
    """Parse a switch."""
    if value.lower() in _TRUE:
        return True
    if value.lower() in _FALSE:
        return False
    raise BadValue(key, found=value, needed="true or false", where=where)


def as_heap(value: str, *, key: str, where: str) -> str:
    """Parse a Java heap size; Spark would refuse a small one late and in its own words."""
    found = _HEAP.fullmatch(value)
    if found is None or int(found[1]) * _SCALES[found[2].lower()] not in _HEAPS:
        needed = "a heap of at least 480m and at most 16t, such as 480m or 2g"
        raise BadValue(key, found=value, needed=needed, where=where)
    return value


def as_zone(value: str, *, key: str, where: str) -> str:
    """Return a zone in its canonical spelling."""
    try:
        return zone_name(value, where=key)
    except NotUnderstood as exc:
        needed = "UTC, an offset like +05:30, or a name like Europe/Berlin"
        raise BadValue(key, found=value, needed=needed, where=where, hint=exc.hint) from exc


def or_local_servers(ways: str) -> str:
    """Return a hint: these ways to name a server, or the sandbox, which is not used beside another server."""
    if paths.sandbox_context().exists():
        return f"{ways}, or choose the sandbox that is up: -c sandbox"
    return f"{ways}, or start local servers: playhead sandbox up"

"""Every setting, declared once: its name, environment variable, default, help, and whether it is a secret.

The command line, the environment, project files, contexts, `config show` and the reference all read this.
"""

from dataclasses import dataclass
from typing import Final

from playhead.errors import BadValue


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing that can be set."""

    name: str
    help: str
    environment: str | None = None
    default: str | None = None
    secret: bool = False
    is_switch: bool = False

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")


SETTINGS: Final = (
    Setting(
        "bootstrap_servers", "Kafka brokers to ask first, host:port,…", "KAFKA_BOOTSTRAP_SERVERS"
    ),
    Setting("kafka_config", "a client.properties file, in Java's or librdkafka's spelling"),
    Setting("database", "PostgreSQL to connect to, postgresql://…", "DATABASE_URL", secret=True),
    Setting("timezone", "zone of times that name none", "PLAYHEAD_TIMEZONE", "UTC"),
    Setting("spark_master", "where Spark runs its tasks", "PLAYHEAD_SPARK_MASTER", "local[*]"),
    Setting("spark_remote", "a Spark Connect server, sc://…", "SPARK_REMOTE", secret=True),
    Setting("spark_memory", "heap of a local Spark engine", "PLAYHEAD_SPARK_MEMORY", "1g"),
    Setting(
        "read_only",
        "refuse everything that writes",
        "PLAYHEAD_READ_ONLY",
        "false",
        is_switch=True,
    ),
    Setting(
        "production", "whoever writes here types the target's name", default="false", is_switch=True
    ),
)

BY_NAME: Final = {setting.name: setting for setting in SETTINGS}

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def as_switch(value: str, *, key: str, where: str) -> bool:
    """A switch as people write it."""
    if value.lower() in _TRUE:
        return True
    if value.lower() in _FALSE:
        return False
    raise BadValue(key, found=value, needed="true or false", where=where)

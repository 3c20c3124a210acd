"""How the servers of a run are kept, so that they are found again by who goes on with it; never a secret."""

import json
from collections.abc import Mapping
from pathlib import Path

from playhead import secrets
from playhead.config.context import Configuration, configure
from playhead.config.layers import BOOTSTRAP, SPELLINGS, Precedence, Resolved
from playhead.config.logins import keep_at_home

# What a run needs to be told again, if no context says it.
_KEPT = (
    "bootstrap_servers",
    "kafka_config",
    "database",
    "schema_registry",
    "spark_master",
    "spark_remote",
    "spark_memory",
    "timezone",
)


def kept_servers(configuration: Configuration) -> dict[str, str]:
    """How the servers are named: the context by its name, and what overrides it; never a secret."""
    kept = {} if configuration.context is None else {"context": configuration.context}
    for name in _KEPT:
        found = configuration.settings.get(name)
        is_own = found is not None and not found.origin.startswith(("default", "context "))
        if found is not None and is_own and not holds_secret(found.value):
            kept[name] = found.value
    if "kafka_config" in kept:
        kept["kafka_config"] = str(Path(kept["kafka_config"]).expanduser().absolute())
    assigned = [
        f"{key}={found.value}"
        for key, found in configuration.kafka_properties.items()
        if found.origin == "-X"  # which takes no secret but by reference
    ]
    if assigned:
        kept["assignment"] = json.dumps(assigned)
    return kept


def not_kept(configuration: Configuration, servers: Mapping[str, str]) -> list[str]:
    """Settings that a run will have to find where it is triggered, because their values are secret."""
    found = configuration.settings
    return [
        name
        for name in _KEPT
        if name in found
        and name not in servers
        and not found[name].origin.startswith(("default", "context "))
    ]


def holds_secret(value: str) -> bool:
    """A reference to a secret is none."""
    written = [each for each in secrets.passwords_in(value) if not secrets.has_reference(each)]
    return bool(written) or secrets.redact(value) != value


def configuration_of(servers: Mapping[str, str]) -> Configuration:
    """What is configured for a run whose servers were kept like this."""
    return configure(
        {name: servers.get(name) for name in _KEPT},
        assignments=json.loads(servers.get("assignment", "[]")),
        context=servers.get("context"),
    )


def keep_saved_logins(
    servers: Mapping[str, str], taken: Mapping[str, str], used: Configuration
) -> None:
    """Return when no login that is taken from an earlier run would go to other servers than its own.

    Both come as from the command line, so the places alone do not tell them apart.
    """
    saved = configuration_of(servers)
    logins = {
        key: found
        for key, found in saved.kafka_properties.items()
        if found.place == Precedence.COMMAND_LINE
        and ("assignment" if found.origin == "-X" else "kafka_config") in taken
    }
    home, now = _servers(saved), _servers(used)
    if now is not None:
        keep_at_home(logins | ({} if home is None else {BOOTSTRAP: home}), saved.homes, now.value)


def _servers(configuration: Configuration) -> Resolved | None:
    found = configuration.kafka_properties.items()
    return next((each for key, each in found if SPELLINGS.get(key) == BOOTSTRAP), None)

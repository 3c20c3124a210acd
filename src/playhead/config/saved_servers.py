"""Stores the names of a run's servers, without secrets, so that a resume finds them."""

import json
from collections.abc import Mapping

from playhead import references, secrets
from playhead.config.context import Configuration, configure
from playhead.config.layers import BOOTSTRAP, TOKEN_FROM, Precedence, Resolved
from playhead.config.logins import (
    FOR_TOKENS,
    LoginElsewhere,
    by_name,
    is_login,
    keep_at_home,
)
from playhead.config.whole_paths import with_whole_paths
from playhead.host import paths

# Settings that a resume needs if no context has them.
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
    """Return how the servers are named: the context's name, and what overrides it; never a secret."""
    kept = {} if configuration.context is None else {"context": configuration.context}
    for name in _KEPT:
        found = configuration.settings.get(name)
        is_own = found is not None and not found.origin.startswith(("default", "context "))
        if found is not None and is_own and not _is_secret(name, found.value):
            kept[name] = with_whole_paths(name, found)
    if "kafka_config" in kept:
        kept["kafka_config"] = str(paths.at_home(kept["kafka_config"]).absolute())
    assigned = [
        f"{key}={value}"
        for key, found in configuration.kafka_properties.items()
        if found.place == Precedence.COMMAND_LINE
        and ((value := with_whole_paths(key, found)) != found.value or found.origin == "-X")
    ]  # of -X, which takes no secret but by reference; and paths that a file has relative to this folder
    for name, value in _places_of_typed_login(configuration).items():
        if name == BOOTSTRAP:
            kept.setdefault("bootstrap_servers", value)
        else:
            assigned.append(f"{name}={value}")
    if assigned:
        kept["assignment"] = json.dumps(assigned)
    return kept


def _places_of_typed_login(configuration: Configuration) -> dict[str, str]:
    """Where a login of the command line goes, as far as -X does not say it: to what another place names.

    That place may name others when the run goes on, as the environment does over a context.
    """
    said = by_name(configuration.kafka_properties)
    typed = {name for name, (_, each) in said.items() if each.place == Precedence.COMMAND_LINE}
    wanted = {
        BOOTSTRAP: any(map(is_login, typed)),
        TOKEN_FROM: not typed.isdisjoint(FOR_TOKENS),
    }
    return {
        name: references.resolve(said[name][1].value, key=name, where="a place", is_secret=False)
        for name, is_wanted in wanted.items()
        if is_wanted and name in said and said[name][1].origin != "-X"
    }


def not_kept(configuration: Configuration, servers: Mapping[str, str]) -> list[str]:
    """Return the settings that a run must find where it is triggered, because their values are secret."""
    found = configuration.settings
    return [
        name
        for name in _KEPT
        if name in found
        and name not in servers
        and not found[name].origin.startswith(("default", "context "))
    ]


def _is_secret(name: str, value: str) -> bool:
    if name != "kafka_config" and secrets.begins_with_login(value, may_be_pairs=name == "database"):
        return True
    return holds_secret(value)


def holds_secret(value: str) -> bool:
    """Return whether the value contains a secret; a reference to one does not."""
    written = [each for each in secrets.passwords_in(value) if not secrets.has_reference(each)]
    return bool(written) or secrets.redact(value) != value


def configuration_of(servers: Mapping[str, str]) -> Configuration:
    """Return the configuration of a run from its stored servers."""
    return configure(
        {name: servers.get(name) for name in _KEPT},
        assignments=json.loads(servers.get("assignment", "[]")),
        context=servers.get("context"),
    )


def keep_saved_logins(
    servers: Mapping[str, str], taken: Mapping[str, str], used: Configuration
) -> None:
    """Refuse a login of an earlier run that would go to other servers than its own.

    Both come as command line values, so their origins alone do not distinguish them.
    """
    saved = configuration_of(servers)
    known, now = by_name(saved.kafka_properties), by_name(used.kafka_properties)
    logins = {
        key: found
        for name, (key, found) in known.items()
        if found.place == Precedence.COMMAND_LINE
        and ("assignment" if found.origin == "-X" else "kafka_config") in taken
        and now.get(name, ("", found))[1].value == found.value  # otherwise it was given again
    }
    if BOOTSTRAP in now:
        home = {key: found for name, (key, found) in known.items() if name == BOOTSTRAP}
        keep_at_home(logins | home, saved.homes, now[BOOTSTRAP][1].value)
    _keep_tokens_at_home(by_name(logins), known.get(TOKEN_FROM), now.get(TOKEN_FROM))


def _keep_tokens_at_home(
    logins: Mapping[str, tuple[str, Resolved]],
    saved: tuple[str, Resolved] | None,
    used: tuple[str, Resolved] | None,
) -> None:
    """Return when a saved client's secret goes to the token endpoint that was saved with it."""
    home = None if saved is None else saved[1].value
    if used is not None and used[1].value != home:
        for name in FOR_TOKENS:
            if name in logins:
                key, found = logins[name]
                raise LoginElsewhere(found, key=key, servers=used[1].value, home=home)

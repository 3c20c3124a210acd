"""Makes a standby: what of its servers is kept by name, and whether the replay would work now."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from playhead import secrets
from playhead.context import Configuration, configure
from playhead.endpoint import FILE_FORMS, Endpoint
from playhead.pace import Pace
from playhead.replay import api
from playhead.replay.build import ends
from playhead.request import Request
from playhead.standby.saved import NAME, BadName, Standby
from playhead.transform import Transform

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
_ALL = "start..end"


def make(
    name: str,
    request: Request,
    configuration: Configuration | None = None,
    *,
    check: bool = True,
) -> Standby:
    """A standby of a request without its span; refuses at once what could not run later.

    With `check` the servers are asked and the engine reads the SQL, as a dry run over all that is there
    would; without it only what can be told from the words alone is refused.
    """
    if not NAME.fullmatch(name):
        raise BadName(name)  # before anybody is asked
    configuration = configuration or configure({})
    asked = replace(
        request,
        span=_ALL,
        source=_from_anywhere(request.source),
        target=_from_anywhere(request.target),
    )
    servers = kept_servers(configuration)
    Transform(asked.where, asked.select)
    Pace.parse(asked.pace, max_gap_ms=asked.max_gap_ms)
    ends(asked, configuration)
    if not check:
        return Standby(name=name, request=asked, servers=servers)
    plan = api.plan(asked, configuration).plan
    return Standby(
        name=name,
        request=asked,
        servers=servers,
        source_identity=plan.source.identity,
        target_identity=plan.target.identity,
    )


def _from_anywhere(text: str) -> str:
    """A folder by its whole path: whoever triggers it stands in another one."""
    end = Endpoint.parse(text)
    if end.system not in FILE_FORMS or "://" in end.name:
        return text
    return str(replace(end, name=str(Path(end.name).expanduser().absolute())))


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

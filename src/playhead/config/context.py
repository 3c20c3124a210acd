"""Where each setting comes from: flag > -X > environment > project file > context > default.

A context is a named cluster with its database, in the user's `config.toml`. A project file is a
`playhead.toml` in the working folder or above it, up to the root of its repository. Both have the same keys.
"""

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path

from playhead import references, secrets
from playhead.config import project
from playhead.config.kafka_connection import KafkaConnection
from playhead.config.kafka_properties import not_understood, parse_jaas
from playhead.config.layers import (
    BOOTSTRAP,
    FILE,
    KAFKA,
    SPELLINGS,
    Layer,
    Precedence,
    Resolved,
    layer_of,
    read_toml,
)
from playhead.config.logins import Homes, keep_at_home, keep_off_proxies
from playhead.config.misspelt_variables import find_misspelt
from playhead.config.project import PROJECT_FILE, find_project_file
from playhead.config.settings import (
    BY_NAME,
    SETTINGS,
    as_heap,
    as_switch,
    as_zone,
    or_local_servers,
)
from playhead.config.trust import ReadFile
from playhead.config.whole_paths import is_secret, need_whole_paths, need_whole_variables
from playhead.endpoint import Endpoint
from playhead.errors import BadValue, MissingPiece, Refused, UnknownKey, UsageError
from playhead.host import paths
from playhead.host.folders import why_not_ours

SANDBOX = "sandbox"


class UnknownContext(UsageError):
    """There is no context of this name; the hint names similar ones, or how to add one."""

    def __init__(self, name: str, *, chosen_by: str, known: Sequence[str]) -> None:
        self.name, self.chosen_by = name, chosen_by
        self.nearest = tuple(get_close_matches(name, known, n=3, cutoff=0.6))
        near = f"did you mean {' or '.join(self.nearest)}? " if self.nearest else ""
        more = "playhead context list" if known else "playhead context add NAME -b host:port"
        if name.isdecimal():  # As kcat spells a number of records.
            more += f"; for a number of records: playhead consume --max {name}"
        super().__init__(f"no context {name!r} (chosen by {chosen_by})", hint=near + more)


@dataclass(frozen=True, slots=True)
class Configuration:
    """All settings and Kafka properties, each with its origin."""

    context: str | None
    settings: Mapping[str, Resolved]
    kafka_properties: Mapping[str, Resolved]
    homes: Homes = field(default_factory=dict)
    is_of_project: bool = False
    """Whether a project's file chose the context."""

    def get(self, name: str) -> str | None:
        """Return a setting's value with its references resolved; None if it is not set."""
        found = self.settings.get(name)
        if found is None:
            return None
        setting = BY_NAME[name]
        if setting.secret:
            need_whole_paths({name: found})
        value = references.resolve(
            found.value, key=name, where=found.origin, is_secret=setting.secret
        )
        if setting.secret:
            secrets.without_password(value)  # The password is redacted from now on.
        if setting.is_heap:
            return as_heap(value, key=name, where=found.origin)
        return as_zone(value, key=name, where=found.origin) if setting.is_zone else value

    def need(self, name: str, *, needed_for: str) -> str:
        value = self.get(name)
        if value is None:
            setting = BY_NAME[name]
            raise MissingPiece(
                f"setting {name}",
                needed_for=needed_for,
                hint=or_local_servers(f"set {setting.ways}, choose a context with -c"),
            )
        return value

    def is_on(self, name: str) -> bool:
        found = self.settings[name]
        return as_switch(found.value, key=name, where=found.origin)

    def kafka(self, at: str | None = None) -> KafkaConnection:
        """Return the connection to the cluster, or to the brokers at an endpoint's address.

        A login is sent only to the servers it was configured for; errors name the place of a wrong
        value.
        """
        keep_at_home(self.kafka_properties, self.homes, at)
        need_whole_paths(self.kafka_properties)
        properties = {key: found.value for key, found in self.kafka_properties.items()}
        origins = dict.fromkeys(found.origin for found in self.kafka_properties.values())
        where = " and ".join(origins) or "the configuration"
        try:
            connection = KafkaConnection.from_properties(properties, where=where)
        except BadValue as exc:
            # A value that is wrong by itself is wrong in one place.
            if exc.where != where or exc.key not in self.kafka_properties:
                raise
            origin = self.kafka_properties[exc.key].origin
            raise BadValue(
                exc.key, found=exc.found, needed=exc.needed, where=origin, hint=exc.hint
            ) from exc
        if connection.oauth_token_endpoint_url is not None:
            keep_off_proxies(connection.oauth_token_endpoint_url)
        return connection.with_bootstrap_servers(at, where="the endpoint") if at else connection

    def check(self) -> None:
        """Refuse what a command would refuse, without asking for passwords."""
        for setting in SETTINGS:
            if setting.is_guard:
                self.is_on(setting.name)
            elif setting.is_zone or setting.is_heap:
                self.get(setting.name)
        if references.PROMPT not in (found.value for found in self.kafka_properties.values()):
            self.kafka()

    def rows(self) -> list[dict[str, str | None]]:
        """Return everything with its origin, safe to print."""
        rows = [
            _row(setting.name, self.settings.get(setting.name), setting.secret)
            for setting in SETTINGS
            if setting.name not in ("bootstrap_servers", FILE)
        ]
        kafka = sorted(self.kafka_properties.items())
        return rows + [_row(f"{KAFKA}.{key}", found, is_secret(key)) for key, found in kafka]


def _row(name: str, found: Resolved | None, secret: bool) -> dict[str, str | None]:
    if found is None:
        return {"setting": name, "value": None, "origin": "not set"}
    value = found.value
    if secret and value:
        is_url = "://" in value
        shown = secrets.without_password(value) if is_url else secrets.HIDDEN
        value = value if secrets.is_reference(value) else shown
    return {"setting": name, "value": secrets.redact(value), "origin": found.origin}


def configure(
    flags: Mapping[str, str | None],
    *,
    assignments: Sequence[str] = (),
    context: str | None = None,
    folder: Path | None = None,
) -> Configuration:
    """Merge all places: `flags` by setting's name, `assignments` as for -X."""
    secrets.remember_proxies()
    need_whole_variables()
    find_misspelt()
    file = find_project_file(folder or Path.cwd())
    of_project, project_context = (None, None) if file is None else project.project_layer(file)
    upper = [
        *_flag_layers({name: text for name, text in flags.items() if name != FILE}),
        Layer("-X", kafka=_assigned(assignments), place=Precedence.COMMAND_LINE),
        # A single assignment is meant to override a file, though both are flags.
        *_flag_layers({FILE: flags.get(FILE)}),
        *_environment_layers(),
        *([of_project] if of_project else []),
    ]
    chosen, chosen_by = _choose_context(context, project_context, upper)
    lower = [] if chosen is None else [_context_layer(chosen, chosen_by)]
    merged = _merge(chosen, [*upper, *lower])
    return replace(merged, is_of_project=chosen_by == PROJECT_FILE)


def _merge(context: str | None, layers: Sequence[Layer]) -> Configuration:
    settings: dict[str, Resolved] = {}
    kafka: dict[str, tuple[str, Resolved]] = {}
    homes: dict[Precedence | str, str] = {}
    defaults = {s.name: s.default for s in SETTINGS if s.default is not None}
    # Weakest first: each stronger place overwrites.
    for layer in (Layer("default", defaults, place=Precedence.DEFAULT), *reversed(layers)):
        for key, found in layer.properties().items():
            kafka[SPELLINGS.get(key, key)] = (key, found)
            if SPELLINGS.get(key) == BOOTSTRAP:
                homes[found.place] = found.value
                if found.place == Precedence.COMMAND_LINE and FILE in layer.settings:
                    homes[found.origin] = found.value
        for name, value in layer.settings.items():
            if not _stays_on(name, settings.get(name)):
                settings[name] = Resolved(value, layer.origin, layer.place)
    return Configuration(context, settings, dict(kafka.values()), homes)


def _stays_on(name: str, weaker: Resolved | None) -> bool:
    """Return whether a guard stays on: a cloned repository's file must not disable production."""
    if weaker is None or not BY_NAME[name].is_guard:
        return False
    return as_switch(weaker.value, key=name, where=weaker.origin)


def _assigned(assignments: Sequence[str]) -> dict[str, str]:
    properties = {}
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"-X {text} has no value", hint="write -X key=value; see -X list")
        if key not in SPELLINGS:
            raise not_understood(key, where="-X")
        for secret in _secrets_in(key, value):
            _refuse_literal(secret, key=key, where="-X")
        properties[key] = value
    return properties


def _secrets_in(key: str, value: str) -> list[str]:
    """Return the values that may only be references; the options of JAAS count one by one."""
    is_whole = secrets.is_reference(value.strip()) or value.strip().startswith("file:")
    if SPELLINGS[key] == "sasl.jaas.config" and not is_whole and value != references.PROMPT:
        _, options = parse_jaas(value, where="-X")
        return [text for option, text in options.items() if option in ("password", "clientSecret")]
    return [value] if is_secret(key) else []


def _refuse_literal(value: str, *, key: str, where: str) -> None:
    """Refuse a secret written on the command line, where other users and the shell's history can see it."""
    is_named = value.startswith("file:") or value == references.PROMPT
    if not (is_named or secrets.has_reference(value)):
        secrets.remember(value)
        raise UsageError(
            f"{key} of {where} is a secret, but every user of this machine can read a process's arguments",
            hint="write ${NAME_OF_A_VARIABLE} in its place (in single quotes), or file:/path or prompt: for all of it",
        )


def _flag_layers(flags: Mapping[str, str | None]) -> list[Layer]:
    """Return a layer for each option, so that an error names the option and not the setting."""
    given = {name: value for name, value in flags.items() if value is not None}
    for name in given.keys() & {name for name, setting in BY_NAME.items() if setting.secret}:
        for password in secrets.passwords_in(given[name]):
            _refuse_literal(password, key="the password", where=str(BY_NAME[name].flag))
    place = Precedence.COMMAND_LINE
    return [
        Layer(BY_NAME[name].flag or name, {name: value}, place=place)
        for name, value in given.items()
    ]


def _environment_layers() -> list[Layer]:
    return [
        Layer(variable, {setting.name: value}, place=Precedence.ENVIRONMENT)
        for setting in SETTINGS
        if (variable := setting.environment) and (value := os.environ.get(variable))
    ]


def _choose_context(
    flag: str | None, project: str | None, upper: Sequence[Layer]
) -> tuple[str | None, str]:
    """Return the context and who chose it; without any named server, the running sandbox."""
    environment = os.environ.get("PLAYHEAD_CONTEXT")
    for name, by in ((flag, "-c"), (environment, "PLAYHEAD_CONTEXT"), (project, PROJECT_FILE)):
        if name:
            return name, by
    default = current_context()
    if default is not None:
        return default, str(current_context_file())
    # A context that was not chosen must not combine its database with another place's broker.
    if paths.sandbox_context().exists() and not any(layer.names_a_server() for layer in upper):
        return SANDBOX, "the sandbox is up"
    return None, ""


# --- contexts ----------------------------------------------------------------------------------


def current_context_file() -> Path:
    """Return the file with the name that `context use` chose; config.toml itself is not rewritten."""
    return paths.config_file().with_name("current-context")


def current_context() -> str | None:
    try:
        return current_context_file().read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None


def contexts() -> dict[str, Layer]:
    """Return all contexts, including the running sandbox's."""
    file = paths.config_file()
    content = read_toml(file) if file.exists() else {}
    tables = content.pop("contexts", {})
    if content:
        raise UnknownKey(next(iter(content)), where=str(file), known=["contexts"])
    if not isinstance(tables, dict):
        raise BadValue(
            "contexts", found=secrets.HIDDEN, needed="tables [contexts.NAME]", where=str(file)
        )
    found = {}
    for name, table in tables.items():
        where = f"context {name}"
        if not isinstance(table, dict):
            raise BadValue(
                name, found=secrets.HIDDEN, needed=f"a table [contexts.{name}]", where=str(file)
            )
        found[name] = layer_of(table, where)
    if paths.sandbox_context().exists():
        if not paths.sandbox_dir_is_whole():
            raise Refused(
                "PLAYHEAD_SANDBOX_DIR is relative: it would be another sandbox in each folder, a clone's too",
                hint=f"export PLAYHEAD_SANDBOX_DIR={shlex.quote(str(paths.sandbox_dir()))}, if that is yours",
            )
        others = why_not_ours(paths.sandbox_context().stat())
        if others is not None:
            raise Refused(f"{paths.sandbox_context()} is no sandbox of yours: {others}")
        found[SANDBOX] = layer_of(read_toml(paths.sandbox_context()), f"context {SANDBOX}")
    return found


def alone(name: str, chosen_by: str) -> Configuration:
    """Return the settings of one context, without flags and the environment."""
    return _merge(name, [_context_layer(name, chosen_by)])


def of_project(seen: ReadFile) -> Configuration:
    """Return the settings of a project file alone, to show them before it is trusted."""
    layer, context = project.said_by(seen)
    return _merge(context, [layer])


def _context_layer(name: str, chosen_by: str) -> Layer:
    known = contexts()
    if name in known:
        return known[name]
    if name == SANDBOX:
        raise MissingPiece(
            "a running sandbox",
            needed_for=f"context {SANDBOX} (chosen by {chosen_by})",
            hint="playhead sandbox up",
        )
    raise UnknownContext(name, chosen_by=chosen_by, known=sorted(known))


def connection_of(end: Endpoint, configuration: Configuration) -> KafkaConnection:
    """Return the connection, with a login only if it was configured for that cluster."""
    return _configured_for(end, configuration).kafka(end.address)


def guards_of(written: Iterable[Endpoint], configuration: Configuration) -> Configuration:
    """Return the configuration whose guards apply to these endpoints: the first one with a guard."""
    all_of_them = [configuration, *(_configured_for(end, configuration) for end in written)]
    for guard in ("read_only", "production"):
        for each in all_of_them:
            if each.is_on(guard):
                return each
    return configuration


def _configured_for(end: Endpoint, configuration: Configuration) -> Configuration:
    return configuration if end.context is None else alone(end.context, str(end))

"""Where each setting comes from: flag > -X > environment > project file > context > default.

A context is a named cluster with its database, in the user's `config.toml`; a project file is a
`playhead.toml` found from the working folder up to the root of its repository. Both hold the same keys.
"""

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from playhead import paths, secrets
from playhead.connection import KafkaConnection
from playhead.errors import BadValue, MissingPiece, UnknownKey, UsageError
from playhead.properties import BY_NAME as PROPERTIES
from playhead.properties import KNOWN_PROPERTIES, not_understood, read_properties
from playhead.settings import BY_NAME, SETTINGS, as_switch, as_zone

SANDBOX = "sandbox"
PROJECT_FILE = "playhead.toml"
BOOTSTRAP = "bootstrap.servers"
_KAFKA, _FILE = "kafka", "kafka_config"
_SPELLINGS = {key: known.name for known in KNOWN_PROPERTIES for key in known.spellings}


class UnknownContext(UsageError):
    """No context has such a name; names the nearest, or the way to make one."""

    def __init__(self, name: str, *, chosen_by: str, known: Sequence[str]) -> None:
        self.name, self.chosen_by = name, chosen_by
        self.nearest = tuple(get_close_matches(name, known, n=3, cutoff=0.6))
        near = f"did you mean {' or '.join(self.nearest)}? " if self.nearest else ""
        more = "playhead context list" if known else "playhead context add NAME -b host:port"
        super().__init__(f"no context {name!r} (chosen by {chosen_by})", hint=near + more)


@dataclass(frozen=True, slots=True)
class Resolved:
    """A value and the place it came from."""

    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class Layer:
    """What one place says."""

    origin: str
    settings: Mapping[str, str] = field(default_factory=dict)
    kafka: Mapping[str, str] = field(default_factory=dict)

    def names_a_server(self) -> bool:
        wanted = {"bootstrap_servers", "database", _FILE} & set(self.settings)
        return bool(wanted) or any(_SPELLINGS.get(key) == BOOTSTRAP for key in self.kafka)


@dataclass(frozen=True, slots=True)
class Configuration:
    """All settings and Kafka properties, each with its origin."""

    context: str | None
    settings: Mapping[str, Resolved]
    kafka_properties: Mapping[str, Resolved]

    def get(self, name: str) -> str | None:
        """A setting's value with its references followed; None when it is nowhere set."""
        found = self.settings.get(name)
        if found is None:
            return None
        setting = BY_NAME[name]
        value = secrets.resolve(found.value, key=name, where=found.origin, is_secret=setting.secret)
        if setting.secret:
            secrets.without_password(value)  # its password is redacted from now on
        return as_zone(value, key=name, where=found.origin) if setting.is_zone else value

    def need(self, name: str, *, needed_for: str) -> str:
        value = self.get(name)
        if value is None:
            setting = BY_NAME[name]
            raise MissingPiece(
                f"setting {name}",
                needed_for=needed_for,
                hint=f"set {setting.ways}, choose a context with -c, "
                "or start one here: playhead sandbox up",
            )
        return value

    def is_on(self, name: str) -> bool:
        found = self.settings[name]
        return as_switch(found.value, key=name, where=found.origin)

    def kafka(self) -> KafkaConnection:
        """How to reach the cluster; what is wrong is named with the place it came from."""
        properties = {key: found.value for key, found in self.kafka_properties.items()}
        origins = dict.fromkeys(found.origin for found in self.kafka_properties.values())
        return KafkaConnection.from_properties(
            properties, where=" and ".join(origins) or "the configuration"
        )

    def check(self) -> None:
        """Refuse what commands would refuse of it; nobody is asked for a password."""
        for setting in SETTINGS:
            if setting.is_guard:
                self.is_on(setting.name)
            elif setting.is_zone:
                self.get(setting.name)
        if secrets.PROMPT not in (found.value for found in self.kafka_properties.values()):
            self.kafka()

    def rows(self) -> list[dict[str, str | None]]:
        """Everything with its origin, safe to print."""
        rows = [
            _row(setting.name, self.settings.get(setting.name), setting.secret)
            for setting in SETTINGS
            if setting.name not in ("bootstrap_servers", _FILE)
        ]
        kafka = sorted(self.kafka_properties.items())
        return rows + [_row(f"{_KAFKA}.{key}", found, _is_secret(key)) for key, found in kafka]


def _row(name: str, found: Resolved | None, secret: bool) -> dict[str, str | None]:
    if found is None:
        return {"setting": name, "value": None, "origin": "not set"}
    value = found.value
    if secret and value:
        is_url = "://" in value
        shown = secrets.without_password(value) if is_url else secrets.HIDDEN
        value = value if secrets.is_reference(value) else shown
    return {"setting": name, "value": secrets.redact(value), "origin": found.origin}


def _is_secret(key: str) -> bool:
    known = PROPERTIES.get(_SPELLINGS.get(key, key))
    return known is None or known.secret or key == "sasl.jaas.config"


def configure(
    flags: Mapping[str, str | None],
    *,
    assignments: Sequence[str] = (),
    context: str | None = None,
    folder: Path | None = None,
) -> Configuration:
    """Put all places together: `flags` by setting's name, `assignments` as -X takes them."""
    project_file = find_project_file(folder or Path.cwd())
    project, project_context = _project_layer(project_file)
    upper = [
        _flag_layer({name: text for name, text in flags.items() if name != _FILE}),
        Layer("-X", kafka=_assigned(assignments)),
        # A single assignment is meant to change what a whole file says, though both are flags.
        _flag_layer({_FILE: flags.get(_FILE)}),
        _environment_layer(),
        *project,
    ]
    chosen, chosen_by = _choose_context(context, project_context, upper)
    lower = [] if chosen is None else [_context_layer(chosen, chosen_by)]
    defaults = {s.name: s.default for s in SETTINGS if s.default is not None}
    return _merge(chosen, [*upper, *lower, Layer("default", defaults)])


def _merge(context: str | None, layers: Sequence[Layer]) -> Configuration:
    settings: dict[str, Resolved] = {}
    kafka: dict[str, tuple[str, Resolved]] = {}
    for layer in reversed(layers):  # the weakest first, each stronger one overwrites
        for key, found in _kafka_of(layer).items():
            kafka[_SPELLINGS.get(key, key)] = (key, found)
        for name, value in layer.settings.items():
            if not _stays_on(name, settings.get(name)):
                settings[name] = Resolved(value, layer.origin)
    return Configuration(context, settings, dict(kafka.values()))


def _stays_on(name: str, weaker: Resolved | None) -> bool:
    """A guard cannot be disarmed from above: a cloned repository's file must not open production."""
    if weaker is None or not BY_NAME[name].is_guard:
        return False
    return as_switch(weaker.value, key=name, where=weaker.origin)


def _kafka_of(layer: Layer) -> dict[str, Resolved]:
    """The properties a layer sets: its file's, then its own, then its bootstrap servers."""
    file = layer.settings.get(_FILE)
    of_file = read_properties(Path(file).expanduser()) if file is not None else {}
    servers = layer.settings.get("bootstrap_servers")
    own = dict(layer.kafka) | ({BOOTSTRAP: servers} if servers is not None else {})
    properties: dict[str, Resolved] = {}
    for where, told in ((str(file), of_file), (layer.origin, own)):
        _one_value_each(told, where)
        properties |= {key: Resolved(value, where) for key, value in told.items()}
    return properties


def _one_value_each(properties: Mapping[str, str], where: str) -> None:
    """Two spellings of one property in one place must not leave it to chance which one counts."""
    first: dict[str, str] = {}
    for key, value in properties.items():
        other = first.setdefault(_SPELLINGS.get(key, key), key)
        if properties[other] != value:
            raise UsageError(f"{other} and {key} in {where} are one property with two values")


def _assigned(assignments: Sequence[str]) -> dict[str, str]:
    properties = {}
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"-X {text} has no value", hint="write -X key=value; see -X list")
        if key not in _SPELLINGS:
            raise not_understood(key, where="-X")
        if _is_secret(key):
            _refuse_literal(value, key=key, where="-X")
        properties[key] = value
    return properties


def _refuse_literal(value: str, *, key: str, where: str) -> None:
    """A command line is read by everybody on the machine, and kept in the shell's history."""
    is_named = value.startswith("file:") or value == secrets.PROMPT
    if not (is_named or secrets.has_reference(value)):
        secrets.remember(value)
        raise UsageError(
            f"{key} of {where} is a secret, and a command line is no place for one",
            hint="write ${NAME_OF_A_VARIABLE} in its place (in single quotes), or file:/path or prompt: for all of it",
        )


def _flag_layer(flags: Mapping[str, str | None]) -> Layer:
    given = {name: value for name, value in flags.items() if value is not None}
    for name in given.keys() & {name for name, setting in BY_NAME.items() if setting.secret}:
        for password in secrets.passwords_in(given[name]):
            _refuse_literal(password, key="the password", where=str(BY_NAME[name].flag))
    return Layer("flag", given)


def _environment_layer() -> Layer:
    found = {
        setting.name: os.environ[setting.environment]
        for setting in SETTINGS
        if setting.environment is not None and os.environ.get(setting.environment)
    }
    return Layer("environment", found)


def _choose_context(
    flag: str | None, project: str | None, upper: Sequence[Layer]
) -> tuple[str | None, str]:
    """Which context counts, and who chose it; the running sandbox when nobody names any server."""
    environment = os.environ.get("PLAYHEAD_CONTEXT")
    for name, by in ((flag, "-c"), (environment, "PLAYHEAD_CONTEXT"), (project, PROJECT_FILE)):
        if name:
            return name, by
    default = current_context()
    if default is not None:
        return default, str(current_context_file())
    # A context that nobody chose must not mix its database with somebody else's broker.
    if sandbox_file().exists() and not any(layer.names_a_server() for layer in upper):
        return SANDBOX, "the sandbox is up"
    return None, ""


def find_project_file(folder: Path) -> Path | None:
    """The nearest playhead.toml from this folder up to the root of its repository.

    Outside of a repository only the folder's own: a file in /tmp must not reach everybody below it.
    """
    places = [folder, *folder.parents]
    root = next((place for place in places if (place / ".git").exists()), folder)
    within = places[: places.index(root) + 1]
    return next((p / PROJECT_FILE for p in within if (p / PROJECT_FILE).is_file()), None)


def _project_layer(file: Path | None) -> tuple[list[Layer], str | None]:
    if file is None:
        return [], None
    content = _read_toml(file)
    context = content.pop("context", None)
    if context is not None and not isinstance(context, str):
        raise BadValue("context", found=context, needed="a context's name", where=str(file))
    return [_layer(content, str(file), also=("context",))], context


# --- contexts ----------------------------------------------------------------------------------


def sandbox_file() -> Path:
    """What a running sandbox publishes; an ordinary context."""
    return paths.sandbox_dir() / "context.toml"


def current_context_file() -> Path:
    """Holds the name that `context use` chose, so that nobody's config.toml is rewritten."""
    return paths.config_file().with_name("current-context")


def current_context() -> str | None:
    try:
        return current_context_file().read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None


def contexts() -> dict[str, Layer]:
    """Every context there is, the running sandbox's included."""
    file = paths.config_file()
    content = _read_toml(file) if file.exists() else {}
    tables = content.pop("contexts", {})
    if content:
        raise UnknownKey(next(iter(content)), where=str(file), known=["contexts"])
    if not isinstance(tables, dict):
        raise BadValue("contexts", found=tables, needed="tables [contexts.NAME]", where=str(file))
    found = {}
    for name, table in tables.items():
        where = f"context {name}"
        if not isinstance(table, dict):
            raise BadValue(name, found=table, needed=f"a table [contexts.{name}]", where=str(file))
        found[name] = _layer(table, where)
    if sandbox_file().exists():
        found[SANDBOX] = _layer(_read_toml(sandbox_file()), f"context {SANDBOX}")
    return found


def alone(name: str) -> Configuration:
    """What a context says by itself, whatever flags and the environment say."""
    return _merge(name, [_context_layer(name, "the command line")])


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


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as exc:
        raise UsageError(f"{file} is not valid TOML: {exc}") from exc
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"cannot read {file}: {exc}") from exc


def _layer(table: Mapping[str, Any], where: str, *, also: Sequence[str] = ()) -> Layer:
    kafka = table.get(_KAFKA, {})
    if not isinstance(kafka, dict):
        raise BadValue(_KAFKA, found=kafka, needed="a table of client properties", where=where)
    for key in _dotted(kafka):
        if key not in _SPELLINGS:
            raise not_understood(key, where=where)
    settings = {}
    for name, value in table.items():
        if name == _KAFKA:
            continue
        if name not in BY_NAME:
            raise UnknownKey(name, where=where, known=[*BY_NAME, _KAFKA, *also])
        settings[name] = _text(value, key=name, where=where)
        if BY_NAME[name].is_guard:
            as_switch(settings[name], key=name, where=where)
    return Layer(where, settings, _dotted(kafka))


def _dotted(table: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """`security.protocol = …` without quotes is a nested table to TOML, and meant as one key."""
    flat: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat |= _dotted(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = _text(value, key=prefix + key, where=_KAFKA)
    return flat


def _text(value: object, *, key: str, where: str) -> str:
    kinds: dict[type, Callable[[Any], str]] = {
        str: str,
        bool: lambda switch: "true" if switch else "false",
        int: str,
    }
    if type(value) not in kinds:
        raise BadValue(key, found=value, needed="a text, a number or true/false", where=where)
    return kinds[type(value)](value)

"""The settings of one place: a TOML table, the environment, the command line's options."""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

from playhead import secrets
from playhead.config.kafka_properties import (
    BY_SPELLING,
    KNOWN_PROPERTIES,
    not_understood,
    read_properties,
)
from playhead.config.settings import BY_NAME, as_switch
from playhead.errors import BadValue, UnknownKey, UsageError
from playhead.host import paths

BOOTSTRAP = "bootstrap.servers"
TOKEN_FROM = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105  a property's name
ADDRESSES = (BOOTSTRAP, TOKEN_FROM)
KAFKA, FILE = "kafka", "kafka_config"
SPELLINGS = {key: known.name for known in KNOWN_PROPERTIES for key in known.spellings}


_MOST_DOTS = 500
# Tables made by dots nest deeper than the parser's own recursion, and than Python can print.
_MOST_LEVELS = 100
# TOML has no greater ones. The parser takes them, in hexadecimal digits too long for Python to print.
_MOST_INTEGER = 1 << 64


class Precedence(IntEnum):
    """The places in order of precedence, strongest first; see `playhead.config.logins`."""

    COMMAND_LINE = 0
    ENVIRONMENT = 1
    PROJECT = 2
    CONTEXT = 3
    DEFAULT = 4


@dataclass(frozen=True, slots=True)
class Resolved:
    """A value and the place it came from."""

    value: str
    origin: str
    place: Precedence = Precedence.DEFAULT


@dataclass(frozen=True, slots=True)
class Layer:
    """The settings of one place, or a part of them."""

    origin: str
    settings: Mapping[str, str] = field(default_factory=dict)
    kafka: Mapping[str, str] = field(default_factory=dict)
    place: Precedence = Precedence.CONTEXT

    def __post_init__(self) -> None:
        if self.place == Precedence.PROJECT:
            return  # What a clone says is no secret, and would hide these words wherever they are shown.
        secrets.remember_logins(self.settings.get("bootstrap_servers", ""))
        _remember_logins(self.kafka)

    def names_a_server(self) -> bool:
        wanted = {"bootstrap_servers", "database", FILE} & set(self.settings)
        return bool(wanted) or any(SPELLINGS.get(key) == BOOTSTRAP for key in self.kafka)

    def properties(self) -> dict[str, Resolved]:
        """The Kafka properties of this place: its file's, overridden by its own and its bootstrap servers."""
        file = self.settings.get(FILE)
        of_file = read_properties(self._whole_path(file)) if file is not None else {}
        _remember_logins(of_file)
        servers = self.settings.get("bootstrap_servers")
        own = dict(self.kafka) | ({BOOTSTRAP: servers} if servers is not None else {})
        properties: dict[str, Resolved] = {}
        for where, told in ((str(file), of_file), (self.origin, own)):
            _one_value_each(told, where)
            properties |= {key: Resolved(value, where, self.place) for key, value in told.items()}
        return properties

    def _whole_path(self, file: str) -> Path:
        """Require a whole path: a context applies in every folder, and a clone may have a file of that name."""
        path = paths.at_home(file)
        if self.place == Precedence.CONTEXT and not path.is_absolute():
            raise BadValue(FILE, found=file, needed="the file's whole path", where=self.origin)
        return path


def _remember_logins(properties: Mapping[str, str]) -> None:
    for key, value in properties.items():
        if SPELLINGS.get(key) in ADDRESSES:
            secrets.remember_logins(value)


def _one_value_each(properties: Mapping[str, str], where: str) -> None:
    """Refuse two spellings of one property with different values in one place."""
    first: dict[str, str] = {}
    for key, value in properties.items():
        other = first.setdefault(SPELLINGS.get(key, key), key)
        if properties[other] != value:
            raise UsageError(f"{other} and {key} in {where} are one property with two values")


def read_toml(file: Path) -> dict[str, Any]:
    """Read the tables of a file."""
    try:
        return parse_toml(file.read_bytes(), file)
    except OSError as exc:
        raise UsageError(f"cannot read {file}: {exc}") from exc


def parse_toml(content: bytes, file: Path) -> dict[str, Any]:
    """Parse the tables of a file's bytes."""
    # The parser's memory grows with the square of a key's parts.
    if any(line.count(b".") > _MOST_DOTS for line in content.splitlines()):
        raise UsageError(f"{file} has a line of more than {_MOST_DOTS} dots")
    try:
        table = tomllib.loads(content.decode("utf-8"))
    except (
        ValueError
    ) as exc:  # Errors of the format or the encoding, or a number with too many digits.
        raise UsageError(f"{file} is not valid TOML: {exc}") from exc
    except RecursionError as exc:
        raise UsageError(f"{file} is nested too deeply") from exc
    for level, found in _all_in(table):
        if level > _MOST_LEVELS:
            raise UsageError(f"{file} is nested too deeply")
        if isinstance(found, int) and abs(found) >= _MOST_INTEGER:
            raise UsageError(f"{file} has a whole number of more than 64 bits")
    return table


def _all_in(table: Mapping[str, Any]) -> Iterator[tuple[int, Any]]:
    """Yield a table and everything in it, each with its level."""
    waiting: list[tuple[int, Any]] = [(0, table)]
    while waiting:
        level, found = waiting.pop()
        yield level, found
        if isinstance(found, dict):
            waiting.extend((level + 1, each) for each in found.values())
        elif isinstance(found, list):
            waiting.extend((level + 1, each) for each in found)


def layer_of(
    table: Mapping[str, Any],
    where: str,
    *,
    place: Precedence = Precedence.CONTEXT,
    also: Sequence[str] = (),
) -> Layer:
    """Return the settings of a table; refuse unknown keys."""
    kafka = table.get(KAFKA, {})
    if not isinstance(kafka, dict):
        raise BadValue(
            KAFKA, found=secrets.HIDDEN, needed="a table of client properties", where=where
        )
    for key in _dotted(kafka):
        if key not in SPELLINGS:
            raise not_understood(key, where=where)
    settings = {}
    for name, value in table.items():
        if name == KAFKA:
            continue
        if name not in BY_NAME:
            raise UnknownKey(name, where=where, known=[*BY_NAME, KAFKA, *also])
        settings[name] = _text(value, key=name, where=where)
        if BY_NAME[name].is_guard:
            as_switch(settings[name], key=name, where=where)
    return Layer(where, settings, _dotted(kafka), place)


def _dotted(table: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Flatten nested tables: `security.protocol = …` without quotes is meant as one key."""
    flat: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat |= _dotted(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = _text(value, key=prefix + key, where=KAFKA)
    return flat


def _text(value: object, *, key: str, where: str) -> str:
    kinds: dict[type, Callable[[Any], str]] = {
        str: str,
        bool: lambda switch: "true" if switch else "false",
        int: str,
    }
    if type(value) not in kinds:
        found = secrets.HIDDEN if _is_secret(key) else value
        raise BadValue(key, found=found, needed="a text, a number or true/false", where=where)
    return kinds[type(value)](value)


def _is_secret(key: str) -> bool:
    if key in BY_NAME:
        return BY_NAME[key].secret
    known = BY_SPELLING.get(key)
    return known is None or known.secret

"""Parses endpoints such as `kafka:orders` or `parquet:s3://archive/orders`."""

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches

from playhead import secrets, systems
from playhead.errors import BadValue, UsageError

TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)
_LONGEST = 8_192
BAD_PATTERN = (re.error, RecursionError, OverflowError)
"""The errors of `re.compile` for a pattern from a user."""


def check_pattern(text: str) -> None:
    """Raise one of `BAD_PATTERN` if the pattern is invalid; hide Python's warnings about its syntax."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        re.compile(text)


class BadEndpoint(UsageError):
    """A source or a target that cannot be parsed."""

    def __init__(self, text: str, *, reason: str, hint: str | None = None) -> None:
        self.text, self.reason = _shown(text), reason
        super().__init__(
            f"endpoint {self.text!r}: {reason}",
            hint=_shown(hint) if hint else f"written as {'; '.join(_examples())}",
        )


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One end of a replay: its system, a name in it, and the address if one was given."""

    system: str
    """kafka, postgres, parquet, or another of the table in `playhead.systems`."""
    name: str
    """A topic, a table, a folder; `{topic}` in it stands for the record's topic."""
    address: str | None = field(default=None, repr=False)
    """`host:port` of a broker, or a database's URL; None for the configured one.

    It never contains a password. A `${NAME}` may stand for one; it is resolved where it is used.
    """
    is_pattern: bool = False
    context: str | None = None
    """The context of the cluster; None for the configured cluster, or the one at the address."""

    def __str__(self) -> str:
        return system_of(self).text(self)

    def shown(self) -> str:
        """As `str`, safe to print."""
        return _shown(str(self))

    def from_anywhere(self) -> "Endpoint":
        """Return the endpoint with an absolute path, so that it means the same in every folder."""
        return system_of(self).from_anywhere(self)

    @classmethod
    def parse(cls, text: str) -> "Endpoint":
        if len(text) > _LONGEST:
            raise BadEndpoint(text[:80], reason=f"it has more than {_LONGEST:,} characters")
        _refuse_password(text)
        scheme, colon, rest = text.partition(":")
        if not colon:
            way = f"write kafka:{text} for a topic, postgres:{text} for a table"
            raise BadEndpoint(text, reason="it names no system", hint=way)
        system = systems.system_named(scheme)
        if system is None:
            near = get_close_matches(scheme, systems.schemes(), n=1)
            hint = f"did you mean {near[0]}:{rest}?" if near else None
            raise BadEndpoint(text, reason=f"there is no system {scheme!r} here", hint=hint)
        return system.parse(text, scheme, rest)


def system_of(end: Endpoint) -> systems.System:
    """Return the description of the endpoint's system."""
    system = systems.system_named(end.system)
    if system is None:
        raise UsageError(f"there is no system {end.system!r} here")
    return system


def _examples() -> Iterator[str]:
    for system in systems.ours():
        yield from system.examples.values()


def _shown(text: str) -> str:
    # Otherwise the scheme of `parquet:s3://` would become a part of the address.
    system, colon, rest = text.partition(":")
    is_address = rest.startswith("//") or "://" not in rest
    return (
        secrets.without_password(text)
        if is_address
        else f"{system}{colon}{secrets.without_password(rest)}"
    )


def _refuse_password(text: str) -> None:
    """Refuse a password in an endpoint: the plan and the shell's history would store it."""
    rest = text.partition(":")[2]
    for password in {*secrets.passwords_in(text), *secrets.passwords_in(rest)}:
        if not secrets.has_reference(password):
            secrets.remember(password)
            reason = "it has a password, which the plan and the shell's history would store"
            hint = "write ${NAME_OF_A_VARIABLE} in its place (in single quotes), or leave the password out"
            raise BadEndpoint(text, reason=reason, hint=hint)


def check_group(name: str) -> None:
    """Refuse a group name that UTF-8 cannot encode: the client library would end the process."""
    try:
        name.encode()
    except UnicodeEncodeError as exc:
        raise BadValue("the group's name", found=name, needed="a text in UTF-8") from exc


def check_topic(name: str) -> None:
    """Refuse an invalid topic name before a broker is asked."""
    if TOPIC_NAME.fullmatch(name) and name not in (".", ".."):
        return
    is_endpoint = name.startswith("kafka:")
    raise BadValue(
        "the topic's name",
        found=name,
        needed="letters, digits, '.', '_' and '-', at most 249 of them, and not . or ..",
        hint="write the topic's name alone, and -b host:port for the broker"
        if is_endpoint
        else None,
    )


# --- for programs


def kafka(
    topic: str, *, bootstrap_servers: str | None = None, context: str | None = None
) -> Endpoint:
    """Return the endpoint of a topic, or of `/regex/` for several, in the configured or a named cluster."""
    if bootstrap_servers and context:
        raise UsageError(
            f"context {context} and {bootstrap_servers} name two clusters", hint="give one of them"
        )
    is_pattern = len(topic) > 2 and topic.startswith("/") and topic.endswith("/")
    name = topic[1:-1] if is_pattern else topic
    return Endpoint("kafka", name, bootstrap_servers, is_pattern, context)


def postgres(table: str, *, url: str | None = None) -> Endpoint:
    """Return the endpoint of a table in the configured database, or in the one at the URL."""
    return Endpoint("postgres", table, url)


def files(folder: str, *, form: str = "parquet") -> Endpoint:
    """Return the endpoint of an archive in a folder or under `s3://`; its form is parquet, json or csv."""
    return Endpoint.parse(f"{form}:{folder}")

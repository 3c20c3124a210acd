"""Endpoints as people write them, `kafka:orders` or `parquet:s3://archive/orders`, taken apart."""

import re
import warnings
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import quote, unquote

from playhead import secrets
from playhead.errors import BadValue, UsageError

TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)
FILE_FORMS = ("parquet", "json", "csv")
TRAFFIC_FORMS = ("rrpair", "extract", "gor", "har")
_SYSTEMS = ("kafka", "postgres", "postgresql", *FILE_FORMS, *TRAFFIC_FORMS)
_EXAMPLES = {
    "kafka": "kafka:TOPIC, kafka:/REGEX/, kafka:CONTEXT/TOPIC or kafka://HOST:PORT/TOPIC",
    "postgres": "postgres:SCHEMA.TABLE, postgres:TABLE or postgresql://…?table=SCHEMA.TABLE",
    "parquet": "parquet:FOLDER or parquet:s3://BUCKET/PREFIX",
    "json": "json:FOLDER or json:s3://BUCKET/PREFIX",
    "csv": "csv:FOLDER or csv:s3://BUCKET/PREFIX",
    "rrpair": "rrpair:FILE, rrpair:FOLDER or rrpair:ID of a snapshot",
    "extract": "extract:FILE.csv",
    "gor": "gor:FILE",
    "har": "har:FILE",
}
# A topic's name, several, or one with {topic} in it; none for a target that needs no name.
_TOPICS = re.compile(r"[A-Za-z0-9._,-]*(\{topic\}[A-Za-z0-9._-]*)*")
_CONTEXT = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_LONGEST = 8_192
BAD_PATTERN = (re.error, RecursionError, OverflowError)
"""What `re.compile` raises over a text that anybody wrote."""
_SERVER = re.compile(r"[^\s@/]+:[0-9]{1,5}")


def check_pattern(text: str) -> None:
    """Raises one of `BAD_PATTERN`; what Python thinks of old and new syntax is not said to anybody."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        re.compile(text)


class BadEndpoint(UsageError):
    """A source or target that cannot be understood."""

    def __init__(self, text: str, *, reason: str, hint: str | None = None) -> None:
        self.text, self.reason = _shown(text), reason
        super().__init__(
            f"endpoint {self.text!r}: {reason}",
            hint=_shown(hint) if hint else "written as " + "; ".join(_EXAMPLES.values()),
        )


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One end of a replay: its system, the name in it, and its address where that was written out."""

    system: str
    """kafka, postgres, parquet, json, csv, or a form of captured traffic."""
    name: str
    """A topic, a table, a folder; `{topic}` in it stands for the record's topic."""
    address: str | None = field(default=None, repr=False)
    """`host:port` of a broker or a database's URL; None for the configured one.

    Never with a password: a `${NAME}` may stand for one, and is resolved where it is needed.
    """
    is_pattern: bool = False
    context: str | None = None
    """The context whose cluster is meant; None for the configured one, or the one at the address."""

    def __str__(self) -> str:
        if self.system == "kafka":
            name = f"/{self.name}/" if self.is_pattern else self.name
            if self.context:
                return f"kafka:{self.context}/{name}"
            return f"kafka://{self.address}/{name}" if self.address else f"kafka:{name}"
        if self.system == "postgres" and self.address:
            glue = "&" if "?" in self.address else "?"
            return f"{self.address}{glue}table={quote(self.name, safe='{}')}"
        return f"{self.system}:{self.name}"

    def shown(self) -> str:
        """As `str`, safe to print."""
        return _shown(str(self))

    def from_anywhere(self) -> "Endpoint":
        """With a folder or a file by its whole path: who comes back to it may stand elsewhere."""
        if self.system not in (*FILE_FORMS, *TRAFFIC_FORMS) or "://" in self.name:
            return self
        path = Path(self.name).expanduser().absolute()
        is_snapshot = self.system == "rrpair" and "/" not in self.name and not path.exists()
        return self if is_snapshot else replace(self, name=str(path))

    @classmethod
    def parse(cls, text: str) -> "Endpoint":
        if len(text) > _LONGEST:
            raise BadEndpoint(text[:80], reason=f"it has more than {_LONGEST:,} characters")
        _refuse_password(text)
        system, colon, rest = text.partition(":")
        if not colon:
            reason = "it names no system"
            raise BadEndpoint(text, reason=reason, hint=f"perhaps kafka:{text} is meant")
        if system not in _SYSTEMS:
            near = get_close_matches(system, _SYSTEMS, n=1)
            hint = f"did you mean {near[0]}:{rest}?" if near else None
            raise BadEndpoint(text, reason=f"there is no system {system!r} here", hint=hint)
        if system == "kafka":
            return _kafka(text, rest)
        if system in ("postgres", "postgresql"):
            return _postgres(text, system, rest)
        if not rest:
            what = "file" if system in TRAFFIC_FORMS else "folder"
            raise BadEndpoint(text, reason=f"it names no {what}", hint=_EXAMPLES[system])
        return cls(system, rest)


def _shown(text: str) -> str:
    # The scheme of `parquet:s3://` would be taken for a part of the address.
    system, colon, rest = text.partition(":")
    is_address = rest.startswith("//") or "://" not in rest
    return (
        secrets.without_password(text)
        if is_address
        else f"{system}{colon}{secrets.without_password(rest)}"
    )


def _refuse_password(text: str) -> None:
    """A command line is no place for a secret, and neither is a plan, which repeats the endpoint."""
    rest = text.partition(":")[2]
    for password in {*secrets.passwords_in(text), *secrets.passwords_in(rest)}:
        if not secrets.has_reference(password):
            secrets.remember(password)
            reason = "it has a password, which would be kept in the plan and the shell's history"
            hint = (
                "write ${NAME_OF_A_VARIABLE} in its place (in single quotes), or name no password"
            )
            raise BadEndpoint(text, reason=reason, hint=hint)


def _kafka(text: str, rest: str) -> Endpoint:
    address = context = None
    hint = _EXAMPLES["kafka"]
    if rest.startswith("//"):
        address, _, rest = rest[2:].partition("/")
        if not all(map(_SERVER.fullmatch, address.split(","))):
            raise BadEndpoint(text, reason="the address needs HOST:PORT", hint=hint)
    elif not rest.startswith("/") and "/" in rest:
        context, _, rest = rest.partition("/")
        if not _CONTEXT.fullmatch(context):
            raise BadEndpoint(text, reason=f"{context!r} is no context's name", hint=hint)
    if rest.startswith("/"):
        return Endpoint("kafka", _pattern(text, rest), address, is_pattern=True, context=context)
    if not _TOPICS.fullmatch(rest) or not all(rest.split(",")[1:]):
        raise BadEndpoint(text, reason=f"{rest!r} is no topic's name", hint=hint)
    return Endpoint("kafka", rest, address, context=context)


def _pattern(text: str, rest: str) -> str:
    if len(rest) < 3 or not rest.endswith("/"):
        raise BadEndpoint(text, reason="a pattern stands between two slashes")
    try:
        check_pattern(rest[1:-1])
    except BAD_PATTERN as exc:
        raise BadEndpoint(text, reason=f"the pattern cannot be understood: {exc}") from exc
    return rest[1:-1]


def _postgres(text: str, system: str, rest: str) -> Endpoint:
    if not rest.startswith("//"):
        if not rest:
            raise BadEndpoint(text, reason="it names no table", hint=_EXAMPLES["postgres"])
        return Endpoint("postgres", rest)
    # By hand: what is not the table must reach the database's own library as it was written.
    address, _, query = f"{system}:{rest}".partition("?")
    parameters = [each for each in query.split("&") if each]
    tables = [each for each in parameters if each.startswith("table=")]
    if len(tables) != 1 or tables[0] == "table=":
        reason = "a database's URL needs one table=NAME in its query"
        raise BadEndpoint(text, reason=reason, hint=_EXAMPLES["postgres"])
    parameters.remove(tables[0])
    if parameters:
        address += "?" + "&".join(parameters)
    return Endpoint("postgres", unquote(tables[0].removeprefix("table=")), address)


def check_group(name: str) -> None:
    """Refuse what has no bytes in UTF-8: the client library would end our process over it."""
    try:
        name.encode()
    except UnicodeEncodeError as exc:
        needed, where = "a text in UTF-8", "the command line"
        raise BadValue("the group's name", found=name, needed=needed, where=where) from exc


def check_topic(name: str) -> None:
    """Refuse what Kafka cannot call a topic, before a cluster is asked."""
    if TOPIC_NAME.fullmatch(name) and name not in (".", ".."):
        return
    is_endpoint = name.startswith("kafka:")
    raise BadValue(
        "the topic's name",
        found=name,
        needed="letters, digits, '.', '_' and '-', at most 249 of them, and not . or ..",
        where="the command line",
        hint="write the name alone, and -b host:port beside it" if is_endpoint else None,
    )


# --- as programs write them


def kafka(
    topic: str, *, bootstrap_servers: str | None = None, context: str | None = None
) -> Endpoint:
    """A topic, or `/regex/` for several; of the configured cluster unless another is named."""
    if bootstrap_servers and context:
        raise UsageError(
            f"context {context} and {bootstrap_servers} name two clusters", hint="name one of them"
        )
    is_pattern = len(topic) > 2 and topic.startswith("/") and topic.endswith("/")
    name = topic[1:-1] if is_pattern else topic
    return Endpoint("kafka", name, bootstrap_servers, is_pattern, context)


def postgres(table: str, *, url: str | None = None) -> Endpoint:
    """A table of the configured database, or of the one at the URL."""
    return Endpoint("postgres", table, url)


def files(folder: str, *, form: str = "parquet") -> Endpoint:
    """An archive in a folder or under `s3://`; its form is parquet, json or csv."""
    return Endpoint.parse(f"{form}:{folder}")

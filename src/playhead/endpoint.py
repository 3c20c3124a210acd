"""Endpoints as people write them, `kafka:orders` or `parquet:s3://archive/orders`, taken apart."""

from dataclasses import dataclass
from difflib import get_close_matches
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from playhead import secrets
from playhead.errors import UsageError

FILE_FORMS = ("parquet", "json", "csv")
_SYSTEMS = ("kafka", "postgres", "postgresql", *FILE_FORMS)
_EXAMPLES = {
    "kafka": "kafka:TOPIC, kafka:/REGEX/ or kafka://HOST:PORT/TOPIC",
    "postgres": "postgres:SCHEMA.TABLE, postgres:TABLE or postgresql://…?table=SCHEMA.TABLE",
    "parquet": "parquet:FOLDER or parquet:s3://BUCKET/PREFIX",
    "json": "json:FOLDER or json:s3://BUCKET/PREFIX",
    "csv": "csv:FOLDER or csv:s3://BUCKET/PREFIX",
}


class BadEndpoint(UsageError):
    """A source or target that cannot be understood."""

    def __init__(self, text: str, *, reason: str, hint: str | None = None) -> None:
        self.text, self.reason = text, reason
        super().__init__(
            f"endpoint {text!r}: {reason}",
            hint=hint or "written as " + "; ".join(_EXAMPLES.values()),
        )


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One end of a replay: its system, the name in it, and its address where that was written out."""

    system: str
    """kafka, postgres, parquet, json or csv."""
    name: str
    """A topic, a table, a folder; `{topic}` in it stands for the record's topic."""
    address: str | None = None
    """`host:port` of a broker or a database's URL; None for the configured one."""
    is_pattern: bool = False

    def __str__(self) -> str:
        if self.system == "kafka":
            name = f"/{self.name}/" if self.is_pattern else self.name
            return f"kafka://{self.address}/{name}" if self.address else f"kafka:{name}"
        if self.system == "postgres" and self.address:
            glue = "&" if "?" in self.address else "?"
            return f"{self.address}{glue}{urlencode({'table': self.name})}"
        return f"{self.system}:{self.name}"

    def shown(self) -> str:
        """As `str`, safe to print."""
        return secrets.without_password(str(self)) if self.address else str(self)

    @classmethod
    def parse(cls, text: str) -> "Endpoint":
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
            raise BadEndpoint(text, reason="it names no folder", hint=_EXAMPLES[system])
        return cls(system, rest)


def _kafka(text: str, rest: str) -> Endpoint:
    address = None
    if rest.startswith("//"):
        address, _, rest = rest[2:].partition("/")
        if not address or ":" not in address:
            raise BadEndpoint(text, reason="the address has no port", hint=_EXAMPLES["kafka"])
    if len(rest) > 2 and rest.startswith("/") and rest.endswith("/"):
        return Endpoint("kafka", rest[1:-1], address, is_pattern=True)
    return Endpoint("kafka", rest, address)


def _postgres(text: str, system: str, rest: str) -> Endpoint:
    if not rest.startswith("//"):
        if not rest:
            raise BadEndpoint(text, reason="it names no table", hint=_EXAMPLES["postgres"])
        return Endpoint("postgres", rest)
    parts = urlsplit(f"{system}:{rest}")
    query = parse_qsl(parts.query, keep_blank_values=True)
    tables = [value for key, value in query if key == "table"]
    if len(tables) != 1 or not tables[0]:
        reason = "a database's URL needs one table=NAME in its query"
        raise BadEndpoint(secrets.without_password(text), reason=reason, hint=_EXAMPLES["postgres"])
    others = [(key, value) for key, value in query if key != "table"]
    address = urlunsplit(parts._replace(query=urlencode(others)))
    return Endpoint("postgres", tables[0], address)


# --- as programs write them


def kafka(topic: str, *, bootstrap_servers: str | None = None) -> Endpoint:
    """A topic, or `/regex/` for several; of the configured cluster unless an address is given."""
    is_pattern = len(topic) > 2 and topic.startswith("/") and topic.endswith("/")
    name = topic[1:-1] if is_pattern else topic
    return Endpoint("kafka", name, bootstrap_servers, is_pattern)


def postgres(table: str, *, url: str | None = None) -> Endpoint:
    """A table of the configured database, or of the one at the URL."""
    return Endpoint("postgres", table, url)


def files(folder: str, *, form: str = "parquet") -> Endpoint:
    """An archive in a folder or under `s3://`; its form is parquet, json or csv."""
    return Endpoint.parse(f"{form}:{folder}")

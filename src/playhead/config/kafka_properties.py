"""Kafka client properties: the syntax of files and JAAS, and the properties that both clients know."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from playhead.errors import BadValue, UnknownKey, UntranslatableProperty, UsageError
from playhead.host import named_files
from playhead.secrets import HIDDEN, remember

_LINE_END = re.compile(r"\r\n|\r|\n")
_ENTRY = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: Path) -> dict[str, str]:
    """Read the properties of a UTF-8 file."""
    try:
        text = named_files.text_of(path)
    except OSError as exc:
        raise UsageError(f"cannot read {path}: {exc.strerror}", hint="check the path") from exc
    except UnicodeDecodeError as exc:
        line = exc.object[: exc.start].count(b"\n") + 1
        # Java reads these files as Latin-1; guessing the encoding would change passwords.
        hint = "write other characters as \\uXXXX"
        raise UsageError(f"{path}:{line} is not UTF-8", hint=hint) from exc
    return parse_properties(text, where=str(path))


def parse_properties(text: str, *, where: str) -> dict[str, str]:
    """Parse Java's .properties syntax; a key with two different values is an error."""
    found: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, line in _logical_lines(text):
        at = f"{where}:{number}"
        key, value = (_unescape(part, where=at) for part in _ENTRY.findall(line)[0])
        if found.setdefault(key, value) != value:
            needed = f"the same value as in line {lines[key]}, or no second line"
            raise BadValue(key, found=HIDDEN, needed=needed, where=at)
        lines.setdefault(key, number)
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    start, logical, goes_on = 0, "", False
    for number, natural in enumerate(_LINE_END.split(text), 1):
        line = natural.lstrip(" \t\f")
        if not goes_on:
            if not line or line[0] in "#!":
                continue
            start, logical = number, ""
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        logical += line[:-1] if goes_on else line
        if not goes_on and logical:
            yield start, logical
    if goes_on and logical:
        yield start, logical


def _unescape(text: str, *, where: str) -> str:
    def character(match: re.Match[str]) -> str:
        escape = match[1]
        if escape == "u":
            wrong = text[match.start() : match.start() + 6]
            raise BadValue("escape", found=wrong, needed="\\u and four hex digits", where=where)
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        return _ESCAPED.get(escape, escape)

    try:
        # Java writes a character above U+FFFF as two escapes.
        return _ESCAPE.sub(character, text).encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError as exc:
        found = "half of a surrogate pair"
        raise BadValue("escape", found=found, needed="both halves", where=where) from exc


_JAAS_TOKEN = re.compile(
    r"""(?P<blank>[\x00-\x20]+|/\*.*?(?:\*/|\Z)|/[^\r\n]*)
      | (?P<q>"(?:[^"\\\r\n]|\\[^\r\n])*"|'(?:[^'\\\r\n]|\\[^\r\n])*')
      | (?P<mark>[=;])
      | (?P<w>[^\x00-\x20;="'/]+)""",
    re.VERBOSE | re.DOTALL,
)
_JAAS_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_JAAS_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_JAAS_FLAGS = ("required", "requisite", "sufficient", "optional")


def parse_jaas(text: str, *, where: str) -> tuple[str, dict[str, str]]:
    """Parse the login module's class and its options, by the rules of Kafka's JAAS parser."""
    tokens = list(_jaas_tokens(text, where=where))
    shape = "".join(kind for kind, _ in tokens)
    values = [value for _, value in tokens]
    names = values[2:-1:3]
    well_formed = re.fullmatch(r"ww(?:w=[wq])*;", shape) and values[1].lower() in _JAAS_FLAGS
    if not well_formed or len(set(names)) < len(names):
        raise _bad_jaas(where)
    return values[0], dict(zip(names, values[4:-1:3], strict=True))


def _jaas_tokens(text: str, *, where: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        match = _JAAS_TOKEN.match(text, at)
        if match is None:
            raise _bad_jaas(where)
        at, token = match.end(), match[0]
        if match.lastgroup == "q":
            yield "q", _JAAS_ESCAPE.sub(_jaas_character, token[1:-1])
        elif match.lastgroup != "blank":
            yield ("w" if match.lastgroup == "w" else token), token


def _jaas_character(match: re.Match[str]) -> str:
    escape = match[1]
    octal = escape[0] in "01234567"
    return chr(int(escape, 8)) if octal else _JAAS_ESCAPED.get(escape, escape)


def _bad_jaas(where: str) -> BadValue:
    return BadValue(
        "sasl.jaas.config",
        found=HIDDEN,
        needed='one login module, as in `Class required option="value" option="value";`',
        where=where,
        hint='inside the quotes, write \\" for a quote and \\\\ for a backslash; '
        "or give sasl.username and sasl.password instead",
    )


def jaas_quoted(value: str) -> str:
    """Return the value as a JAAS string; a raw line end would close it."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r") + '"'


def format_jaas(module: str, options: Mapping[str, str]) -> str:
    """Return a `sasl.jaas.config` value."""
    said = "".join(f" {name}={jaas_quoted(value)}" for name, value in options.items())
    return f"{module} required{said};"


_PEM_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----([A-Za-z0-9+/=\s]+)-----END \1-----")


def pem_blocks(text: str) -> str:
    """Return only the PEM blocks, wrapped for OpenSSL; remember the lines of private keys as secrets."""
    # Environment variables and .properties files often contain one long line, which Java reads and
    # OpenSSL does not.
    blocks = []
    for label, body in _PEM_BLOCK.findall(text.replace("\\n", "\n")):
        lines = re.findall(".{1,64}", "".join(body.split()))
        blocks.append("\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----\n"]))
        if label.endswith("PRIVATE KEY"):
            # Line by line, so that a key is redacted with any kind of line ends.
            for line in lines:
                if len(line) > 16:
                    remember(line)
    return "".join(blocks)


def read_pem(path: Path) -> str:
    """Return the PEM blocks of a file."""
    return pem_blocks(named_files.text_of(path, errors="replace"))


def store_type(path: Path) -> str:
    """Return the type of a store that declares none: PEM by its content or name, else Java's own."""
    content = path.read_bytes() if path.is_file() else b""
    suffix = path.suffix.lower()
    if b"-----BEGIN " in content or (not content and suffix in (".pem", ".crt", ".cer", ".key")):
        return "PEM"
    return "PKCS12" if suffix in (".p12", ".pfx") else "JKS"


def pem_conversion(store: str, name: str, kind: str) -> str:
    """Return the commands that convert this store to PEM."""
    stem = name.rpartition(".")[0] or name
    source, p12, pem = (shlex.quote(each) for each in (name, f"{stem}.p12", f"{stem}.pem"))
    if kind == "PKCS#1":
        return f"openssl pkcs8 -topk8 -in {source} -out {pem}, with its new ssl.key.password"
    convert = f"openssl pkcs12 -in {source if kind == 'PKCS12' else p12}"
    if kind != "PKCS12":
        convert = (
            f"keytool -importkeystore -srckeystore {source} -srcstoretype {kind} "
            f"-destkeystore {p12} -deststoretype PKCS12 && {convert}"
        )
    if store == "ssl.truststore":
        return f"{convert} -nokeys -out {pem}, then {store}.type=PEM and {store}.location={pem}"
    return (
        f"{convert} -out {pem}, then {store}.type=PEM, {store}.location={pem} and the pass phrase "
        "you gave as ssl.key.password"
    )


Role = Literal["client", "consumer", "producer"]


@dataclass(frozen=True)
class Property:
    """One supported property: its name here and in each client, and its allowed values."""

    name: str
    java: str | None
    librdkafka: str | None
    help: str
    secret: bool = False
    also: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    # The limits of a number. A lowest value of -1 means "off", which librdkafka writes as 0.
    low: int | None = None
    high: int | None = None
    # Only tuning properties have one: they go unchanged to the clients that know them.
    role: Role | None = None

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every key that is read as this property."""
        known = (self.name, self.java, self.librdkafka, *self.also)
        return tuple(dict.fromkeys(key for key in known if key is not None))

    def read(self, text: str, *, key: str, where: str) -> str | int:
        """Return the value in its canonical form."""
        if self.low is not None:
            return self._number(text.strip(), key=key, where=where)
        if self.choices:
            return self._choice(text.strip(), key=key, where=where)
        if not text:
            raise BadValue(key, found="", needed="a value; or leave the line out", where=where)
        return text

    def shown(self, value: str | int) -> str:
        """Return the value in a form that is safe to print."""
        if self.secret:
            return HIDDEN
        blocks = str(value).count("-----BEGIN ")
        return f"inline PEM ({blocks} certificates)" if blocks else str(value)

    def _number(self, text: str, *, key: str, where: str) -> int:
        number = int(text) if re.fullmatch(r"-?[0-9]{1,12}", text) else None
        if self.low == -1 and number == 0:
            return -1
        if number is None or not (self.low or 0) <= number <= (self.high or 0):
            needed = f"a whole number from {self.low} to {self.high}"
            raise BadValue(key, found=text, needed=needed, where=where)
        return number

    def _choice(self, text: str, *, key: str, where: str) -> str:
        for choice in self.choices:
            if choice.lower() == text.lower():
                return choice
        raise BadValue(key, found=text, needed=" or ".join(filter(None, self.choices)), where=where)


def _both(name: str, help_: str, **more: Any) -> Property:
    return Property(name, name, name, help_, **more)


def _java(name: str, help_: str, **more: Any) -> Property:
    return Property(name, name, None, help_, **more)


def _librdkafka(name: str, help_: str, **more: Any) -> Property:
    return Property(name, None, name, help_, **more)


def _number(
    name: str, low: int, high: int, help_: str, role: Role = "client", librdkafka: str | None = None
) -> Property:
    return Property(name, name, librdkafka or name, help_, low=low, high=high, role=role)


_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_LOOKUPS = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
HOSTNAME = "ssl.endpoint.identification.algorithm"
SECURITY = "org.apache.kafka.common.security."
OAUTH_HANDLER = SECURITY + "oauthbearer.OAuthBearerLoginCallbackHandler"
# The second is the name before Kafka 3.4; the others are those of Databricks' runtime.
_OAUTH_HANDLERS = tuple(
    prefix + SECURITY + "oauthbearer." + package + "OAuthBearerLoginCallbackHandler"
    for prefix in ("", "kafkashaded.")
    for package in ("", "secured.")
)
_OIDC, _OIDC_2 = "sasl.oauthbearer.client", "sasl.oauthbearer.client.credentials.client"
_HOUR_MS, _MAX = 3_600_000, 2**31 - 1

# fmt: off
KNOWN_PROPERTIES: tuple[Property, ...] = (
    _both("bootstrap.servers", "brokers to ask first, host:port,…", also=("metadata.broker.list",)),
    _both("security.protocol", "one of " + ", ".join(_PROTOCOLS), choices=_PROTOCOLS),
    _both("sasl.mechanism", "PLAIN, SCRAM-SHA-… or OAUTHBEARER", also=("sasl.mechanisms",)),
    _librdkafka("sasl.username", "the user, for PLAIN and SCRAM"),
    _librdkafka("sasl.password", "the user's password", secret=True),
    _java("sasl.jaas.config", "the credentials as Java writes them", secret=True),
    _librdkafka(f"{_OIDC}.id", "client id, for OAUTHBEARER", also=(f"{_OIDC_2}.id",)),
    _librdkafka(f"{_OIDC}.secret", "the client's secret", secret=True, also=(f"{_OIDC_2}.secret",)),
    _librdkafka("sasl.oauthbearer.scope", "scope to ask the token for"),
    _librdkafka("sasl.oauthbearer.extensions", "name=value,… that the broker requires"),
    _both("sasl.oauthbearer.token.endpoint.url", "where tokens come from, https://…"),
    _librdkafka("sasl.oauthbearer.method", "oidc, the only one here", choices=("oidc",)),
    _java("sasl.login.callback.handler.class", "Kafka's own for OIDC", choices=_OAUTH_HANDLERS),
    Property("ssl.ca.location", "ssl.truststore.location", "ssl.ca.location", "PEM file to trust"),
    Property("ssl.ca.pem", "ssl.truststore.certificates", "ssl.ca.pem", "PEM text to trust"),
    _java("ssl.truststore.type", "PEM, the only one that both clients read"),
    _java("ssl.truststore.password", "nothing: PEM has none", secret=True),
    _librdkafka("ssl.certificate.location", "PEM file of the client's certificate and chain"),
    Property(*("ssl.certificate.pem", "ssl.keystore.certificate.chain", "ssl.certificate.pem"),
        "PEM text of the client's certificate and chain"),
    _librdkafka("ssl.key.location", "PEM file of the client's private key, as PKCS#8"),
    Property("ssl.key.pem", "ssl.keystore.key", "ssl.key.pem", "PEM text of that key", secret=True),
    _both("ssl.key.password", "pass phrase of an encrypted private key", secret=True),
    _java("ssl.keystore.location", "PEM file with both the client's certificate and its key"),
    _java("ssl.keystore.type", "PEM, the only one that both clients read"),
    _java("ssl.keystore.password", "nothing: PEM has none", secret=True),
    _both(HOSTNAME, "https (default), or none: check host names", choices=("https", "none", "")),
    _librdkafka("enable.ssl.certificate.verification", "true, always", choices=("true",)),
    _both("client.id", "the name in the broker's logs and quotas", role="client"),
    _both("client.rack", "where this is, to read from a replica near it", role="consumer"),
    _both("client.dns.lookup", " or ".join(_LOOKUPS), choices=_LOOKUPS, role="client"),
    # librdkafka's own `request.timeout.ms` is different: a producer's wait for the replicas.
    _number("request.timeout.ms", 10, 300_000, "wait for any answer", "client",
        "socket.timeout.ms"),
    _number("socket.connection.setup.timeout.ms", 1000, _MAX, "wait for a connection"),
    _number("connections.max.idle.ms", -1, _MAX, "end of an idle connection; -1: never"),
    _number("metadata.max.age.ms", 1, 24 * _HOUR_MS, "when to ask again for partitions"),
    _number("reconnect.backoff.ms", 0, _HOUR_MS, "first wait before connecting again"),
    _number("reconnect.backoff.max.ms", 0, _HOUR_MS, "longest wait before connecting again"),
    _number("retry.backoff.ms", 1, 300_000, "first wait before asking again"),
    _number("retry.backoff.max.ms", 1, 300_000, "longest wait before asking again"),
    _number("send.buffer.bytes", -1, 100_000_000, "TCP send buffer; -1: the system's", "client",
        "socket.send.buffer.bytes"),
    _number("receive.buffer.bytes", -1, 100_000_000, "TCP receive buffer; -1: the system's",
        "client", "socket.receive.buffer.bytes"),
    _number("session.timeout.ms", 1, _HOUR_MS, "silence that ends a group membership", "consumer"),
    _number("heartbeat.interval.ms", 1, _HOUR_MS, "between signs of life to a group", "consumer"),
    _number("max.poll.interval.ms", 1, 24 * _HOUR_MS, "longest pause between polls", "consumer"),
    _number("max.partition.fetch.bytes", 1, 1_000_000_000, "most of a partition at once",
        "consumer"),
    _number("fetch.min.bytes", 1, 100_000_000, "least to answer a fetch with", "consumer"),
    _number("linger.ms", 0, 900_000, "wait for a fuller batch", "producer"),
    _number("batch.size", 1, _MAX, "bytes of a full batch", "producer"),
    _number("max.request.size", 1000, 1_000_000_000, "largest request, so record, to send",
        "producer", "message.max.bytes"),
    _both("compression.type", " or ".join(_CODECS), choices=_CODECS, role="producer"),
)
# fmt: on

BY_NAME: Mapping[str, Property] = {known.name: known for known in KNOWN_PROPERTIES}
BY_SPELLING: Mapping[str, Property] = {
    spelling: known for known in KNOWN_PROPERTIES for spelling in known.spellings
}

# librdkafka refuses a first value above the second, even if one of them is its default.
ORDERED = (
    ("reconnect.backoff.ms", 100, "reconnect.backoff.max.ms", 10_000),
    ("session.timeout.ms", 45_000, "max.poll.interval.ms", 300_000),
)

# The first matching pattern gives the reason.
_REFUSED: Mapping[str, str] = {
    "it names code to load; Playhead never accepts names of classes or libraries": """
        *.class *.classes *.serializer *.deserializer *.reporters config.providers* ssl.provider*
        security.providers plugin.library.paths ssl.engine.* partition.assignment.strategy""",
    "Playhead sets this itself, because exactly-once delivery depends on it": """
        group.* transaction* isolation.level auto.offset.reset auto.commit.* enable.auto.* acks
        enable.idempotence enable.gapless.guarantee request.required.acks retries partitioner*
        message.send.max.retries max.in.flight* delivery.timeout.ms message.timeout.ms
        allow.auto.create.topics""",
    "the two clients do not both support Kerberos": "sasl.kerberos.*",
    "for OAUTHBEARER, only a client id with its secret is supported": "sasl.oauthbearer.*",
    "an unsigned token proves nothing": "enable.sasl.oauthbearer.unsecure.jwt",
    "Java and OpenSSL, which are both used here, write it differently": """
        ssl.cipher.suites ssl.protocol ssl.enabled.protocols ssl.curves.list ssl.sigalgs.list""",
    "librdkafka, which is used beside Java, has no such property": """
        ssl.*manager.algorithm ssl.secure.random.* sasl.login.* max.poll.records metrics.*
        default.api.timeout.ms buffer.memory max.block.ms""",
    "librdkafka bounds it by the largest message, Java does not": "fetch.max.bytes",
    "Java's client, which Spark uses, has no such property": """
        ssl.crl.location ssl.ca.certificate.stores https.ca.* topic.metadata.* queue* broker.*
        api.version.* socket.* statistics.interval.ms debug log* fetch.*.backoff.ms""",
}


def not_understood(key: str, *, where: str) -> UsageError:
    """Return the error for a key that is not in `KNOWN_PROPERTIES`: refused for a reason, or unknown."""
    misspelt = get_close_matches(key, BY_SPELLING, cutoff=0.93)
    for reason, patterns in _REFUSED.items():
        if not misspelt and any(fnmatchcase(key, pattern) for pattern in patterns.split()):
            return UntranslatableProperty(key, where=where, reason=reason, hint="leave it out")
    return UnknownKey(key, where=where, known=sorted(BY_SPELLING))

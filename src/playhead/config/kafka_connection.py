"""The connection to a Kafka cluster: given in either client's properties, rendered for both."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import urlsplit

from playhead.config import kafka_properties as known
from playhead.config.kafka_properties import BY_NAME, HOSTNAME, Property, Role
from playhead.config.settings import or_local_servers
from playhead.errors import BadValue, MissingPiece, UntranslatableProperty
from playhead.references import resolve
from playhead.secrets import HIDDEN, is_behind_host, remember, remember_logins

_LOGIN_MODULES = {
    "PLAIN": known.SECURITY + "plain.PlainLoginModule",
    "SCRAM-SHA-256": known.SECURITY + "scram.ScramLoginModule",
    "SCRAM-SHA-512": known.SECURITY + "scram.ScramLoginModule",
    "OAUTHBEARER": known.SECURITY + "oauthbearer.OAuthBearerLoginModule",
}
_MECHANISMS = ", ".join(_LOGIN_MODULES)
_UNUSABLE = {
    "GSSAPI": "Kerberos needs a ticket on every executor, and librdkafka's wheel does not support it",
    "AWS_MSK_IAM": "it is a Java class of Amazon's without a counterpart in librdkafka",
}
_EXTENSIONS = "sasl.oauthbearer.extensions"
_JAAS_EXTENSION = "extension_"
_JAAS_OPTIONS = {
    "username": "sasl.username",
    "password": "sasl.password",
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
# The property of each field; the host name check and tuning are separate.
_FIELDS = {
    "bootstrap_servers": "bootstrap.servers",
    "protocol": "security.protocol",
    "mechanism": "sasl.mechanism",
    "username": "sasl.username",
    "password": "sasl.password",
    "oauth_client_id": "sasl.oauthbearer.client.id",
    "oauth_client_secret": "sasl.oauthbearer.client.secret",
    "oauth_token_endpoint_url": "sasl.oauthbearer.token.endpoint.url",
    "oauth_scope": "sasl.oauthbearer.scope",
    "oauth_extensions": _EXTENSIONS,
    "ca_location": "ssl.ca.location",
    "ca_pem": "ssl.ca.pem",
    "certificate_location": "ssl.certificate.location",
    "certificate_pem": "ssl.certificate.pem",
    "key_location": "ssl.key.location",
    "key_pem": "ssl.key.pem",
    "key_password": "ssl.key.password",
}
_PEM = {"ca": "CERTIFICATE", "certificate": "CERTIFICATE", "key": "PRIVATE KEY"}
_WHOLE_REFERENCE = re.compile(r"\s*(?:file:.*|\$\{\w+\}\s*)")
_BROKER = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\]):([0-9]{1,5})")


@dataclass(frozen=True, repr=False)
class KafkaConnection:
    """The connection to a cluster; use `from_properties` to get a checked one."""

    bootstrap_servers: str | None = None
    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    username: str | None = None
    password: str | None = None
    oauth_client_id: str | None = None
    oauth_client_secret: str | None = None
    oauth_token_endpoint_url: str | None = None
    oauth_scope: str | None = None
    oauth_extensions: str | None = None
    ca_location: str | None = None
    ca_pem: str | None = None
    certificate_location: str | None = None
    certificate_pem: str | None = None
    key_location: str | None = None
    key_pem: str | None = None
    key_password: str | None = None
    verify_hostname: bool = True
    tuning: Mapping[str, str | int] = field(default_factory=dict, hash=False)

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], *, where: str, references: bool = True
    ) -> "KafkaConnection":
        """Parse Java's or librdkafka's spelling; with `references=False`, `${ENV}` stays unresolved."""
        reading = _Reading(where, references)
        for key, text in properties.items():
            reading.take(key, text)
        connection = reading.connection()
        for key, found, needed in _wrong(connection):
            raise BadValue(key, found=found, needed=needed, where=where)
        _check_pem(connection, where)
        return connection

    def with_bootstrap_servers(self, servers: str, *, where: str) -> "KafkaConnection":
        """Return the same connection with other bootstrap servers."""
        return replace(self, bootstrap_servers=_brokers(servers, "bootstrap.servers", where))

    def inlined(self, *parts: Literal["ca", "certificate", "key"]) -> "KafkaConnection":
        """Return the connection with the content of its files, for machines without them."""
        texts: dict[str, Any] = {}
        for part in parts or _PEM:
            if location := getattr(self, f"{part}_location"):
                texts |= {f"{part}_location": None, f"{part}_pem": known.read_pem(Path(location))}
        return replace(self, **texts)

    def for_librdkafka(self, role: Role | None = None) -> dict[str, str | int | bool]:
        """Return the configuration of a confluent-kafka client; a role leaves out properties of other roles."""
        rendered: dict[str, str | int | bool] = {}
        for name, value in self._settings(role).items():
            row = BY_NAME[name]
            rendered[row.librdkafka or name] = 0 if row.low == value == -1 else value
        if self.mechanism == "OAUTHBEARER":
            rendered["sasl.oauthbearer.method"] = "oidc"
        return rendered

    def for_java(self, role: Role | None = None) -> dict[str, str]:
        """Return the configuration of a Java client, without Spark's `kafka.` prefix."""
        # Java needs a client's certificate and key in one file, or both as text.
        one_store = self.certificate_location == self.key_location
        sayable = self if one_store else self.inlined("certificate", "key")
        settings = sayable._settings(role)
        rows = ((BY_NAME[name].java, value) for name, value in settings.items())
        rendered = {java: str(value) for java, value in rows if java is not None}
        if not self.verify_hostname:
            rendered[HOSTNAME] = ""
        if {"ssl.ca.location", "ssl.ca.pem"} & settings.keys():
            rendered["ssl.truststore.type"] = "PEM"
        if {"ssl.key.location", "ssl.key.pem"} & settings.keys():
            rendered["ssl.keystore.type"] = "PEM"
        if sayable.key_location is not None:
            rendered["ssl.keystore.location"] = sayable.key_location
        return rendered | self._java_login(settings)

    def shown(self) -> dict[str, str]:
        """Return canonical names and values that are safe to print."""
        return {name: BY_NAME[name].shown(value) for name, value in self._said().items()}

    def __repr__(self) -> str:
        return f"KafkaConnection({self.shown()})"

    def _said(self) -> dict[str, str | int]:
        said: dict[str, Any] = {name: getattr(self, own) for own, name in _FIELDS.items()}
        said[HOSTNAME] = None if self.verify_hostname else "none"
        return {name: value for name, value in said.items() if value is not None} | {**self.tuning}

    def _settings(self, role: Role | None) -> dict[str, str | int]:
        if self.bootstrap_servers is None:
            hint = or_local_servers("set -b, KAFKA_BOOTSTRAP_SERVERS or -c")
            raise MissingPiece("a broker's address", needed_for="a connection to Kafka", hint=hint)
        fits = (None, "client", role) if role else (None, *get_args(Role))
        return {name: it for name, it in self._said().items() if BY_NAME[name].role in fits}

    def _java_login(self, settings: Mapping[str, str | int]) -> dict[str, str]:
        if self.mechanism is None:
            return {}
        given = {option: settings.get(name) for option, name in _JAAS_OPTIONS.items()}
        options = {option: str(value) for option, value in given.items() if value is not None}
        for extension in filter(None, (self.oauth_extensions or "").split(",")):
            name, _, value = extension.partition("=")
            options[_JAAS_EXTENSION + name] = value
        jaas = known.format_jaas(_LOGIN_MODULES[self.mechanism], options)
        handler = {"sasl.login.callback.handler.class": known.OAUTH_HANDLER}
        return {"sasl.jaas.config": jaas} | (handler if self.mechanism == "OAUTHBEARER" else {})


class _Said(NamedTuple):
    value: str | int
    key: str


class _Reading:
    """Collects the values of properties under canonical names."""

    def __init__(self, where: str, references: bool) -> None:
        self.where, self.references = where, references
        self.said: dict[str, _Said] = {}

    def take(self, key: str, text: str) -> None:
        row = known.BY_SPELLING.get(key)
        if row is None:
            raise known.not_understood(key, where=self.where)
        # Each JAAS option is resolved separately, or a value could break out of its quotes.
        if row.name != "sasl.jaas.config":
            text = self._resolved(row, key, text)
        self._put(row.name, row.read(text, key=key, where=self.where), key)

    def connection(self) -> KafkaConnection:
        self._settle_jaas()
        self._settle_stores()
        said = {name: it.value for name, it in self.said.items()}
        fields: dict[str, Any] = {own: said[name] for own, name in _FIELDS.items() if name in said}
        tuning = {name: value for name, value in said.items() if BY_NAME[name].role}
        verify = said.get(HOSTNAME) != "none"
        return KafkaConnection(**fields, verify_hostname=verify, tuning=tuning)

    def _put(self, name: str, value: str | int, key: str) -> None:
        value = _canonical(name, value, key, self.where)
        if BY_NAME[name].secret:
            remember(str(value))
        first = self.said.setdefault(name, _Said(value, key))
        if first.value != value:
            show = BY_NAME[name].shown
            raise self._bad(key, show(value), f"the value of {first.key}, {show(first.value)!r}")

    def _resolved(self, row: Property, key: str, text: str) -> str:
        if not self.references:
            return text
        # Errors name the brokers; another property may contain a secret, as the address of an endpoint does.
        is_secret = row.name != "bootstrap.servers"
        # Only a secret can be a `file:`; elsewhere that is the beginning of an ordinary value.
        head, dollar, tail = ("", text, "") if row.secret else text.partition("$")
        return head + resolve(dollar + tail, key=key, where=self.where, is_secret=is_secret)

    def _settle_jaas(self) -> None:
        if (given := self.said.pop("sasl.jaas.config", None)) is None:
            return
        text = str(given.value)
        whole = self.references and _WHOLE_REFERENCE.fullmatch(text) is not None
        if whole:
            text = resolve(text.strip(), key=given.key, where=self.where)
        module, options = known.parse_jaas(text, where=self.where)
        self._check_login_module(module)
        for name, value in self._login(options).items():
            said = value if whole else self._resolved(BY_NAME[name], given.key, value)
            self._put(name, said, given.key)

    def _check_login_module(self, module: str) -> None:
        plain = module.removeprefix("kafkashaded.")
        if plain not in _LOGIN_MODULES.values():
            allowed = ", ".join(sorted(set(_LOGIN_MODULES.values())))
            raise self._no_jaas(f"login module {module} is not allowed", f"use {allowed}")
        mechanism = self.said.get("sasl.mechanism")
        if mechanism is not None and plain != _LOGIN_MODULES[str(mechanism.value)]:
            needed = f"one for {plain} in sasl.jaas.config"
            raise self._bad("sasl.mechanism", mechanism.value, needed)

    def _login(self, options: Mapping[str, str]) -> dict[str, str]:
        said, extensions = {}, []
        for option, value in options.items():
            if option in _JAAS_OPTIONS:
                said[_JAAS_OPTIONS[option]] = value
            elif option.startswith(_JAAS_EXTENSION) and "," not in value:
                extensions.append(f"{option.removeprefix(_JAAS_EXTENSION)}={value}")
            else:
                reason = f"librdkafka does not support its option {option}, or not with this value"
                raise self._no_jaas(reason, "leave the option out")
        return said | ({_EXTENSIONS: ",".join(extensions)} if extensions else {})

    def _settle_stores(self) -> None:
        trust, key = self.said.get("ssl.ca.location"), self.said.pop("ssl.keystore.location", None)
        java = trust if trust and trust.key == "ssl.truststore.location" else None
        self._only_pem("ssl.truststore", java)
        self._only_pem("ssl.keystore", key)
        if key:
            self._put("ssl.certificate.location", key.value, key.key)
            self._put("ssl.key.location", key.value, key.key)

    def _only_pem(self, store: str, location: _Said | None) -> None:
        given, password = (self.said.get(f"{store}.{of}") for of in ("type", "password"))
        path = str(location.value) if location else store.removeprefix("ssl.") + ".jks"
        guess = known.store_type(Path(path)) if location else "PEM"
        kind = str(given.value).strip().upper() if given else guess
        if kind != "PEM":
            raise UntranslatableProperty(
                location.key if location else f"{store}.type",
                where=self.where,
                reason=f"librdkafka does not read a {kind} store",
                hint=known.pem_conversion(store, path, kind),
            )
        if password is not None:
            needed = "no password: PEM stores have none; a key's is ssl.key.password"
            raise self._bad(password.key, HIDDEN, needed)

    def _bad(self, key: str, found: object, needed: str) -> BadValue:
        return BadValue(key, found=found, needed=needed, where=self.where)

    def _no_jaas(self, why: str, hint: str) -> UntranslatableProperty:
        return UntranslatableProperty("sasl.jaas.config", where=self.where, reason=why, hint=hint)


def _canonical(name: str, value: str | int, key: str, where: str) -> str | int:
    text = str(value)
    if name == "bootstrap.servers":
        return _brokers(text, key, where)
    if name == "sasl.mechanism":
        return _mechanism(text.strip().upper(), key, where)
    if name == _EXTENSIONS:
        pairs = sorted(pair.strip() for pair in text.split(","))
        if not all(re.fullmatch("[A-Za-z]+=.+", pair) for pair in pairs):
            raise BadValue(key, found=text, needed="name=value,name=value…", where=where)
        return ",".join(pairs)
    if name.endswith(".pem"):
        return known.pem_blocks(text)
    return (text or "none") if name == HOSTNAME else value


def _brokers(text: str, key: str, where: str) -> str:
    brokers = [broker.strip() for broker in text.split(",")]
    # The clients take a port modulo 65536, and would connect to another server.
    if not all(each and 0 < int(each[1]) < 65_536 for each in map(_BROKER.fullmatch, brokers)):
        remember_logins(text)
        found = text if "@" not in text else f"{HIDDEN}@{text.rpartition('@')[2]}"
        needed = "host:port, or host:port,host:port…; ports are 1 to 65535"
        raise BadValue(key, found=found, needed=needed, where=where)
    return ",".join(brokers)


def _mechanism(name: str, key: str, where: str) -> str:
    if name not in _LOGIN_MODULES:
        reason = _UNUSABLE.get(name, f"{name} is not a mechanism that both clients support")
        hint = f"use {_MECHANISMS}, or a client certificate with security.protocol=SSL"
        raise UntranslatableProperty(key, where=where, reason=reason, hint=hint)
    return name


def _wrong(said: KafkaConnection) -> Iterator[tuple[str, object, str]]:
    """Return what does not fit together: property, value, and what is needed."""
    yield from _wrong_login(said)
    names = said._said().keys()
    if not said.protocol.endswith("SSL"):
        for name in sorted(name for name in names if name.startswith("ssl.")):
            yield "security.protocol", said.protocol, f"SSL or SASL_SSL, because {name} is given"
    for part in _PEM:
        if {f"ssl.{part}.location", f"ssl.{part}.pem"} <= names:
            yield f"ssl.{part}.location", getattr(said, f"{part}_location"), "this, or PEM text"
    certificate = said.certificate_location or said.certificate_pem
    key = said.key_location or said.key_pem
    if key and not certificate:
        yield "ssl.certificate.location", None, "the certificate of the private key"
    if not key and (certificate or said.key_password):
        yield "ssl.key.location", None, "the private key of the certificate"
    for less, less_default, more, more_default in known.ORDERED:
        low, high = said.tuning.get(less, less_default), said.tuning.get(more, more_default)
        if {less, more} & said.tuning.keys() and int(low) > int(high):
            yield less, low, f"at most {more}, which is {high}"


def _wrong_login(said: KafkaConnection) -> Iterator[tuple[str, object, str]]:
    given = sorted(name for name in said._said() if name.startswith("sasl."))
    if not said.protocol.startswith("SASL"):
        for name in given:
            yield "security.protocol", said.protocol, f"SASL_SSL, because {name} is given"
    elif said.mechanism is None:
        needed = f"one of {_MECHANISMS}, because security.protocol is {said.protocol}"
        yield "sasl.mechanism", None, needed
    else:
        oauth = said.mechanism == "OAUTHBEARER"
        mine = "sasl.oauthbearer." if oauth else ("sasl.username", "sasl.password")
        for name in given:
            if name != "sasl.mechanism" and not name.startswith(mine):
                yield "sasl.mechanism", said.mechanism, f"one that takes {name}, which is given"
        owns = ("client_id", "client_secret", "token_endpoint_url") if oauth else ()
        for own in [f"oauth_{own}" for own in owns] or ["username", "password"]:
            if not getattr(said, own):
                yield _FIELDS[own], None, f"a value, because sasl.mechanism is {said.mechanism}"
        url = said.oauth_token_endpoint_url
        if url is not None and (not _safe_url(url) or is_behind_host(urlsplit(url))):
            yield _FIELDS["oauth_token_endpoint_url"], url, "an https:// address"


def _safe_url(url: str) -> bool:
    # The secret is sent there, and `file:` would make Java read any file (CVE-2025-27817).
    remember_logins(url)  # Errors of a client quote it.
    parts = urlsplit(url)
    local = parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")
    return bool(parts.hostname) and (parts.scheme == "https" or local)


def _check_pem(said: KafkaConnection, where: str) -> None:
    for part, label in _PEM.items():
        location, text = getattr(said, f"{part}_location"), getattr(said, f"{part}_pem")
        name = f"ssl.{part}.{'pem' if location is None else 'location'}"
        if location is not None:
            try:
                text = known.read_pem(Path(location))
            except OSError as exc:
                needed = f"a readable PEM file ({exc.strerror})"
                raise BadValue(name, found=location, needed=needed, where=where) from exc
        if text is not None and f"{label}-----" not in text:
            needed = f"PEM with a BEGIN {label}"
            raise BadValue(name, found=location or HIDDEN, needed=needed, where=where)
        if text is not None and part == "key":
            _check_key(text, said, name, where)


def _check_key(text: str, said: KafkaConnection, name: str, where: str) -> None:
    if not re.search("BEGIN (ENCRYPTED )?PRIVATE KEY", text):
        hint = known.pem_conversion("ssl.key", said.key_location or "client.key", "PKCS#1")
        reason = "Java reads private keys only in PKCS#8"
        raise UntranslatableProperty(name, where=where, reason=reason, hint=hint)
    if ("BEGIN ENCRYPTED" in text) != (said.key_password is not None):
        found = None if said.key_password is None else HIDDEN
        needed = "the key's pass phrase" if found is None else "nothing, the key is not encrypted"
        raise BadValue("ssl.key.password", found=found, needed=needed, where=where)

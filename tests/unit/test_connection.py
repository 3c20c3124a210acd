"""One connection, read from either client's spelling and rendered for both."""

import logging
import pickle
from pathlib import Path

import pytest
from confluent_kafka import Producer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from playhead import secrets
from playhead.config.kafka_connection import KafkaConnection
from playhead.config.kafka_properties import (
    BY_NAME,
    KNOWN_PROPERTIES,
    ORDERED,
)
from playhead.errors import BadValue, MissingPiece
from tests.fix_tls import Tls
from tests.unit.spellings import BROKERS, JAAS, OAUTH, PLAIN, Properties, read, strings

# --- the same connection in both spellings -----------------------------------------------------

# Everything a C string and a JAAS string can hold.
SECRET = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)
PRINTABLE_SECRET = st.text(st.characters(codec="ascii", exclude_categories=["C"]))
TUNING_ROWS = [row for row in KNOWN_PROPERTIES if row.low is not None]


def jaas_of(module: str, **options: str) -> str:
    # Escapes every printable character, which the code under test never does.
    def quoted(value: str) -> str:
        plain = {"\n": "\\n", "\r": "\\r"}
        return "".join(plain.get(c, c if c.isalnum() else f"\\{c}") for c in value)

    said = " ".join(f"{name}='{quoted(value)}'" for name, value in options.items())
    return f"{JAAS}{module} required {said} ;"


@st.composite
def logins(draw: st.DrawFn) -> tuple[Properties, Properties]:
    """A login as librdkafka says it and as Java says it."""
    mechanism = draw(st.sampled_from(["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]))
    user, password = draw(SECRET), draw(SECRET)
    both = {"sasl.mechanism": mechanism}
    if mechanism != "OAUTHBEARER":
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        return (
            both | {"sasl.username": user, "sasl.password": password},
            both | {"sasl.jaas.config": jaas_of(module, username=user, password=password)},
        )
    both["sasl.oauthbearer.token.endpoint.url"] = "https://127.0.0.1:1/token"
    module = "oauthbearer.OAuthBearerLoginModule"
    jaas = jaas_of(module, clientSecret=password, clientId=user, scope="s", extension_b="2",
                   extension_a="1")  # fmt: skip
    handler = JAAS + "oauthbearer.OAuthBearerLoginCallbackHandler"
    return (
        both
        | {"sasl.oauthbearer.client.id": user, "sasl.oauthbearer.client.secret": password}
        | {"sasl.oauthbearer.scope": "s", "sasl.oauthbearer.extensions": "b=2, a=1"}
        | {"sasl.oauthbearer.method": "oidc"},
        both | {"sasl.jaas.config": jaas, "sasl.login.callback.handler.class": handler},
    )


@st.composite
def tunings(draw: st.DrawFn) -> tuple[Properties, Properties]:
    rows = draw(st.lists(st.sampled_from(TUNING_ROWS), unique_by=lambda row: row.name))
    values = {row.name: draw(st.integers(row.low, row.high)) for row in rows}
    for less, less_default, more, more_default in ORDERED:
        if values.get(less, less_default) > values.get(more, more_default):
            values = {name: value for name, value in values.items() if name not in (less, more)}
    librdkafka, java = {}, {}
    for name, value in values.items():
        row = BY_NAME[name]
        off = row.low == -1 and value <= 0
        librdkafka[row.librdkafka or name] = "0" if off else str(value)
        java[row.java or name] = "-1" if off else str(value)
    return librdkafka, java


@st.composite
def tls_settings(draw: st.DrawFn, tls: Tls) -> tuple[Properties, Properties]:
    kind = draw(st.sampled_from(["none", "file", "text", "sealed text"]))
    librdkafka, java = {"ssl.endpoint.identification.algorithm": "https"}, {}
    if draw(st.booleans()):
        librdkafka["ssl.endpoint.identification.algorithm"] = "none"
        java["ssl.endpoint.identification.algorithm"] = ""
    if draw(st.booleans()):
        librdkafka["ssl.ca.location"] = java["ssl.truststore.location"] = str(tls.ca)
        java["ssl.truststore.type"] = "PEM"
    if kind == "file":
        librdkafka |= {
            "ssl.certificate.location": str(tls.both),
            "ssl.key.location": str(tls.both),
        }
        java |= {"ssl.keystore.location": str(tls.both), "ssl.keystore.type": "PEM"}
    elif kind != "none":
        key = (tls.encrypted if kind == "sealed text" else tls.key).read_text()
        chain = tls.chain.read_text()
        librdkafka |= {"ssl.key.pem": key, "ssl.certificate.pem": chain}
        java |= {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain}
        if kind == "sealed text":
            librdkafka["ssl.key.password"] = java["ssl.key.password"] = "pass phrase"
    return librdkafka, java


@st.composite
def spellings(draw: st.DrawFn, tls: Tls) -> tuple[Properties, Properties]:
    """One connection as librdkafka says it and as Java says it."""
    protocol = draw(st.sampled_from(["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]))
    parts = [draw(tunings())]
    parts += [draw(logins())] if protocol.startswith("SASL") else []
    parts += [draw(tls_settings(tls))] if protocol.endswith("SSL") else []
    librdkafka = {"metadata.broker.list": BROKERS, "security.protocol": protocol.lower()}
    java = {"bootstrap.servers": f" {BROKERS} ", "security.protocol": protocol}
    for ours, theirs in parts:
        librdkafka |= ours
        java |= theirs
    return librdkafka, java


def law(**more: object) -> settings:
    # Key pairs are made once, not for each example.
    return settings(suppress_health_check=[HealthCheck.function_scoped_fixture], **more)  # type: ignore[arg-type]


@law(deadline=None)
@given(data=st.data())
def test_both_spellings_are_the_same_connection_and_both_come_back(
    data: st.DataObject, tls: Tls
) -> None:
    librdkafka, java = data.draw(spellings(tls))
    connection = read(librdkafka, references=False)
    assert read(java, references=False) == connection
    assert read(librdkafka | java, references=False) == connection
    assert read(connection.for_java(), references=False) == connection
    assert read(strings(connection.for_librdkafka()), references=False) == connection
    assert pickle.loads(pickle.dumps(connection)) == connection  # noqa: S301
    assert hash(connection) == hash(read(java, references=False))


@law(deadline=None, max_examples=40)
@given(data=st.data())
def test_librdkafka_takes_whatever_is_rendered(data: st.DataObject, tls: Tls) -> None:
    connection = read(data.draw(spellings(tls))[0], references=False)
    silent = logging.Logger("silent", level=logging.CRITICAL + 1)
    Producer(connection.for_librdkafka("producer"), logger=silent)
    Producer(connection.for_librdkafka(), logger=silent)


@pytest.mark.parametrize("login", ["PLAIN", "OAUTH"])
def test_secrets_are_never_shown(login: str) -> None:
    key = {"PLAIN": "sasl.password", "OAUTH": "sasl.oauthbearer.client.secret"}[login]
    given = {"PLAIN": PLAIN | {"sasl.username": "me"}, "OAUTH": OAUTH}[login]
    marked = "s3cr3t\"\\;'geheim"
    connection = read(given | {"bootstrap.servers": BROKERS, key: marked})
    assert connection.shown()[key] == secrets.HIDDEN
    shown = f"{connection!r} {connection} {connection.shown()}"
    # The rendered ones hold it of course, but redaction finds it, also as JAAS quotes it.
    shown += secrets.redact(f"{connection.for_java()['sasl.jaas.config']}")
    shown += secrets.redact(str(connection.for_librdkafka()[key]))
    assert "geheim" not in shown
    assert "s3cr3t" not in shown


@given(PRINTABLE_SECRET)
def test_no_password_is_in_the_repr(password: str) -> None:
    marked = f"<<{password}>>"
    connection = read(PLAIN | {"sasl.username": "me", "sasl.password": marked}, references=False)
    assert marked not in f"{connection!r}"
    assert marked not in str(connection.shown())


def test_a_private_key_is_never_shown(tls: Tls) -> None:
    text = tls.encrypted.read_text()
    connection = read(
        {"ssl.key.pem": text, "ssl.certificate.pem": tls.chain.read_text()}
        | {"ssl.key.password": "pass phrase", "security.protocol": "SSL"}
    )
    assert text.splitlines()[1] not in f"{connection!r}"
    assert "pass phrase" not in f"{connection!r}"
    assert connection.shown()["ssl.certificate.pem"] == "inline PEM (1 certificates)"


# --- rendering ---------------------------------------------------------------------------------

SCRAM = {
    "bootstrap.servers": "a:1, b:2",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "me",
    "sasl.password": 'p"w\\;',
}


def test_what_java_is_given() -> None:
    assert read(SCRAM | {"ssl.endpoint.identification.algorithm": "none"}).for_java() == {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f"{JAAS}scram.ScramLoginModule required "
        'username="me" password="p\\"w\\\\;";',
        "ssl.endpoint.identification.algorithm": "",
    }


def test_what_librdkafka_is_given() -> None:
    tuning = {"receive.buffer.bytes": "-1", "request.timeout.ms": "9000", "linger.ms": "5"}
    assert read(SCRAM | tuning).for_librdkafka("consumer") == SCRAM | {
        "bootstrap.servers": "a:1,b:2",
        "socket.receive.buffer.bytes": 0,
        "socket.timeout.ms": 9000,
    }


def test_a_certificate_and_key_in_two_files_reach_java_as_text(tls: Tls) -> None:
    connection = read(
        {"bootstrap.servers": BROKERS, "security.protocol": "SSL", "ssl.ca.location": str(tls.ca)}
        | {"ssl.certificate.location": str(tls.chain), "ssl.key.location": str(tls.key)}
    )
    java = connection.for_java()
    assert java["ssl.keystore.key"] == tls.key.read_text()
    assert java["ssl.truststore.location"] == str(tls.ca)
    assert read(java) == connection.inlined("certificate", "key")
    assert read(java).inlined() == connection.inlined()
    assert "location" not in " ".join(connection.inlined().for_librdkafka())


def test_no_broker_is_no_client() -> None:
    connection = read({})
    assert connection == KafkaConnection()
    for render in (connection.for_java, connection.for_librdkafka):
        with pytest.raises(MissingPiece, match="a broker's address"):
            render()
    reached = connection.with_bootstrap_servers("[::1]:9092", where="-b")
    assert reached.for_java()["bootstrap.servers"] == "[::1]:9092"
    with pytest.raises(BadValue, match=r"bootstrap\.servers in -b is 'nowhere'"):
        connection.with_bootstrap_servers("nowhere", where="-b")


# --- references --------------------------------------------------------------------------------


def test_secrets_by_reference(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", 'from "env"; x')
    file = tmp_path / "password"
    file.write_text("from a file\n")
    jaas = f"{JAAS}plain.PlainLoginModule required username=me password="
    plain = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}

    def password(**said: str) -> str | None:
        return read(plain | {key.replace("_", "."): value for key, value in said.items()}).password

    assert password(sasl_username="me", sasl_password="${KAFKA_PASSWORD}") == 'from "env"; x'
    assert password(sasl_username="me", sasl_password=f"file:{file}") == "from a file"
    # A value from outside stays inside its quotes.
    assert password(sasl_jaas_config=jaas + '"${KAFKA_PASSWORD}";') == 'from "env"; x'
    assert password(sasl_jaas_config=jaas + f'"file:{file}";') == "from a file"
    file.write_text(jaas + '"literal ${KAFKA_PASSWORD}";')
    assert password(sasl_jaas_config=f"file:{file}") == "literal ${KAFKA_PASSWORD}"
    monkeypatch.setenv("JAAS", jaas + "short;")
    assert password(sasl_jaas_config="${JAAS}") == "short"


def test_references_are_followed_only_where_they_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", "ber-lin")
    assert read({"client.id": "file:${PLACE}"}).tuning["client.id"] == "file:ber-lin"
    literal = read({"client.id": "${PLACE}"}, references=False)
    assert literal.tuning["client.id"] == "${PLACE}"
    monkeypatch.delenv("PLACE")
    with pytest.raises(BadValue, match="environment variable PLACE to be set"):
        read({"client.id": "${PLACE}"})

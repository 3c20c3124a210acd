"""What a connection refuses, and in which words."""

from pathlib import Path

import pytest

from playhead.config.kafka_properties import (
    BY_SPELLING,
    parse_properties,
)
from playhead.errors import BadValue, UnknownKey, UntranslatableProperty
from tests.fix_tls import Tls
from tests.unit.spellings import JAAS, OAUTH, PLAIN, SASL, SSL, Properties, read

# --- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"bootstrap.servers": "localhost"}, "'localhost'; needed: host:port"),
        ({"bootstrap.servers": "a:1,"}, "needed: host:port"),
        ({"bootstrap.servers": "a:99999"}, "'a:99999'; needed: host:port, or host:p"),
        ({"bootstrap.servers": "a:1,b:0"}, "ports are 1 to 65535"),
        ({"bootstrap.servers": "[::1]:65536"}, "ports are 1 to 65535"),
        (SASL, "sasl.mechanism in here is None; needed: one of PLAIN, SCRAM-SHA-256,"),
        (PLAIN, "sasl.username in here is None; needed: a value, because sasl.mechanism is PLAIN"),
        (PLAIN | {"sasl.username": "me"}, "sasl.password in here is None"),
        (SSL | {"sasl.password": "hidden"}, "'SSL'; needed: SASL_SSL, because sasl.password"),
        ({"sasl.mechanism": "PLAIN"}, "'PLAINTEXT'; needed: SASL_SSL, because sasl.mechanism"),
        ({"ssl.key.password": "hidden"}, "'PLAINTEXT'; needed: SSL or SASL_SSL, because ssl.key"),
        (SSL | {"ssl.key.password": "hidden"}, "ssl.key.location in here is None"),
        (SSL | {"ssl.keystore.key": "{key}"}, "ssl.certificate.location in here is None"),
        (SSL | {"ssl.certificate.location": "{chain}"}, "ssl.key.location in here is None"),
        (SSL | {"ssl.ca.location": "{key}"}, "key'; needed: PEM with a BEGIN CERTIFICATE"),
        (SSL | {"ssl.ca.location": "/no/such"}, "needed: a readable PEM file (No such file"),
        (SSL | {"ssl.ca.location": "{ca}", "ssl.ca.pem": "{ca}"}, "needed: this, or PEM text"),
        (SSL | {"ssl.truststore.location": "{ca}", "ssl.truststore.password": "hidden"},
         "ssl.truststore.password in here is '********'; needed: no password"),
        (SSL | {"ssl.key.location": "{sealed}", "ssl.certificate.location": "{chain}"},
         "ssl.key.password in here is None; needed: the key's pass phrase"),
        (SSL | {"ssl.keystore.location": "{both}", "ssl.key.password": "hidden"},
         "needed: nothing, the key is not encrypted"),
        (SSL | {"enable.ssl.certificate.verification": "false"}, "'false'; needed: true"),
        (OAUTH | {"sasl.oauthbearer.token.endpoint.url": "file:///etc/passwd"}, "an https://"),
        (OAUTH | {"sasl.oauthbearer.token.endpoint.url": "http://login/"}, "an https://"),
        (OAUTH | {"sasl.oauthbearer.token.endpoint.url": "https://me:/secret@login/"}, "an https://"),
        (OAUTH | {"sasl.oauthbearer.extensions": "a=1,b"}, "'a=1,b'; needed: name=value,"),
        (OAUTH | {"sasl.username": "me"}, "'OAUTHBEARER'; needed: one that takes sasl.username"),
        (OAUTH | {"sasl.mechanism": "PLAIN"}, "one that takes sasl.oauthbearer.client.id"),
        (OAUTH | {"sasl.login.callback.handler.class": "evil.Class"}, "'evil.Class'; needed: org"),
        (PLAIN | {"sasl.jaas.config": f"{JAAS}scram.ScramLoginModule required;"},
         f"sasl.mechanism in here is 'PLAIN'; needed: one for {JAAS}scram.ScramLoginModule"),
        ({"reconnect.backoff.ms": "20000"}, "needed: at most reconnect.backoff.max.ms, which is"),
        ({"reconnect.backoff.max.ms": "50"}, "reconnect.backoff.ms in here is 100"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together(properties: Properties, message: str, tls: Tls) -> None:
    files = {"{ca}": tls.ca, "{chain}": tls.chain, "{key}": tls.key, "{both}": tls.both}
    files["{sealed}"] = tls.encrypted
    with pytest.raises(BadValue) as caught:
        read({
            key: files[value].read_text() if value in files and key.endswith((".pem", "e.key"))
            else str(files.get(value, value))
            for key, value in properties.items()
        })  # fmt: skip
    assert message in str(caught.value)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("properties", "first", "second"),
    [
        ({"bootstrap.servers": "a:1", "metadata.broker.list": "b:1"}, "bootstrap.servers", "b:1"),
        (SSL | {"ssl.truststore.certificates": "x", "ssl.ca.pem": "-----BEGIN A-----b"
         "-----END A-----"}, "ssl.truststore.certificates", "inline PEM"),
        ({"request.timeout.ms": "5000", "socket.timeout.ms": "6000"}, "request.timeout.ms", "6000"),
        (PLAIN | {"sasl.password": "hidden1", "sasl.jaas.config":
         f"{JAAS}plain.PlainLoginModule required username=me password=hidden2;"},
         "sasl.password", "sasl.jaas.config"),
    ],
)  # fmt: skip
def test_contradictions_name_both(properties: Properties, first: str, second: str) -> None:
    with pytest.raises(BadValue) as caught:
        read(properties)
    assert first in str(caught.value)
    assert second in str(caught.value)
    assert "hidden" not in str(caught.value)


TRUST_STORE_HINT = (
    "keytool -importkeystore -srckeystore '/etc/my trust.jks' -srcstoretype JKS -destkeystore "
    "'/etc/my trust.p12' -deststoretype PKCS12 && openssl pkcs12 -in '/etc/my trust.p12' "
    "-nokeys -out '/etc/my trust.pem', then ssl.truststore.type=PEM and "
    "ssl.truststore.location='/etc/my trust.pem'"
)
KEY_STORE_HINT = (
    "openssl pkcs12 -in me.p12 -out me.pem, then ssl.keystore.type=PEM, "
    "ssl.keystore.location=me.pem and the pass phrase you gave as ssl.key.password"
)


@pytest.mark.parametrize(
    ("properties", "reason", "hint"),
    [
        ({"sasl.mechanism": "gssapi"}, "Kerberos", "SCRAM-SHA-512"),
        ({"sasl.mechanism": "AWS_MSK_IAM"}, "a Java class of Amazon's", "client certificate"),
        ({"sasl.mechanism": "NTLM"}, "NTLM is not a mechanism", "SCRAM-SHA-512"),
        (PLAIN | {"sasl.jaas.config": "com.sun.security.auth.module.JndiLoginModule required;"},
         "JndiLoginModule is not allowed", f"use {JAAS}oauthbearer.OAuthBearerLoginModule, "),
        (PLAIN | {"sasl.jaas.config": f"x.{JAAS}plain.PlainLoginModule required;"},
         "is not allowed", "PlainLoginModule"),
        (SASL | {"sasl.mechanism": "SCRAM-SHA-256",
                 "sasl.jaas.config": f"{JAAS}scram.ScramLoginModule required tokenauth=true;"},
         "its option tokenauth", "leave the option out"),
        (OAUTH | {"sasl.jaas.config":
                  f"{JAAS}oauthbearer.OAuthBearerLoginModule required extension_a='1,2';"},
         "its option extension_a", "leave the option out"),
        (SSL | {"ssl.truststore.location": "/etc/my trust.jks"}, "JKS store",
         TRUST_STORE_HINT),
        (SSL | {"ssl.keystore.location": "me.p12", "ssl.keystore.password": "hidden"}, "PKCS12",
         KEY_STORE_HINT),
        (SSL | {"ssl.keystore.type": "jks", "ssl.keystore.location": "me.pem"}, "JKS", "keytool"),
        (SSL | {"ssl.key.location": "{pkcs1}", "ssl.certificate.location": "{chain}"},
         "PKCS#8", "openssl pkcs8 -topk8 -in {pkcs1}"),
        ({"group.id": "mine"}, "Playhead sets this itself", "leave it out"),
    ],
)  # fmt: skip
def test_what_cannot_be_carried_to_both(
    properties: Properties, reason: str, hint: str, tls: Tls
) -> None:
    def filled(text: str) -> str:
        return text.replace("{pkcs1}", str(tls.pkcs1)).replace("{chain}", str(tls.chain))

    with pytest.raises(UntranslatableProperty) as caught:
        read({key: filled(value) for key, value in properties.items()})
    assert reason in caught.value.reason
    assert filled(hint) in (caught.value.hint or "")
    assert "hidden" not in f"{caught.value} {caught.value.hint}"


def test_a_pem_store_is_known_by_its_content(tls: Tls, tmp_path: Path) -> None:
    odd = tmp_path / "truststore"
    odd.write_bytes(tls.ca.read_bytes())
    assert read(SSL | {"ssl.truststore.location": str(odd)}).ca_location == str(odd)
    odd.write_bytes(b"\xfe\xed\xfe\xed")
    with pytest.raises(UntranslatableProperty, match="JKS"):
        read(SSL | {"ssl.truststore.location": str(odd)})


def test_the_shaded_login_module_of_databricks_is_the_same() -> None:
    jaas = f"kafkashaded.{JAAS}plain.PlainLoginModule required username=me password=pw;"
    assert read(PLAIN | {"sasl.jaas.config": jaas}).username == "me"


def test_an_unknown_key_names_where_and_the_nearest() -> None:
    with pytest.raises(UnknownKey, match=r"'sasl.pasword' in here") as caught:
        read({"sasl.pasword": "hidden"})
    assert caught.value.nearest[0] == "sasl.password"


@pytest.mark.parametrize("key", BY_SPELLING)
def test_every_known_key_is_understood_or_refused_on_purpose(key: str) -> None:
    row = BY_SPELLING[key]
    value = row.choices[0] if row.choices else "x" if row.low is None else str(row.low)
    try:
        read({key: value})
    except (BadValue, UntranslatableProperty) as exc:
        assert exc.where == "here"  # noqa: PT017


def test_from_a_file_as_people_write_it(tls: Tls) -> None:
    key = "\\\n  ".join(tls.key.read_text().splitlines())
    text = f"""
        # a key on one line, as Kafka's documentation shows it
        bootstrap.servers = a:1,\\
                            b:2
        security.protocol = SSL
        ssl.keystore.type = PEM
        ssl.keystore.key = {key}
        ssl.keystore.certificate.chain = {tls.chain.read_text().replace(chr(10), " ")}
    """
    connection = read(parse_properties(text, where="client.properties"))
    assert connection.key_pem == tls.key.read_text()
    assert connection.certificate_pem == tls.chain.read_text()

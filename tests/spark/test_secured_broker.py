"""One connection, written down once, lets both clients into a broker that wants TLS, PLAIN or SCRAM."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trustme
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import BrokerUnavailable
from playhead.host.clock import SystemClock, wait_until
from playhead.kafka.admin.client import Admin
from playhead.sandbox import Sandbox
from playhead.sandbox.folder import free_port
from playhead.spark.stream import Stream, StreamSpec, _options
from playhead.spark.stream_reader import topic_frame
from playhead.spark.task_secrets import handing
from playhead.testing.kafka_writer import Writer
from playhead.transform.transform import Transform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PASSWORD = 'pa"ss; w\\ord'
TOPIC = "secured"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True)
class Secured:
    """Where the listeners are, and the files a client needs."""

    sasl: str
    tls: str
    ca: Path
    certificate: Path
    key: Path


def as_pkcs8(key: bytes) -> str:
    loaded = load_pem_private_key(key, None)
    return loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def one_line(pem: str) -> str:
    return pem.replace("\n", "\\n")


def in_properties(jaas: str) -> str:
    """As a value of a .properties file, where a backslash has to be doubled."""
    return jaas.replace("\\", "\\\\")


def quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def broker_settings(authority: trustme.CA, sasl_port: int, tls_port: int) -> dict[str, str]:
    server = authority.issue_cert("127.0.0.1", "localhost")
    chain = "".join(part.bytes().decode() for part in server.cert_chain_pems)
    loopback = "127.0.0.1"
    own = f"PLAINTEXT://{loopback}:{{broker_port}}"
    others = f"SASLED://{loopback}:{sasl_port},TLSED://{loopback}:{tls_port}"
    plain = f'{PLAIN} required username="x" password="x" user_alice="{quoted(PASSWORD)}";'
    return {
        "listeners": f"{own},CONTROLLER://{loopback}:{{controller_port}},{others}",
        "advertised.listeners": f"{own},{others}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "SASLED:SASL_SSL,TLSED:SSL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasled.plain.sasl.jaas.config": in_properties(plain),
        "listener.name.sasled.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
        "listener.name.tlsed.ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": one_line(as_pkcs8(server.private_key_pem.bytes())),
        "ssl.keystore.certificate.chain": one_line(chain),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": one_line(authority.cert_pem.bytes().decode()),
    }


def write_client_files(authority: trustme.CA, folder: Path) -> tuple[Path, Path, Path]:
    client = authority.issue_cert("client.example")
    chain = "".join(part.bytes().decode() for part in client.cert_chain_pems)
    contents = {
        "ca.pem": authority.cert_pem.bytes().decode(),
        "client.pem": chain,
        "client.key": as_pkcs8(client.private_key_pem.bytes()),
    }
    for name, text in contents.items():
        (folder / name).write_text(text)
    return folder / "ca.pem", folder / "client.pem", folder / "client.key"


@pytest.fixture(scope="module")
def secured(servers_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    authority = trustme.CA()
    sasl_port, tls_port = free_port(), free_port()
    files = write_client_files(authority, tmp_path_factory.mktemp("client"))
    settings = broker_settings(authority, sasl_port, tls_port)
    with Sandbox(servers_folder / "secured", broker_settings=settings).running() as endpoints:
        connection = KafkaConnection(endpoints.bootstrap_servers)
        with Admin(connection) as admin:
            admin.create_topic(TOPIC, partitions=1)
        with Writer(connection) as writer:
            writer.write(TOPIC, key=b"k", value=b"v", timestamp_ms=1)
        _add_scram_user(connection)
        yield Secured(f"127.0.0.1:{sasl_port}", f"127.0.0.1:{tls_port}", *files)


def _add_scram_user(connection: KafkaConnection) -> None:
    client = AdminClient(connection.for_librdkafka("client"))
    wanted = UserScramCredentialUpsertion(
        "alice", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), PASSWORD.encode()
    )
    client.alter_user_scram_credentials([wanted])["alice"].result(30)


def java_spelling(secured: Secured, mechanism: str) -> dict[str, str]:
    module = PLAIN if mechanism == "PLAIN" else SCRAM
    return {
        "bootstrap.servers": secured.sasl,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="alice" password="{quoted(PASSWORD)}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(secured.ca),
    }


def librdkafka_spelling(secured: Secured, mechanism: str) -> dict[str, str]:
    return {
        "metadata.broker.list": secured.sasl,
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": mechanism,
        "sasl.username": "alice",
        "sasl.password": PASSWORD,
        "ssl.ca.location": str(secured.ca),
    }


def assert_both_get_in(connection: KafkaConnection, spark: "SparkSession") -> None:
    with Admin(connection) as admin:
        assert admin.cluster().topics == {TOPIC: 1}
    rows = topic_frame(spark, connection, TOPIC).select("value").collect()
    assert [bytes(row.value) for row in rows] == [b"v"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("spelling", [java_spelling, librdkafka_spelling])
def test_sasl_over_tls(secured: Secured, spark: "SparkSession", mechanism: str, spelling) -> None:  # type: ignore[no-untyped-def]
    properties = spelling(secured, mechanism)
    assert_both_get_in(KafkaConnection.from_properties(properties, where="test"), spark)


def test_a_stream_gets_in_and_its_plan_has_no_password(
    secured: Secured, spark: "SparkSession", tmp_path: Path
) -> None:
    said = librdkafka_spelling(secured, "SCRAM-SHA-512")
    connection = KafkaConnection.from_properties(said, where="test")
    tape = StreamSpec(connection, {(TOPIC, 0): 0}, Transform(), trigger_ms=None)
    found: list[bytes] = []
    plans: list[str] = []

    def on_round(frame: "DataFrame", number: int) -> None:
        plans.append(frame._jdf.queryExecution().toString())
        found.extend(bytes(row.value) for row in frame.select("value").collect())

    stream = Stream(spark, tmp_path / "notes")
    stream.start("secured", tape, on_round)
    try:
        assert wait_until(
            lambda: not stream.is_active(), deadline_s=60, clock=SystemClock(), every_s=0.05
        )
    finally:
        stream.stop()
    assert found == [b"v"]
    with handing(spark) as handover:
        told = [*plans, str(_options(tape, handover))]
    for secret in (PASSWORD, quoted(PASSWORD), PASSWORD[:5]):
        assert not [each for each in told if secret in each]


def test_a_client_certificate(secured: Secured, spark: "SparkSession") -> None:
    properties = {
        "bootstrap.servers": secured.tls,
        "security.protocol": "SSL",
        "ssl.ca.location": str(secured.ca),
        "ssl.certificate.location": str(secured.certificate),
        "ssl.key.location": str(secured.key),
    }
    assert_both_get_in(KafkaConnection.from_properties(properties, where="test"), spark)


def test_a_wrong_password_is_said_and_not_shown(secured: Secured) -> None:
    properties = librdkafka_spelling(secured, "PLAIN") | {"sasl.password": "not the right one"}
    connection = KafkaConnection.from_properties(properties, where="test")
    with pytest.raises(BrokerUnavailable) as caught, Admin(connection, timeout_s=5) as admin:
        admin.cluster()
    assert "uthentication" in caught.value.message
    assert "not the right one" not in str(caught.value)

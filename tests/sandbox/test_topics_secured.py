"""Brokers that want TLS, a login or an ACL: log directories over our own socket, and a missing ACL by its name."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest
import trustme
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from playhead.config.context import configure
from playhead.config.guards import Guard
from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import BrokerUnavailable, MissingPiece
from playhead.kafka.admin import topics
from playhead.kafka.admin.answer_fields import Fields
from playhead.kafka.admin.broker_socket import Wire
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.errors import AclMissing, KafkaRefused, Need, needing
from playhead.kafka.admin.log_dirs import sizes, sizes_at_leaders
from playhead.kafka.admin.offsets import describe
from playhead.kafka.groups.commit import commit, forget_offsets
from playhead.kafka.groups.describe import committed
from playhead.kafka.groups.plan import CommittedOffset
from playhead.kafka.produce.console_lines import Outgoing
from playhead.kafka.produce.sender import Sender
from playhead.kafka.read.source import KafkaSource
from playhead.sandbox import Sandbox
from playhead.sandbox.folder import free_port
from playhead.testing.kafka_writer import Writer
from tests.spark.test_secured_broker import (
    PASSWORD,
    Secured,
    broker_settings,
    librdkafka_spelling,
    write_client_files,
)

TOPIC = "secured"


@dataclass(frozen=True)
class Guarded:
    """A broker that allows nobody anything but who comes in plain, and how to come in otherwise."""

    plain: KafkaConnection
    secured: Secured

    def by(self, mechanism: str) -> KafkaConnection:
        properties = librdkafka_spelling(self.secured, mechanism)
        return KafkaConnection.from_properties(properties, where="test")

    def by_certificate(self, *, inlined: bool = False) -> KafkaConnection:
        found = KafkaConnection.from_properties(
            {
                "bootstrap.servers": self.secured.tls,
                "security.protocol": "SSL",
                "ssl.ca.location": str(self.secured.ca),
                "ssl.certificate.location": str(self.secured.certificate),
                "ssl.key.location": str(self.secured.key),
            },
            where="test",
        )
        return found.inlined() if inlined else found

    def allow(self, operation: AclOperation, kind: ResourceType, name: str) -> None:
        rule = AclBinding(
            kind,
            name,
            ResourcePatternType.LITERAL,
            "User:*",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        client = AdminClient(self.plain.for_librdkafka("client"))
        for answer in client.create_acls([rule]).values():
            answer.result(30)


@pytest.fixture(scope="module")
def guarded(servers_folder, tmp_path_factory) -> Iterator[Guarded]:  # type: ignore[no-untyped-def]
    authority = trustme.CA()
    sasl_port, tls_port = free_port(), free_port()
    files = write_client_files(authority, tmp_path_factory.mktemp("client"))
    settings = broker_settings(authority, sasl_port, tls_port) | {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with Sandbox(servers_folder / "guarded", broker_settings=settings).running() as endpoints:
        plain = KafkaConnection(endpoints.bootstrap_servers)
        with Admin(plain) as admin:
            admin.create_topic(TOPIC, partitions=2)
        with Writer(plain) as writer:
            writer.write(TOPIC, key=b"k", value=b"v" * 100, timestamp_ms=1)
        wanted = UserScramCredentialUpsertion(
            "alice", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), PASSWORD.encode()
        )
        client = AdminClient(plain.for_librdkafka("client"))
        client.alter_user_scram_credentials([wanted])["alice"].result(30)
        secured = Secured(f"127.0.0.1:{sasl_port}", f"127.0.0.1:{tls_port}", *files)
        yield Guarded(plain, secured)


def test_each_acl_that_is_missing_is_named_and_each_that_is_there_is_enough(
    guarded: Guarded,
) -> None:
    alice, guard = guarded.by("PLAIN"), Guard(configure({}))
    with Admin(alice) as admin:
        with pytest.raises(AclMissing) as caught:
            topics.create(admin, topics.NewShape("other"), guard)
        assert caught.value.needs == (Need("Create", "topic", "other"),)
        with pytest.raises(AclMissing, match="the cluster does not allow it") as caught:
            topics.describe_topics(admin, [TOPIC])
        assert f"missing ACL: Describe on topic {TOPIC}" in str(caught.value)
        assert (
            f"kafka-acls --add --allow-principal User:NAME --operation Describe --topic {TOPIC}"
            in (caught.value.hint or "")
        )

        guarded.allow(AclOperation.DESCRIBE, ResourceType.TOPIC, TOPIC)
        (found,) = topics.describe_topics(admin, [TOPIC])
        assert len(found.partitions) == 2
        assert found.settings is None, "which may not be read without DescribeConfigs"

        with pytest.raises(AclMissing) as caught:
            topics.delete(admin, TOPIC, guard)
        assert caught.value.needs == (Need("Delete", "topic", TOPIC),)
        wanted = topics.Alteration(TOPIC, settings={"retention.ms": "1"})
        with pytest.raises(AclMissing) as caught:
            topics.alter(admin, wanted, found, guard)
        assert caught.value.needs == (Need("AlterConfigs", "topic", TOPIC),)
        with pytest.raises(AclMissing) as caught:
            sizes(admin, alice, [TOPIC])
        assert caught.value.needs == (Need("Describe", "cluster"),)
        described = describe(admin, [TOPIC])
        assert described[TOPIC].leaders, "there is somebody to ask"
        assert sizes_at_leaders(alice, described) == {TOPIC: {}}, "a plan does without"
    sender = Sender(alice, TOPIC, guard)
    sender.send(Outgoing(1, b"k", b"v"))
    sender.finish()
    assert "Write on topic secured" in sender.failures[0][1]


def test_reading_without_the_acl_names_it(guarded: Guarded) -> None:
    source = KafkaSource(guarded.by("PLAIN"), topics=("hidden",), patience_s=10)
    with pytest.raises(AclMissing) as caught, needing(Need("Read", "topic", "hidden")):
        source.bounds()
    assert "missing ACL: Read on topic hidden" in str(caught.value)


@pytest.mark.parametrize("way", ["PLAIN", "SCRAM-SHA-512", "certificate", "certificate as text"])
def test_sizes_by_every_way_in(guarded: Guarded, way: str) -> None:
    guarded.allow(AclOperation.DESCRIBE, ResourceType.BROKER, "kafka-cluster")
    guarded.allow(AclOperation.DESCRIBE, ResourceType.TOPIC, TOPIC)
    with Admin(guarded.plain) as admin:
        wanted = sizes(admin, guarded.plain, [TOPIC])
    assert len(wanted) == 2
    assert sum(each.size_bytes for each in wanted) > 100
    if way.startswith("certificate"):
        connection = guarded.by_certificate(inlined=way.endswith("text"))
    else:
        connection = guarded.by(way)
    with Admin(connection) as admin:
        assert sizes(admin, connection, [TOPIC]) == wanted
        by_partition = {each.partition: each.size_bytes for each in wanted}
        found = sizes_at_leaders(connection, describe(admin, [TOPIC]))
        assert found == {TOPIC: by_partition}


@pytest.mark.parametrize("way", ["PLAIN", "SCRAM-SHA-512", "certificate"])
def test_offsets_are_deleted_by_every_way_in(guarded: Guarded, way: str) -> None:
    group = f"forgetful-{way.lower()}"
    connection = guarded.by_certificate(inlined=True) if "cert" in way else guarded.by(way)
    with Admin(guarded.plain) as admin:
        commit(admin, group, {(TOPIC, 0): CommittedOffset(1), (TOPIC, 1): CommittedOffset(0)})
    guarded.allow(AclOperation.DESCRIBE, ResourceType.GROUP, group)
    guarded.allow(AclOperation.READ, ResourceType.TOPIC, TOPIC)
    with Admin(connection) as admin:
        with pytest.raises(AclMissing) as caught:
            forget_offsets(admin, connection, group, [(TOPIC, 0)])
        assert caught.value.needs == (Need("Delete", "group", group),)
        guarded.allow(AclOperation.DELETE, ResourceType.GROUP, group)
        forget_offsets(admin, connection, group, [(TOPIC, 0), ("laps", 7)])
        assert committed(admin, group) == {(TOPIC, 1): CommittedOffset(0)}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_said_and_not_shown(guarded: Guarded, mechanism: str) -> None:
    properties = librdkafka_spelling(guarded.secured, mechanism) | {
        "sasl.password": "not the right one"
    }
    wrong = KafkaConnection.from_properties(properties, where="test")
    with pytest.raises(KafkaRefused, match="logging in") as caught:
        closing(Wire(wrong, guarded.secured.sasl, timeout_s=10))
    assert "not the right one" not in str(caught.value)


def test_a_certificate_that_nobody_trusts_ends_it(guarded: Guarded, tmp_path) -> None:  # type: ignore[no-untyped-def]
    other = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    properties = librdkafka_spelling(guarded.secured, "PLAIN") | {"ssl.ca.location": str(other)}
    wrong = KafkaConnection.from_properties(properties, where="test")
    with pytest.raises(BrokerUnavailable, match="CERTIFICATE_VERIFY_FAILED|certificate"):
        closing(Wire(wrong, guarded.secured.sasl, timeout_s=10))


def test_a_login_that_we_do_not_speak_is_refused_out_loud(guarded: Guarded) -> None:
    token = KafkaConnection(
        guarded.secured.sasl, "SASL_SSL", "OAUTHBEARER", ca_location=str(guarded.secured.ca)
    )
    with pytest.raises(MissingPiece, match="OAUTHBEARER") as caught:
        closing(Wire(token, guarded.secured.sasl, timeout_s=10))
    assert "kafka-log-dirs" in (caught.value.hint or "")


def test_a_server_that_is_no_broker_is_told_apart(registry) -> None:  # type: ignore[no-untyped-def]
    address = registry.url.removeprefix("http://")
    with (
        closing(Wire(KafkaConnection(address), address, timeout_s=5)) as wire,
        pytest.raises(BrokerUnavailable),
    ):
        wire.ask(35, 1, b"\xff\xff\xff\xff", Fields.int32)

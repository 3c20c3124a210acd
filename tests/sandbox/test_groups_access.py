"""What a cluster with an authorizer does not allow is named, with the permission that is missing."""

from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from playhead.config.kafka_connection import KafkaConnection
from playhead.host.clock import SystemClock, wait_until
from playhead.kafka.admin.client import Admin
from playhead.kafka.groups.commit import commit
from playhead.kafka.groups.plan import CommittedOffset
from playhead.sandbox import Sandbox
from playhead.sandbox.folder import LOOPBACK, free_port
from tests.fix_capture import StartCapture
from tests.fix_commands import Playhead

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
Guarded = tuple[KafkaConnection, str, CompletedProcess[str]]
GROUP, TOPIC = "guarded-group", "guarded"
WITHIN_S = 30.0


def settings(port: int) -> dict[str, str]:
    """Who comes without a name may do all; alice may do what somebody allows her."""
    own = f"PLAINTEXT://{LOOPBACK}:{{broker_port}}"
    hers = f"NAMED://{LOOPBACK}:{port}"
    return {
        "listeners": f"{own},CONTROLLER://{LOOPBACK}:{{controller_port}},{hers}",
        "advertised.listeners": f"{own},{hers}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,NAMED:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.named.plain.sasl.jaas.config": f'{PLAIN} required user_alice="secret";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }


@pytest.fixture(scope="module")
def guarded(servers_folder: Path, playhead: Playhead) -> Iterator[Guarded]:
    port = free_port()
    with Sandbox(servers_folder / "guarded", broker_settings=settings(port)).running() as endpoints:
        first = playhead("groups", "describe", "nobody", "-b", endpoints.bootstrap_servers)
        connection = KafkaConnection(endpoints.bootstrap_servers)
        with Admin(connection) as admin:
            admin.create_topic(TOPIC, partitions=1)
            producer = Producer(connection.for_librdkafka("producer") | {"log_level": 0})
            producer.produce(TOPIC, b"v")
            producer.flush(WITHIN_S)
            commit(admin, GROUP, {(TOPIC, 0): CommittedOffset(1)})
        yield connection, f"{LOOPBACK}:{port}", first


@pytest.fixture
def as_alice(playhead: Playhead, guarded: Guarded) -> Callable:  # type: ignore[type-arg]
    _, servers, _ = guarded
    login = ["security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.username=alice"]
    login.append("sasl.password=${ALICE}")
    options = [word for each in login for word in ("-X", each)]
    return lambda *words: playhead("groups", *words, "-b", servers, *options, ALICE="secret")


def allow(connection: KafkaConnection, kind: ResourceType, name: str, what: AclOperation) -> None:
    client = AdminClient(connection.for_librdkafka("client"))
    binding = AclBinding(
        kind, name, ResourcePatternType.LITERAL, "User:alice", "*", what, AclPermissionType.ALLOW
    )
    for future in client.create_acls([binding]).values():
        future.result(WITHIN_S)


def test_the_first_question_to_a_new_cluster_waits_for_its_coordinator(guarded: Guarded) -> None:
    """librdkafka would end the process: its issue 5040."""
    _, _, first = guarded
    assert first.returncode == 2, first.stderr
    assert "no consumer group 'nobody'" in first.stderr


def test_the_missing_permission_is_named_step_by_step(
    as_alice: Callable,  # type: ignore[type-arg]
    guarded: Guarded,
) -> None:
    connection, _, _ = guarded
    reset = ["reset", GROUP, "--topic", TOPIC, "--to-earliest", "--yes"]
    steps = [
        ("Describe on group", ResourceType.GROUP, GROUP, AclOperation.DESCRIBE),
        ("Describe on topic", ResourceType.TOPIC, TOPIC, AclOperation.DESCRIBE),
        ("Read on topic", ResourceType.TOPIC, TOPIC, AclOperation.READ),
        ("Read on group", ResourceType.GROUP, GROUP, AclOperation.READ),
    ]
    for needed, kind, name, operation in steps:
        refused = as_alice(*reset)
        assert refused.returncode == 1
        assert f"missing ACL: {needed} {name}" in refused.stderr
        assert f"--operation {operation.name.title()}" in refused.stderr
        allow(connection, kind, name, operation)
    done = as_alice(*reset)
    assert done.returncode == 0, done.stderr
    refused = as_alice("delete", GROUP, "--yes")
    assert f"missing ACL: Delete on group {GROUP}" in refused.stderr
    undone = as_alice("undo", GROUP, "--yes")
    assert undone.returncode == 0, undone.stderr
    described = as_alice("describe", GROUP)
    assert described.returncode == 0, described.stderr
    assert "times of commits are unknown" in described.stderr


def test_a_login_passes_through_the_capture_proxy_and_is_not_written_down(
    guarded: Guarded, start_capture: StartCapture
) -> None:
    connection, named, _ = guarded
    allow(connection, ResourceType.TOPIC, TOPIC, AclOperation.READ)
    capturing = start_capture(upstream=named)
    login = {
        "bootstrap.servers": capturing.place, "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "secret",
    }  # fmt: skip
    more = {"group.id": "none", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer(login | more)
    consumer.assign([TopicPartition(TOPIC, 0, 0)])

    def value() -> bytes | None:
        found = consumer.poll(1)  # an error until the permission has come everywhere
        return None if found is None or found.error() is not None else found.value()

    assert wait_until(value, deadline_s=WITHIN_S, clock=SystemClock(), every_s=0.1) == b"v"
    consumer.close()
    assert capturing.stop()["undecodable"] == {}
    assert "SaslAuthenticate" in {pair["command"] for pair in capturing.pairs()}
    raw = b"".join(file.read_bytes() for file in capturing.folder.iterdir())
    assert b"secret" not in raw
    assert b64encode(b"\0alice\0secret") not in raw

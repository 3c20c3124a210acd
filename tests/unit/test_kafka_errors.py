"""One table says what Kafka's error codes mean, and one place makes Playhead's errors of them."""

import re
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

import playhead.kafka
from playhead import secrets
from playhead.errors import BrokerUnavailable
from playhead.kafka.admin import clients
from playhead.kafka.admin.errors import (
    _CODES,
    AclMissing,
    KafkaRefused,
    Meaning,
    Need,
    client_error,
    is_definite,
    meaning_of,
    needing,
    refused,
    translated,
    words_of,
)


def test_a_code_has_one_meaning() -> None:
    codes = [code for some in _CODES.values() for code in some]
    assert len(codes) == len(set(codes))
    assert meaning_of(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS)) is Meaning.OTHER


@pytest.mark.parametrize(
    "error",
    [
        KafkaError(KafkaError._TRANSPORT),
        KafkaError(KafkaError.NOT_COORDINATOR),
        KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "said so", False, True, False),
    ],
)
def test_what_passes_is_a_broker_that_did_not_answer(error: KafkaError) -> None:
    with (
        pytest.raises(BrokerUnavailable, match=r"at here:1(?: within [\d.]+ s)?: why: "),
        translated("asking", "here:1", reason="why: {}".format),
    ):
        raise KafkaException(error)


@pytest.mark.parametrize("length", [4, 11, 17])
def test_no_beginning_of_a_password_is_left_where_a_text_was_cut(length: int) -> None:
    password = secrets.remember("un5eenUn6eenUn7een")
    said = "SASL authentication error: " + "x" * (484 - length)  # librdkafka keeps 511 bytes
    error = KafkaError(KafkaError._AUTHENTICATION, said + password[:length])
    assert words_of(error) == said + secrets.HIDDEN
    short = KafkaError(KafkaError._AUTHENTICATION, "the login un5e")
    assert words_of(short) == "the login un5e"


def test_no_beginning_of_a_password_is_left_in_the_list_of_mechanisms() -> None:
    password = secrets.remember("un5eenUn6eenUn7eenUn8eenUn9eenUn10een")
    said = "handshake failed: broker's supported mechanisms: {} (after 0ms in state AUTH_HANDSHAKE)"
    for listed in ("{}", "PLAIN,{},SCRAM-SHA-256"):
        error = KafkaError(KafkaError._AUTHENTICATION, said.format(listed.format(password[:31])))
        assert words_of(error) == said.format(listed.format(secrets.HIDDEN))


def test_every_text_of_an_error_is_asked_for_in_one_place() -> None:
    folder = Path(playhead.kafka.__path__[0])
    users = [file.name for file in folder.rglob("*.py") if ".str()" in file.read_text("utf-8")]
    assert users == ["errors.py"]


def test_no_answer_in_time_is_a_broker_that_did_not_answer() -> None:
    with pytest.raises(BrokerUnavailable, match="no answer"), translated("asking", None):
        raise TimeoutError


def test_what_does_not_pass_is_refused_with_the_name_of_its_code() -> None:
    with (
        pytest.raises(KafkaRefused, match=r"^asking: .*\(POLICY_VIOLATION\)$"),
        translated("asking", "here:1"),
    ):
        raise KafkaException(KafkaError(KafkaError.POLICY_VIOLATION))


def test_the_missing_acl_of_the_refused_resource_is_named() -> None:
    needs = Need("Read", "group", "g"), Need("Read", "topic", "t")
    with pytest.raises(AclMissing) as caught, needing(Need("Describe", "cluster")), needing(*needs):
        raise refused(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), "writing")
    assert caught.value.needs == (needs[1],)
    assert str(caught.value) == (
        "writing: the cluster does not allow it; missing ACL: Read on topic t"
    )
    assert caught.value.hint == (
        "ask an administrator to run: "
        "kafka-acls --add --allow-principal User:NAME --operation Read --topic t"
    )


def test_an_idempotent_producer_without_a_number_lacks_the_acl_on_its_topic() -> None:
    with pytest.raises(AclMissing, match="Write on topic t$"), needing(Need("Write", "topic", "t")):
        raise refused(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED), "writing")


def test_the_command_for_the_cluster_names_nothing() -> None:
    with pytest.raises(AclMissing) as caught, needing(Need("Describe", "cluster")):
        raise refused(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED), "listing")
    assert (caught.value.hint or "").endswith("--operation Describe --cluster")


def test_another_attempt_is_of_no_use_where_the_cluster_said_no() -> None:
    for code in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._UNKNOWN_TOPIC):
        assert is_definite(KafkaError(code))
    for code in (KafkaError._TIMED_OUT, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN):
        assert not is_definite(KafkaError(code))


def test_the_client_s_error_is_behind_an_error_of_python_s() -> None:
    error = KafkaError(KafkaError._FATAL)
    behind = SystemError()
    behind.__cause__ = KafkaException(error)
    assert client_error(behind) == client_error(KafkaException(error)) == error
    with pytest.raises(SystemError):
        client_error(SystemError())


def test_a_client_that_cannot_be_made_says_why() -> None:
    with pytest.raises(KafkaRefused, match="making a Kafka client: .*no.such.property"):
        clients.admin({"no.such.property": "1"})


def test_codes_are_classified_in_one_module() -> None:
    """A set of codes elsewhere would be a second table."""
    folder = Path(playhead.kafka.__file__).parent
    named = re.compile(r"KafkaError\.\w*(?:AUTHORI|FENCED|ALL_BROKERS|COORDINATOR)\w*")
    found = {
        path.name: named.findall(path.read_text(encoding="utf-8"))
        for path in folder.rglob("*.py")
        if path.name != "errors.py"
    }
    assert {name: codes for name, codes in found.items() if codes} == {
        "client.py": ["KafkaError._ALL_BROKERS_DOWN"],
        "commit.py": ["KafkaError.COORDINATOR_NOT_AVAILABLE"],
        "consumer.py": ["KafkaError._ALL_BROKERS_DOWN"],
        "log_dirs.py": ["KafkaError.CLUSTER_AUTHORIZATION_FAILED"],
    }


@pytest.mark.parametrize(("code", "is_known"), [(KafkaError.UNKNOWN, False), (42, True)])
def test_a_failure_that_a_broker_does_not_explain_has_a_way_on(code: int, is_known: bool) -> None:
    """Such as a lookup by time in a record that takes more memory than the broker has."""
    assert bool(refused(KafkaError(code), "asking").hint) is not is_known

"""Committed offsets are deleted by one request to the group's coordinator; errors are told per partition."""

import struct
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import BrokerUnavailable, MissingPiece
from playhead.kafka.admin.broker_socket import array, need_login, text
from playhead.kafka.groups import commit
from playhead.kafka.groups.changes import GroupAdmin
from playhead.kafka.groups.commit import forget
from playhead.kafka.groups.plan import CommittedOffset, GroupPlan, Move
from playhead.source import TopicPartition
from tests.scripted_broker import ScriptedBroker

PLACES = [("laps", 0), ("laps", 3), ("pits", 1)]
Forget = Callable[[], dict[TopicPartition, KafkaError]]


def answer(correlation: int, code: int, *topics: tuple[str, dict[int, int]]) -> bytes:
    parts = [
        text(topic) + array([struct.pack(">ih", *each) for each in codes.items()])
        for topic, codes in topics
    ]
    body = struct.pack(">ihi", correlation, code, 0) + array(parts)
    return struct.pack(">i", len(body)) + body


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Forget]]:
    """A coordinator that gives these answers, the last one again and again."""
    opened: list[ScriptedBroker] = []

    def script(*answers: Callable[[int], bytes]) -> Forget:
        left = list(answers)

        def say(api: int, version: int, correlation: int, frame: bytes) -> bytes:
            assert (api, version) == (47, 0)
            assert frame.endswith(
                text("team")
                + struct.pack(">i", 2)
                + text("laps")
                + struct.pack(">iii", 2, 0, 3)
                + text("pits")
                + struct.pack(">ii", 1, 1)
            )
            return (left.pop(0) if len(left) > 1 else left[0])(correlation)

        broker = ScriptedBroker(say)
        opened.append(broker)
        found = {"team": SimpleNamespace(coordinator=broker.place)}
        monkeypatch.setattr(commit, "described", lambda *_: found)
        admin = SimpleNamespace(timeout_s=2.0)
        return lambda: forget(admin, KafkaConnection(broker.place), "team", PLACES)  # type: ignore[arg-type]

    yield script
    for broker in opened:
        broker.close()


def test_what_is_deleted_is_no_error_and_what_is_refused_is_named(
    asked: Callable[..., Forget],
) -> None:
    refused = asked(lambda n: answer(n, 0, ("laps", {0: 0, 3: 86}), ("pits", {1: 29})))()
    assert {place: error.name() for place, error in refused.items()} == {
        ("laps", 3): "GROUP_SUBSCRIBED_TO_TOPIC",
        ("pits", 1): "TOPIC_AUTHORIZATION_FAILED",
    }


def test_an_error_of_the_whole_request_is_one_of_each_partition(
    asked: Callable[..., Forget],
) -> None:
    refused = asked(lambda n: answer(n, 68))()
    assert {place: error.name() for place, error in refused.items()} == dict.fromkeys(
        PLACES, "NON_EMPTY_GROUP"
    )


def test_a_coordinator_that_moves_is_asked_for_again(asked: Callable[..., Forget]) -> None:
    assert asked(lambda n: answer(n, 16), lambda n: answer(n, 14), lambda n: answer(n, 0))() == {}


def test_a_coordinator_that_never_comes_ends_with_the_time_limit(
    asked: Callable[..., Forget],
) -> None:
    with pytest.raises(KafkaException, match="COORDINATOR_NOT_AVAILABLE"):
        asked(lambda n: answer(n, 15))()


def test_an_answer_that_is_cut_short_is_an_error(asked: Callable[..., Forget]) -> None:
    with pytest.raises(BrokerUnavailable, match="4 bytes early"):
        asked(lambda n: struct.pack(">iihi", 10, n, 0, 0))()


def test_a_login_that_only_librdkafka_has_is_refused_and_others_are_not() -> None:
    for mechanism in (None, "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        need_login(KafkaConnection("a:1", mechanism=mechanism), needed_for="this")
    with pytest.raises(MissingPiece, match="this: only librdkafka supports the login OAUTHBEARER"):
        need_login(KafkaConnection("a:1", mechanism="OAUTHBEARER"), needed_for="this")


def test_such_a_login_is_refused_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The admin client and the snapshots are None here: to touch them would be another error."""
    monkeypatch.setattr(GroupAdmin, "_need_consent", lambda *_: None)
    connection = KafkaConnection("a:1", mechanism="OAUTHBEARER")
    desk = GroupAdmin(None, None, connection)  # type: ignore[arg-type]
    moves = (
        Move(("laps", 0), CommittedOffset(1), CommittedOffset(2), None),
        Move(("laps", 1), CommittedOffset(1), None, None),
    )
    with pytest.raises(MissingPiece, match="deleting offsets of group team"):
        desk.write(GroupPlan("team", "undo", True, moves))

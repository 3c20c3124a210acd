"""Names in a broker's answer that are not UTF-8 are an error that says so."""

from collections.abc import Iterator

import pytest

from playhead.capture.protocol import API_VERSIONS, METADATA
from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.admin.answer_fields import BadAnswer
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.topics import list_topics
from playhead.kafka.read.consumer import PartitionConsumer
from tests.kafka_bytes import response_frame
from tests.scripted_broker import ScriptedBroker

NAME, BYTES = "orders", b"orde\xff\xfe"


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """Has one topic, with a name that no broker can have."""

    def answer(api: int, version: int, correlation: int, _: bytes) -> bytes | None:
        versions = [
            {"apiKey": key, "minVersion": 0, "maxVersion": last}
            for key, last in ((API_VERSIONS, 3), (METADATA, 8))
        ]
        topic = {
            "errorCode": 0,
            "name": NAME,
            "isInternal": False,
            "partitions": [],
            "topicAuthorizedOperations": 0,
        }
        values = {
            API_VERSIONS: {"errorCode": 0, "apiKeys": versions, "throttleTimeMs": 0},
            METADATA: {
                "throttleTimeMs": 0,
                "brokers": [{"nodeId": 1, "host": "127.0.0.1", "port": script.port, "rack": None}],
                "clusterId": "c",
                "controllerId": 1,
                "topics": [topic],
                "clusterAuthorizedOperations": 0,
            },
        }[api]
        frame = response_frame(api, version, values, correlation=correlation)
        return frame.replace(NAME.encode(), BYTES)

    script = ScriptedBroker(answer)
    yield script
    script.close()


def test_a_list_of_topics_with_such_a_name_is_an_error(broker: ScriptedBroker) -> None:
    with (
        Admin(KafkaConnection(broker.place), timeout_s=5.0) as admin,
        pytest.raises(BadAnswer, match="a name that is not UTF-8"),
    ):
        list_topics(admin)


def test_a_reader_of_another_topic_does_not_mind(broker: ScriptedBroker) -> None:
    reader = PartitionConsumer(KafkaConnection(broker.place), patience_s=5.0)
    reader.assign({("laps", 0): 0})
    reader.close()

"""A list of consumer groups is whole, or an error that names the broker."""

from collections.abc import Iterator

import pytest

from playhead.capture.protocol import API_VERSIONS, METADATA
from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import PlayheadError
from playhead.kafka.admin.client import Admin
from playhead.kafka.groups.describe import listed
from tests.kafka_bytes import response_frame
from tests.scripted_broker import ScriptedBroker

LIST_GROUPS = 16


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """Says who it is, and answers every list of groups with COORDINATOR_NOT_AVAILABLE."""

    def answer(api: int, version: int, correlation: int, _: bytes) -> bytes | None:
        versions = [(API_VERSIONS, 0, 3), (METADATA, 0, 8), (LIST_GROUPS, 0, 2)]
        listed_versions = [
            {"apiKey": key, "minVersion": first, "maxVersion": last}
            for key, first, last in versions
        ]
        itself = {"nodeId": 1, "host": "127.0.0.1", "port": script.port, "rack": None}
        values = {
            API_VERSIONS: {"errorCode": 0, "apiKeys": listed_versions, "throttleTimeMs": 0},
            METADATA: {
                "throttleTimeMs": 0,
                "brokers": [itself],
                "clusterId": "c",
                "controllerId": 1,
                "topics": [],
                "clusterAuthorizedOperations": 0,
            },
            LIST_GROUPS: {"throttleTimeMs": 0, "errorCode": 15, "groups": []},
        }[api]
        return response_frame(api, version, values, correlation=correlation)

    script = ScriptedBroker(answer)
    yield script
    script.close()


def test_a_broker_that_cannot_list_its_groups_is_an_error(broker: ScriptedBroker) -> None:
    connection = KafkaConnection(broker.place)
    with (
        Admin(connection, timeout_s=5.0) as admin,
        pytest.raises(PlayheadError, match="Coordinator not available"),
    ):
        listed(admin)

"""Commits the progress of a pipeline for a consumer group, several times a second."""

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import BrokerUnavailable
from playhead.kafka.admin import clients
from playhead.kafka.admin.errors import Meaning, is_definite, meaning_of, refused
from playhead.kafka.groups.commit import JoinedMeanwhile
from playhead.source import TopicPartition


class GroupMover:
    """A consumer that is not a member of its group and reads nothing; it only commits.

    An admin client could commit too, but a coordinator that disappears during its request makes librdkafka
    abort the process (`rd_kafka_enq_once_del_source_return: Assertion failed`).
    """

    def __init__(self, connection: KafkaConnection, group: str) -> None:
        self._connection, self._group = connection, group
        own = {
            "group.id": group,
            "client.id": "playhead",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        self._consumer = clients.consumer(connection.for_librdkafka("consumer") | own)

    def move(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit these offsets; wait for the group's coordinator as long as necessary."""
        wanted = [ClientPartition(*place, offset) for place, offset in offsets.items()]
        try:
            found = self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as exc:
            raise self._translated(exc.args[0]) from exc
        for each in found or ():
            if each.error is not None:
                raise self._translated(each.error)

    def close(self) -> None:
        self._consumer.close()

    def _translated(self, error: KafkaError) -> Exception:
        if meaning_of(error) is Meaning.GROUP_IN_USE:
            return JoinedMeanwhile(self._group, reason=error.str())
        if is_definite(error):
            return refused(error, f"writing the offsets of group {self._group}")
        servers = self._connection.bootstrap_servers or ""
        return BrokerUnavailable(servers, waited_s=0, reason=error.str())

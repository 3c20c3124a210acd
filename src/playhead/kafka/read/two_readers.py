"""Reads with the Kafka client, and from the log itself what the client does not unpack."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.read.consumer import NotUnpacked
from playhead.kafka.read.log_reader import LogReader
from playhead.kafka.read.planned_topics import PlannedTopics
from playhead.kafka.read.reader import KafkaReader
from playhead.record import Slice
from playhead.records import Records
from playhead.source import TopicPartition


class TwoReaders:
    """See `playhead.source.Reader`. For the client, a record batch is an error if it unpacks to more than a record may.

    Only the log's own reader says which of its records is too large, and returns the others.
    """

    def __init__(
        self, connection: KafkaConnection, topics: PlannedTopics, *, patience_s: float
    ) -> None:
        self._client = KafkaReader(connection, topics, patience_s=patience_s)
        self._make_log = partial(LogReader, connection, topics, patience_s=patience_s)
        self._log: LogReader | None = None
        self._from_log: tuple[TopicPartition, int] | None = None
        """The partition and the end of the slice that is read from the log."""

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        if self._log is not None:
            self._log.close()

    def read(self, slice_: Slice) -> Iterator[Records]:
        """Read the records of the slice."""
        place, end = self._from_log or (None, 0)
        if slice_.place == place and slice_.from_offset < end and self._log is not None:
            yield from self._log.read(slice_)  # It continues after a record that cannot be read.
            return
        at = slice_.from_offset
        try:
            for run in self._client.read(slice_):
                at = run.offsets[-1] + 1
                yield run
        except NotUnpacked:
            self._from_log = slice_.place, slice_.to_offset
            if self._log is None:
                self._log = self._make_log()
            yield from self._log.read(replace(slice_, from_offset=at))

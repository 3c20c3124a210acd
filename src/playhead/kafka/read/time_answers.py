"""Finds answers for a time that would leave out records.

A producer can write a record under an offset that is not its own: brokers do not check what the records of a batch say
of their places. Kafka's answer for a time may then be such an offset, far behind the records that it is to name.
"""

from collections.abc import Mapping
from contextlib import closing

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import MissingPiece
from playhead.kafka.read.log_heads import LogHeads, open_heads
from playhead.source import TopicPartition

_BEFORE = tuple(10**power for power in range(9))
"""How far before an answer the log is looked at: who hides records cannot have written all of these batches."""
_ONE_BATCH = 1


def leaving_out(
    connection: KafkaConnection,
    answers: Mapping[TopicPartition, int],
    *,
    instant_ms: int,
    timeout_s: float,
) -> list[TopicPartition]:
    """Return the partitions in which a record before the answer is not before the time, by the headers of batches.

    Nothing is looked at where only the client can log in.
    """
    with closing(open_heads(connection, timeout_s=timeout_s)) as log:
        try:
            return [it for it, at in answers.items() if _leaves_out(log, it, at, instant_ms)]
        except MissingPiece:
            return []


def _leaves_out(log: LogHeads, place: TopicPartition, answer: int, instant_ms: int) -> bool:
    since_ms = max(0, instant_ms)  # Brokers write -1 as the latest of times before 1970.
    looked_at = [answer - distance for distance in _BEFORE if distance <= answer]
    return any(
        (head.latest_ms if head.end <= answer else head.first_ms) >= since_ms
        for heads in log.look(place, looked_at, most_bytes=_ONE_BATCH)
        for head, is_aborted in heads.with_fate()
        if head.count and head.first < answer and not (is_aborted or head.is_marker)
    )

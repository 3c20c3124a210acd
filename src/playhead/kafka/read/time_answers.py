"""Finds answers for a time that would leave out records.

A producer can write a record under an offset that is not its own: brokers do not check what records say of their
places in a record batch. Kafka's answer for a time may then be such an offset, far behind the records that it is to
name.
"""

from collections.abc import Mapping
from contextlib import closing

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import BrokerUnavailable, MissingPiece
from playhead.kafka.read.log_heads import Head, Heads, open_heads
from playhead.source import TopicPartition

_BEFORE = (1, 10, 1_000, 100_000)
"""How far before an answer a record batch is looked at; who hides records has hardly written all of these."""
_ONE_PACKAGE = 1


def leaving_out(
    connection: KafkaConnection,
    answers: Mapping[TopicPartition, int],
    *,
    instant_ms: int,
    timeout_s: float,
) -> list[TopicPartition]:
    """Return the partitions in which a record before the answer is not before the time.

    The headers of record batches say so. Nothing is looked at where only the client can log in, or while a leader
    does not answer.
    """
    wanted = [
        (place, at - distance)
        for place, at in answers.items()
        for distance in _BEFORE
        if distance <= at
    ]
    with closing(open_heads(connection, timeout_s=timeout_s)) as log:
        try:
            found = log.look_at(wanted, most_bytes=_ONE_PACKAGE)
        except (MissingPiece, BrokerUnavailable):
            return []
    wrong = {
        place
        for (place, _), heads in zip(wanted, found, strict=True)
        if _has_one_since(instant_ms, heads, before=answers[place])
    }
    return [place for place in answers if place in wrong]


def _has_one_since(instant_ms: int, heads: Heads, *, before: int) -> bool:
    since_ms = max(0, instant_ms)  # Brokers write -1 as the latest of times before 1970.
    return any(
        (head.latest_ms if head.end <= before else _first_ms(head)) >= since_ms
        for head, is_aborted in heads.with_fate()
        # A trim within a record batch may have removed the record that its header speaks of.
        if head.count and heads.log_start <= head.first < before
        if not (is_aborted or head.is_marker)
    )


def _first_ms(head: Head) -> int:
    """Return the time of the record at the first offset; unknown if compaction may have removed this record."""
    return head.first_ms if head.count == head.end - head.first else -1

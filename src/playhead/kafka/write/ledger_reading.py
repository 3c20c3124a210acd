"""Reads the ledger topic, and reads again before it accepts offsets without a record."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice, pairwise, takewhile
from typing import Any, NamedTuple

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import Unavailable
from playhead.kafka.admin import clients
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.errors import LedgerWaits, translated
from playhead.kafka.admin.offsets import describe_those
from playhead.kafka.write.ledger_keys import LEDGER_TOPIC

_PLACE = TopicPartition(LEDGER_TOPIC, 0)
# Other producers' commits delay the end by milliseconds; a hanging one, until the broker aborts it.
_PATIENCE_S = 90.0
_PER_CALL = 10_000
_WAIT_S = 0.2
_MOST_LOOKS = 10


class LedgerUnsteady(Unavailable):
    """The client returns different entries on every attempt."""

    def __init__(self, looks: int) -> None:
        self.looks = looks
        super().__init__(
            f"topic {LEDGER_TOPIC} was read {looks} times, and each time returned other records",
            hint="resume to try again; a client or a broker loses records",
        )


class LedgerEnd(NamedTuple):
    """The end and the id of the ledger topic."""

    topic_id: str
    stable: int
    """The last stable offset: the first open transaction of any producer."""
    end: int


class Found(NamedTuple):
    """One record of the ledger topic."""

    key: bytes
    value: bytes | None


Gap = tuple[int, int]
"""Half-open offsets that gave no record."""


def ledger_end(connection: KafkaConnection) -> LedgerEnd | None:
    """Return the present end of the ledger; None if the topic does not exist."""
    with Admin(connection) as admin, admin.asking("asking for the end of the ledger") as client:
        described = describe_those(admin, [LEDGER_TOPIC]).get(LEDGER_TOPIC)
        if described is None:
            return None
        asked = [
            client.list_offsets(
                {_PLACE: OffsetSpec.latest()}, isolation_level=it, request_timeout=admin.timeout_s
            )
            for it in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        ]
        ends = [int(each[_PLACE].result(admin.timeout_s).offset) for each in asked]
        return LedgerEnd(described.topic_id, *ends)


def read_ledger(
    connection: KafkaConnection,
    *,
    isolation: str,
    start: int,
    end: int,
    wanted: Callable[[bytes], bool],
) -> tuple[Sequence[Found], int]:
    """Return the wanted records from start to at least end, in order, and how far the reading went.

    A client may lose records in the middle or by reporting the end too early, and forgotten entries would be
    written twice. If more offsets give no record than transaction markers explain, another client reads
    again, until two of them agree.
    """
    first = _look(connection, isolation, start, end, wanted)
    kept, doubts, looks = dict(first.kept), first.gaps, 1
    while doubts:
        if looks == _MOST_LOOKS:
            raise LedgerUnsteady(looks)
        again = _look(connection, isolation, doubts[0][0], doubts[-1][1], wanted)
        looks += 1
        lost = sorted(offset for offset in again.offsets(doubts))
        kept |= {at: each for at, each in again.kept.items() if at < first.position}
        doubts = [left for gap in doubts for left in _without(gap, lost)] if lost else []
    return [kept[at] for at in sorted(kept)], first.position


@dataclass(slots=True)
class _Look:
    """The result of one client."""

    position: int
    wanted: Callable[[bytes], bool]
    kept: dict[int, Found] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    runs: list[Gap] = field(default_factory=list)
    """Offsets that gave records, as half-open runs."""

    def take(self, record: Any) -> None:
        offset, key, value = record.offset(), record.key() or b"", record.value()
        if offset < self.position:
            return
        # A transaction is followed by its marker; a tombstone is never the first in one.
        is_behind_one = bool(self.runs) and self.runs[-1][1] == self.position
        self._skip(offset, explained=1 if is_behind_one and value is not None else 0)
        if self.wanted(key):
            self.kept[offset] = Found(key, value)
        if self.runs and self.runs[-1][1] == offset:
            self.runs[-1] = (self.runs[-1][0], offset + 1)
        else:
            self.runs.append((offset, offset + 1))
        self.position = offset + 1

    def reach(self, end: int) -> None:
        """Note that the client reports no more records before this offset."""
        self._skip(end, explained=1)
        self.position = max(self.position, end)

    def _skip(self, offset: int, *, explained: int) -> None:
        if offset - self.position > explained:
            self.gaps.append((self.position, offset))

    def offsets(self, gaps: Sequence[Gap]) -> Iterator[int]:
        """Return the offsets of its records in these gaps."""
        first = 0
        for low, high in self.runs:
            while first < len(gaps) and gaps[first][1] <= low:
                first += 1
            for start, end in takewhile(lambda gap: gap[0] < high, islice(gaps, first, None)):  # noqa: B023
                yield from range(max(low, start), min(high, end))


def _without(gap: Gap, offsets: Sequence[int]) -> Iterator[Gap]:
    """Return what remains of a gap without these offsets; a single marker is not a gap."""
    inside = [at for at in offsets if gap[0] <= at < gap[1]]
    for before, after in pairwise([gap[0] - 1, *inside, gap[1]]):
        if after - before > 2:
            yield before + 1, after


def _look(
    connection: KafkaConnection,
    isolation: str,
    start: int,
    end: int,
    wanted: Callable[[bytes], bool],
) -> _Look:
    look, reason = _Look(start, wanted), "reading the ledger: {}".format
    deadline = time.monotonic() + _PATIENCE_S
    with _consumer(connection, isolation, start) as consumer:
        while look.position < end:
            with translated("reading the ledger", connection.bootstrap_servers, reason=reason):
                # Everything available, else the first to arrive: waiting for many would be in vain.
                found = consumer.consume(_PER_CALL, 0) or consumer.consume(1, _WAIT_S)
                for each in found:
                    _add(look, each)
            if not found and time.monotonic() > deadline:
                raise LedgerWaits(LEDGER_TOPIC, offset=look.position, waited_s=_PATIENCE_S)
    return look


def _add(look: _Look, found: Any) -> None:
    error = found.error()
    if error is None:
        look.take(found)
    elif error.code() == KafkaError._PARTITION_EOF:
        # The end that it can see: transaction markers are not records, but have offsets.
        look.reach(found.offset())
    else:
        raise KafkaException(error)


@contextmanager
def _consumer(connection: KafkaConnection, isolation: str, start: int) -> Iterator[Any]:
    consumer = clients.consumer(
        connection.for_librdkafka("consumer")
        | {
            "group.id": "playhead",
            "client.id": "playhead",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            # Compaction may have removed the first ones.
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 20,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(LEDGER_TOPIC, 0, start)])
        yield consumer
    finally:
        consumer.close()

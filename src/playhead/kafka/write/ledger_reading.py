"""Reads the ledger topic, and asks the log itself before it accepts offsets without a record."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from playhead.absence import Blank, within
from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import BrokerUnavailable, Unavailable
from playhead.kafka.admin import clients
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.errors import LedgerWaits, translated
from playhead.kafka.admin.offsets import describe_those, log_ends, stable_ends
from playhead.kafka.read.absences import LogExplainer, RecordsNotGiven
from playhead.kafka.write.ledger_keys import LEDGER_TOPIC
from playhead.source import OutOfBounds

_PLACE = (LEDGER_TOPIC, 0)
# Other producers' commits delay the end by milliseconds; a hanging one, until the broker aborts it.
_PATIENCE_S = 90.0
_PER_CALL = 10_000
_WAIT_S = 0.2
_LOG_WITHIN_S = 10.0
_MOST_LOOKS = 10


class LedgerUnsteady(Unavailable):
    """No client returns all records that the log holds."""

    def __init__(self, looks: int) -> None:
        self.looks = looks
        super().__init__(
            f"topic {LEDGER_TOPIC} was read {looks} times, and each time the client returned fewer records "
            "than the log holds",
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


def ledger_end(connection: KafkaConnection) -> LedgerEnd | None:
    """Return the present end of the ledger; None if the topic does not exist."""
    with Admin(connection) as admin:
        described = describe_those(admin, [LEDGER_TOPIC]).get(LEDGER_TOPIC)
        if described is None:
            return None
        stable = stable_ends(admin, [_PLACE])[_PLACE]
        return LedgerEnd(described.topic_id, stable, log_ends(admin, [_PLACE])[_PLACE])


def read_ledger(
    connection: KafkaConnection, *, start: int, end: int, wanted: Callable[[bytes], bool]
) -> tuple[Sequence[Found], int]:
    """Return the wanted committed records from start to at least end, in order, and how far the reading went.

    A client may lose records in the middle or by reporting the end too early, and forgotten entries would be
    written twice. So the log itself is asked about all offsets that gave no record; if it holds records
    there, another client reads them.
    """
    first = _look(connection, "read_committed", start, end, wanted)
    kept, blanks = dict(first.kept), first.blanks
    for _ in range(_MOST_LOOKS - 1):
        if not _hide_records(connection, blanks):
            return [kept[at] for at in sorted(kept)], first.position
        again = _look(connection, "read_committed", blanks[0][0], blanks[-1][1], wanted)
        kept |= {at: each for at, each in again.kept.items() if at < first.position}
        blanks = [part for each in again.blanks for part in within(blanks, *each)]
    raise LedgerUnsteady(_MOST_LOOKS)


def read_open(
    connection: KafkaConnection, held: LedgerEnd, wanted: Callable[[bytes], bool]
) -> Sequence[Found]:
    """Return the wanted records from the first open transaction on, as one client shows them."""
    look = _look(connection, "read_uncommitted", held.stable, held.end, wanted)
    return [*look.kept.values()]


def _hide_records(connection: KafkaConnection, blanks: Sequence[Blank]) -> bool:
    """Return whether the log holds committed records at these offsets."""
    deadline = time.monotonic() + _PATIENCE_S
    while blanks:
        try:
            with closing(LogExplainer(connection, timeout_s=_LOG_WITHIN_S)) as log:
                log.explain(_PLACE, blanks)
            return False
        except RecordsNotGiven:
            return True
        except OutOfBounds as exc:
            # The beginning of the ledger was deleted.
            if exc.bounds is None:
                raise
            blanks = [*within(blanks, exc.bounds.earliest, blanks[-1][1])]
        except BrokerUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(_WAIT_S)
    return False


@dataclass(slots=True)
class _Look:
    """The result of one client."""

    position: int
    wanted: Callable[[bytes], bool]
    kept: dict[int, Found] = field(default_factory=dict)
    blanks: list[Blank] = field(default_factory=list)
    """The offsets that gave no record; transaction markers are among them."""

    def take(self, record: Any) -> None:
        offset, key = record.offset(), record.key() or b""
        if offset < self.position:
            return
        self.reach(offset)
        if self.wanted(key):
            self.kept[offset] = Found(key, record.value())
        self.position = offset + 1

    def reach(self, offset: int) -> None:
        """Note that the client returned no record before this offset."""
        if offset <= self.position:
            return
        if self.blanks and self.blanks[-1][1] == self.position:
            self.blanks[-1] = (self.blanks[-1][0], offset)
        else:
            self.blanks.append((self.position, offset))
        self.position = offset


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
                raise _why_nothing_comes(connection, isolation, look.position)
    return look


def _why_nothing_comes(connection: KafkaConnection, isolation: str, position: int) -> Unavailable:
    """Return the error of an open transaction, or of a broker that gives no records although none hides them."""
    if isolation == "read_committed":
        with Admin(connection) as admin:
            if stable_ends(admin, [_PLACE])[_PLACE] <= position:
                return LedgerWaits(LEDGER_TOPIC, offset=position, waited_s=_PATIENCE_S)
    servers = connection.bootstrap_servers or ""
    return BrokerUnavailable(
        servers, waited_s=_PATIENCE_S, reason="reading the ledger: nothing came"
    )


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
            # A damaged entry could blame the source, or say that records were written.
            "check.crcs": True,
            "fetch.wait.max.ms": 20,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(*_PLACE, start)])
        yield consumer
    finally:
        consumer.close()

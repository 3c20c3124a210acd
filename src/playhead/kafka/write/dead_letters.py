"""Dead letters: records that could not be written, kept in a topic with the reason, each exactly once."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from playhead.account import Account, DeadLetter, WriteDeadLetters
from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.offsets import NoSuchTopic, describe_those
from playhead.kafka.read.source import KafkaSource
from playhead.kafka.write.dead_letter_headers import carried, letter_headers, record_of_letter
from playhead.kafka.write.ledger import Ledger
from playhead.kafka.write.ledger_keys import burial_id, former_burial_id
from playhead.kafka.write.ledger_topic import make_ledger, notes_on_ledger
from playhead.kafka.write.target import KafkaTarget, KafkaWriter
from playhead.kafka.write.target_topics import make_topic
from playhead.kafka.write.written_dead_letters import DETAIL, Burials, packed
from playhead.ledger import Entry
from playhead.note import Note
from playhead.record import Record, Slice
from playhead.records import Records
from playhead.source import TopicPartition

_NO_TIME_MS = -1
# The client cannot send a 0, and a topic takes no time that is further ahead, unless it is told to.
_MOST_AHEAD_MS = 3_600_000
# Of an earlier one the broker computes that it is far ahead.
_FIRST_MS = -(1 << 62)
# They must not expire before somebody looks, and a record too large for the target must fit.
_SETTINGS = {"retention.ms": "-1", "max.message.bytes": str(20 << 20)}


@dataclass(frozen=True)
class DeadLetterTopic:
    """A topic for dead letters; made, with one partition, when it is not there.

    Burying is a replay of its own beside the one whose records die, with the same ledger, which says
    of every record whether it lies there: a slice may die at several moments, in other parts and for
    other records each time, and each record is buried at the first of them.
    """

    connection: KafkaConnection
    topic: str

    def inspect(self) -> tuple[Note, ...]:
        """The ledger of its cluster, which says who lies there, must not forget."""
        with Admin(self.connection) as admin:
            return tuple(notes_on_ledger(admin, describe_those(admin, [self.topic])))

    @contextmanager
    def open(self, replay_id: str, /) -> Iterator[WriteDeadLetters]:
        """What buries the dead letters of a slice; each lies there when it returns."""
        with Admin(self.connection) as admin:
            make_ledger(admin, beside=[self.topic])
            dig(admin, self.topic)
        target = KafkaTarget(self.connection, self.topic, partition_rule="key", moves_group=False)
        own_id, former_id = burial_id(replay_id), former_burial_id(replay_id)
        ledger = Ledger(self.connection, own_id, former_id=former_id, is_made=True)
        with closing(KafkaWriter(target, own_id, ledger)) as writer:
            yield _DeadLetterWriter(writer, ledger, replay_id).bury

    def letters(self, replay_id: str, /) -> "KafkaLetters":
        """All that lie there of a replay, read from the topic's start to its end."""
        source = KafkaSource(self.connection, (self.topic,))
        found: dict[TopicPartition, dict[int, list[int]]] = {}
        try:
            bounds = source.bounds()
        except NoSuchTopic:
            return KafkaLetters(self.topic, True, {})
        with source.open() as reader:
            for place, held in bounds.items():
                if held.earliest >= held.stable_end:
                    continue
                for records in reader.read(Slice(*place, held.earliest, held.stable_end)):
                    for record in records:
                        named = record_of_letter(record, replay_id)
                        if named is not None:
                            of_place = found.setdefault(named[:2], {})
                            of_place.setdefault(named[2], []).append(
                                carried(record, is_letter=True)
                            )
        is_whole = all(held.earliest == 0 for held in bounds.values())
        in_order = {place: dict(sorted(held.items())) for place, held in found.items()}
        return KafkaLetters(self.topic, is_whole, in_order)


@dataclass(frozen=True, slots=True)
class KafkaLetters:
    """The dead letters of one replay, by digests of what they carry."""

    topic: str
    is_whole: bool
    found: Mapping[TopicPartition, Mapping[int, Sequence[int]]]

    @property
    def where(self) -> str:
        return f"topic {self.topic}"

    def of(self, place: TopicPartition, /) -> Mapping[int, Sequence[int]]:
        return self.found.get(place, {})

    def digest(self, record: Record, /) -> int:
        return carried(record, is_letter=False)


def dig(admin: Admin, topic: str) -> None:
    """Return when there is a topic for dead letters of this name."""
    make_topic(admin, topic, partitions=1, settings=_SETTINGS)


class _BurialAccount(Account):
    """The account of a burial: its entry says which records lie there now."""

    def __init__(self, slice_: Slice, offsets: Sequence[int]) -> None:
        super().__init__(slice_)
        self.read, self._offsets = len(offsets), offsets

    def close(self, details: Mapping[str, Any] | None = None) -> Entry:
        return super().close({**(details or {}), DETAIL: packed(self._offsets)})


@dataclass(frozen=True, slots=True)
class _DeadLetterWriter:
    writer: KafkaWriter
    ledger: Ledger
    replay_id: str
    _burials: dict[TopicPartition, Burials] = field(default_factory=dict)

    def bury(self, slice_: Slice, letters: Sequence[DeadLetter]) -> int:
        """Commit those of the letters that do not lie there yet.

        Says how many others of the slice lie there: they were dead at an earlier moment, and are not.
        """
        place = slice_.topic, slice_.partition
        burials = self._known(place, is_to_write=bool(letters))
        burials.take_in(self.ledger, place)
        offsets = [each.record.offset for each in letters]
        left = set(burials.missing(slice_, offsets))
        if left:
            self._commit(burials, [each for each in letters if each.record.offset in left])
        return burials.others(slice_, offsets)

    def _known(self, place: TopicPartition, *, is_to_write: bool) -> Burials:
        """What was buried of a partition, by earlier runs as well."""
        if is_to_write or (place not in self._burials and self.ledger.is_held_up()):
            # Ends what somebody has left open who died while burying, and reads the ledger after that.
            self.writer.committed(place)
        elif place not in self._burials:
            self.ledger.catch_up()
        return self._burials.setdefault(place, Burials())

    def _commit(self, burials: Burials, letters: Sequence[DeadLetter]) -> None:
        records = [_as_record(each, self.replay_id) for each in letters]
        offsets = [each.offset for each in records]
        first = records[0]
        slice_ = Slice(first.topic, first.partition, min(offsets), max(offsets) + 1)
        self.writer.commit(_BurialAccount(slice_, offsets), [Records.of(records)])
        burials.add(slice_, offsets)


def _as_record(letter: DeadLetter, replay_id: str) -> Record:
    timestamp_ms = letter.record.timestamp_ms
    last_ms = time.time_ns() // 1_000_000 + _MOST_AHEAD_MS
    if timestamp_ms == 0 or not _FIRST_MS <= timestamp_ms <= last_ms:
        timestamp_ms = _NO_TIME_MS  # the header has it
    headers = letter_headers(letter, replay_id)
    return replace(letter.record, timestamp_ms=timestamp_ms, headers=headers)

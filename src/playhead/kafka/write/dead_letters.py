"""Dead letters: records that could not be written, stored in a topic with the reason, each exactly once."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from playhead.account import Account, DeadLetter, WriteDeadLetters
from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.offsets import NoSuchTopic, describe_those
from playhead.kafka.read.facts import settings_of
from playhead.kafka.read.source import KafkaSource
from playhead.kafka.write.dead_letter_headers import carried, letter_headers, record_of_letter
from playhead.kafka.write.ledger import Ledger
from playhead.kafka.write.ledger_keys import burial_id, former_burial_id
from playhead.kafka.write.ledger_topic import make_ledger, notes_on_ledger
from playhead.kafka.write.lost_copies import lost_copies
from playhead.kafka.write.target import KafkaTarget, KafkaWriter
from playhead.kafka.write.target_topics import TargetTopic, described_soon, make_topic
from playhead.kafka.write.written_dead_letters import DETAIL, Burials, packed
from playhead.ledger import Entry
from playhead.note import Note
from playhead.record import Record, Slice
from playhead.records import Records
from playhead.source import TopicPartition, rejecting

_NO_TIME_MS = -1
# The client cannot send timestamp 0, and topics refuse times that are too far in the future.
_MOST_AHEAD_MS = 3_600_000
# The broker would compute that an earlier one is too far from now.
_FIRST_MS = -(1 << 62)
# Dead letters must not expire before someone reads them, and large records must fit.
_MOST_BYTES = 20 << 20
_SETTINGS = {"retention.ms": "-1", "max.message.bytes": str(_MOST_BYTES)}


@dataclass(frozen=True)
class DeadLetterTopic:
    """A topic for dead letters; created with one partition if it does not exist.

    Writing dead letters is a replay of its own with the same ledger, which lists every letter. A slice may
    fail several times, in other parts and for other records; each record is written at its first failure.
    """

    connection: KafkaConnection
    topic: str

    def inspect(self) -> tuple[Note, ...]:
        """Check the ledger of its cluster, which must not forget the letters, and whether the topic takes them all."""
        with Admin(self.connection) as admin:
            there = describe_those(admin, [self.topic])
            settings = settings_of(admin, there)
            found = [
                TargetTopic(name, len(each.partitions), settings[name])
                for name, each in there.items()
            ]
            notes = [note for topic in found for note in _notes_on(topic)]
            return (*notes_on_ledger(admin, there), *notes)

    @contextmanager
    def open(self, replay_id: str, /) -> Iterator[WriteDeadLetters]:
        """Return a function that writes a slice's dead letters durably."""
        with Admin(self.connection) as admin:
            make_ledger(admin, beside=[self.topic])
            create_topic(admin, self.topic)
            now = {
                name: each.topic_id for name, each in described_soon(admin, [self.topic]).items()
            }
        target = KafkaTarget(self.connection, self.topic, partition_rule="key", moves_group=False)
        own_id, former_id = burial_id(replay_id), former_burial_id(replay_id)
        ledger = Ledger(self.connection, own_id, former_id=former_id, is_made=True)
        with closing(KafkaWriter(target, own_id, ledger)) as writer:
            yield _DeadLetterWriter(writer, ledger, replay_id, now).write

    def lost_letters(self, replay_id: str, /) -> Mapping[Slice, str]:
        """Return the offsets of records whose dead letters are gone, by the bounds of the topic."""
        own_id, former_id = burial_id(replay_id), former_burial_id(replay_id)
        ledger = Ledger(self.connection, own_id, former_id=former_id)
        ledger.catch_up()
        with Admin(self.connection) as admin:
            return lost_copies(admin, ledger.entries())

    def letters(self, replay_id: str, /) -> "KafkaLetters":
        """Return all letters of a replay, read from the topic's start to its end."""
        source = KafkaSource(self.connection, (self.topic,))
        found: dict[TopicPartition, dict[int, list[int]]] = {}
        try:
            bounds = source.bounds()
        except NoSuchTopic:
            return KafkaLetters(self.topic, True, {})
        # Other writers' records there may have headers that cannot be read; ours have not.
        with rejecting(source.read_directly()) as reader:
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
    """The dead letters of one replay, by digests of their content."""

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


def _notes_on(topic: TargetTopic) -> Iterator[Note]:
    """Return notes on letters that the topic would reject, which ends the replay."""
    if topic.is_compacted:
        text = (
            f"dead letters: {topic.name} is compacted: of the letters of one key, only the last stays, and a "
            "rejected record without a key ends the replay"
        )
        yield Note("dead-letters-compacted", text)
    if topic.most_bytes is not None and topic.most_bytes < _MOST_BYTES:
        text = (
            f"dead letters: {topic.name} accepts at most {topic.most_bytes} bytes at once: a rejected record that "
            f"is larger with its reason ends the replay; playhead topics alter {topic.name} --set "
            f"max.message.bytes={_MOST_BYTES}"
        )
        yield Note("dead-letters-size", text, "info")
    if topic.limit_ms("before") is not None:
        text = (
            f"dead letters: {topic.name} accepts no old records (message.timestamp.before.max.ms): a rejected one "
            "ends the replay"
        )
        yield Note("dead-letters-time", text)


def create_topic(admin: Admin, topic: str) -> None:
    """Create the dead-letter topic if it does not exist."""
    make_topic(admin, topic, partitions=1, settings=_SETTINGS)


class _BurialAccount(Account):
    """The account of a commit of dead letters; its entry lists the letters."""

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
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    _burials: dict[TopicPartition, Burials] = field(default_factory=dict)

    def write(self, slice_: Slice, letters: Sequence[DeadLetter]) -> int:
        """Commit the letters that are not in the topic yet.

        Returns how many other records of the slice are there: they failed earlier, but not now.
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
        """Return the letters of a partition, including those of earlier runs."""
        if is_to_write or (place not in self._burials and self.ledger.is_held_up()):
            # Making the writer ends a dead run's open transaction; the ledger is read after that.
            self.writer.committed(place)
        elif place not in self._burials:
            self.ledger.catch_up()
        return self._burials.setdefault(place, Burials(self.topic_ids))

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
        timestamp_ms = _NO_TIME_MS  # The header has it.
    headers = letter_headers(letter, replay_id)
    return replace(letter.record, timestamp_ms=timestamp_ms, headers=headers)

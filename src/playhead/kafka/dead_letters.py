"""Dead letters: records that could not be written, kept in a topic with the reason, each exactly once."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from playhead.account import Account, Bury, DeadLetter
from playhead.connection import KafkaConnection
from playhead.kafka.admin import Admin
from playhead.kafka.ledger_topic import make_ledger
from playhead.kafka.origins import letter_headers
from playhead.kafka.target import KafkaTarget, KafkaWriter
from playhead.kafka.target_topics import make_topic
from playhead.ledger import remaining
from playhead.record import Record, Slice
from playhead.records import Records

_NO_TIME_MS = -1
# The client cannot send a 0, and a topic takes no time that is further ahead, unless it is told to.
_MOST_AHEAD_MS = 3_600_000
# Of an earlier one the broker computes that it is far ahead.
_FIRST_MS = -(1 << 62)
# They must not expire before somebody looks, and a record too large for the target must fit.
_SETTINGS = {"retention.ms": "-1", "max.message.bytes": str(20 << 20)}


@dataclass(frozen=True)
class Graveyard:
    """A topic for dead letters; made, with one partition, when it is not there.

    Burying is a replay of its own beside the one whose records die, `<replay>.dlq`, with the same
    ledger: a slice that was buried before a crash is not buried again after it.
    """

    connection: KafkaConnection
    topic: str

    @contextmanager
    def open(self, replay_id: str, /) -> Iterator[Bury]:
        """What buries the dead letters of a slice; each lies there when it returns."""
        with Admin(self.connection) as admin:
            make_ledger(admin)
            dig(admin, self.topic)
        target = KafkaTarget(self.connection, self.topic, partition_rule="key", moves_group=False)
        with target.open(burial_id(replay_id)) as writer:
            yield _Sexton(writer, replay_id).bury


def dig(admin: Admin, topic: str) -> None:
    """Return when there is a topic for dead letters of this name."""
    make_topic(admin, topic, partitions=1, settings=_SETTINGS)


def burial_id(replay_id: str) -> str:
    """The name under which a replay's dead letters are committed."""
    return f"{replay_id}.dlq"


@dataclass(frozen=True, slots=True)
class _Sexton:
    writer: KafkaWriter
    replay_id: str

    def bury(self, slice_: Slice, letters: Sequence[DeadLetter]) -> None:
        """Commit what of the slice was not committed by an earlier run.

        A run that resumes cuts its slices anew, so a slice may have been buried in part.
        """
        buried = self.writer.committed((slice_.topic, slice_.partition))
        for part in remaining([slice_], buried):
            own = [each for each in letters if each.record.offset in part]
            account = Account(part)
            account.read = len(own)
            records = [_as_record(each, self.replay_id) for each in own]
            self.writer.commit(account, [Records.of(records)] if records else [])


def _as_record(letter: DeadLetter, replay_id: str) -> Record:
    timestamp_ms = letter.record.timestamp_ms
    last_ms = time.time_ns() // 1_000_000 + _MOST_AHEAD_MS
    if timestamp_ms == 0 or not _FIRST_MS <= timestamp_ms <= last_ms:
        timestamp_ms = _NO_TIME_MS  # the header has it
    headers = letter_headers(letter, replay_id)
    return replace(letter.record, timestamp_ms=timestamp_ms, headers=headers)

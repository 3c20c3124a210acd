"""Headers of dead letters: those that Playhead writes, and where those of others say a record came from."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b

from playhead.account import DeadLetter
from playhead.record import Headers, Record

PREFIX = "__playhead.errors."
COUNT_HEADER = PREFIX + "count"
_CONNECT = "__connect.errors."
# Written by brokers since Kafka 4.4 (KIP-1191) for records that a share group gave up.
_SHARE_GROUP = "__dlq.errors."
_SPRING = "kafka_dlt-"
_SPRING_ORIGINAL = _SPRING + "original-"
_SPRING_RETRY = "retry_topic-"
# The ledger's own topic: who could write there could say what was committed.
_OURS = {"playhead.ledger"}
_ERROR_PREFIXES = (PREFIX, _CONNECT, _SHARE_GROUP, _SPRING, _SPRING_RETRY)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a record was when it died; partition and timestamp are None where nobody wrote them down."""

    topic: str
    partition: int | None
    timestamp_ms: int | None
    count: int
    """How often it has died."""
    is_empty: bool = False
    """Whether its headers say where the record was, and it does not have the record."""


def letter_headers(letter: DeadLetter, replay_id: str) -> Headers:
    """The record's headers, and behind them why it died; those of an earlier death give way."""
    record = letter.record
    own = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "timestamp": str(record.timestamp_ms),
        "kind": letter.kind,
        "reason": letter.reason,
        "replay": replay_id,
        "count": str(_count(_last(record.headers)) + 1),
    }
    kept = [
        (_sayable(name), value) for name, value in record.headers if not name.startswith(PREFIX)
    ]
    said = [(PREFIX + name, text.encode("utf-8", "replace")) for name, text in own.items()]
    return (*kept, *said)


def record_of_letter(letter: Record, replay_id: str) -> tuple[str, int, int] | None:
    """Topic, partition and offset of the record that a replay has buried; None when it was another's."""
    told = _last(letter.headers)
    topic, replay = (_text(told.get(PREFIX + name)) for name in ("topic", "replay"))
    partition, offset = (_number(told.get(PREFIX + name)) for name in ("partition", "offset"))
    if topic is None or partition is None or offset is None or replay != replay_id:
        return None
    return topic, partition, offset


def carried(record: Record, *, is_letter: bool) -> int:
    """A digest of what a record and its dead letter have in common: all but why it died."""
    told = _last(record.headers)
    said = _text(told.get(PREFIX + "timestamp")) if is_letter else str(record.timestamp_ms)
    kept = [
        (_sayable(name), value) for name, value in record.headers if not name.startswith(PREFIX)
    ]
    text = repr((record.key, record.value, kept, said)).encode("utf-8", "backslashreplace")
    return int.from_bytes(blake2b(text, digest_size=8).digest())


def refusal_headers(topic: str, timestamp_ms: int, kind: str, reason: str) -> Headers:
    """Why a record died that was meant for a topic and never got there: it has no partition and no offset."""
    own = {
        "topic": topic,
        "timestamp": str(timestamp_ms),
        "kind": kind,
        "reason": reason,
        "count": "1",
    }
    return tuple((PREFIX + name, text.encode("utf-8", "replace")) for name, text in own.items())


def origin_of(record: Record) -> Origin | None:
    """Where a dead letter came from: by Playhead's headers, Connect's, Spring's or a broker's; None without."""
    told = _last(record.headers)
    for read in (_of_playhead, _of_connect, _of_spring):
        found = read(told)
        if found is not None:
            return found
    # The last, because a broker copies no headers: those of others beside its own were written later.
    return _of_share_group(told, is_empty=record.key is None and record.value is None)


def may_return_to(topic: str) -> bool:
    """Whether a header may lead there: anybody can write headers, and to ask for an odd name is an error."""
    is_name = re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", topic) and topic not in (".", "..")
    return bool(is_name) and not topic.startswith("__") and topic not in _OURS


def without_errors(headers: Headers, count: int) -> Headers:
    """The headers as they were before the record died, and how often it has."""
    kept = tuple(header for header in headers if not header[0].startswith(_ERROR_PREFIXES))
    return (*kept, (COUNT_HEADER, str(count).encode()))


_Told = Mapping[str, bytes | None]


def _of_playhead(told: _Told) -> Origin | None:
    topic = _text(told.get(PREFIX + "topic"))
    if not topic:
        return None
    partition, timestamp_ms = (
        _number(told.get(PREFIX + name)) for name in ("partition", "timestamp")
    )
    return Origin(topic, _place(partition), timestamp_ms, max(_count(told), 1))


def _of_connect(told: _Told) -> Origin | None:
    topic = _text(told.get(_CONNECT + "topic"))
    if not topic:
        return None
    # Connect copies the record's timestamp, and everything else but the partition.
    return Origin(topic, _place(_number(told.get(_CONNECT + "partition"))), None, _count(told) + 1)


def _of_share_group(told: _Told, *, is_empty: bool) -> Origin | None:
    topic = _text(told.get(_SHARE_GROUP + "topic"))
    if not topic:
        return None
    # A broker does not write down the record's timestamp, and copies key and value only with
    # errors.deadletterqueue.copy.record.enable, as long as the topic still has the record.
    partition = _place(_number(told.get(_SHARE_GROUP + "partition")))
    return Origin(topic, partition, None, _count(told) + 1, is_empty)


def _of_spring(told: _Told) -> Origin | None:
    topic = _text(told.get(_SPRING_ORIGINAL + "topic"))
    if not topic:
        return None
    partition = _binary(told.get(_SPRING_ORIGINAL + "partition"), 4)
    timestamp_ms = _binary(told.get(_SPRING_ORIGINAL + "timestamp"), 8)
    return Origin(topic, _place(partition), timestamp_ms, _count(told) + 1)


def _last(headers: Headers) -> _Told:
    # Who dies more than once has some headers more than once, and the last death counts.
    return dict(headers)


def _count(told: _Told) -> int:
    return max(_number(told.get(COUNT_HEADER)) or 0, 0)


def _place(partition: int | None) -> int | None:
    return partition if partition is not None and partition >= 0 else None


def _text(value: bytes | None) -> str | None:
    try:
        return value.decode() if value is not None else None
    except UnicodeDecodeError:
        return None


def _number(value: bytes | None) -> int | None:
    text = _text(value)
    try:
        # Not more digits than a number of Kafka's can have: int() of a long text takes for ever.
        return int(text) if text and len(text) <= 20 else None
    except ValueError:
        return None


def _binary(value: bytes | None, length: int) -> int | None:
    return (
        int.from_bytes(value, signed=True) if value is not None and len(value) == length else None
    )


def _sayable(name: str) -> str:
    """A name that no client can send must not keep the record out of the place for such records."""
    return name.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()

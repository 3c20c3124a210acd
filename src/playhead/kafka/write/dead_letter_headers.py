"""The headers of dead letters: those of Playhead, and the original topic in those of other tools."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from playhead.account import DeadLetter
from playhead.record import Headers, Record
from playhead.source import UNREADABLE

PREFIX = "__playhead.errors."
COUNT_HEADER = PREFIX + "count"
ALTERED_HEADER = PREFIX + "altered"
"""Says how the letter differs from its record, so that no redrive returns it."""
RETURNS_TO = "returns_to"
"""In the plan of a redrive, and settled when it begins: the topics that its target does not name."""
_CONNECT = "__connect.errors."
# Written by brokers since Kafka 4.4 (KIP-1191) for records that a share group rejects.
_SHARE_GROUP = "__dlq.errors."
_SPRING = "kafka_dlt-"
_SPRING_ORIGINAL = _SPRING + "original-"
_SPRING_RETRY = "retry_topic-"
_NOT_COPIED = "the broker did not copy the record (errors.deadletterqueue.copy.record.enable)"
# The ledger's own topic: a record written there could claim any commit.
_OURS = {"playhead.ledger"}
_LARGEST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Origin:
    """The original position of a dead letter; partition and timestamp are None if unknown."""

    topic: str
    partition: int | None
    timestamp_ms: int | None
    count: int
    """How often the record has failed."""
    lacking: str = ""
    """How the dead letter differs from its record; empty if it does not."""


def letter_headers(letter: DeadLetter, replay_id: str) -> Headers:
    """Return the record's headers, followed by the reason; headers of an earlier failure are replaced."""
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
    if letter.kind == UNREADABLE:
        own["altered"] = letter.reason
    elif any(_sayable(name) != name for name, _ in record.headers):
        own["altered"] = "the name of a header cannot be sent, and is written with escapes"
    said = [(PREFIX + name, text.encode("utf-8", "replace")) for name, text in own.items()]
    return (*kept, *said)


def record_of_letter(letter: Record, replay_id: str) -> tuple[str, int, int] | None:
    """Return topic, partition and offset of the record if this replay wrote the letter, else None."""
    told = _last(letter.headers)
    topic, replay = (_text(told.get(PREFIX + name)) for name in ("topic", "replay"))
    partition, offset = (_number(told.get(PREFIX + name)) for name in ("partition", "offset"))
    if topic is None or partition is None or offset is None or replay != replay_id:
        return None
    return topic, partition, offset


def carried(record: Record, *, is_letter: bool) -> int:
    """Return a digest of what a record and its dead letter share: everything but the reason."""
    told = _last(record.headers)
    said = _text(told.get(PREFIX + "timestamp")) if is_letter else str(record.timestamp_ms)
    kept = [
        (_sayable(name), value) for name, value in record.headers if not name.startswith(PREFIX)
    ]
    text = repr((record.key, record.value, kept, said)).encode("utf-8", "backslashreplace")
    return int.from_bytes(blake2b(text, digest_size=8).digest())


def refusal_headers(topic: str, timestamp_ms: int, kind: str, reason: str) -> Headers:
    """Return headers for a record that never reached its topic, without partition and offset."""
    own = {
        "topic": topic,
        "timestamp": str(timestamp_ms),
        "kind": kind,
        "reason": reason,
        "count": "1",
    }
    return tuple((PREFIX + name, text.encode("utf-8", "replace")) for name, text in own.items())


def origin_of(record: Record) -> Origin | None:
    """Return the original position, from the headers of Playhead, Connect, Spring or a broker; None without."""
    told = _last(record.headers)
    for read, _ in _READERS:
        found = read(told)
        if found is not None:
            return found
    # Checked last: a broker copies no headers, so those of other tools beside its own are newer.
    return _of_share_group(told, is_empty=record.key is None and record.value is None)


def may_return_to(topic: str) -> bool:
    """Return whether a record may go there: anyone can write headers, and an invalid name is an error."""
    is_name = re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", topic) and topic not in (".", "..")
    return bool(is_name) and not topic.startswith("__") and topic not in _OURS


def named_in(target: str) -> Sequence[str]:
    """Return the topics that a redrive's target names."""
    return target.split(",") if target else ()


def allowed(target: str, settled: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the topics to which records return: the named ones or, without names, those that the plan has shown.

    None stands for all. Only a redrive of an earlier version has settled none, and it can only be verified.
    """
    if not target and RETURNS_TO not in settled:
        return None
    planned = settled.get(RETURNS_TO)
    names = named_in(target) or (planned if isinstance(planned, list) else ())
    return frozenset(map(str, names))


def without_errors(headers: Headers, count: int) -> Headers:
    """Return the headers from before the failure, and how often the record has failed.

    Only those of the tool that wrote the letter are left out. What it has of another tool was in the record,
    which was a dead letter itself and could not be returned without it.
    """
    told = _last(headers)
    own = next((added for read, added in _READERS if read(told) is not None), (_SHARE_GROUP,))
    kept = tuple(header for header in headers if not header[0].startswith((PREFIX, *own)))
    return (*kept, (COUNT_HEADER, str(count).encode()))


_Told = Mapping[str, bytes | None]


def _of_playhead(told: _Told) -> Origin | None:
    topic = _text(told.get(PREFIX + "topic"))
    if not topic:
        return None
    partition, timestamp_ms = (
        _number(told.get(PREFIX + name)) for name in ("partition", "timestamp")
    )
    altered = _text(told.get(ALTERED_HEADER))
    lacking = f"the dead letter differs from its record: {altered}" if altered else ""
    return Origin(topic, _place(partition), timestamp_ms, max(_count(told), 1), lacking)


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
    # A broker does not store the record's timestamp, and copies key and value only with
    # errors.deadletterqueue.copy.record.enable while the topic still has the record.
    partition = _place(_number(told.get(_SHARE_GROUP + "partition")))
    return Origin(topic, partition, None, _count(told) + 1, _NOT_COPIED if is_empty else "")


def _of_spring(told: _Told) -> Origin | None:
    topic = _text(told.get(_SPRING_ORIGINAL + "topic"))
    if not topic:
        return None
    partition = _binary(told.get(_SPRING_ORIGINAL + "partition"), 4)
    timestamp_ms = _binary(told.get(_SPRING_ORIGINAL + "timestamp"), 8)
    return Origin(topic, _place(partition), timestamp_ms, _count(told) + 1)


_READERS: Final[tuple[tuple[Callable[[_Told], Origin | None], tuple[str, ...]], ...]] = (
    (_of_playhead, ()),
    (_of_connect, (_CONNECT,)),
    (_of_spring, (_SPRING, _SPRING_RETRY)),
)
"""Who writes letters, in the order in which they are looked for, and how the names of their headers begin."""


def _last(headers: Headers) -> _Told:
    # After several failures some headers repeat, and the last one counts.
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
        # At most the digits of Kafka's numbers: int() of a long text takes very long.
        found = int(text) if text and len(text) <= 20 else None
    except ValueError:
        return None
    return found if found is not None and abs(found) <= _LARGEST else None


def _binary(value: bytes | None, length: int) -> int | None:
    return (
        int.from_bytes(value, signed=True) if value is not None and len(value) == length else None
    )


def _sayable(name: str) -> str:
    """Replace a name that no client can send, so that the record can still be stored as a dead letter."""
    return name.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()

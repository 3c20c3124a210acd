"""The names that a replay writes under: the keys of its ledger entries, and its transactional ids.

No two replays, partitions or writers share a name, so that no entry replaces another writer's, and no
writer fences another replay's.
"""

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote
from uuid import uuid4

from playhead.record import Slice
from playhead.source import TopicPartition

LEDGER_TOPIC = "playhead.ledger"
_WRITER = re.compile(r"w[0-9a-f]{16}")
_MOST_DIGITS = 19


@dataclass(frozen=True, slots=True)
class EntryKey:
    """The parts of an entry's key."""

    replay_id: str
    place: TopicPartition
    writer: str | None
    """The writer's name; None if a version without named writers wrote it."""


def new_writer() -> str:
    """Return a unique name for a new writer of one partition's entries."""
    return f"w{uuid4().hex[:16]}"


def prefix_of(replay_id: str) -> bytes:
    """Return the beginning of all keys of a replay; no id contains `|`."""
    return f"{replay_id}|".encode()


def key_of(replay_id: str, slice_: Slice, writer: str) -> bytes:
    """Return the key of an entry, of which compaction keeps one record.

    It contains the writer, so that two writers of the same offsets both keep their entries.
    """
    place = f"{quote(slice_.topic, safe='')}|{slice_.partition}"
    return f"{replay_id}|{place}|{slice_.from_offset}|{writer}".encode()


def terms_key(replay_id: str) -> bytes:
    """Return the key of the replay's terms."""
    return f"{replay_id}|||".encode()


def names_key(replay_id: str) -> bytes:
    """Return the key of the record that says that a replay names its writers."""
    return f"{replay_id}||writers|".encode()


def parsed(key: bytes) -> EntryKey | None:
    """Parse the key of an entry; return None for other keys.

    Before writers had names, keys were `replay|topic|partition|offset`.
    """
    replay_id, _, rest = key.decode(errors="replace").partition("|")
    topic, *others = rest.rsplit("|", 3)
    if len(others) == 3 and topic and _WRITER.fullmatch(others[2]) and _is_number(others[0]):
        return EntryKey(replay_id, (unquote(topic), int(others[0])), others[2])
    topic, *others = rest.rsplit("|", 2)
    if len(others) == 2 and topic and all(map(_is_number, others)):
        return EntryKey(replay_id, (topic, int(others[0])), None)
    return None


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= _MOST_DIGITS


def burial_id(replay_id: str) -> str:
    """Return the id for a replay's dead letters; no replay's own id contains `/`."""
    return f"{replay_id}/dlq"


def former_burial_id(replay_id: str) -> str:
    """Return the earlier form of that id, which another replay could have."""
    return f"{replay_id}.dlq"


def transactional_id(replay_id: str, place: TopicPartition) -> str:
    """Return a stable id, so that a later writer fences an earlier one; ids and topic names contain no `/`."""
    return f"playhead-{replay_id}/{quote(place[0], safe='')}/{place[1]}"


def terms_id(replay_id: str) -> str:
    """Return the transactional id of the writer of the terms; all other ids of the replay end in a number."""
    return f"playhead-{replay_id}-terms"


def former_transactional_id(replay_id: str, place: TopicPartition) -> str:
    """Return the earlier form: replay `x` on topic `y-z` had the same one as `x-y` on `z`."""
    return f"playhead-{replay_id}-{place[0]}-{place[1]}"

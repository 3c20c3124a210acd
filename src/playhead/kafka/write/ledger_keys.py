"""The names under which a replay writes: the keys of its ledger entries, and its transactional ids.

No two replays, partitions or writers have one name in common, so that nobody's entry can take the
place of another's, and nobody fences a stranger.
"""

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote
from uuid import uuid4

from playhead.record import Slice
from playhead.source import TopicPartition

LEDGER_TOPIC = "playhead.ledger"
_WRITER = re.compile(r"w[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class EntryKey:
    """What the key of an entry says."""

    replay_id: str
    place: TopicPartition
    writer: str | None
    """Who wrote it; None when a version of Playhead did whose writers had no names."""


def new_writer() -> str:
    """A name for whoever writes entries of one partition from now on; nobody else has it."""
    return f"w{uuid4().hex[:16]}"


def prefix_of(replay_id: str) -> bytes:
    """What all keys of a replay begin with; `|` is in no id."""
    return f"{replay_id}|".encode()


def key_of(replay_id: str, slice_: Slice, writer: str) -> bytes:
    """The key of an entry; compaction keeps one record for each.

    It names the writer, so that of two that commit the same offsets both entries stay.
    """
    place = f"{quote(slice_.topic, safe='')}|{slice_.partition}"
    return f"{replay_id}|{place}|{slice_.from_offset}|{writer}".encode()


def terms_key(replay_id: str) -> bytes:
    """The key of what holds for the whole replay."""
    return f"{replay_id}|||".encode()


def names_key(replay_id: str) -> bytes:
    """The key of the record that says that a replay's writers have names, and ids that cannot collide."""
    return f"{replay_id}||writers|".encode()


def parsed(key: bytes) -> EntryKey | None:
    """What the key of an entry says; None for one of something else.

    Before writers had names, keys were `replay|topic|partition|offset`.
    """
    replay_id, _, rest = key.decode(errors="replace").partition("|")
    topic, *others = rest.rsplit("|", 3)
    if len(others) == 3 and topic and _WRITER.fullmatch(others[2]) and others[0].isdecimal():
        return EntryKey(replay_id, (unquote(topic), int(others[0])), others[2])
    topic, *others = rest.rsplit("|", 2)
    if len(others) == 2 and topic and all(map(str.isdecimal, others)):
        return EntryKey(replay_id, (topic, int(others[0])), None)
    return None


def burial_id(replay_id: str) -> str:
    """The name under which a replay's dead letters are committed; `/` is in no replay's own."""
    return f"{replay_id}/dlq"


def former_burial_id(replay_id: str) -> str:
    """What it was before; some other replay may be called so."""
    return f"{replay_id}.dlq"


def transactional_id(replay_id: str, place: TopicPartition) -> str:
    """Stable, so that who comes later fences who was before; `/` is in no id and in no topic's name."""
    return f"playhead-{replay_id}/{quote(place[0], safe='')}/{place[1]}"


def terms_id(replay_id: str) -> str:
    """Of who writes what holds for the whole replay; every other one of its ids ends in a number."""
    return f"playhead-{replay_id}-terms"


def former_transactional_id(replay_id: str, place: TopicPartition) -> str:
    """What it was before: replay `x` on topic `y-z` had the one of `x-y` on `z`."""
    return f"playhead-{replay_id}-{place[0]}-{place[1]}"

"""The ledger topic: created so that it keeps every entry, and refused if it would not."""

from collections.abc import Collection

from playhead.errors import Refused
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.offsets import describe_those
from playhead.kafka.admin.topics import TopicState, describe_topics
from playhead.kafka.read.facts import settings_of
from playhead.kafka.write.ledger_keys import LEDGER_TOPIC
from playhead.kafka.write.target_topics import make_topic
from playhead.note import Note

# A live pipeline writes an entry several times a second under one key, and compaction skips the
# active segment: the smaller the segments, the less there is to read.
_SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}
_MIN_IN_SYNC = "min.insync.replicas"


class ForgetfulLedger(Refused):
    """The ledger topic deletes old entries, so that a finished replay could run again."""

    def __init__(self, policy: str) -> None:
        self.policy = policy
        super().__init__(
            f"topic {LEDGER_TOPIC} has cleanup.policy={policy} and would delete entries: it "
            "needs cleanup.policy=compact",
            hint=f"playhead topics alter {LEDGER_TOPIC} --compact",
        )


class SplitLedger(Refused):
    """The ledger topic has several partitions, but entries are read from one."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        super().__init__(
            f"topic {LEDGER_TOPIC} has {partitions} partitions, needed exactly 1",
            hint=f"while it is empty: playhead topics delete {LEDGER_TOPIC}; the next replay creates it again",
        )


def make_ledger(admin: Admin, *, beside: Collection[str] = ()) -> None:
    """Create the ledger topic if it does not exist; refuse one that would delete entries.

    It gets as many replicas as the topics that are written beside it, or the brokers' default.
    """
    is_there = bool(describe_those(admin, [LEDGER_TOPIC]))
    more, replication = ({}, None) if is_there else _as_safe_as(admin, beside)
    settings = _SETTINGS | more
    make_topic(admin, LEDGER_TOPIC, partitions=1, settings=settings, replication=replication)
    refuse_forgetful_ledger(admin)


def _as_safe_as(admin: Admin, topics: Collection[str]) -> tuple[dict[str, str], int | None]:
    found = describe_those(admin, list(topics)) if topics else {}
    if not found:
        return {}, None
    states = describe_topics(admin, list(found))
    in_sync = max(map(_min_in_sync, states))
    settings = {_MIN_IN_SYNC: str(in_sync)} if in_sync > 1 else {}
    return settings, max(state.replication for state in states)


def refuse_forgetful_ledger(admin: Admin) -> bool:
    """Return whether the ledger exists; raise if it must not be used."""
    found = describe_those(admin, [LEDGER_TOPIC]).get(LEDGER_TOPIC)
    if found is None:
        return False
    if len(found.partitions) != 1:
        raise SplitLedger(len(found.partitions))
    settings = settings_of(admin, [LEDGER_TOPIC])[LEDGER_TOPIC]
    policy = (settings or {}).get("cleanup.policy", "compact")
    if "delete" in policy.split(","):
        raise ForgetfulLedger(policy)
    return True


def notes_on_ledger(admin: Admin, targets: Collection[str]) -> list[Note]:
    """Return notes about the ledger for a replay into these topics."""
    if not refuse_forgetful_ledger(admin):
        return []
    ledger, *others = describe_topics(admin, [LEDGER_TOPIC, *sorted(targets)])
    notes = []
    if ledger.settings is None:
        text = (
            f"not authorized to describe the config of {LEDGER_TOPIC} (DescribeConfigs): "
            "whether it keeps all entries is unknown"
        )
        notes.append(Note("ledger-settings-unknown", text))
    safest = max(others, key=lambda each: (each.replication, _min_in_sync(each)), default=ledger)
    if ledger.replication < safest.replication:
        text = (
            f"{LEDGER_TOPIC} has {ledger.replication} replicas, {safest.name} "
            f"{safest.replication}: if the ledger is lost and the records are not, they would "
            "be written again"
        )
        notes.append(Note("ledger-replication", text))
    if _min_in_sync(ledger) < max(map(_min_in_sync, others), default=0):
        text = (
            f"{LEDGER_TOPIC} has {_MIN_IN_SYNC}={_min_in_sync(ledger)}, less than the target: "
            f"playhead topics alter {LEDGER_TOPIC} --set {_MIN_IN_SYNC}=N"
        )
        notes.append(Note("ledger-in-sync", text))
    return notes


def _min_in_sync(topic: TopicState) -> int:
    found = {each.name: each.value for each in topic.settings or ()}
    return int(found.get(_MIN_IN_SYNC) or 1)

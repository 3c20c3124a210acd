"""The topics that records are written to: their partitions and limits."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from playhead.errors import BrokerUnavailable, Refused
from playhead.host.clock import wait_until
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.errors import KafkaRefused
from playhead.kafka.admin.offsets import Described, describe_those, stable_ends
from playhead.kafka.read.facts import Settings, settings_of

# Java's Long.MAX_VALUE: no limit.
_NO_LIMIT_MS = 2**63 - 1
_HEARD_OF_WITHIN_S = 3.0
# The overhead of a record set beside its records.
_SET_OVERHEAD_BYTES = 1_024


class TargetTopicReplaced(Refused):
    """A topic was deleted, and perhaps created again, since a replay began to write to it."""

    def __init__(self, topic: str, *, began_with: str, found: str | None) -> None:
        self.topic, self.began_with, self.found = topic, began_with, found
        now = f"its id was {began_with} and is {found}" if found else "it is gone"
        super().__init__(
            f"topic {topic} is not the one that this replay began to write to: {now}; the "
            "records that the ledger lists are lost",
            hint="start again with another --id, or a live pipeline with another --name",
        )


class TimesReplaced(Refused):
    """A topic began to set its own times after a replay had begun to write to it."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(
            f"topic {topic} sets its own times now (message.timestamp.type=LogAppendTime), and did not when this "
            "replay began: the timestamps of its records would be lost",
            hint=f"playhead topics alter {topic} --set message.timestamp.type=CreateTime, then resume; or plan a "
            "new replay, whose plan says so",
        )


@dataclass(frozen=True, slots=True)
class TargetTopic:
    """A topic as it is now; its settings are unknown without authorization."""

    name: str
    partitions: int
    settings: Settings | None = field(default=None, hash=False)
    topic_id: str | None = None
    """Changes when the topic is deleted and created again; None for one to create."""

    @property
    def is_compacted(self) -> bool:
        return "compact" in self._said("cleanup.policy", "delete").split(",")

    @property
    def retention_ms(self) -> int | None:
        """None if records do not expire by age."""
        retention_ms = int(self._said("retention.ms", "-1"))
        policies = self._said("cleanup.policy", "delete").split(",")
        return retention_ms if retention_ms >= 0 and "delete" in policies else None

    @property
    def sets_log_append_time(self) -> bool:
        return self._said("message.timestamp.type", "CreateTime") == "LogAppendTime"

    @property
    def most_bytes(self) -> int | None:
        """The largest accepted record set; None if unknown."""
        said = self._said("max.message.bytes", "")
        return int(said) if said else None

    @property
    def set_bytes(self) -> int | None:
        """The maximum size of a set of several records, so that a rejected set contains a single record."""
        most = self.most_bytes
        return None if most is None else max(most - _SET_OVERHEAD_BYTES, 1)

    def limit_ms(self, side: str) -> int | None:
        """Return how far `before` or `after` now a timestamp may be; None without a limit."""
        said = int(self._said(f"message.timestamp.{side}.max.ms", str(_NO_LIMIT_MS)))
        return said if said < _NO_LIMIT_MS else None

    def _said(self, name: str, otherwise: str) -> str:
        return (self.settings or {}).get(name, otherwise)


def make_topic(
    admin: Admin,
    name: str,
    *,
    partitions: int,
    settings: Mapping[str, str],
    replication: int | None = None,
) -> None:
    """Return when the topic can be written to, even if another process created it."""
    try:
        admin.create_topic(
            name, partitions=partitions, settings=dict(settings), replication=replication
        )
    except KafkaRefused:
        # It may exist without leaders yet.
        if name not in describe_those(admin, [name]):
            raise
    places = [(name, number) for number in range(partitions)]

    def can_be_used() -> bool:
        try:
            return bool(stable_ends(admin, places))
        except (KafkaRefused, BrokerUnavailable):
            return False

    if not wait_until(can_be_used, deadline_s=admin.timeout_s, every_s=0.05):
        stable_ends(admin, places)


def confirm_same(admin: Admin, topic_ids: Mapping[str, str]) -> None:
    """Refuse if one of the topics, by name and id, does not exist any more."""
    found = described_soon(admin, topic_ids)
    for name, topic_id in topic_ids.items():
        now = found[name].topic_id if name in found else None
        if now != topic_id:
            raise TargetTopicReplaced(name, began_with=topic_id, found=now)


def described_soon(admin: Admin, topics: Collection[str]) -> dict[str, Described]:
    """Return those of the topics that exist.

    A broker that learns of a new topic late does not mean that it is gone: missing ones are asked for again.
    """
    found: dict[str, Described] = {}

    def all_are_there() -> bool:
        found.update(describe_those(admin, list(topics)))
        return set(topics) <= found.keys()

    if topics:
        wait_until(all_are_there, deadline_s=_HEARD_OF_WITHIN_S, every_s=0.2)
    return found


def look_up(admin: Admin, topics: Collection[str]) -> dict[str, TargetTopic]:
    """Return those of the topics that exist."""
    if not topics:
        return {}
    described = describe_those(admin, list(topics))
    settings = settings_of(admin, list(described)) if described else {}
    return {
        name: TargetTopic(name, len(each.partitions), settings[name], each.topic_id)
        for name, each in described.items()
    }

"""What a plan needs to know about a cluster's topics beside their offsets, with notes for people."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from confluent_kafka import ConsumerGroupState

from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.errors import Meaning, meaning_of
from playhead.kafka.admin.offsets import Described
from playhead.kafka.admin.topics import settings_with_source
from playhead.note import Note
from playhead.source import TopicFacts

_WITHOUT_MEMBERS = {ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD}
Settings = Mapping[str, str]
# The settings that decide whether a copy accepts the same records and keeps them as long, with
# their default values: not every broker knows the later ones.
TAKEN_OVER: Mapping[str, str | None] = {
    "cleanup.policy": None,
    "retention.ms": None,
    "retention.bytes": None,
    "max.message.bytes": None,
    "delete.retention.ms": "86400000",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "9223372036854775807",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.after.max.ms": "3600000",
}


def settings_of(admin: Admin, topics: Collection[str]) -> dict[str, Settings | None]:
    """Return the settings of topics; None for a topic without authorization."""
    return {
        topic: None
        if settings is None
        else {setting.name: setting.value for setting in settings if setting.value is not None}
        for topic, settings in settings_with_source(admin, topics).items()
    }


def topic_facts(
    described: Described,
    settings: Settings | None,
    sizes: Mapping[int, int],
    epochs: Mapping[int, int],
) -> TopicFacts:
    """Return a topic's id, settings, size and leaders' epochs, as far as they are known."""
    told = settings or {}
    retention_ms = int(told.get("retention.ms", -1))
    policies = told.get("cleanup.policy", "delete").split(",")
    return TopicFacts(
        topic_id=described.topic_id,
        sets_log_append_time=told.get("message.timestamp.type") == "LogAppendTime",
        is_compacted="compact" in policies,
        retention_ms=retention_ms if retention_ms >= 0 and "delete" in policies else None,
        bytes_by_partition=sizes,
        leader_epochs=epochs,
        settings={
            name: told[name]
            for name, unsaid in TAKEN_OVER.items()
            if told.get(name, unsaid) != unsaid
        },
    )


def notes_on_settings(topic: str, settings: Settings | None) -> list[Note]:
    """Return notes on what the settings of a topic mean for a replay of it."""
    if settings is None:
        text = (
            f"not authorized to describe the config of {topic} (DescribeConfigs): "
            "retention and compaction are unknown"
        )
        return [Note("settings-unknown", text)]
    notes = []
    policies = settings.get("cleanup.policy", "delete").split(",")
    if "compact" in policies:
        text = (
            f"{topic} is compacted: some records may already be gone, and counts are upper limits"
        )
        notes.append(Note("compacted", text, "info"))
    keeps_bytes = int(settings.get("retention.bytes", -1))
    if keeps_bytes >= 0 and "delete" in policies:
        text = f"{topic} keeps at most {keeps_bytes} bytes of each partition: new records push out old ones"
        notes.append(Note("retention-bytes", text, "info"))
    return notes


def notes_on_groups(admin: Admin, topics: Collection[str]) -> list[Note]:
    """Return notes on consumer groups that read the topics now; a replay does not affect them."""
    notes = []
    for group, held in sorted(_live_groups(admin).items()):
        for topic in sorted(held.keys() & set(topics)):
            text = f"consumer group {group} is reading {topic} now ({held[topic]} members)"
            notes.append(Note("group-live", text, "info"))
    return notes


def _live_groups(admin: Admin) -> dict[str, dict[str, int]]:
    """Return the topics assigned to each group, with the number of members."""
    with admin.asking("asking for consumer groups") as client:
        listed = client.list_consumer_groups(request_timeout=admin.timeout_s)
        groups = listed.result(admin.timeout_s).valid
        names = [group.group_id for group in groups if group.state not in _WITHOUT_MEMBERS]
        if not names:
            return {}
        asked = client.describe_consumer_groups(names, request_timeout=admin.timeout_s)
        found = {}
        for name, answer in asked.items():
            # Gone meanwhile, of an unknown kind, or not visible: this is only a note, and no reason
            # to fail.
            group = admin.answer(answer, none_if=lambda e: meaning_of(e) is not Meaning.AWAY)
            if group is not None:
                found[name] = group.members
    return {name: _by_topic(members) for name, members in found.items()}


def _by_topic(members: Iterable[Any]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for member in members:
        for topic in {place.topic for place in member.assignment.topic_partitions}:
            counts[topic] = counts.get(topic, 0) + 1
    return counts

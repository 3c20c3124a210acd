"""Lists, describes, creates, alters and deletes the topics of a cluster."""

import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
)

from playhead.config.guards import Guard
from playhead.endpoint import check_topic
from playhead.errors import BadValue, BrokerUnavailable, PlayheadError, UnknownKey
from playhead.host.clock import wait_until
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.errors import (
    KafkaRefused,
    Need,
    is_not_authorized,
    is_unknown_topic,
    needing,
)
from playhead.kafka.admin.offsets import NoSuchTopic, describe_those, stable_ends

_INTERNAL = "__"
_BROKERS_CHOICE = -1


class TopicExists(PlayheadError):
    """The topic to create already exists."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(
            f"topic {topic!r} already exists; nothing was changed",
            hint=f"--if-not-exists accepts it unchanged; see playhead topics describe {topic}",
        )


class StillThere(PlayheadError):
    """A topic still exists after its deletion was accepted."""

    def __init__(self, topic: str, *, waited_s: float) -> None:
        self.topic, self.waited_s = topic, waited_s
        super().__init__(
            f"the cluster accepted the deletion of topic {topic!r}, but the topic still "
            f"exists after {waited_s:g} s",
            hint="check with `playhead topics list`",
        )


@dataclass(frozen=True, slots=True)
class Listed:
    """A topic in the cluster's metadata."""

    name: str
    partitions: int
    replication: int
    is_internal: bool


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition's leader and replicas; without a leader, None."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicSetting:
    """One setting of a topic, and who set it: `topic`, `broker`, `cluster`, `file` or `default`."""

    name: str
    value: str | None
    source: str


@dataclass(frozen=True, slots=True)
class TopicState:
    """The description of a topic; its settings are None without authorization."""

    name: str
    topic_id: str
    is_internal: bool
    partitions: tuple[PartitionState, ...]
    settings: tuple[TopicSetting, ...] | None

    @property
    def replication(self) -> int:
        return max((len(each.replicas) for each in self.partitions), default=0)


@dataclass(frozen=True, slots=True)
class NewShape:
    """The properties of a new topic; the brokers decide those that are None."""

    name: str
    partitions: int | None = None
    replication: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)


def list_topics(
    admin: Admin, *, pattern: str | None = None, internal: bool = False
) -> list[Listed]:
    """Return the topics whose name contains the pattern, sorted; Kafka's own topics only on request."""
    with admin.asking("listing topics") as client:
        found = client.list_topics(timeout=admin.timeout_s).topics
    return [
        Listed(
            name,
            len(topic.partitions),
            max((len(each.replicas) for each in topic.partitions.values()), default=0),
            name.startswith(_INTERNAL),
        )
        for name, topic in sorted(found.items())
        if (internal or not name.startswith(_INTERNAL)) and re.search(pattern or "", name)
    ]


def describe_topics(admin: Admin, names: Sequence[str]) -> list[TopicState]:
    """Return topics with their partitions and settings, in the given order; a missing one is an error."""
    found: dict[str, Any] = {}
    for name, answer in _ask_for(admin, names).items():
        with needing(Need("Describe", "topic", name)), admin.asking(f"describing topic {name}"):
            found[name] = admin.answer(answer, none_if=is_unknown_topic)
    for name in names:
        if found[name] is None:
            raise NoSuchTopic(name, existing=[each.name for each in list_topics(admin)])
    settings = settings_with_source(admin, names)
    return [_state(found[name], settings[name]) for name in names]


def _ask_for(admin: Admin, names: Sequence[str]) -> Mapping[str, Any]:
    for name in names:
        check_topic(name)
    with admin.asking("describing topics") as client:
        asked: Mapping[str, Any] = client.describe_topics(
            TopicCollection(list(dict.fromkeys(names))), request_timeout=admin.timeout_s
        )
    return asked


def _state(said: Any, settings: tuple[TopicSetting, ...] | None) -> TopicState:
    partitions = [
        PartitionState(
            each.id,
            each.leader.id if each.leader is not None and each.leader.id >= 0 else None,
            tuple(node.id for node in each.replicas),
            tuple(node.id for node in each.isr),
        )
        for each in sorted(said.partitions, key=lambda each: each.id)
    ]
    # Kafka's tools write '-' and '_' where the client's text of an id has '+' and '/'.
    topic_id = str(said.topic_id).translate(str.maketrans("+/", "-_"))
    return TopicState(said.name, topic_id, said.is_internal, tuple(partitions), settings)


_SOURCES = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG.value: "topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG.value: "broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value: "cluster",
    ConfigSource.STATIC_BROKER_CONFIG.value: "file",
    ConfigSource.DEFAULT_CONFIG.value: "default",
}


def settings_with_source(
    admin: Admin, names: Collection[str]
) -> dict[str, tuple[TopicSetting, ...] | None]:
    """Return every setting of the topics with its origin; None without authorization."""
    wanted = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in dict.fromkeys(names)]
    found: dict[str, tuple[TopicSetting, ...] | None] = {}
    if not wanted:
        return found
    with admin.asking("reading the settings of topics") as client:
        asked = client.describe_configs(wanted, request_timeout=admin.timeout_s)
        for resource, answer in asked.items():
            said = admin.answer(answer, none_if=is_not_authorized)
            found[resource.name] = (
                None
                if said is None
                else tuple(
                    TopicSetting(
                        entry.name,
                        None if entry.is_sensitive else entry.value,
                        _SOURCES.get(entry.source, "unknown"),
                    )
                    for entry in sorted(said.values(), key=lambda entry: entry.name)
                )
            )
    return found


# --- create, alter, delete ----------------------------------------------------------------------


def create(admin: Admin, shape: NewShape, guard: Guard, *, only_check: bool = False) -> None:
    """Create a topic and return when it can be used; `only_check` lets the brokers validate it only."""
    wanted = NewTopic(
        shape.name,
        _BROKERS_CHOICE if shape.partitions is None else shape.partitions,
        _BROKERS_CHOICE if shape.replication is None else shape.replication,
        config=dict(shape.settings),
    )
    action = f"creating topic {shape.name}"
    if not only_check:
        guard.need(action, shape.name)
    with (
        needing(Need("Create", "topic", shape.name)),
        admin.asking(action) as client,
    ):
        try:
            made = client.create_topics(
                [wanted], request_timeout=admin.timeout_s, validate_only=only_check
            )
            made[shape.name].result(admin.timeout_s)
        except KafkaException as exc:
            if exc.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                raise TopicExists(shape.name) from exc
            raise
    if not only_check:
        _await_use(admin, shape.name)


def _await_use(admin: Admin, name: str) -> None:
    """Wait until the partitions have leaders, which happens after the topic's creation."""

    def can_be_used() -> bool:
        try:
            held = describe_those(admin, [name]).get(name)
            return held is not None and bool(
                stable_ends(admin, [(name, number) for number in held.partitions])
            )
        except (KafkaRefused, BrokerUnavailable):
            return False

    wait_until(can_be_used, deadline_s=admin.timeout_s, every_s=0.05)


@dataclass(frozen=True, slots=True)
class Alteration:
    """Changes of a topic: more partitions, settings to set, and settings to reset."""

    name: str
    partitions: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)
    reset: tuple[str, ...] = ()

    def rows(self, now: TopicState) -> list[dict[str, object]]:
        """Return what changes, before and after; equal values are no change."""
        held = {each.name: each for each in now.settings or ()}
        rows: list[dict[str, object]] = []
        if self.partitions is not None and self.partitions != len(now.partitions):
            before: object = len(now.partitions)
            rows.append({"what": "partitions", "before": before, "after": self.partitions})
        for name, value in self.settings.items():
            said = held.get(name)
            if said is None or said.value != value or said.source != "topic":
                rows.append({"what": name, "before": said and said.value, "after": value})
        rows += [
            {"what": name, "before": held[name].value, "after": "(the brokers' own)"}
            for name in self.reset
            if name in held and held[name].source == "topic"
        ]
        return rows

    def check(self, now: TopicState) -> None:
        """Refuse what the brokers would refuse with less explanation."""
        if self.partitions is not None and self.partitions < len(now.partitions):
            raise BadValue(
                "--partitions",
                found=self.partitions,
                needed=f"{len(now.partitions)} or more, because Kafka cannot remove partitions",
                where=f"topic {now.name}",
            )
        known = [each.name for each in now.settings or ()]
        for name in (*self.settings, *self.reset):
            if known and name not in known:
                raise UnknownKey(name, where="the settings of a topic", known=known)


def check_alteration(admin: Admin, wanted: Alteration, now: TopicState) -> None:
    """Let the brokers validate a change without making it."""
    _alter(admin, wanted, now, only_check=True)


def alter(admin: Admin, wanted: Alteration, now: TopicState, guard: Guard) -> None:
    """Change a topic; the brokers validate both parts before either is changed."""
    guard.need(f"altering topic {wanted.name}", wanted.name)
    for only_check in (True, False):
        _alter(admin, wanted, now, only_check=only_check)
    _await_use(admin, wanted.name)


def _alter(admin: Admin, wanted: Alteration, now: TopicState, *, only_check: bool) -> None:
    _alter_settings(admin, wanted, only_check=only_check)
    if wanted.partitions is not None and wanted.partitions > len(now.partitions):
        _add_partitions(admin, wanted.name, wanted.partitions, only_check=only_check)


def _alter_settings(admin: Admin, wanted: Alteration, *, only_check: bool) -> None:
    said = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in wanted.settings.items()
    ]
    said += [
        ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE)
        for name in wanted.reset
    ]
    if not said:
        return
    resource = ConfigResource(ConfigResource.Type.TOPIC, wanted.name, incremental_configs=said)
    action = f"altering the settings of topic {wanted.name}"
    with needing(Need("AlterConfigs", "topic", wanted.name)), admin.asking(action) as client:
        asked = client.incremental_alter_configs(
            [resource], request_timeout=admin.timeout_s, validate_only=only_check
        )
        for answer in asked.values():
            answer.result(admin.timeout_s)


def _add_partitions(admin: Admin, name: str, partitions: int, *, only_check: bool) -> None:
    action = f"adding partitions to topic {name}"
    with needing(Need("Alter", "topic", name)), admin.asking(action) as client:
        asked = client.create_partitions(
            [NewPartitions(name, partitions)],
            request_timeout=admin.timeout_s,
            validate_only=only_check,
        )
        asked[name].result(admin.timeout_s)


def delete(admin: Admin, name: str, guard: Guard) -> None:
    """Delete a topic and return when it is gone."""
    action = f"deleting topic {name}"
    guard.need(action, name, is_final=True)
    with needing(Need("Delete", "topic", name)), admin.asking(action) as client:
        asked = client.delete_topics([name], request_timeout=admin.timeout_s)
        asked[name].result(admin.timeout_s)
    began = time.monotonic()

    def is_gone() -> bool:
        return name not in describe_those(admin, [name])

    if not wait_until(is_gone, deadline_s=admin.timeout_s, every_s=0.05):
        raise StillThere(name, waited_s=round(time.monotonic() - began, 1))

"""Inspects the target topics of a replay: what is created, what changes in a copy, and what is refused."""

import math
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from playhead.errors import Refused
from playhead.grammar.duration import show_duration_ms
from playhead.grammar.instant import show_ms
from playhead.kafka.admin.client import Admin
from playhead.kafka.read.facts import TAKEN_OVER
from playhead.kafka.write.dead_letter_headers import RETURNS_TO, may_return_to, origin_of
from playhead.kafka.write.ledger_keys import LEDGER_TOPIC
from playhead.kafka.write.ledger_topic import notes_on_ledger
from playhead.kafka.write.routing import PartitionRule
from playhead.kafka.write.target_topics import TargetTopic, look_up
from playhead.note import Note
from playhead.records import Records
from playhead.source import TopicFacts
from playhead.target import Inspection, InspectRequest

_POLICY = "cleanup.policy"


class IntoItself(Refused):
    """A topic would be replayed into itself, and grow while it is read."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(
            f"topic {topic} would be replayed into itself: each record would exist twice",
            hint="name another topic, for example kafka:" + topic + "-copy",
        )


class NoTargetTopic(Refused):
    """A target topic does not exist, and `--create` was not given."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(
            f"there is no topic {topic} in the target's cluster", hint="add --create to make it"
        )


class LedgerAsTarget(Refused):
    """The target is the ledger's own topic."""

    def __init__(self) -> None:
        super().__init__(f"topic {LEDGER_TOPIC} is the ledger and cannot be a target")


class TooFewPartitions(Refused):
    """Records should keep their partitions, but the target has too few."""

    def __init__(self, topic: TargetTopic, needed: int) -> None:
        self.topic, self.needed = topic.name, needed
        super().__init__(
            f"topic {topic.name} has {topic.partitions} partitions, but records that keep "
            f"their partition need {needed}",
            hint="choose the partition by the record's key: --partition key",
        )


@dataclass(frozen=True, slots=True)
class CopySpec:
    """The parts of the target's description that concern topics."""

    names: Mapping[str, str]
    """The target topic of each source topic."""
    partitions: int | None
    create: bool
    rule: PartitionRule


def inspect_copy(admin: Admin, wish: CopySpec, look: InspectRequest) -> Inspection:
    """Inspect a copy into topics that the target names."""
    identity = admin.cluster().cluster_id
    _refuse_impossible(wish, identity, look)
    found = look_up(admin, sorted(set(wish.names.values())))
    notes: list[Note] = []
    creates: dict[str, dict[str, Any]] = {}
    sources: dict[str, list[str]] = {}
    for source, name in wish.names.items():
        sources.setdefault(name, []).append(source)
    for source, name in wish.names.items():
        count = look.partitions[source]
        topic = found.get(name)
        if topic is None:
            if not wish.create:
                raise NoTargetTopic(name)
            if name not in creates:
                creates[name] = _made(wish, sources[name], look)
            topic = _to_be(name, creates[name])
        elif topic.settings is None:
            text = f"not authorized to describe the config of {name} (DescribeConfigs): its limits are unknown"
            notes.append(Note("target-settings-unknown", text))
        if wish.rule == "keep" and count > topic.partitions:
            raise TooFewPartitions(topic, count)
        notes += _notes(wish, topic, count, _Seen.of(look, source))
    notes += _on_merged(wish)
    notes += notes_on_ledger(admin, found)
    needs = {
        "partitions": dict(look.partitions),
        "create": creates,
        "same_cluster": look.source.identity == identity,
    }
    return Inspection(identity, tuple(dict.fromkeys(notes)), topics_made(needs), needs)


def topics_made(needs: Mapping[str, Any]) -> tuple[str, ...]:
    """Describe the topics that a plan would create."""
    return tuple(_said(name, made) for name, made in needs.get("create", {}).items())


def inspect_redrive(admin: Admin, look: InspectRequest, named: Collection[str]) -> Inspection:
    """Inspect a redrive, in which each record returns to its original topic.

    The headers may be forged. Therefore records return only to the topics that the command names or, if it names none,
    to those that the plan shows.
    """
    identity = admin.cluster().cluster_id
    origins = [origin_of(record) for records in look.samples for record in records]
    told = {origin.topic for origin in origins if origin is not None}
    found = look_up(admin, sorted(filter(may_return_to, named or told)))
    notes = []
    lost = sum(1 for origin in origins if origin is None)
    if lost:
        text = f"{lost} of {len(origins)} samples have no header that names their original topic"
        notes.append(Note("redrive-no-origin", text))
    lacking = [origin.lacking for origin in origins if origin is not None and origin.lacking]
    if lacking:
        text = (
            f"{len(lacking)} of {len(origins)} samples name an original record, but do not contain "
            f"it unchanged: they are rejected; {lacking[0]}"
        )
        notes.append(Note("redrive-not-copied", text))
    others = sorted(told.difference(named)) if named else []
    if others:
        text = f"samples come from {', '.join(others)}, which the target does not name: they are rejected"
        notes.append(Note("redrive-not-named", text))
    gone = sorted(name for name in named or told if name not in found)
    if gone:
        text = f"original topics of dead letters do not exist any more: {', '.join(gone)}"
        notes.append(Note("redrive-topic-gone", text))
    if found:
        text = f"dead letters return to {', '.join(found)}, and to no other topic"
        notes.append(Note("redrive", text, "info"))
    for topic in found.values():
        notes += _on_time(topic, _Seen.of(look, None))
    notes += notes_on_ledger(admin, found)
    needs = {
        "partitions": dict(look.partitions),
        "same_cluster": look.source.identity == identity,
        RETURNS_TO: sorted(filter(may_return_to, told)),
    }
    return Inspection(identity, tuple(dict.fromkeys(notes)), needs=needs)


def _refuse_impossible(wish: CopySpec, identity: str, look: InspectRequest) -> None:
    for source, name in wish.names.items():
        if name == source and identity == look.source.identity:
            raise IntoItself(name)
        if name == LEDGER_TOPIC:
            raise LedgerAsTarget


def _made(wish: CopySpec, sources: Sequence[str], look: InspectRequest) -> dict[str, Any]:
    """Describe a topic for the records of these; it accepts and keeps what any of them does.

    A broker's default retention would delete old records at once, and its default timestamp might be its own.
    """
    facts = [look.source.topics.get(each, TopicFacts()) for each in sources]
    keeps = [each.retention_ms for each in facts if each.retention_ms is not None]
    keeps_ms = str(max(keeps) if len(keeps) == len(facts) else -1)
    settings = {"retention.ms": keeps_ms, "message.timestamp.type": "CreateTime"}
    policies = {each.settings.get(_POLICY, "") for each in facts}
    for name in dict.fromkeys(name for each in facts for name in each.settings):
        said = [each.settings.get(name, TAKEN_OVER.get(name)) for each in facts]
        settings[name] = max(filter(None, said), key=_reach)
    if len(policies) > 1:  # Compacting would remove records of those that are not compacted.
        settings |= {_POLICY: "delete", "retention.ms": keeps_ms}
    partitions = wish.partitions or max(look.partitions[each] for each in sources)
    return {"partitions": partitions, "settings": settings}


def _reach(setting: str) -> float:
    """Return how much a setting keeps or accepts; -1 has no end, and words are not compared."""
    return math.inf if setting == "-1" else int(setting) if setting.isdigit() else 0


def _to_be(name: str, made: Mapping[str, Any]) -> TargetTopic:
    return TargetTopic(name, int(made["partitions"]), made["settings"])


def _said(name: str, made: Mapping[str, Any]) -> str:
    topic = _to_be(name, made)
    keeps_ms = topic.retention_ms
    how_long = "no end" if keeps_ms is None else show_duration_ms(keeps_ms)
    compacted = ", and is compacted" if topic.is_compacted else ""
    # The user who agrees must see every setting, because another person may have made the plan.
    shown = ("retention.ms", "cleanup.policy", "message.timestamp.type")
    more = "".join(
        f", {key}={made['settings'][key]}" for key in made["settings"] if key not in shown
    )
    return f"topic {name} with {topic.partitions} partitions, which keeps records for {how_long}{compacted}{more}"


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is known about the records to come."""

    oldest_ms: int | None
    newest_ms: int | None
    largest: int
    keyless: bool

    @classmethod
    def of(cls, look: InspectRequest, topic: str | None) -> "_Seen":
        samples = [each for each in look.samples if topic is None or each.topic == topic]
        times = [time for each in samples for time in each.timestamps_ms if time >= 0]
        known = times if look.oldest_ms is None else [*times, look.oldest_ms]
        return cls(
            min(known, default=None),
            max(times, default=None),
            max((size for each in samples for size in _sizes(each)), default=0),
            any(key is None for each in samples for key in each.keys),
        )


def _sizes(records: Records) -> Iterable[int]:
    return (
        len(key or b"") + len(value or b"")
        for key, value in zip(records.keys, records.values, strict=True)
    )


def _notes(wish: CopySpec, topic: TargetTopic, count: int, seen: _Seen) -> Iterator[Note]:
    yield from _on_time(topic, seen)
    if wish.rule == "key" or (wish.rule == "auto" and topic.partitions != count):
        text = (
            f"{topic.name} has {topic.partitions} partitions, its source {count}: records go "
            "to the partition of their key, like Java's producer"
        )
        yield Note("target-partitions", text, "info")
    if wish.rule == "any":
        text = f"records go to all partitions of {topic.name} in turn: records of one key lose their order"
        yield Note("target-partitions", text, "info")
    if topic.most_bytes is not None and seen.largest > topic.most_bytes:
        text = (
            f"{topic.name} accepts at most {topic.most_bytes} bytes at once "
            f"(max.message.bytes), but a record has {seen.largest}: it can be written only if "
            "compression makes it small enough"
        )
        yield Note("target-record-size", text)
    if topic.is_compacted:
        yield Note(
            "target-compacted",
            f"{topic.name} is compacted: of the records of one key, only the last stays, and "
            "a verification will report the others as missing",
        )
        if seen.keyless:
            text = f"{topic.name} is compacted and accepts no records without a key, but some have none"
            yield Note("target-needs-keys", text)


def _on_time(topic: TargetTopic, seen: _Seen) -> Iterator[Note]:
    now_ms = time.time_ns() // 1_000_000
    if topic.sets_log_append_time:
        text = f"{topic.name} sets its own times (LogAppendTime): timestamps are not kept"
        yield Note("target-log-append-time", text)
        return
    keeps_ms, oldest_ms, newest_ms = topic.retention_ms, seen.oldest_ms, seen.newest_ms
    if oldest_ms is None:
        return
    if keeps_ms is not None and oldest_ms < now_ms - keeps_ms:
        yield Note(
            "target-retention",
            f"{topic.name} keeps records for {show_duration_ms(keeps_ms)} (retention.ms): "
            f"those from {show_ms(oldest_ms)} to {show_ms(now_ms - keeps_ms)} would be "
            "deleted at once",
        )
    before_ms, after_ms = topic.limit_ms("before"), topic.limit_ms("after")
    if before_ms is not None and oldest_ms < now_ms - before_ms:
        yield _refusing(topic, "before", before_ms, oldest_ms)
    if after_ms is not None and newest_ms is not None and newest_ms > now_ms + after_ms:
        yield _refusing(topic, "after", after_ms, newest_ms)


def _refusing(topic: TargetTopic, side: str, limit_ms: int, seen_ms: int) -> Note:
    setting = f"message.timestamp.{side}.max.ms"
    text = (
        f"{topic.name} refuses timestamps more than {show_duration_ms(limit_ms)} {side} now "
        f"({setting}), but one is {show_ms(seen_ms)}"
    )
    return Note("target-timestamps-refused", text)


def _on_merged(wish: CopySpec) -> Iterator[Note]:
    names = sorted(set(wish.names.values()))
    if len(names) < len(wish.names):
        text = (
            f"{len(wish.names)} topics go into {', '.join(names)} together; write {{topic}} in "
            "the target's name to keep them separate"
        )
        yield Note("target-merged", text)

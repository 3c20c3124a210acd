"""Topics as a target: the contract, exact copies, and what is said before."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
)

from playhead.account import Account, ErrorRule, RecordRefused
from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import BadValue
from playhead.host.clock import SystemClock, wait_until
from playhead.kafka.admin.client import Admin
from playhead.kafka.read import reader
from playhead.kafka.read.facts import settings_of
from playhead.kafka.read.source import KafkaSource
from playhead.kafka.write.inspect import IntoItself, LedgerAsTarget, NoTargetTopic, TooFewPartitions
from playhead.kafka.write.ledger_keys import LEDGER_TOPIC, terms_key
from playhead.kafka.write.partitioner import KeyPartitioner
from playhead.kafka.write.target import KafkaTarget
from playhead.kafka.write.target_topics import TargetTopicReplaced, TimesReplaced
from playhead.record import Record, Slice, TimestampType
from playhead.records import Records
from playhead.source import SourceFacts, TopicFacts
from playhead.target import InspectRequest, InUse, OutOfOrder, SliceComparison
from playhead.terms import NotBegunThere
from playhead.testing import exercise_target
from playhead.testing.target_case import terms
from tests.fix_topics import content, records_in

HOUR_MS = 3_600_000


def record(offset: int, partition: int = 0, **more: object) -> Record:
    plain = Record("laps", partition, offset, 1_000 + offset, TimestampType.CREATE_TIME, b"k", b"v")
    return replace(plain, **more)


def look(
    partitions: int = 1, *, source: str = "elsewhere", samples=(), oldest_ms=None
) -> InspectRequest:
    facts = SourceFacts(source, {"laps": TopicFacts()})
    return InspectRequest(
        facts, {"laps": partitions}, [Records.of(samples)] if samples else [], oldest_ms
    )


def new_id() -> str:
    return uuid.uuid4().hex[:8]


def prepared(target: KafkaTarget, partitions: int = 1, replay_id: str | None = None) -> str:
    replay_id = replay_id or new_id()
    target.prepare(replay_id, target.inspect(look(partitions)), terms("laps"))
    return replay_id


def commit(
    target: KafkaTarget,
    replay_id: str,
    records: list[Record],
    *,
    rule: str = "fail",
    topic: str = "laps",
) -> Account:
    """One slice from the first record's offset to the last's."""
    first = records[0]
    slice_ = Slice(first.topic, first.partition, first.offset, records[-1].offset + 1)
    account = Account(slice_, ErrorRule.parse(rule))
    account.read = len(records)
    with target.open(replay_id) as writer:
        halves = records[: len(records) // 2], records[len(records) // 2 :]
        writer.commit(account, [Records.of(half) for half in halves if half])
    return account


def compare(target: KafkaTarget, replay_id: str, records: list[Record]) -> SliceComparison:
    [entry] = target.entries(replay_id)
    with target.open(replay_id) as writer:
        return writer.compare(entry, [Records.of(records)])


def test_contract(kafka: KafkaConnection) -> None:
    suffix = uuid.uuid4().hex[:8]
    topics = [f"contract-{suffix}", f"other-{suffix}"]

    def damage() -> None:
        """Take the last records away."""
        admin = AdminClient(kafka.for_librdkafka("client"))
        end = records_in(kafka, topics[0])[-1]
        places = [TopicPartition(topics[0], end.partition, end.offset + 1)]
        for answer in admin.delete_records(places).values():
            answer.result(10)

    exercise_target(
        lambda: KafkaTarget(kafka, f"{{topic}}-{suffix}", create=True),
        lambda: records_in(kafka, *topics),
        bad_record=record(0, timestamp_ms=0),
        damage=damage,
    )


ODD = [
    record(0, key=None, value=None),
    record(1, key=b"", value=b""),
    record(2, timestamp_ms=-1),
    record(3, timestamp_ms=-77),
    record(4, timestamp_ms=1),
    record(5, timestamp_ms=1_000, value=b"before the one before it"),
    record(6, headers=(("a", None), ("a", b""), ("b", b"\x00\xff"), ("", b"x"), ("a", b"\xc3"))),
    record(7, headers=tuple((f"h{n % 7}", b"%d" % n) for n in range(1_000))),
    record(9, headers=(("é\U0001f600", "ü".encode()),), value=b"\x00" * 900_000),
]


def test_copies_are_exact(
    kafka: KafkaConnection, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = KafkaTarget(kafka, topic)
    replay_id = prepared(target)
    commit(target, replay_id, ODD)
    assert [content(each) for each in records_in(kafka, topic)] == [content(each) for each in ODD]
    [entry] = target.entries(replay_id)
    assert entry.details["exact"]
    assert entry.details["offsets"] == [[0, 0, 0, 8], [9, 0, 8, 1]]
    monkeypatch.setattr(reader, "PartitionConsumer", None)  # What is compared, it does not read.
    found = compare(target, replay_id, ODD)
    assert found.different == 0
    assert found.expected == found.found == len(ODD)


def test_a_topic_that_sets_its_own_times_is_compared_without_them(
    kafka: KafkaConnection, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    target = KafkaTarget(kafka, topic)
    replay_id = prepared(target)
    records = [record(n, value=b"%d" % n) for n in range(5)]
    commit(target, replay_id, records)
    assert min(each.timestamp_ms for each in records_in(kafka, topic)) > 1_600_000_000_000
    assert compare(target, replay_id, records).different == 0
    assert compare(target, replay_id, [*records[:4], record(4, value=b"x")]).different == 1


def test_times_are_compared_that_a_topic_has_kept_before_it_was_altered(
    kafka: KafkaConnection, topic: str
) -> None:
    target = KafkaTarget(kafka, topic)
    replay_id = prepared(target)
    records = [record(n, value=b"%d" % n) for n in range(5)]
    commit(target, replay_id, records)
    set_own_times(kafka, topic)
    assert compare(target, replay_id, records).different == 0
    assert compare(target, replay_id, [*records[:4], record(5, value=b"4")]).different == 2
    late = [*records[:4], replace(records[4], timestamp_ms=77)]
    assert compare(target, replay_id, late).different == 1


def test_a_topic_that_begins_to_set_its_own_times_gets_no_more_records(
    kafka: KafkaConnection, topic: str
) -> None:
    target = KafkaTarget(kafka, topic)
    replay_id = prepared(target)
    set_own_times(kafka, topic)
    with pytest.raises(TimesReplaced, match=f"topic {topic} sets its own times now"):
        commit(target, replay_id, [record(n) for n in range(3)])
    assert records_in(kafka, topic) == []
    assert not target.entries(replay_id)
    again = prepared(target)
    commit(target, again, [record(n) for n in range(3)])
    assert len(records_in(kafka, topic)) == 3, "its plan has said so"


def set_own_times(kafka: KafkaConnection, topic: str) -> None:
    """As another program does, and wait until the brokers know."""
    setting = ConfigEntry(
        "message.timestamp.type", "LogAppendTime", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[setting])
    admin = AdminClient(kafka.for_librdkafka("client"))
    admin.incremental_alter_configs([resource])[resource].result(10)

    def is_set() -> bool:
        with Admin(kafka) as ours:
            found = settings_of(ours, [topic])[topic] or {}
        return found.get("message.timestamp.type") == "LogAppendTime"

    assert wait_until(is_set, deadline_s=10, clock=SystemClock(), every_s=0.1)


@pytest.mark.parametrize(
    "bad",
    [
        record(1, timestamp_ms=0),
        record(1, headers=(("a\0b", b"1"),)),
        record(1, headers=(("\ud800", b"1"),)),
    ],
)
def test_what_the_client_cannot_send_is_refused(
    kafka: KafkaConnection, topic: str, bad: Record
) -> None:
    target = KafkaTarget(kafka, topic)
    with pytest.raises(RecordRefused, match="laps:0 offset 1"):
        commit(target, prepared(target), [record(0), bad])
    assert records_in(kafka, topic) == []
    commit(target, prepared(target), [record(0), bad, record(2)], rule="skip")
    assert [each.timestamp_ms for each in records_in(kafka, topic)] == [1_000, 1_002]


def test_partitions_are_kept_when_both_have_as_many(
    kafka: KafkaConnection, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(3)
    target = KafkaTarget(kafka, topic)
    replay_id = prepared(target, 3)
    for partition in (2, 0):
        commit(target, replay_id, [record(n, partition) for n in range(5)])
    assert {each.partition for each in records_in(kafka, topic)} == {0, 2}


def test_records_go_by_their_key_when_the_counts_differ(
    kafka: KafkaConnection, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(3)
    target = KafkaTarget(kafka, topic)
    inspection = target.inspect(look(5))
    assert "target-partitions" in {note.code for note in inspection.notes}
    replay_id = prepared(target, 5)
    keyed = [record(n, 4, key=b"key %d" % n) for n in range(50)]
    keyless = [record(n, 4, key=None) for n in range(50, 60)]
    commit(target, replay_id, keyed + keyless)
    found = records_in(kafka, topic)
    by_key = KeyPartitioner(3)
    for each in found:
        assert each.partition == (1 if each.key is None else by_key.partition_of(each.key))
    assert sorted(map(repr, map(content, found))) == sorted(
        map(repr, map(content, keyed + keyless))
    )
    assert compare(target, replay_id, keyed + keyless).different == 0
    # The replay began with three partitions per key's rule, and another look changes nothing.
    assert prepared(target, 3, replay_id) == replay_id
    commit(target, replay_id, [record(60, 4, key=b"key 1")])
    assert records_in(kafka, topic) != found
    assert all(
        each.partition == by_key.partition_of(b"key 1")
        for each in records_in(kafka, topic)
        if each.key == b"key 1"
    )


def test_partition_keep_needs_as_many(kafka: KafkaConnection, topic: str) -> None:
    with pytest.raises(TooFewPartitions):
        KafkaTarget(kafka, topic, partition_rule="keep").inspect(look(2))


def test_partitions_that_are_added_meanwhile_move_no_key(
    kafka: KafkaConnection, make_topic: Callable[..., str]
) -> None:
    kept, spread = make_topic(2), make_topic(2)
    targets = KafkaTarget(kafka, kept), KafkaTarget(kafka, spread, partition_rule="key")
    replay_ids = [prepared(target, 2) for target in targets]
    for start in (0, 50):
        records = [record(n, 1, key=b"%d" % (n % 50)) for n in range(start, start + 50)]
        for target, replay_id in zip(targets, replay_ids, strict=True):
            commit(target, replay_id, records)
        if start == 0:
            admin = AdminClient(kafka.for_librdkafka("client"))
            more = [NewPartitions(name, 3) for name in (kept, spread)]
            for answer in admin.create_partitions(more).values():
                answer.result(10)
    assert {each.partition for each in records_in(kafka, kept)} == {1}
    places = [(each.key, each.partition) for each in records_in(kafka, spread)]
    assert len(places) == 100
    assert len(set(places)) == 50
    assert {partition for _, partition in places} == {0, 1}


def test_headers_by_rules_and_provenance(kafka: KafkaConnection, topic: str) -> None:
    target = KafkaTarget(
        kafka, topic, headers=("keep", "drop:secret", "add:via=play=head"), provenance=True
    )
    held = (("a", b"1"), ("secret", b"2"), ("a", None), ("secret", None))
    replay_id = prepared(target)
    commit(target, replay_id, [record(7, headers=held)])
    [found] = records_in(kafka, topic)
    assert found.headers == (
        ("a", b"1"),
        ("a", None),
        ("via", b"play=head"),
        ("__playhead.source.topic", b"laps"),
        ("__playhead.source.partition", b"0"),
        ("__playhead.source.offset", b"7"),
        ("__playhead.source.replay", replay_id.encode()),
    )
    assert compare(target, replay_id, [record(7, headers=held)]).different == 0
    with pytest.raises(BadValue):
        KafkaTarget(kafka, topic, headers=("add:x",))


def test_a_group_shows_the_progress_within_one_cluster(
    kafka: KafkaConnection, make_topic: Callable[..., str]
) -> None:
    source, topic = make_topic(), make_topic()
    target = KafkaTarget(kafka, topic)
    with Admin(kafka) as admin:
        identity = admin.cluster().cluster_id
    facts = SourceFacts(identity, {source: TopicFacts()})
    replay_id = new_id()
    target.prepare(replay_id, target.inspect(InspectRequest(facts, {source: 1}, [])), terms(source))
    commit(target, replay_id, [record(n, topic=source) for n in range(3, 9)])
    client = AdminClient(kafka.for_librdkafka("client"))
    group = f"playhead.{replay_id}"
    from confluent_kafka import ConsumerGroupTopicPartitions

    asked = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    [place] = asked[group].result(10).topic_partitions
    assert (place.topic, place.partition, place.offset) == (source, 0, 9)


def test_another_cluster_that_answers_in_the_middle_of_a_run_gets_nothing(
    kafka: KafkaConnection, topic: str
) -> None:
    # It has the topic and a ledger of other replays, so that nothing else would refuse the records.
    target = KafkaTarget(kafka, topic)
    replay_id = prepared(target)
    commit(target, replay_id, [record(0)])
    producer = Producer(kafka.for_librdkafka("producer"))
    producer.produce(LEDGER_TOPIC, None, terms_key(replay_id), 0)
    assert producer.flush(10) == 0
    with pytest.raises(NotBegunThere, match=f"does not know {replay_id}"):
        commit(target, replay_id, [record(1)])
    assert len(records_in(kafka, topic)) == 1
    assert [each.slice.to_offset for each in target.entries(replay_id)] == [1]


# --- what is said before ----------------------------------------------------------------------


def codes(target: KafkaTarget, asked: InspectRequest) -> set[str]:
    return {note.code for note in target.inspect(asked).notes}


@pytest.mark.parametrize("is_endless", [True, False])
def test_what_a_restored_cluster_lacks_is_not_passed_over(
    kafka: KafkaConnection, topic: str, is_endless: bool
) -> None:
    """A writer that connects again finds a ledger without what the caller has seen committed."""
    target = KafkaTarget(kafka, topic)
    replay_id = prepared(target)
    commit(target, replay_id, [record(0), record(1)])
    account = Account(Slice("laps", 0, 4, 5), ErrorRule(), is_endless=is_endless)
    account.read, account.follows = 1, 4
    with target.open(replay_id) as writer:
        with pytest.raises(OutOfOrder, match="up to 4, are not committed"):
            writer.commit(account, [Records.of([record(4)])])
        assert [each.slice for each in target.entries(replay_id)] == [Slice("laps", 0, 0, 2)]
        account.start_over()
        account.read, account.follows = 1, 2
        writer.commit(account, [Records.of([record(4)])])
    assert len(records_in(kafka, topic)) == 3


def test_a_topic_is_not_replayed_into_itself(kafka: KafkaConnection) -> None:
    with Admin(kafka) as admin:
        identity = admin.cluster().cluster_id
    with pytest.raises(IntoItself):
        KafkaTarget(kafka, "{topic}", create=True).inspect(look(source=identity))
    assert KafkaTarget(kafka, "{topic}", create=True).inspect(look())
    with pytest.raises(LedgerAsTarget):
        KafkaTarget(kafka, LEDGER_TOPIC).inspect(look())


def test_a_missing_topic_is_made_only_when_told(kafka: KafkaConnection) -> None:
    name = f"made-{new_id()}"
    with pytest.raises(NoTargetTopic):
        KafkaTarget(kafka, name).inspect(look())
    target = KafkaTarget(kafka, name, create=True)
    inspection = target.inspect(look(4))
    assert inspection.creates == (
        f"topic {name} with 4 partitions, which keeps records for no end",
    )
    prepared(target, 4)
    with Admin(kafka) as admin:
        assert admin.cluster().topics[name] == 4


def test_a_topic_that_is_made_takes_and_keeps_what_its_source_does(
    kafka: KafkaConnection, make_topic: Callable[..., str]
) -> None:
    wanted = {
        "cleanup.policy": "compact,delete",
        "retention.ms": str(HOUR_MS),
        "max.message.bytes": "5000000",
        "message.timestamp.after.max.ms": str(HOUR_MS * 48),
        "message.timestamp.type": "LogAppendTime",
    }
    source = make_topic(**{name.replace(".", "_"): value for name, value in wanted.items()})
    facts = SourceFacts("elsewhere", KafkaSource(kafka, (source,)).facts().topics)
    name = f"made-{new_id()}"
    target = KafkaTarget(kafka, name, create=True)
    samples = [Records.of([record(0, topic=source)])]
    inspection = target.inspect(InspectRequest(facts, {source: 1}, samples))
    # Said although the topic is still to be made.
    assert {note.code for note in inspection.notes} == {"target-retention", "target-compacted"}
    target.prepare(new_id(), inspection, terms(source))
    with Admin(kafka) as admin:
        made = settings_of(admin, [name])[name]
    assert made is not None
    # A copy keeps the timestamps of its records, whoever set them.
    wanted["message.timestamp.type"] = "CreateTime"
    assert {each: made[each] for each in wanted} == wanted


def test_a_topic_made_anew_while_a_replay_writes_to_it(
    kafka: KafkaConnection, make_topic: Callable[..., str]
) -> None:
    name = f"gone-{new_id()}"
    target = KafkaTarget(kafka, name, create=True)
    replay_id = prepared(target)
    slices = [Slice("laps", 0, start, start + 10) for start in (0, 10)]
    with target.open(replay_id) as writer:
        writer.commit(Account(slices[0]), [Records.of([record(n) for n in range(10)])])
        made_anew(kafka, name)
        with pytest.raises(TargetTopicReplaced, match="lost"):
            writer.commit(Account(slices[1]), [Records.of([record(n) for n in range(10, 20)])])
    assert [entry.slice for entry in target.entries(replay_id)] == slices[:1]
    assert records_in(kafka, name) == []
    with pytest.raises(TargetTopicReplaced):
        target.prepare(replay_id, target.inspect(look()), terms("laps"))
    with target.open(replay_id) as writer, pytest.raises(TargetTopicReplaced):
        writer.commit(Account(slices[1]), [Records.of([record(n) for n in range(10, 20)])])
    admin = AdminClient(kafka.for_librdkafka("client"))
    admin.delete_topics([name])[name].result(10)
    with pytest.raises(TargetTopicReplaced, match="it is gone"):
        target.prepare(replay_id, target.inspect(look()), terms("laps"))
    with Admin(kafka) as ours:
        assert name not in ours.cluster().topics, "nothing is made in its place"


def made_anew(kafka: KafkaConnection, name: str) -> None:
    admin = AdminClient(kafka.for_librdkafka("client"))
    admin.delete_topics([name])[name].result(10)

    def made() -> bool:
        with Admin(kafka) as ours:
            return ours.create_topic(name, partitions=1)

    assert wait_until(made, deadline_s=10, clock=SystemClock(), every_s=0.1)


def test_settings_of_the_topic_that_hurt_are_named(
    kafka: KafkaConnection, make_topic: Callable[..., str]
) -> None:
    now_ms = 4_000_000_000_000
    samples = [record(0, timestamp_ms=1_600_000_000_000), record(1, timestamp_ms=now_ms)]
    topic = make_topic(retention_ms=str(HOUR_MS), message_timestamp_before_max_ms=str(HOUR_MS))
    assert codes(KafkaTarget(kafka, topic), look(samples=samples)) == {
        "target-retention",
        "target-timestamps-refused",
    }
    assert codes(KafkaTarget(kafka, make_topic(retention_ms="-1")), look(oldest_ms=1)) == set()
    small = make_topic(max_message_bytes="100", cleanup_policy="compact")
    samples = [record(0, value=b"x" * 1_000), record(1, key=None)]
    assert codes(KafkaTarget(kafka, small), look(samples=samples)) == {
        "target-record-size",
        "target-compacted",
        "target-needs-keys",
    }
    stamping = make_topic(message_timestamp_type="LogAppendTime")
    assert codes(KafkaTarget(kafka, stamping), look(samples=samples)) == {"target-log-append-time"}


def test_preview_shows_rows(kafka: KafkaConnection) -> None:
    target = KafkaTarget(kafka, "{topic}-copy", headers=("drop:b",))
    [row] = target.preview(Records.of([record(0, headers=(("a", b"\xff"), ("b", b"")))]))
    assert row == {
        "topic": "laps-copy",
        "timestamp": "1970-01-01T00:00:01.000Z",
        "key": "k",
        "value": "v",
        "headers": [["a", "\\xff"]],
    }


# --- what the cluster refuses -----------------------------------------------------------------


def refused_of(kafka: KafkaConnection, topic: str, records: list[Record]) -> list[int]:
    """What is skipped; all the rest must be there."""
    target = KafkaTarget(kafka, topic)
    with pytest.raises(RecordRefused) as caught:
        commit(target, prepared(target), records)
    assert records_in(kafka, topic) == []
    replay_id = prepared(target)
    account = commit(target, replay_id, records, rule="skip")
    refused = sorted(account.refused_offsets)
    assert caught.value.offset in refused
    kept = [each for each in records if each.offset not in refused]
    assert [content(each) for each in records_in(kafka, topic)] == [content(each) for each in kept]
    [entry] = target.entries(replay_id)
    assert (entry.written, entry.skipped) == (len(kept), len(refused))
    assert compare(target, replay_id, records).different == 0
    return refused


def incompressible(size: int, seed: int) -> bytes:
    import random

    return random.Random(seed).randbytes(size)


def test_records_too_large_for_the_topic(
    kafka: KafkaConnection, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(max_message_bytes="5000")
    records = [record(n, value=incompressible(300, n)) for n in range(400)]
    for offset in (17, 18, 200, 399):
        records[offset] = record(offset, value=incompressible(9_000, offset))
    # One that is larger, too, but can be compressed to fit.
    records[100] = record(100, value=b"z" * 9_000)
    assert refused_of(kafka, topic, records) == [17, 18, 200, 399]


def test_timestamps_that_the_topic_does_not_take(
    kafka: KafkaConnection, make_topic: Callable[..., str]
) -> None:
    import time

    now_ms = time.time_ns() // 1_000_000
    topic = make_topic(
        message_timestamp_before_max_ms=str(HOUR_MS), message_timestamp_after_max_ms=str(HOUR_MS)
    )
    times = [now_ms + (n - 150) * HOUR_MS // 50 for n in range(300)]
    records = [record(n, timestamp_ms=time) for n, time in enumerate(times)]
    records[3] = record(3, timestamp_ms=-1)
    refused = refused_of(kafka, topic, records)
    early, late = [n for n in range(101) if n != 3], list(range(201, 300))
    # Time goes on while this runs.
    assert set(early[:-1] + late[2:]) <= set(refused) <= {*early, 101, 102, 200, *late}


def test_a_compacted_topic_takes_no_record_without_a_key(
    kafka: KafkaConnection, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(cleanup_policy="compact")
    records = [record(n, key=None if n % 7 == 3 else b"%d" % n) for n in range(50)]
    assert refused_of(kafka, topic, records) == [n for n in range(50) if n % 7 == 3]


def arrives(kafka: KafkaConnection, topic: str) -> bool:
    """Whether somebody who reads uncommitted records, too, is given one."""
    settings = {"group.id": topic, "isolation.level": "read_uncommitted"}
    consumer = Consumer(kafka.for_librdkafka("consumer") | settings)
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = consumer.poll(5)
        return found is not None and found.error() is None
    finally:
        consumer.close()


@pytest.mark.parametrize("is_paced", [True, False])
def test_a_paced_record_leaves_when_it_is_due_and_not_with_its_slice(
    kafka: KafkaConnection, topic: str, is_paced: bool
) -> None:
    target = KafkaTarget(kafka, topic, is_paced=is_paced)
    replay_id = prepared(target)
    seen: list[bool] = []

    def due() -> Iterator[Records]:
        yield Records.of([record(0)])
        seen.append(arrives(kafka, topic))
        yield Records.of([record(1)])

    account = Account(Slice("laps", 0, 0, 2))
    account.read = 2
    with target.open(replay_id) as writer:
        writer.commit(account, due())
    assert seen == [is_paced]
    assert [content(each) for each in records_in(kafka, topic)] == [
        content(record(0)),
        content(record(1)),
    ]


def test_who_expects_a_partition_has_it_from_then_on(kafka: KafkaConnection, topic: str) -> None:
    target = KafkaTarget(kafka, topic)
    replay_id = prepared(target)

    def account(offset: int) -> Account:
        made = Account(Slice("laps", 0, offset, offset + 1))
        made.read = 1
        return made

    with target.open(replay_id) as one, target.open(replay_id) as other:
        one.commit(account(0), [Records.of([record(0)])])
        other.expect(("laps", 0))()
        with pytest.raises(InUse):
            one.commit(account(1), [Records.of([record(1)])])
        other.commit(account(1), [Records.of([record(1)])])
    assert len(records_in(kafka, topic)) == 2


def test_what_was_expected_and_never_came_is_let_go(kafka: KafkaConnection, topic: str) -> None:
    target = KafkaTarget(kafka, topic)
    replay_id = prepared(target)
    with target.open(replay_id) as writer:
        writer.expect(("laps", 0))
    commit(target, replay_id, [record(0)])
    assert len(records_in(kafka, topic)) == 1

"""Dead letters are kept once, with the reason, and go back to where they came from."""

import uuid
from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition

from playhead.account import Account, DeadLetter, ErrorRule, RecordRefused
from playhead.config.kafka_connection import KafkaConnection
from playhead.host.clock import wait_until
from playhead.kafka.admin.client import Admin
from playhead.kafka.read.source import KafkaSource
from playhead.kafka.write.dead_letter_headers import COUNT_HEADER, RETURNS_TO, origin_of
from playhead.kafka.write.dead_letters import DeadLetterTopic
from playhead.kafka.write.ledger import Ledger
from playhead.kafka.write.ledger_keys import LEDGER_TOPIC
from playhead.kafka.write.target import KafkaTarget
from playhead.ledger import Entry
from playhead.record import Headers, Record, Slice, TimestampType
from playhead.records import Records
from playhead.replay.guards import lost_letters
from playhead.source import SourceFacts, TopicFacts
from playhead.target import Inspection, InspectRequest
from playhead.testing.target_case import terms
from tests.fix_topics import content, records_in, write
from tests.sandbox.test_kafka_target import made_anew

HEADERS: Headers = (("a", b"1"), ("a", None), ("b", b""))


def new_id() -> str:
    return uuid.uuid4().hex[:8]


def record(offset: int, topic: str = "orders", partition: int = 2, **more: object) -> Record:
    kind = TimestampType.CREATE_TIME
    plain = Record(topic, partition, offset, 1_000 + offset, kind, b"k", b"%d" % offset, HEADERS)
    return replace(plain, **more)


def letters(*records: Record) -> list[DeadLetter]:
    return [DeadLetter(each, "too-large", "it is too large") for each in records]


def test_a_letter_keeps_everything_and_says_why(kafka: KafkaConnection) -> None:
    topic, dead = f"dlq-{new_id()}", record(5)
    with DeadLetterTopic(kafka, topic).open("7f3a-" + topic) as bury:
        bury(Slice("orders", 2, 0, 10), letters(dead))
    [found] = records_in(kafka, topic)
    assert content(replace(found, headers=HEADERS)) == content(dead)
    assert found.headers == (
        *HEADERS,
        ("__playhead.errors.topic", b"orders"),
        ("__playhead.errors.partition", b"2"),
        ("__playhead.errors.offset", b"5"),
        ("__playhead.errors.timestamp", b"1005"),
        ("__playhead.errors.kind", b"too-large"),
        ("__playhead.errors.reason", b"it is too large"),
        ("__playhead.errors.replay", f"7f3a-{topic}".encode()),
        ("__playhead.errors.count", b"1"),
    )


def test_a_slice_is_buried_once_however_it_is_cut(kafka: KafkaConnection, topic: str) -> None:
    replay_id, dead_letters = new_id(), DeadLetterTopic(kafka, topic)
    with dead_letters.open(replay_id) as bury:
        bury(Slice("orders", 2, 10, 20), letters(record(15)))
        bury(Slice("orders", 2, 10, 20), letters(record(15)))
    with dead_letters.open(replay_id) as bury:
        bury(Slice("orders", 2, 0, 30), letters(record(3), record(15), record(25)))
        bury(Slice("orders", 1, 0, 30), letters(record(15, partition=1)))
    with dead_letters.open(new_id()) as bury:
        bury(Slice("orders", 2, 0, 30), letters(record(29)))
    assert [each.value for each in records_in(kafka, topic)] == [b"15", b"3", b"25", b"15", b"29"]


def test_letters_of_a_topic_that_was_made_anew_are_written_again(
    kafka: KafkaConnection, topic: str
) -> None:
    """A slice that was not committed is tried again, and finds its letters in the ledger."""
    replay_id, dead_letters = new_id(), DeadLetterTopic(kafka, topic)
    with dead_letters.open(replay_id) as bury:
        bury(Slice("orders", 2, 0, 10), letters(record(5)))
        bury(Slice("orders", 2, 10, 20), letters(record(15), record(16)))
    assert not dead_letters.lost_letters(replay_id)
    made_anew(kafka, topic)
    with dead_letters.open(replay_id) as bury:
        assert bury(Slice("orders", 2, 10, 20), letters(record(15))) == 0
        bury(Slice("orders", 2, 10, 20), letters(record(15)))
    assert [each.value for each in records_in(kafka, topic)] == [b"15"]
    lost = dead_letters.lost_letters(replay_id)
    assert {each.from_offset for each in lost} == {5, 15}
    counted = Entry(Slice("orders", 2, 0, 10), read=10, written=9, dead=1)
    [note] = lost_letters(dead_letters, replay_id, [counted])
    assert f"dead letters of 3 offsets are counted, and are gone: topic {topic}" in note.text
    assert not lost_letters(dead_letters, replay_id, [replace(counted, written=10, dead=0)])


def test_a_plan_says_which_letters_the_topic_would_reject(
    kafka: KafkaConnection, make_topic: Callable[..., str]
) -> None:
    old = "message.timestamp.before.max.ms"
    roomy = make_topic(**{"max.message.bytes": str(20 << 20)})
    narrow = make_topic(**{"cleanup.policy": "compact", old: "1000"})
    codes = {
        topic: [note.code for note in DeadLetterTopic(kafka, topic).inspect()]
        for topic in (roomy, narrow, f"none-{new_id()}")
    }
    found = {topic: [code for code in said if "letters" in code] for topic, said in codes.items()}
    narrows = ["dead-letters-compacted", "dead-letters-size", "dead-letters-time"]
    assert [*found.values()] == [[], narrows, []]


def test_what_cannot_be_sent_as_it_is_can_be_buried(kafka: KafkaConnection, topic: str) -> None:
    dead = record(5, timestamp_ms=0, headers=(("a\0", b"1"), ("\ud800", b"2")))
    with DeadLetterTopic(kafka, topic).open(new_id()) as bury:
        bury(Slice("orders", 2, 0, 10), letters(dead))
    [found] = records_in(kafka, topic)
    origin = origin_of(found)
    assert origin is not None
    assert origin.timestamp_ms == 0
    assert [name for name, _ in found.headers[:2]] == ["a\\0", "\\ud800"]


# --- back to where they came from -------------------------------------------------------------


def playhead_says(topic: str) -> Headers:
    return (
        ("__playhead.errors.topic", topic.encode()),
        ("__playhead.errors.partition", b"2"),
        ("__playhead.errors.offset", b"77"),
        ("__playhead.errors.timestamp", b"1234"),
        ("__playhead.errors.count", b"3"),
    )


def connect_says(topic: str) -> Headers:
    return (
        ("__connect.errors.topic", topic.encode()),
        ("__connect.errors.partition", b"2"),
        ("__connect.errors.offset", b"77"),
        ("__connect.errors.exception.message", b"no"),
    )


def share_group_says(topic: str) -> Headers:
    return (
        ("__dlq.errors.topic", topic.encode()),
        ("__dlq.errors.partition", b"2"),
        ("__dlq.errors.offset", b"77"),
        ("__dlq.errors.group", b"workers"),
        ("__dlq.errors.delivery.count", b"5"),
        ("__dlq.errors.message", b"Offset rejected by client."),
    )


def spring_says(topic: str) -> Headers:
    return (
        ("kafka_dlt-original-topic", topic.encode()),
        ("kafka_dlt-original-partition", (2).to_bytes(4)),
        ("kafka_dlt-original-offset", (77).to_bytes(8)),
        ("kafka_dlt-original-timestamp", (1_234).to_bytes(8)),
        ("kafka_dlt-exception-message", b"no"),
    )


def redrive(
    kafka: KafkaConnection,
    dlq: str,
    replay_id: str,
    *,
    rule: str = "fail",
    named: str = "",
    sampled: int | None = None,
) -> tuple[Inspection, Account]:
    """All that is in the topic of dead letters, back; the plan sees so many of them."""
    source, target = KafkaSource(kafka, (dlq,)), KafkaTarget(kafka, named, redrive=True)
    bounds = source.bounds()[dlq, 0]
    whole = Slice(dlq, 0, bounds.earliest, bounds.stable_end)
    with source.open() as reader:
        runs = list(reader.read(whole))
    with Admin(kafka) as admin:
        identity = admin.cluster().cluster_id
    inspection = target.inspect(
        InspectRequest(
            SourceFacts(identity, {dlq: TopicFacts()}),
            {dlq: 1},
            [run.cut(0, sampled or 99) for run in runs],
        )
    )
    target.prepare(replay_id, inspection, terms(dlq))
    account = Account(whole, ErrorRule.parse(rule))
    account.read = sum(map(len, runs))
    with target.open(replay_id) as writer:
        writer.commit(account, runs)
    [entry] = target.entries(replay_id)
    with target.open(replay_id) as writer:
        assert writer.compare(entry, runs).different == 0
    return inspection, account


@pytest.mark.parametrize(
    ("says", "timestamp_ms", "count"),
    [
        (playhead_says, 1_234, b"3"),
        (connect_says, 1_005, b"1"),
        (spring_says, 1_234, b"1"),
        (share_group_says, 1_005, b"1"),
    ],
)
def test_letters_of_all_families_go_back(
    kafka: KafkaConnection,
    make_topic: Callable[..., str],
    says: Callable[[str], Headers],
    timestamp_ms: int,
    count: bytes,
) -> None:
    orders, bills, dlq = make_topic(4), make_topic(3), make_topic()
    dead = [
        record(5, dlq, 0, headers=HEADERS + says(orders)),
        record(6, dlq, 0, headers=HEADERS + says(bills), key=None),
        record(7, dlq, 0, headers=HEADERS + says(orders), value=None),
    ]
    write(kafka, dead)
    inspection, _ = redrive(kafka, dlq, new_id())
    assert [note.code for note in inspection.notes if note.weight == "warn"] == []
    back = records_in(kafka, orders, bills)
    expected = [(orders, dead[0]), (orders, dead[2]), (bills, dead[1])]
    for found, (topic, each) in zip(
        sorted(back, key=lambda it: (it.topic != orders, it.offset)), expected, strict=True
    ):
        assert (found.topic, found.partition) == (topic, 2)
        assert (found.key, found.value) == (each.key, each.value)
        assert found.headers == (*HEADERS, (COUNT_HEADER, count))
        assert found.timestamp_ms == (timestamp_ms if timestamp_ms == 1_234 else each.timestamp_ms)


def test_a_letter_that_a_broker_did_not_copy_is_not_written_as_a_record_of_nothing(
    kafka: KafkaConnection, make_topic: Callable[..., str]
) -> None:
    orders, dlq = make_topic(3), make_topic()
    empty = record(0, dlq, 0, headers=share_group_says(orders), key=None, value=None)
    tombstone = record(1, dlq, 0, headers=share_group_says(orders), value=None)
    write(kafka, [empty, tombstone])
    with pytest.raises(RecordRefused, match="did not copy the record .*its topic was " + orders):
        redrive(kafka, dlq, new_id())
    inspection, account = redrive(kafka, dlq, new_id(), rule="skip")
    assert "redrive-not-copied" in {note.code for note in inspection.notes}
    assert account.refused_offsets == {0}
    assert [each.key for each in records_in(kafka, orders)] == [tombstone.key]


@pytest.mark.parametrize(
    ("kind", "reason", "name"),
    [("unreadable", "cannot be read whole: too large", "a"), ("header", "a NUL", "a\0b")],
)
def test_a_letter_that_differs_from_its_record_does_not_return(
    kafka: KafkaConnection, make_topic: Callable[..., str], kind: str, reason: str, name: str
) -> None:
    """It would be a record without its headers, or a tombstone."""
    orders, dlq = make_topic(3), make_topic()
    odd = record(0, orders, headers=((name, b"1"),), value=None)
    good = DeadLetter(record(1, orders), "value", "too long")
    with DeadLetterTopic(kafka, dlq).open(new_id()) as write_letters:
        write_letters(Slice(orders, 2, 0, 2), [DeadLetter(odd, kind, reason), good])
    letters_there = KafkaSource(kafka, (dlq,))
    # The marker of the transaction is written after its commit.
    assert wait_until(
        lambda: letters_there.bounds()[dlq, 0].stable_end > 2, deadline_s=30, every_s=0.1
    )
    with pytest.raises(RecordRefused, match="differs from its record: .*its topic was " + orders):
        redrive(kafka, dlq, new_id())
    inspection, account = redrive(kafka, dlq, new_id(), rule="skip")
    assert "redrive-not-copied" in {note.code for note in inspection.notes}
    assert account.refused_offsets == {0}
    assert [each.value for each in records_in(kafka, orders)] == [good.record.value]


def test_a_partition_that_is_no_more(
    kafka: KafkaConnection, make_topic: Callable[..., str]
) -> None:
    orders, dlq = make_topic(2), make_topic()
    write(kafka, [record(5, dlq, 0, headers=connect_says(orders), key=None)])
    redrive(kafka, dlq, new_id())
    [found] = records_in(kafka, orders)
    assert found.partition == 0


def test_letters_without_a_way_back(kafka: KafkaConnection, make_topic: Callable[..., str]) -> None:
    orders, dlq = make_topic(3), make_topic()
    write(
        kafka,
        [
            record(0, dlq, 0),
            record(1, dlq, 0, headers=connect_says(orders)),
            record(2, dlq, 0, headers=connect_says("gone-" + orders)),
            record(3, dlq, 0, headers=connect_says(dlq)),
        ],
    )
    with pytest.raises(RecordRefused, match="no header names its original topic"):
        redrive(kafka, dlq, new_id())
    assert records_in(kafka, orders) == []
    inspection, account = redrive(kafka, dlq, new_id(), rule="skip")
    codes = {note.code for note in inspection.notes}
    assert {"redrive-no-origin", "redrive-topic-gone"} <= codes
    assert account.refused_offsets == {0, 2, 3}
    assert [each.value for each in records_in(kafka, orders)] == [b"1"]


@pytest.mark.parametrize("topic", [LEDGER_TOPIC, "__consumer_offsets", "no name/at all", "..", "é"])
def test_headers_lead_nowhere_they_should_not(
    kafka: KafkaConnection, make_topic: Callable[..., str], topic: str
) -> None:
    orders, dlq = make_topic(3), make_topic()
    forged = record(0, dlq, 0, headers=connect_says(topic), key=b"7f3a|orders|0|0")
    write(kafka, [forged, record(1, dlq, 0, headers=connect_says(orders))])
    inspection, account = redrive(kafka, dlq, new_id(), rule="skip")
    assert "redrive-topic-gone" in {note.code for note in inspection.notes}
    assert account.refused_offsets == {0}
    assert [each.value for each in records_in(kafka, orders)] == [b"1"]
    assert forged.key not in [each.key for each in records_in(kafka, LEDGER_TOPIC)]


def test_letters_return_only_to_topics_that_the_plan_has_shown(
    kafka: KafkaConnection, make_topic: Callable[..., str]
) -> None:
    """Who may write dead letters need not be one who may write to every topic."""
    orders, payments, dlq = make_topic(3), make_topic(3), make_topic()
    topics = (orders, orders, payments, orders)
    write(kafka, [record(n, dlq, 0, headers=connect_says(each)) for n, each in enumerate(topics)])
    with pytest.raises(
        RecordRefused, match=f"{payments} is not among those that the target or the plan names"
    ):
        redrive(kafka, dlq, new_id(), sampled=2)
    inspection, account = redrive(kafka, dlq, new_id(), sampled=2, rule="skip")
    [note] = [note.text for note in inspection.notes if note.code == "redrive"]
    assert note == f"dead letters return to {orders}, and to no other topic"
    assert account.refused_offsets == {2}
    assert records_in(kafka, payments) == []
    redrive(kafka, dlq, new_id(), sampled=3)
    assert len(records_in(kafka, payments)) == 1


def test_a_target_names_the_topics_to_which_letters_return(
    kafka: KafkaConnection, make_topic: Callable[..., str]
) -> None:
    orders, payments, dlq = make_topic(3), make_topic(3), make_topic()
    topics = (orders, payments, orders)
    write(kafka, [record(n, dlq, 0, headers=connect_says(each)) for n, each in enumerate(topics)])
    inspection, account = redrive(kafka, dlq, new_id(), named=payments, rule="skip")
    notes = {note.code: note.text for note in inspection.notes}
    assert notes["redrive"] == f"dead letters return to {payments}, and to no other topic"
    assert orders in notes["redrive-not-named"]
    assert account.refused_offsets == {0, 2}
    assert (len(records_in(kafka, payments)), records_in(kafka, orders)) == (1, [])
    redrive(kafka, dlq, new_id(), named=f"{orders},{payments}", sampled=1)
    assert (len(records_in(kafka, payments)), len(records_in(kafka, orders))) == (2, 2)


def test_a_redrive_of_an_earlier_version_is_compared_with_all_that_it_returned(
    kafka: KafkaConnection, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has settled no topics, because it returned letters to any."""
    orders, dlq = make_topic(3), make_topic()
    dead = record(0, dlq, 0, headers=connect_says(orders))
    write(kafka, [dead])
    replay_id = new_id()
    redrive(kafka, dlq, replay_id)
    settled = Ledger.settled
    monkeypatch.setattr(
        Ledger,
        "settled",
        lambda ledger: {k: v for k, v in settled(ledger).items() if k != RETURNS_TO},
    )
    target = KafkaTarget(kafka, "", redrive=True)
    [entry] = target.entries(replay_id)
    with target.open(replay_id) as writer:
        found = writer.compare(entry, [Records.of([dead])])
    assert (found.expected, found.same, found.different, found.unknown) == (1, 1, 0, 0)


def test_there_and_back_and_dead_again(
    kafka: KafkaConnection, make_topic: Callable[..., str]
) -> None:
    orders, dlq = make_topic(3), make_topic()
    dead = record(5, orders)
    for count in (b"1", b"2"):
        with DeadLetterTopic(kafka, dlq).open(new_id()) as bury:
            bury(Slice(orders, 2, 0, 10), letters(dead))
        buried = records_in(kafka, dlq)[-1]
        assert dict(buried.headers)[COUNT_HEADER] == count
        with Admin(kafka) as admin, admin.asking("deleting") as client:
            client.delete_topics([dlq])[dlq].result(10)
        dlq = make_topic()
        write(kafka, [replace(buried, topic=dlq)])
        redrive(kafka, dlq, new_id())
        back = records_in(kafka, orders)[-1]
        assert content(back) == content(
            replace(record(5), headers=(*HEADERS, (COUNT_HEADER, count)))
        )
        dead = replace(back, offset=5)


def test_preview_shows_where_they_go(kafka: KafkaConnection) -> None:
    target = KafkaTarget(kafka, "", redrive=True)
    rows = target.preview(Records.of([record(0, headers=spring_says("orders")), record(1)]))
    assert [row["topic"] for row in rows] == ["orders", None]


def test_a_replay_reads_its_letters_back(kafka: KafkaConnection) -> None:
    """With every byte; those of other replays beside them count for nothing."""
    topic, replay_id = f"dlq-{new_id()}", new_id()
    odd = [
        record(5),
        record(6, key=None, value=None, headers=()),
        record(7, timestamp_ms=0, headers=(("a\0", b"1"), ("\ud800", None))),
    ]
    with DeadLetterTopic(kafka, topic).open(replay_id) as bury:
        bury(Slice("orders", 2, 0, 10), letters(*odd))
    with DeadLetterTopic(kafka, topic).open(new_id()) as bury:
        bury(Slice("orders", 2, 0, 10), letters(record(8)))
    dead_letters = DeadLetterTopic(kafka, topic)
    found = dead_letters.letters(replay_id)
    assert (found.is_whole, found.where) == (True, f"topic {topic}")
    assert found.of(("orders", 2)) == {each.offset: [found.digest(each)] for each in odd}
    assert found.digest(odd[0]) != found.digest(replace(odd[0], value=b"x"))
    again = [each for each in records_in(kafka, topic) if each.value == b"5"]
    write(kafka, again)
    assert len(dead_letters.letters(replay_id).of(("orders", 2))[5]) == 2
    with Admin(kafka) as admin, admin.asking("deleting") as client:
        places = [TopicPartition(topic, 0, 1)]
        for answer in client.delete_records(places).values():
            answer.result(10)
    left = dead_letters.letters(replay_id)
    assert not left.is_whole
    assert left.of(("orders", 2))[5] == [found.digest(odd[0])]
    assert DeadLetterTopic(kafka, f"none-{new_id()}").letters(replay_id).of(("orders", 2)) == {}

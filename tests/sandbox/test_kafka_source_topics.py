"""Which topics the Kafka source takes, and what it says of them and of those who read them."""

from dataclasses import replace

import pytest
from confluent_kafka import Consumer

from playhead.errors import BadValue
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.offsets import NoSuchTopic, NoTopicMatches
from playhead.kafka.groups.describe import listed
from playhead.kafka.read.source import KafkaSource
from playhead.source import TopicFacts
from tests.sandbox.kafka_log import Log
from tests.sandbox.test_kafka_source import ROW, read, whole


@pytest.fixture
def log(kafka, topic):
    return Log(kafka, topic)


@pytest.fixture
def source(kafka, topic):
    return KafkaSource(kafka, (topic,))


def test_a_pattern_takes_the_topics_it_is_found_in(kafka, make_topic):
    one, two = make_topic(partitions=2), make_topic()
    assert {topic for topic, _ in KafkaSource(kafka, pattern=f"^{one}$").bounds()} == {one}
    both = KafkaSource(kafka, pattern=f"{one[-8:]}|{two[-8:]}")
    assert set(both.bounds()) == {(one, 0), (one, 1), (two, 0)}
    assert set(both.facts().topics) == set(both.names()) == {one, two}
    assert KafkaSource(kafka, (one,)).names() == (one,)


def test_a_pattern_never_takes_kafkas_own_topics(kafka, topic):
    Log(kafka, topic).commit(0, ROW)  # makes __transaction_state
    assert not [name for name, _ in KafkaSource(kafka, pattern=".").bounds() if name[:2] == "__"]


def test_a_pattern_that_fits_nothing_is_an_error(kafka):
    with pytest.raises(NoTopicMatches, match="/nothing-like-this/"):
        KafkaSource(kafka, pattern="nothing-like-this").bounds()


def test_a_pattern_must_be_a_regular_expression(kafka):
    with pytest.raises(BadValue, match="regular expression"):
        KafkaSource(kafka, pattern="shop(")


@pytest.mark.parametrize("question", ["bounds", "facts"])
def test_a_missing_topic_is_named_with_the_nearest(kafka, topic, question):
    with pytest.raises(NoSuchTopic, match=f"no topic '{topic}x'") as caught:
        getattr(KafkaSource(kafka, (topic, topic + "x")), question)()
    assert topic in caught.value.nearest
    assert topic in caught.value.hint


def test_topics_or_a_pattern_must_be_given(kafka):
    for wrong in ({}, {"topics": ("a",), "pattern": "a"}):
        with pytest.raises(ValueError, match="topics or a pattern"):
            KafkaSource(kafka, **wrong)


# --- facts ------------------------------------------------------------------------------------


def test_the_facts_are_the_topics_settings(kafka, make_topic, source):
    topic = make_topic(
        retention_ms="86400000", message_timestamp_type="LogAppendTime", retention_bytes="4000000"
    )
    facts = KafkaSource(kafka, (topic,)).facts()
    told = facts.topics[topic]
    expected = TopicFacts(
        told.topic_id,
        sets_log_append_time=True,
        retention_ms=86_400_000,
        bytes_by_partition={0: 0},
        leader_epochs={0: 0},
    )
    assert replace(told, settings={}) == expected
    # What need not be said is not: an older broker might not know it.
    assert told.settings == {
        "cleanup.policy": "delete",
        "retention.ms": "86400000",
        "retention.bytes": "4000000",
        "max.message.bytes": "1048588",
    }
    assert told.topic_id
    assert [note.code for note in facts.notes] == ["retention-bytes"]
    with Admin(kafka) as admin:
        assert facts.identity == admin.cluster().cluster_id


def test_a_compacted_topic_says_so(kafka, make_topic):
    topic = make_topic(cleanup_policy="compact", retention_ms="5000")
    facts = KafkaSource(kafka, (topic,)).facts()
    assert facts.topics[topic].is_compacted
    assert facts.topics[topic].retention_ms is None  # compaction alone expires nothing
    assert [(note.code, "upper limits" in note.text) for note in facts.notes] == [
        ("compacted", True)
    ]


def test_a_live_group_is_said(kafka, log, source):
    log.write(0, ROW)
    group = f"group-of-{log.topic}"
    member = Consumer(
        kafka.for_librdkafka("consumer") | {"group.id": group, "auto.offset.reset": "earliest"}
    )
    member.subscribe([log.topic])
    assert member.consume(1, 30)
    [note] = source.facts().notes
    assert (note.code, note.weight) == ("group-live", "info")
    assert group in note.text
    member.close()
    assert source.facts().notes == ()


def test_reading_leaves_no_group_behind(kafka, source, log):
    log.write(0, ROW)
    read(source, whole(log))
    with Admin(kafka) as admin:
        assert not [each for each in listed(admin) if each.group.startswith("playhead-")]

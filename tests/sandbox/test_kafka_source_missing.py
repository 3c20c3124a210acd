"""The Kafka source when records, partitions or whole topics go missing, before and while it reads."""

import pickle
from dataclasses import replace
from itertools import islice

import pytest

from playhead.kafka.admin import offsets
from playhead.kafka.read import consumer
from playhead.kafka.read import reader as reader_module
from playhead.kafka.read.planned_topics import TopicReplaced
from playhead.kafka.read.source import KafkaSource
from playhead.record import Slice
from playhead.source import Bounds, OutOfBounds
from tests.sandbox.kafka_log import Log, delete_topic, recreate
from tests.sandbox.test_kafka_source import ROW, read, rows, whole


@pytest.fixture
def log(kafka, topic):
    return Log(kafka, topic)


@pytest.fixture
def source(kafka, topic):
    return KafkaSource(kafka, (topic,))


def test_deleted_records_are_missed_before_anything_is_read(source, log):
    log.write(0, *rows(10))
    log.delete_before(0, 4)
    assert source.bounds() == {(log.topic, 0): Bounds(4, 10, 10)}
    with pytest.raises(OutOfBounds, match=r"0-10: the partition holds 4-10"):
        read(source, Slice(log.topic, 0, 0, 10))
    assert read(source, Slice(log.topic, 0, 4, 10)) == log.records[4:]


def test_records_deleted_ahead_of_a_reader_are_missed(source, log):
    # More than the client fetches ahead, so that the end is not on its way yet.
    big = [(1_000, b"k", bytes(1_000_000), ())] * 90
    log.write(0, *big)
    with source.open() as reader:
        runs = reader.read(Slice(log.topic, 0, 0, 90))
        next(runs)
        log.delete_before(0, 88)
        with pytest.raises(OutOfBounds) as caught:
            list(runs)
    assert caught.value.bounds == Bounds(88, 90, 90)


def test_what_was_read_before_it_was_deleted_is_whole(source, log):
    log.write(0, *rows(10))
    with source.open() as reader:
        runs = reader.read(Slice(log.topic, 0, 0, 10))
        found = list(next(runs))
        log.delete_before(0, 8)
        found += [record for run in runs for record in run]
    assert found == log.records


def test_an_absent_offset_that_may_have_been_deleted_is_not_called_absent(source, log):
    log.commit(0, *rows(2))
    log.write(0, *rows(3))
    with source.open() as reader:
        assert sum(map(len, reader.read(Slice(log.topic, 0, 0, 2)))) == 2
        log.delete_before(0, 5)
        with pytest.raises(OutOfBounds):
            list(reader.read(Slice(log.topic, 0, 2, 6)))


def test_what_was_read_already_may_be_deleted(source, log, monkeypatch):
    """Long ago an offset was absent, and now nothing is left of where it was."""
    monkeypatch.setattr(consumer, "AT_ONCE", 1)
    monkeypatch.setattr(reader_module, "RUN", 1)
    log.commit(0, *rows(2))
    log.write(0, *rows(3))
    with source.open() as reader:
        runs = reader.read(Slice(log.topic, 0, 0, 6))
        found = [offset for run in islice(runs, 3) for offset in run.offsets]
        assert found == [0, 1, 3]
        log.delete_before(0, 5)
        assert [offset for run in runs for offset in run.offsets] == [4, 5]


def test_a_partition_that_is_not_there_is_out_of_bounds(source, log):
    log.write(0, ROW)
    with pytest.raises(OutOfBounds, match="no such partition"):
        read(source, Slice(log.topic, 7, 0, 1))


def test_a_topic_made_again_is_refused_when_it_is_opened(kafka, source, log):
    log.write(0, *rows(5))
    ids = {log.topic: source.facts().topics[log.topic].topic_id}
    planned = pickle.loads(pickle.dumps(replace(source, expect_topic_ids=ids)))  # noqa: S301 - our own bytes
    assert read(planned, whole(log)) == log.records
    recreate(kafka, log.topic)
    Log(kafka, log.topic).write(0, *rows(9))
    with (
        pytest.raises(TopicReplaced, match=f"{log.topic} is not the planned one") as caught,
        planned.open(),
    ):
        pass
    assert caught.value.expected_id == ids[log.topic]
    assert caught.value.found_id not in (None, ids[log.topic])
    assert len(read(source, Slice(log.topic, 0, 0, 9))) == 9


def test_a_topic_made_again_while_it_is_read_is_refused(kafka, source, log):
    """The client itself goes on reading the new topic at the old offset, and says nothing."""
    log.write(0, *rows(5))
    with source.open() as reader:
        assert sum(map(len, reader.read(Slice(log.topic, 0, 0, 5)))) == 5
        recreate(kafka, log.topic)
        Log(kafka, log.topic).write(0, *rows(20))
        with pytest.raises(TopicReplaced):
            list(reader.read(Slice(log.topic, 0, 5, 20)))


def test_a_topic_that_is_gone_while_it_is_read_is_refused(kafka, source, log):
    log.write(0, *[(1_000, b"k", bytes(1_000_000), ())] * 90)
    with source.open() as reader:
        runs = reader.read(Slice(log.topic, 0, 0, 90))
        next(runs)
        delete_topic(kafka, log.topic)
        with pytest.raises(TopicReplaced, match="it is gone"):
            list(runs)


@pytest.mark.parametrize("asked", ["bounds_of", "log_starts"])
def test_a_topic_that_goes_between_two_questions_is_not_the_planned_one(
    kafka, source, log, monkeypatch, asked
):
    """A broker then says that it does not know the topic, and not that it is another one."""
    log.commit(0, *rows(2))
    log.write(0, *rows(3))
    real = getattr(offsets, asked)

    def late(admin, places):
        monkeypatch.undo()
        delete_topic(kafka, log.topic)
        return real(admin, places)

    with source.open() as reader:
        runs = reader.read(Slice(log.topic, 0, 0, 6))
        monkeypatch.setattr(offsets, asked, late)
        with pytest.raises(TopicReplaced, match="it is gone"):
            list(runs)

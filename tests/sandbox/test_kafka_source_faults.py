"""The Kafka source when the broker is away, silent or back again, and when the log is compacted."""

import time
from dataclasses import replace
from threading import Timer

import pytest

from playhead.errors import BrokerUnavailable
from playhead.kafka.read.source import KafkaSource
from playhead.record import Slice
from tests.sandbox.kafka_log import SOON_COMPACTED, Log
from tests.sandbox.test_kafka_source import read, rows, whole

BIG = [(1_000, b"k", bytes(1_000_000), ())] * 90
PATIENCE_S = 3.0


@pytest.fixture
def log(kafka, topic):
    return Log(kafka, topic)


@pytest.fixture
def source(linked_kafka, topic):
    return KafkaSource(linked_kafka, (topic,), patience_s=PATIENCE_S)


def test_a_broker_that_is_away_is_waited_for_no_longer_than_the_patience(source, broker_link):
    broker_link.cut()
    for question in (source.bounds, source.facts, lambda: source.offsets_at(0)):
        began = time.monotonic()
        with pytest.raises(BrokerUnavailable):
            question()
        assert time.monotonic() - began < 2 * PATIENCE_S


@pytest.mark.parametrize("fault", ["cut", "stall"])
def test_a_link_that_breaks_while_reading_ends_in_an_error_in_time(source, log, broker_link, fault):
    log.write(0, *BIG)
    with source.open() as reader:
        runs = reader.read(Slice(log.topic, 0, 0, 90))
        next(runs)
        getattr(broker_link, fault)()
        began = time.monotonic()
        with pytest.raises(BrokerUnavailable) as caught:
            list(runs)
        assert time.monotonic() - began < 3 * PATIENCE_S
    assert caught.value.bootstrap_servers == broker_link.address
    broker_link.resume()
    broker_link.restore()
    assert read(source, whole(log)) == log.records


@pytest.mark.parametrize("fault", ["cut", "stall"])
def test_a_link_that_comes_back_in_time_is_not_noticed(source, log, broker_link, fault):
    log.write(0, *BIG)
    patient = replace(source, patience_s=30.0)
    with patient.open() as reader:
        runs = reader.read(Slice(log.topic, 0, 0, 90))
        found = list(next(runs))
        getattr(broker_link, fault)()
        mend = Timer(1.5, broker_link.restore if fault == "cut" else broker_link.resume)
        mend.start()
        found += [record for run in runs for record in run]
        mend.join()
    assert found == log.records


def test_a_link_that_drops_again_and_again_loses_nothing(source, log, broker_link):
    log.write(0, *[(n + 1, b"%d" % n, bytes(200_000), ()) for n in range(200)])
    patient = replace(source, patience_s=30.0)
    with patient.open() as reader:
        found = []
        broker_link.drop_after(3_000_000, "down")
        for run in reader.read(Slice(log.topic, 0, 0, 200)):
            found += run
            broker_link.drop_after(3_000_000, "down")
        broker_link.restore()
    assert found == log.records


def test_after_an_error_the_reader_never_skips(source, log, broker_link):
    """What was on its way when it failed is read again, by the same reader too."""
    log.write(0, *BIG)
    with source.open() as reader:
        runs = reader.read(Slice(log.topic, 0, 0, 90))
        at = next(runs).offsets[-1] + 1
        broker_link.cut()
        with pytest.raises(BrokerUnavailable):
            list(runs)
        broker_link.restore()
        again = [
            offset for run in reader.read(Slice(log.topic, 0, at, 90)) for offset in run.offsets
        ]
    assert again == list(range(at, 90))


@pytest.mark.torture
def test_long_stretches_without_records_are_no_silence(kafka, topic, broker_link, linked_kafka):
    """Aborted records arrive and give nothing for longer than the patience."""
    log = Log(kafka, topic)
    for _ in range(2):
        log.abort(0, *BIG)
    log.write(0, *rows(1))
    patience_s = 6.0
    source = KafkaSource(linked_kafka, (topic,), patience_s=patience_s)
    broker_link.delay(0.1, "down")
    began = time.monotonic()
    assert read(source, whole(log)) == log.records
    assert time.monotonic() - began > patience_s, "this was too fast to tell anything"


@pytest.mark.torture
def test_a_compacted_topic_has_gaps_and_its_last_values(kafka, make_topic):
    topic = make_topic(**SOON_COMPACTED)
    log = Log(kafka, topic)
    log.write(0, *[(n + 1, b"key-%d" % (n % 10), b"%d" % n, ()) for n in range(2_000)])
    source = KafkaSource(kafka, (topic,))
    deadline = time.monotonic() + 120
    while len(found := read(source, whole(log))) > 100:
        assert time.monotonic() < deadline, f"not compacted: {len(found)} records"
        time.sleep(0.5)
        # A segment's age is told by its records, and the one that is written to is never compacted.
        log.write(0, (round(time.time() * 1_000), b"roll", b"another segment", ()))
    written = {record.offset: record for record in log.records}
    assert all(written[record.offset] == record for record in found)
    last = {record.key: record.offset for record in log.records}
    assert set(last.values()) <= {record.offset for record in found}
    assert source.facts().notes[0].code == "compacted"
    first_kept = found[0].offset
    assert read(source, Slice(topic, 0, 0, first_kept)) == []
    assert read(source, Slice(topic, 0, 0, 7), Slice(topic, 0, 7, first_kept + 1)) == found[:1]

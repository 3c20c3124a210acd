"""The Kafka source against a real broker: the contract, what is committed, bounds, times, topics."""

from itertools import pairwise

import pytest
from confluent_kafka import Consumer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from playhead.kafka.read.consumer import PartitionConsumer
from playhead.kafka.read.source import KafkaSource
from playhead.kafka.read.time_lookup import first_records_at
from playhead.record import Slice
from playhead.source import Bounds, OutOfBounds
from playhead.testing import exercise_source, sample_records
from tests.sandbox.kafka_log import Log

LAW = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
ROW = (1_000, b"k", b"v", ())


@pytest.fixture
def log(kafka, topic):
    return Log(kafka, topic)


@pytest.fixture
def source(kafka, topic):
    return KafkaSource(kafka, (topic,))


def rows(count, first=0):
    return [(1_000 + n, b"key-%d" % n, b"value-%d" % n, ()) for n in range(first, first + count)]


def read(source, *slices):
    with source.open() as reader:
        return [record for slice_ in slices for run in reader.read(slice_) for record in run]


def whole(log, partition=0):
    held = log.bounds(partition)
    return Slice(log.topic, partition, held.earliest, held.stable_end)


def log_of_samples(kafka, make_topic):
    """The sample records of the contract, between records of transactions that were aborted."""
    log = Log(kafka, make_topic(partitions=3))
    zero, one = ([], [])
    for each in sample_records():
        row = (each.timestamp_ms, each.key, each.value, each.headers)
        (one if each.partition else zero).append(row)
    log.write(0, *zero[:2])
    log.abort(0, ROW)
    log.write(0, zero[2])
    log.commit(0, zero[3])
    log.write(0, zero[4])
    log.abort(1, ROW, ROW)
    log.commit(1, *one)
    return log


def test_it_keeps_the_contract_of_sources(kafka, make_topic):
    log = log_of_samples(kafka, make_topic)
    exercise_source(lambda: KafkaSource(kafka, (log.topic,)), log.records)


def test_it_keeps_the_contract_where_the_oldest_records_were_deleted(kafka, make_topic):
    log = Log(kafka, make_topic(partitions=2))
    for partition in (0, 1):
        log.write(partition, *rows(3))
        log.commit(partition, *rows(2))
        log.delete_before(partition, 2)
    kept = [record for record in log.records if record.offset >= 2]
    lacks = ["null key", "empty key", "null value", "empty value", "repeated header", "null header"]
    log.write(0, ROW)
    kept.append(log.records[-1])
    exercise_source(lambda: KafkaSource(kafka, (log.topic,)), kept, lacks=lacks)


# --- transactions -----------------------------------------------------------------------------


def test_leaders_say_which_partitions_have_a_transaction_open(kafka, make_topic):
    log = Log(kafka, make_topic(partitions=2))
    source = KafkaSource(kafka, (log.topic,))
    for partition in (0, 1):
        log.commit(partition, *rows(3))
    assert source.open_transactions(source.bounds()) == set()
    producer = log.leave_open(1, *rows(2))
    producer.flush(30)
    held = source.bounds()
    assert source.open_transactions(held) == {(log.topic, 1)}
    before = {place: Bounds(0, 4, 4) for place in held}
    assert source.open_transactions(before) == set(), "it began behind what is asked for"
    producer.abort_transaction(30)
    assert source.open_transactions(held) == set()


def test_only_what_is_committed_is_read(source, log):
    log.commit(0, *rows(3))
    log.abort(0, *rows(4))
    log.write(0, *rows(2))
    log.abort(0, *rows(1))
    assert read(source, whole(log)) == log.records
    assert [record.offset for record in log.records] == [0, 1, 2, 9, 10]


def test_a_slice_may_begin_and_end_at_a_marker(source, log):
    log.commit(0, *rows(2))  # 0 1, marker 2
    log.commit(0, *rows(2))  # 3 4, marker 5
    log.write(0, ROW)
    assert [r.offset for r in read(source, Slice(log.topic, 0, 2, 6))] == [3, 4]
    assert [r.offset for r in read(source, Slice(log.topic, 0, 2, 5))] == [3, 4]
    assert read(source, Slice(log.topic, 0, 2, 3)) == []
    assert read(source, Slice(log.topic, 0, 5, 6)) == []


def test_a_partition_of_aborted_records_is_read_to_its_end(source, log):
    log.abort(0, *rows(50))
    log.abort(0, *rows(50))
    assert log.bounds() == Bounds(0, 102, 102)
    assert read(source, whole(log)) == []
    assert read(source, Slice(log.topic, 0, 3, 4), Slice(log.topic, 0, 4, 60)) == []


def test_an_open_transaction_ends_what_can_be_read(source, log):
    log.write(0, *rows(3))
    producer = log.leave_open(0, *rows(2))
    log.write(0, *rows(1))  # committed, and yet behind the open ones
    assert source.bounds() == {(log.topic, 0): Bounds(0, 3, 6)}
    assert len(read(source, whole(log))) == 3
    assert source.offsets_at(5_000_000) == {(log.topic, 0): 3}
    with pytest.raises(OutOfBounds, match="holds 0-3"):
        read(source, Slice(log.topic, 0, 0, 4))
    producer.abort_transaction(30)


def test_a_reader_goes_on_where_a_transaction_has_ended_since(source, log):
    log.write(0, *rows(2))
    producer = log.leave_open(0, *rows(2))
    with source.open() as reader:
        assert sum(map(len, reader.read(Slice(log.topic, 0, 0, 2)))) == 2
        with pytest.raises(OutOfBounds):
            list(reader.read(Slice(log.topic, 0, 2, 5)))
        producer.commit_transaction(30)
        log._await_marker(0)
        assert [o for run in reader.read(Slice(log.topic, 0, 2, 5)) for o in run.offsets] == [2, 3]


# --- laws -------------------------------------------------------------------------------------


def mixed_log(log):
    """Plain, committed and aborted records, with times that go back and forth and repeat."""
    for n, count in enumerate((7, 1, 30, 2, 200, 3, 11, 90, 1, 5)):
        some = [
            (1_000 + 37 * (n * 3 % 7) + i % 5 * 11, b"%d" % i, b"%d" % n, ()) for i in range(count)
        ]
        (log.write, log.commit, log.abort)[n % 3](0, *some)
    return log.records


def test_slices_in_any_order_give_what_the_log_holds(source, log):
    records = mixed_log(log)
    end = log.bounds().stable_end
    cuts = st.lists(st.integers(0, end), min_size=2, max_size=2, unique=True).map(sorted)
    with source.open() as reader:

        @LAW
        @given(st.lists(cuts, min_size=1, max_size=6))
        def holds(spans):
            for start, stop in spans:
                slice_ = Slice(log.topic, 0, start, stop)
                found = [record for run in reader.read(slice_) for record in run]
                assert found == [each for each in records if each in slice_]

        holds()


def test_slices_that_follow_each_other_give_the_whole(source, log):
    records = mixed_log(log)
    end = log.bounds().stable_end
    cuts = st.lists(st.integers(1, end - 1), max_size=12, unique=True).map(sorted)

    @settings(LAW, max_examples=15)
    @given(cuts)
    def holds(inner):
        edges = [0, *inner, end]
        slices = [Slice(log.topic, 0, a, b) for a, b in pairwise(edges)]
        assert read(source, *slices) == records

    holds()


def test_a_time_leads_to_the_first_record_that_is_not_before_it(source, log):
    records = mixed_log(log)
    end = log.bounds().stable_end
    times = sorted({record.timestamp_ms for record in records})
    near = st.sampled_from([time_ms + step for time_ms in times for step in (-1, 0, 1)])

    @settings(LAW, max_examples=25)
    @given(near | st.integers(-(2**40), 2**41))
    def holds(instant_ms):
        due = [record.offset for record in records if record.timestamp_ms >= instant_ms]
        wanted = due[0] if due else end
        found = source.offsets_at(instant_ms)[log.topic, 0]
        # Between the two may be markers and aborted records, and nothing else.
        between = range(min(found, wanted), max(found, wanted))
        assert not [record for record in records if record.offset in between]
        assert found <= end

    holds()


def test_a_later_time_never_leads_to_an_earlier_offset(source, log):
    mixed_log(log)
    offsets = [source.offsets_at(instant)[log.topic, 0] for instant in range(990, 1_300, 25)]
    assert offsets == sorted(offsets)


def test_a_marker_does_not_stand_for_the_records_after_it(source, log):
    """Restored records are old; the marker of their transaction is of today."""
    log.commit(0, *rows(5))
    log.commit(0, *rows(5, first=5))
    assert source.offsets_at(1_008) == {(log.topic, 0): 9}  # 0-4, marker, 6-10
    assert source.offsets_at(1_010) == {(log.topic, 0): 12}


def test_times_are_looked_up_in_every_partition(kafka, make_topic):
    log = Log(kafka, make_topic(partitions=4))
    log.write(0, *rows(10))
    log.commit(1, *rows(10))
    log.write(2, *rows(2))
    found = KafkaSource(kafka, (log.topic,)).offsets_at(1_005)
    assert {place[1]: offset for place, offset in found.items()} == {0: 5, 1: 5, 2: 2, 3: 0}


def test_a_partition_that_gives_no_record_is_looked_at_twice(kafka, make_topic, monkeypatch):
    """A client that tells the end of a partition without its records would hide all of them."""
    log = Log(kafka, make_topic(partitions=3))
    for partition in range(3):
        log.write(partition, *rows(10))
    wait, looked = PartitionConsumer.poll_or_fail, []

    def lossy(consumer, purpose):
        found = wait(consumer, purpose)
        if consumer not in looked:
            looked.append(consumer)
        is_lost = len(looked) == 1
        return [
            each for each in found if not (is_lost and each.partition() == 1 and not each.error())
        ]

    monkeypatch.setattr(PartitionConsumer, "poll_or_fail", lossy)
    found = KafkaSource(kafka, (log.topic,)).offsets_at(1_005)
    assert {place[1]: offset for place, offset in found.items()} == {0: 5, 1: 5, 2: 5}
    assert len(looked) == 2


def test_an_end_without_its_records_is_read_a_second_time(source, log, monkeypatch):
    """As absent offsets they would be accounted for, and never written."""
    log.write(0, *rows(10))
    look, told = Consumer.consume, []

    def lossy(consumer, *arguments):
        found = look(consumer, *arguments)
        kept = [each for each in found if told or each.error()]
        told.extend(each for each in found if each.error())
        return kept

    monkeypatch.setattr(
        "playhead.kafka.admin.clients.make_consumer", type("Lossy", (Consumer,), {"consume": lossy})
    )
    with source.open() as reader:
        runs = list(reader.read(Slice(log.topic, 0, 0, 10)))
    assert [offset for run in runs for offset in run.offsets] == list(range(10))
    assert len(told) == 1


@pytest.mark.parametrize(("aborted", "stands"), [(1, 2), (5, 2), (0, 1)])
def test_records_that_nobody_committed_are_read_twice_at_the_end(
    source, log, monkeypatch, aborted, stands
):
    log.commit(0, *rows(3))
    if aborted:
        log.abort(0, *rows(aborted, first=3))
    assign, assigned = PartitionConsumer.assign, []
    monkeypatch.setattr(
        PartitionConsumer,
        "assign",
        lambda consumer, places: (assigned.append(places), assign(consumer, places))[1],
    )
    end = log.bounds().stable_end
    with source.open() as reader:
        runs = list(reader.read(Slice(log.topic, 0, 0, end)))
    assert [offset for run in runs for offset in run.offsets] == [0, 1, 2]
    assert assigned == [{(log.topic, 0): 0}, {(log.topic, 0): 3}][:stands]


def test_a_look_up_that_finds_the_log_start_moved_says_so(kafka, topic, log):
    from playhead.kafka.read.time_lookup import LogMoved

    log.write(0, *rows(5))
    log.delete_before(0, 3)
    place = (topic, 0)
    with pytest.raises(LogMoved, match="lost its oldest records"):
        first_records_at(kafka, {place: 1}, {place: 5}, instant_ms=0, patience_s=20)

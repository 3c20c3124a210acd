"""What a broker, or what is between, can send as records: nothing of it is believed, and it does not fill memory."""

from collections import deque

import pytest
from confluent_kafka import KafkaError, Message

from playhead.errors import BrokerUnavailable
from playhead.kafka.admin.answer_fields import BadAnswer
from playhead.kafka.admin.errors import KafkaRefused
from playhead.kafka.read import consumer, unreadable
from playhead.kafka.read.consumer import PartitionConsumer, need_order
from playhead.kafka.read.log_heads import heads_in
from playhead.kafka.read.reader import KafkaReader
from playhead.kafka.read.scan import Scan, Stretch
from playhead.kafka.read.unreadable import RecordTooLarge, headers_of
from playhead.records import Records
from tests.unit.test_absences import package


def message(offset, *, key=None, value=None, headers=None):
    return Message(topic="cars", partition=0, offset=offset, key=key, value=value, headers=headers)


@pytest.mark.parametrize(
    "large",
    [
        {"value": bytes(101)},
        {"key": bytes(101)},
        {"headers": [("h", bytes(100))]},
        {"headers": [("h" * 101, None)]},
        {"key": bytes(40), "value": bytes(40), "headers": [("h", bytes(20))]},
    ],
)
def test_a_record_is_too_large_by_any_part_of_it(large, monkeypatch):
    monkeypatch.setattr(unreadable, "MOST_OF_A_RECORD", 100)
    small = {"key": b"k", "value": b"v", "headers": [("h", b"1"), ("i", None)]}
    found = [message(3, **small), message(4), message(5, **large), message(6, **small)]
    headers, _, failure = headers_of(found)
    assert headers == [(("h", b"1"), ("i", None)), ()]
    assert isinstance(failure, RecordTooLarge)
    assert failure.offset == 5


def test_records_that_are_too_large_together_are_not_refused(monkeypatch):
    monkeypatch.setattr(unreadable, "MOST_OF_A_RECORD", 100)
    headers, _, failure = headers_of([message(n, key=bytes(60)) for n in range(3)])
    assert (headers, failure) == ([(), (), ()], None)


@pytest.mark.parametrize("offsets", [[5, 6, 7, 4, 5], [0, 1, 1], [8, 0]])
def test_offsets_that_do_not_ascend_are_not_believed(offsets):
    with pytest.raises(BadAnswer, match="cars:0 has offset [0-9] after offset [0-9]"):
        need_order([message(at) for at in offsets])


@pytest.mark.parametrize("offsets", [[], [7], [0, 1, 2], [3, 9, 10]])
def test_offsets_that_ascend_are_believed(offsets):
    need_order([message(at) for at in offsets])


@pytest.mark.parametrize(
    "data",
    [
        package(5, 8, 4, 0) + package(4, 7, 4, 0),
        package(8, 11, 4, 0) + package(8, 11, 4, 0),
        package(0, 0, 1, 0x10) + package(1, 4, 1, 0x30),
    ],
)
def test_batches_that_overlap_and_markers_of_many_offsets_are_not_believed(data):
    with pytest.raises(BadAnswer, match=r"record batch at offset|marker of 4 offsets"):
        list(heads_in(data))


class Unpacking:
    """A client that gives nothing, and takes more memory with each call."""

    def __init__(self, bytes_a_call):
        self.bytes_a_call, self.resident = bytes_a_call, 0

    def consume(self, _count, _wait_s):
        self.resident += self.bytes_a_call
        return []


def test_memory_that_fills_slowly_ends_the_wait_of_one_who_follows(monkeypatch):
    client = Unpacking(consumer._MOST_UNPACKED // 10)
    monkeypatch.setattr(consumer.clients, "consumer", lambda _: client)
    monkeypatch.setattr(consumer, "_resident", lambda: client.resident)
    following = PartitionConsumer(consumer.KafkaConnection("here:1"), patience_s=1)
    with pytest.raises(consumer.UnpacksTooMuch):
        deque((following.poll(0) for _ in range(20)), maxlen=0)


def test_memory_that_fills_while_the_caller_works_counts(monkeypatch):
    client = Unpacking(0)
    monkeypatch.setattr(client, "consume", lambda _count, _wait_s: [message(4, value=b"v")])
    monkeypatch.setattr(consumer.clients, "consumer", lambda _: client)
    monkeypatch.setattr(consumer, "_resident", lambda: client.resident)
    busy = PartitionConsumer(consumer.KafkaConnection("here:1"), patience_s=1)
    for poll in (lambda: busy.poll(0), lambda: busy.poll_or_fail("reading")):
        for _ in range(20):
            client.resident += consumer._MOST_UNPACKED // 10
            assert poll()
        client.resident += consumer._MOST_UNPACKED + 1
        with pytest.raises(consumer.UnpacksTooMuch):
            poll()
        client.resident = 0


def test_what_fills_the_memory_before_partitions_are_assigned_does_not_count(monkeypatch):
    client = Unpacking(0)
    monkeypatch.setattr(client, "assign", lambda _: None, raising=False)
    monkeypatch.setattr(consumer.clients, "consumer", lambda _: client)
    monkeypatch.setattr(consumer, "_resident", lambda: client.resident)
    reading = PartitionConsumer(consumer.KafkaConnection("here:1"), patience_s=1)
    client.resident = consumer._MOST_UNPACKED + 1
    reading.assign({})
    assert reading.poll(0) == []


def test_a_damaged_record_batch_is_an_error_with_a_way_past_it(monkeypatch):
    monkeypatch.setattr(consumer.clients, "consumer", lambda _: Unpacking(0))
    reading = PartitionConsumer(consumer.KafkaConnection("here:1"), patience_s=1)
    with pytest.raises(KafkaRefused, match="_BAD_MSG") as caught:
        reading.refuse_permanent(KafkaError(KafkaError._BAD_MSG), "reading laps")
    assert "--offsets" in (caught.value.hint or "")


def test_an_error_from_before_the_last_record_is_no_reason_for_what_follows(monkeypatch):
    given = [[message(4, value=b"v")]]
    client = Unpacking(0)
    monkeypatch.setattr(client, "consume", lambda *_: given.pop() if given else [])
    monkeypatch.setattr(consumer.clients, "consumer", lambda _: client)
    reading = PartitionConsumer(consumer.KafkaConnection("here:1"), patience_s=0.1)
    reading._on_error(consumer.KafkaError(consumer.KafkaError._TRANSPORT))
    assert reading.last_error is not None
    assert reading.poll(0)
    assert reading.last_error is None
    with pytest.raises(BrokerUnavailable, match="reading: nothing came"):
        reading.poll_or_fail("reading")


def test_a_broker_whose_name_makes_the_statistics_unreadable_is_no_fault_of_ours(monkeypatch):
    """The client writes the names of brokers into its statistics as they are."""
    statistics = '{"brokers": {"x"7.0.0.1:9092/1": {}}, "topics": {}}'

    def told(_count, _wait_s):
        reading._on_statistics(statistics)
        return []

    client = Unpacking(0)
    monkeypatch.setattr(client, "consume", told)
    monkeypatch.setattr(consumer.clients, "consumer", lambda _: client)
    reading = PartitionConsumer(consumer.KafkaConnection("here:1"), patience_s=0.1)
    with pytest.raises(BrokerUnavailable, match="reading: nothing came"):
        reading.poll_or_fail("reading")


def test_neither_way_of_reading_takes_offsets_that_do_not_ascend():
    found = [message(offset, value=b"v") for offset in (4, 6, 5)]
    reader = object.__new__(KafkaReader)
    reader._seen, reader._troubles = 4, []
    with pytest.raises(BadAnswer, match="offset 5 after offset 6"):
        reader._add(Records("cars", 0), found)
    stretch = Stretch("cars", 0, 4, 9)
    scan = Scan(None, [stretch], 1.0)
    with pytest.raises(BadAnswer, match="offset 5 after offset 6"):
        list(scan._take(None, {stretch.place: stretch}, stretch.place, found))

"""A client that gives no record although its broker answers: whether the log or the broker is the reason."""

import json
from collections import deque

import pytest
from confluent_kafka import KafkaError, KafkaException

from playhead.errors import BrokerUnavailable
from playhead.kafka.read import consumer
from playhead.kafka.read.consumer import NothingGiven, PartitionConsumer


class Withholding:
    """A client whose broker answers 100 times at each call, and which stays at offset 5 of 9."""

    def __init__(self, broker=1, refusal=None, state="active", calls_at_end=0):
        self.broker, self.refusal, self.answers = broker, refusal, 0
        self.state, self.calls_at_end = state, calls_at_end

    def consume(self, _count, _wait_s):
        self.answers += 100
        self.calls_at_end -= 1
        end = 5 if self.calls_at_end >= 0 else 9
        partition = {"partition": 0, "next_offset": 5, "ls_offset": end, "fetch_state": self.state}
        told = {
            "brokers": {"it": {"nodeid": self.broker, "rx": self.answers}},
            "topics": {"cars": {"partitions": {"0": partition | {"broker": self.broker}}}},
        }
        self.reading._on_statistics(json.dumps(told))
        return []

    def get_watermark_offsets(self, _place, *, timeout):
        if self.refusal:
            raise KafkaException(KafkaError(self.refusal))
        return 0, 9


@pytest.fixture
def reader_of(monkeypatch):
    def made(client):
        monkeypatch.setattr(consumer.clients, "consumer", lambda _: client)
        client.reading = PartitionConsumer(consumer.KafkaConnection("here:1"), patience_s=0.1)
        return client.reading

    return made


def test_a_batch_that_a_healthy_leader_sends_again_and_again_is_named(reader_of):
    with pytest.raises(NothingGiven, match="cars:0 from offset 5 on"):
        reader_of(Withholding()).poll_or_fail("reading")


def test_a_leader_that_refuses_to_serve_is_not_a_damaged_batch(reader_of):
    """The client reports none of these errors, and asks again."""
    with pytest.raises(BrokerUnavailable, match="reading: .*Disk error"):
        reader_of(Withholding(refusal=KafkaError.KAFKA_STORAGE_ERROR)).poll_or_fail("reading")


def test_one_who_follows_waits_for_such_a_leader(reader_of):
    following = reader_of(Withholding(refusal=KafkaError.NOT_LEADER_FOR_PARTITION))
    while following.last_error is None:
        assert following.poll(0) == []
    assert "eader" in following.last_error
    assert following.poll(0) == []


def test_answers_to_other_requests_do_not_count_while_there_is_no_leader(reader_of):
    """Brokers that are known by their address only have the number that stands for no leader."""
    with pytest.raises(BrokerUnavailable, match="reading: nothing came"):
        reader_of(Withholding(broker=-1)).poll_or_fail("reading")


def test_a_partition_that_is_no_longer_read_does_not_count(reader_of):
    with pytest.raises(BrokerUnavailable, match="reading: nothing came"):
        reader_of(Withholding(state="none")).poll_or_fail("reading")


def test_a_batch_that_arrives_during_the_wait_counts_from_then_on(reader_of):
    with pytest.raises(NothingGiven):
        reader_of(Withholding(calls_at_end=3)).poll_or_fail("reading")


def test_answers_of_a_broker_that_leads_only_now_do_not_count(reader_of):
    """It has answered for other partitions, and may not have been asked for this one yet."""
    client = Withholding()
    reader, consume = reader_of(client), client.consume

    def elsewhere(count, wait_s):
        client.broker += 1
        return consume(count, wait_s)

    client.consume = elsewhere
    with pytest.raises(BrokerUnavailable, match="reading: nothing came"):
        reader.poll_or_fail("reading")
    client.consume = consume
    with pytest.raises(NothingGiven):
        deque(iter(lambda: reader.poll(0), None), maxlen=0)

"""What is sent in pieces arrives once and in its order, however often the client's queue is full."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.admin import clients
from playhead.kafka.write.transactions import RecordColumns, TransactionLost, Transactions


class Crowded:
    """A producer whose queue has room for so many records until it is polled."""

    def __init__(self, rooms: list[int]) -> None:
        self.rooms, self.room = rooms, 0
        self.sent: list[tuple[Any, ...]] = []
        self.heard: list[Callable[..., None] | None] = []

    def list_topics(self, **_: Any) -> None: ...

    def init_transactions(self, _: float) -> None: ...

    def produce(self, topic: str, value: Any, key: Any, partition: int, hear: Any, *rest: Any):
        if not self.room:
            raise BufferError
        self.room -= 1
        self.sent.append((topic, partition, key, value, *rest[1:]))
        self.heard.append(hear)

    def poll(self, _: float) -> None:
        self.room = self.rooms.pop() if self.rooms else 100


@given(st.integers(1, 12), st.lists(st.integers(0, 4)), st.booleans())
def test_a_full_queue_loses_no_record_and_repeats_none(count, rooms, has_headers):
    producer = Crowded(rooms)
    numbers = range(count)
    headers = [[("n", b"%d" % n)] if n % 2 else None for n in numbers]
    columns = RecordColumns(
        "copy",
        3,
        numbers,
        [n + 100 for n in numbers],
        [b"k%d" % n for n in numbers],
        [b"v%d" % n for n in numbers],
        headers if has_headers else None,
    )
    made, clients.make_producer = clients.make_producer, lambda *_, **__: producer
    try:
        transactions = Transactions(KafkaConnection("127.0.0.1:1"), "r", "r-0")
    finally:
        clients.make_producer = made
    transactions.send(columns, lambda _: None)
    assert producer.sent == [
        ("copy", 3, b"k%d" % n, b"v%d" % n, n + 100, headers[n] if has_headers else None)
        for n in numbers
    ]
    assert all(hear is None for hear in producer.heard[:-1]), "a callback for each costs a third"
    assert producer.heard[-1] is not None


class Failing(Crowded):
    """Its records fail while they are sent, and leave the queue before it is flushed."""

    def __len__(self) -> int:
        return 0

    def begin_transaction(self) -> None: ...

    def flush(self, _: float) -> int:
        return 0

    def poll(self, _: float) -> None:
        for hear in self.heard:
            if hear is not None:
                hear(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER), None)
        self.heard.clear()


class Unplaced(Failing):
    """The broker has lost its answer, knows the records again, and no longer where they are."""

    def poll(self, _: float) -> None:
        for hear in self.heard:
            if hear is not None:
                hear(None, SimpleNamespace(offset=lambda: None, timestamp=lambda: (1, 1)))
        self.heard.clear()


ONE = RecordColumns("copy", 0, [0], [1], [b"k"], [b"v"], None)


def begun(monkeypatch, producer):
    producer.room = 9
    monkeypatch.setattr(clients, "make_producer", lambda *_, **__: producer)
    transactions = Transactions(KafkaConnection("127.0.0.1:1"), "r", "r-0")
    transactions.begin()
    return transactions


def test_an_answer_without_an_offset_is_no_acknowledgement(monkeypatch):
    transactions = begun(monkeypatch, Unplaced([]))
    acknowledged: list[int] = []
    transactions.send(ONE, acknowledged.append)
    with pytest.raises(TransactionLost, match="did not name their offsets"):
        transactions.flush()
    assert acknowledged == []
    assert transactions.is_lost
    transactions.begin()
    transactions.flush()


def test_a_record_that_failed_before_the_flush_is_not_taken_for_acknowledged(monkeypatch):
    transactions = begun(monkeypatch, Failing([]))
    transactions.send(ONE, lambda _: None)
    with pytest.raises(TransactionLost, match="flush"):
        transactions.flush()

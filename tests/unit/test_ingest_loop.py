"""The loop between a real socket and a real client whose broker is away: every datagram is in one place."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playhead.config.context import configure
from playhead.config.guards import Guard
from playhead.config.kafka_connection import KafkaConnection
from playhead.ingest.counts import Counts
from playhead.ingest.json_path import Unfit
from playhead.ingest.loop import Ingest, lines_of
from playhead.ingest.record_shape import RecordShape
from playhead.ingest.udp_address import Address
from playhead.ingest.udp_socket import Listener
from playhead.kafka.produce.nonblocking_sender import NonBlockingSender, QueueLimits
from playhead.sandbox.folder import free_port

MIB = 1 << 20
BY_CAR = RecordShape.parse("car", None, "UTC")
# Where nobody has raised the kernel's limit its buffer has room for some five hundred small ones.
AT_ONCE = 200
GOOD, BAD = b'{"car":"a"}', b"bad"


def nowhere(topic: str = "t", memory: int = MIB) -> NonBlockingSender:
    """To a port at which no broker is."""
    return NonBlockingSender(
        KafkaConnection(f"127.0.0.1:{free_port()}"), topic, QueueLimits(memory)
    )


Feed = Callable[..., Counts]


@contextmanager
def running(**more: Any) -> Iterator[tuple[Ingest, Feed]]:
    """An ingest in its own thread, and what sends to it and waits until so many records are there."""
    listener = Listener(
        Address.parse("udp://127.0.0.1:0"),
        buffer_bytes=4 * MIB,
        most_bytes=more.pop("most", 65_535),
    )
    given = {"shape": RecordShape(), "flush_s": 0.0} | more
    outlet, guard = given.pop("outlet", None) or nowhere(), Guard(configure({}))
    ingest = Ingest(listener, given.pop("shape"), outlet, guard, **given)
    thread = threading.Thread(target=ingest.run)
    with closing(listener), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:

        def feed(*datagrams: bytes, until: int) -> Counts:
            for number, datagram in enumerate(datagrams, 1):
                sending.sendto(datagram, listener.address.place)
                if number % AT_ONCE == 0:
                    time.sleep(0.002)
            deadline = time.monotonic() + 30
            while (counts := ingest.counts()).records < until and time.monotonic() < deadline:
                time.sleep(0.002)
            assert counts.records == until
            return counts

        thread.start()
        try:
            yield ingest, feed
        finally:
            ingest.stop()
            assert ingest.ended.wait(30)
            thread.join()


def test_the_memory_has_room_for_so_many_and_not_one_more() -> None:
    with running() as (ingest, feed):
        counts = feed(*[b"x" * 100] * 3_000, until=3_000)
        assert (counts.waiting, counts.dropped) == (QueueLimits(MIB).most_records, 3_000 - 2_048)
        assert counts.adds_up
    ended = ingest.counts()
    assert (ended.waiting, ended.failed, ended.dropped) == (0, 2_048, 952)
    assert ended.lost == ended.records == 3_000
    assert ended.adds_up
    assert ingest.failures() == ["no answer in time"]


def test_large_records_fill_the_memory_by_their_bytes() -> None:
    with running() as (_, feed):
        counts = feed(*[b"x" * 60_000] * 20, until=20)
        assert counts.waiting * 60_000 <= MIB // 2 < (counts.waiting + 1) * 60_000
        assert counts.dropped == 20 - counts.waiting


@pytest.mark.parametrize("most_bytes", [2 * MIB, 16 * MIB, 64 * MIB])
@pytest.mark.parametrize("with_headers", [False, True])
def test_bytes_and_what_the_client_keeps_beside_them_are_never_more_than_was_allowed(
    most_bytes: int, with_headers: bool
) -> None:
    memory = QueueLimits(most_bytes, with_headers)
    said = memory.as_settings()
    beside = memory.most_records * (448 if with_headers else 256)
    assert said["queue.buffering.max.kbytes"] * 1024 + beside <= most_bytes
    assert beside >= most_bytes // 2 - 448


def test_the_end_waits_for_the_broker_as_long_as_asked_and_no_longer() -> None:
    with running(flush_s=0.7) as (ingest, feed):
        feed(b"x", until=1)
        began = time.monotonic()
        ingest.stop()
        assert ingest.ended.wait(30)
        assert 0.6 <= time.monotonic() - began < 10
    assert ingest.counts().failed == 1


def test_what_is_no_record_goes_to_the_dead_letters_and_counts_there() -> None:
    letters = nowhere("dead")
    with running(shape=BY_CAR, on_bad="dlq", dead_letters=letters, most=50) as (ingest, feed):
        counts = feed(GOOD, BAD, b"x" * 51, GOOD, until=4)
        assert (counts.waiting, counts.refused, counts.truncated) == (4, 0, 1)
        assert letters.waiting == 2
        assert counts.refusals == {"no JSON": 1, "truncated": 1}
    assert ingest.counts().failed == 4
    assert ingest.counts().adds_up


def test_the_rule_fail_ends_it_by_itself() -> None:
    with running(shape=BY_CAR, on_bad="fail") as (ingest, feed):
        feed(GOOD, BAD, until=2)
        assert ingest.ended.wait(30)
    assert isinstance(ingest.first_refusal, Unfit)
    assert (ingest.counts().refused, ingest.counts().failed) == (1, 1)


def test_an_error_of_the_socket_is_told_and_what_was_received_is_still_flushed() -> None:
    with running() as (ingest, feed):
        feed(b"one", b"two", until=2)
        ingest.listener.close()
        assert ingest.ended.wait(30)
    assert isinstance(ingest.error, OSError)
    assert (ingest.counts().waiting, ingest.counts().failed) == (0, 2)


def test_a_client_that_has_ended_for_good_is_replaced_and_its_records_have_failed() -> None:
    outlet = nowhere()
    outlet.offer(b"x", None, 1_628_080_200_000)
    outlet._over = True
    outlet.serve()
    assert (outlet.ends, outlet.failed, outlet.waiting) == (1, 1, 0)
    outlet.offer(b"y", b"k", 1_628_080_200_000)
    assert outlet.waiting == 1
    outlet.close(0)
    assert (outlet.offered, outlet.failed, outlet.delivered) == (2, 2, 0)


PIECES = st.sampled_from([b"", GOOD, BAD, b"\xff", b"\n", GOOD + b"\n" + BAD, b"x" * 60])


@settings(max_examples=25, deadline=None)
@given(st.lists(PIECES, max_size=40), st.booleans(), st.booleans(), st.booleans())
def test_whatever_arrives_is_in_exactly_one_place(
    datagrams: list[bytes], by_lines: bool, by_car: bool, with_letters: bool
) -> None:
    lines = [lines_of(each) if by_lines and len(each) <= 50 else [each] for each in datagrams]
    records = sum(map(len, lines))
    more: dict[str, Any] = {"shape": BY_CAR if by_car else RecordShape(), "by_lines": by_lines}
    if with_letters:
        more |= {"on_bad": "dlq", "dead_letters": nowhere("dead")}
    with running(**more, most=50) as (ingest, feed):
        feed(*datagrams, until=records)
    ended = ingest.counts()
    bad = sum(len(each) > 50 or (by_car and each != GOOD) for some in lines for each in some)
    assert ended.adds_up
    assert ended.datagrams == len(datagrams)
    assert ended.bytes == sum(min(len(each), 51) for each in datagrams)
    assert ended.records == records
    assert sum(ended.refusals.values()) == bad
    assert ended.refused == (0 if with_letters else bad)
    assert ended.failed == records - ended.refused
    assert ended.empty == sum(not some for some in lines)

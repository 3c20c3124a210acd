"""The reader of `verify`, which decodes the log itself, against a real broker and beside the Kafka client."""

import random
import struct
import threading
import time
from contextlib import closing
from itertools import pairwise

import pyarrow
import pytest
from confluent_kafka import Producer

from playhead.absence import Explained
from playhead.errors import MissingPiece
from playhead.kafka.admin.broker_socket import Wire, array, text
from playhead.kafka.read import log_reader, record_decoder
from playhead.kafka.read.absences import MARKER
from playhead.kafka.read.consumer import OffsetsFall
from playhead.kafka.read.log_heads import Heads
from playhead.kafka.read.log_reader import LogReader
from playhead.kafka.read.planned_topics import TopicReplaced
from playhead.kafka.read.reader import KafkaReader
from playhead.kafka.read.source import KafkaSource
from playhead.kafka.read.two_readers import TwoReaders
from playhead.kafka.read.unreadable import UnreadableHeader
from playhead.record import Slice, TimestampType
from playhead.source import OutOfBounds
from playhead.testing import exercise_source
from tests.fix_torture import SEED
from tests.sandbox.kafka_log import (
    SOON_COMPACTED,
    Log,
    delete_topic,
    gzipped,
    produce_raw,
    recreate,
)
from tests.sandbox.test_kafka_source import ROW, log_of_samples, read, rows, whole

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture
def log(kafka, topic):
    return Log(kafka, topic)


@pytest.fixture
def client(kafka, topic):
    return KafkaSource(kafka, (topic,))


@pytest.fixture
def source(client):
    return client.read_directly()


def test_it_is_the_reader_of_a_source_that_is_read_directly(client, source, log):
    with client.open() as one, source.open() as other:
        assert (type(one), type(other)) == (TwoReaders, LogReader)


@pytest.mark.parametrize("most", [1, 1 << 20])
def test_it_keeps_the_contract_of_sources(kafka, make_topic, monkeypatch, most):
    monkeypatch.setattr(log_reader, "_FETCH_BYTES", most)
    log = log_of_samples(kafka, make_topic)
    exercise_source(lambda: KafkaSource(kafka, (log.topic,)).read_directly(), log.records)


# --- what the client does not give


def test_headers_are_there_that_the_client_does_not_give(kafka, topic, client, source):
    headers = ((b"a", b""),) * 100_001
    produce_raw(kafka, topic, 0, [(1, b"k", b"v", headers), (2, b"k", b"v", ((b"a\0b", b"1"),))])
    slice_ = Slice(topic, 0, 0, 2)
    assert [len(each.headers) for each in read(client, slice_)] == [0, 1]
    many, cut = read(source, slice_)
    assert many.headers == ((("a", b""),) * 100_000) + (("", b"\x02a\x00"),)
    assert cut.headers == (("a\0b", b"1"),)


def test_a_name_that_is_no_text_is_an_error_after_the_records_before_it(kafka, topic, source):
    plain, odd = (1, b"k", b"v", ()), (1, b"k", b"v", ((b"\xff", b"1"),))
    produce_raw(kafka, topic, 0, [plain, plain, odd, plain])
    assert [each.offset for each in read(source, Slice(topic, 0, 0, 2))] == [0, 1]
    with pytest.raises(UnreadableHeader, match=f"{topic}:0 offset 2"):
        read(source, Slice(topic, 0, 0, 3))


def test_a_name_that_is_no_text_is_no_error_of_the_records_after_it(kafka, topic, source):
    """As in the client, which a replay of the records before and after it reads by."""
    plain, odd = (1, b"k", b"v", ()), (1, b"k", b"v", ((b"\xff", b"1"),))
    produce_raw(kafka, topic, 0, [plain, odd, plain, plain])
    assert [each.offset for each in read(source, Slice(topic, 0, 2, 4))] == [2, 3]
    after = [Slice(topic, 0, 0, 1), Slice(topic, 0, 2, 3), Slice(topic, 0, 3, 4)]
    assert [each.offset for each in read(source, *after)] == [0, 2, 3]


@pytest.mark.parametrize("places", [[0, 2, 1], [0, 0, 1], [0, 1, 7], [-1, 1, 2]])
def test_a_record_under_another_offset_is_an_error(kafka, topic, source, places):
    Log(kafka, topic).write(0, ROW)
    produce_raw(kafka, topic, 0, [ROW] * 3, places=places)
    with pytest.raises(OffsetsFall):
        read(source, Slice(topic, 0, 0, 4))


# --- beside the client


def of_both(kafka, topic, *slices):
    client = KafkaSource(kafka, (topic,))
    one, other = (read(each, *slices) for each in (client, client.read_directly()))
    assert other == one
    return one


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_decoded(kafka, topic, codec):
    settings = {"compression.type": codec, "linger.ms": 50, "log_level": 0}
    producer = Producer(kafka.for_librdkafka("producer") | settings)
    for n in range(3_000):
        producer.produce(topic, b"%d" % n * 20, b"k", timestamp=n + 1, headers=[("n", b"%d" % n)])
    assert producer.flush(30) == 0
    found = of_both(kafka, topic, Slice(topic, 0, 1_111, 2_999))
    assert [each.value for each in found] == [b"%d" % n * 20 for n in range(1_111, 2_999)]


def xerial(records):
    """Snappy as Java's clients write it, in blocks."""
    data, codec = b"".join(records), pyarrow.Codec("snappy")
    blocks = [codec.compress(data[at : at + 100], asbytes=True) for at in range(0, len(data), 100)]
    head = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    return head + b"".join(struct.pack(">i", len(each)) + each for each in blocks)


xerial.codec = 2


def test_blocks_of_java_clients_are_decoded(kafka, topic):
    odd = [(n, b"k", b"v%d" % n, ((b"h", None),)) for n in range(50)]
    produce_raw(kafka, topic, 0, odd, pack=xerial)
    assert len(of_both(kafka, topic, Slice(topic, 0, 0, 50))) == 50


def test_times_are_those_of_the_client(kafka, topic, make_topic):
    for first in (1_000, -(2**40), 2**40):
        others = [(each, b"k", b"v", ()) for each in (-1, 7, -(2**62), 1_000)]
        produce_raw(kafka, topic, 0, [(first, b"k", b"v", ()), *others])
    assert len(of_both(kafka, topic, Slice(topic, 0, 0, 15))) == 15
    stamped = make_topic(message_timestamp_type="LogAppendTime")
    Log(kafka, stamped).write(0, *[(5, b"k", b"v", ())] * 3)
    found = of_both(kafka, stamped, Slice(stamped, 0, 0, 3))
    assert {each.timestamp_type for each in found} == {TimestampType.LOG_APPEND_TIME}


def any_row(drawn):
    some = lambda: drawn.choice((None, b"", b"k", drawn.randbytes(drawn.randrange(300))))  # noqa: E731
    headers = tuple(
        (drawn.choice(("", "h", "é" * 70)), some()) for _ in range(drawn.choice((0, 0, 3)))
    )
    return drawn.choice((0, 1_000, 10**12)) + drawn.randrange(-900, 900), some(), some(), headers


@pytest.mark.parametrize("number", range(3))
def test_any_log_is_read_as_the_client_reads_it(kafka, topic, monkeypatch, number):
    """Plain and packed batches, transactions that ended either way, any slices, one batch or some in an answer."""
    drawn = random.Random(f"{SEED}-log-reader-{number}")
    monkeypatch.setattr(log_reader, "_FETCH_BYTES", drawn.choice((1, 900, 1 << 20)))
    monkeypatch.setattr(record_decoder, "RUN", drawn.choice((1, 3, 20_000)))
    log = Log(kafka, topic)
    for _ in range(40):
        made = [any_row(drawn) for _ in range(drawn.randint(1, 9))]
        act = drawn.choice((log.write, log.commit, log.abort, None))
        if act is not None:
            act(0, *made)
            continue
        odd = [(*row[:3], tuple((name.encode(), held) for name, held in row[3])) for row in made]
        pack = drawn.choice((None, xerial, gzipped))
        produce_raw(kafka, topic, 0, odd, pack=pack)
    end = log.bounds().stable_end
    cuts = sorted({0, end, *(drawn.randrange(1, end) for _ in range(drawn.choice((0, 5, 60))))})
    slices = [Slice(topic, 0, *pair) for pair in pairwise(cuts)]
    found = of_both(kafka, topic, *slices)
    theirs = {each.offset: each for each in log.records}
    assert [each for each in found if each.offset in theirs] == log.records
    shuffled = drawn.sample(slices, len(slices))
    assert sorted(of_both(kafka, topic, *shuffled), key=lambda each: each.offset) == found


def test_a_compacted_log_is_read_as_the_client_reads_it(kafka, make_topic):
    log = Log(kafka, make_topic(**SOON_COMPACTED))
    for n in range(6):
        produce_raw(kafka, log.topic, 0, [(n, b"%d" % (n * k % 7), b"v", ()) for k in range(1, 20)])
        log.write(0, (n, b"roll", b"another segment", ()))
    deadline, found = time.monotonic() + 120, range(200)
    while len(found) > 60:
        assert time.monotonic() < deadline, "not compacted"
        time.sleep(0.3)
        log.write(0, (round(time.time() * 1_000), b"roll", b"another segment", ()))
        before = read(KafkaSource(kafka, (log.topic,)), whole(log))
        try:
            found = of_both(kafka, log.topic, whole(log))
        except AssertionError:
            # It may have been compacted between the two.
            assert before != read(KafkaSource(kafka, (log.topic,)), whole(log))


def test_small_slices_of_a_large_batch_are_decoded_once(kafka, topic, source, monkeypatch):
    produce_raw(kafka, topic, 0, [(n, b"k", b"v", ()) for n in range(500)])
    asked, look = [], log_reader.LogReader._answer
    monkeypatch.setattr(LogReader, "_answer", lambda *each: asked.append(each[2]) or look(*each))
    found = read(source, *[Slice(topic, 0, n, n + 10) for n in range(0, 500, 10)])
    assert [each.offset for each in found] == [*range(500)]
    assert asked == [0]


def test_nothing_is_asked_for_behind_a_marker_that_ends_a_slice(source, log, monkeypatch):
    log.commit(0, ROW)
    asked, look = [], log_reader.LogReader._answer
    monkeypatch.setattr(LogReader, "_answer", lambda *each: asked.append(each[2]) or look(*each))
    assert read(source, whole(log)) == log.records
    assert max(asked) < 2


# --- faults


def test_a_batch_that_is_not_decoded_here_is_left_to_the_client(source, log, monkeypatch):
    """As those from before Kafka 0.11, which no broker of today writes."""
    log.write(0, *rows(3))
    log.commit(0, *rows(2, first=3))
    log.write(0, *rows(4, first=5))
    decoded = record_decoder.records_in

    def none_of_the_transaction(place, batch, start):
        if struct.unpack_from(">q", batch) == (3,):
            raise record_decoder.NotDecodedHere
        return decoded(place, batch, start)

    monkeypatch.setattr(log_reader, "records_in", none_of_the_transaction)
    assert read(source, *[Slice(log.topic, 0, n, n + 2) for n in range(0, 10, 2)]) == log.records


def test_where_only_the_client_can_log_in_it_reads(source, log, monkeypatch):
    log.write(0, ROW)

    def no_token(*_arguments, **_named):
        raise MissingPiece("a login by PLAIN or SCRAM", needed_for="asking", hint="none")

    monkeypatch.setattr("playhead.kafka.read.source.need_login", no_token)
    with source.open() as reader:
        assert type(reader) is KafkaReader
        assert [len(run) for run in reader.read(whole(log))] == [1]


def test_a_broker_that_is_away_for_a_while_does_not_end_it(kafka, linked_kafka, broker_link, log):
    log.write(0, *rows(5))
    source = KafkaSource(linked_kafka, (log.topic,), patience_s=30).read_directly()
    with source.open() as reader:
        first = Slice(log.topic, 0, 0, 5)
        assert sum(map(len, reader.read(first))) == 5
        log.write(0, *rows(5))
        reader._stable_end = 10  # As if it had asked before the broker went.
        broker_link.cut()
        back = threading.Timer(3.0, broker_link.restore)
        back.start()
        assert sum(map(len, reader.read(Slice(log.topic, 0, 5, 10)))) == 5
        back.join()


def test_offsets_that_are_not_there_are_out_of_bounds(source, log):
    log.write(0, *rows(6))
    with source.open() as reader:
        with pytest.raises(OutOfBounds):
            list(reader.read(Slice(log.topic, 0, 0, 7)))
        with pytest.raises(OutOfBounds, match="no such partition"):
            list(reader.read(Slice(log.topic, 9, 0, 1)))
        assert sum(map(len, reader.read(Slice(log.topic, 0, 0, 6)))) == 6
        with pytest.raises(OutOfBounds, match="holds 0-6"):
            list(reader.read(Slice(log.topic, 0, 6, 7)))
        assert sum(map(len, reader.read(Slice(log.topic, 0, 0, 2)))) == 2
        log.delete_before(0, 5)
        with pytest.raises(OutOfBounds, match="holds 5-6"):
            list(reader.read(Slice(log.topic, 0, 0, 6)))


def test_records_that_go_while_they_are_read_are_out_of_bounds(source, log, monkeypatch):
    monkeypatch.setattr(log_reader, "_FETCH_BYTES", 1)
    for n in range(6):
        log.write(0, *rows(1, first=n))
    with source.open() as reader:
        runs = reader.read(Slice(log.topic, 0, 0, 6))
        assert next(runs).offsets == [0]
        log.delete_before(0, 5)
        with pytest.raises(OutOfBounds, match="holds 5-6"):
            list(runs)


def test_a_topic_made_again_while_it_is_read_is_refused(kafka, source, log, monkeypatch):
    monkeypatch.setattr(log_reader, "_FETCH_BYTES", 1)
    for n in range(6):
        log.write(0, *rows(1, first=n))
    with source.open() as reader:
        runs = reader.read(Slice(log.topic, 0, 0, 6))
        assert next(runs).offsets == [0]
        recreate(kafka, log.topic)
        Log(kafka, log.topic).write(0, *rows(20))
        with pytest.raises(TopicReplaced):
            list(runs)


def test_offsets_of_which_the_log_has_nothing_are_absent_and_asked_for_again(
    source, log, monkeypatch
):
    """As before the end of what is committed, if compaction has left nothing there."""
    for n in range(9):
        log.write(0, *rows(1, first=n))
    look, asked = LogReader._answer, []

    def nothing_from_three_on(reader, place, at):
        asked.append(at)
        return Heads(()) if at >= 3 else look(reader, place, at)

    monkeypatch.setattr(log_reader, "_FETCH_BYTES", 1)
    monkeypatch.setattr(LogReader, "_answer", nothing_from_three_on)
    with source.open() as reader:
        first = [each for run in reader.read(Slice(log.topic, 0, 0, 5)) for each in run.offsets]
        monkeypatch.setattr(LogReader, "_answer", look)
        after = [each for run in reader.read(Slice(log.topic, 0, 5, 9)) for each in run.offsets]
    assert (first, after) == ([0, 1, 2], [5, 6, 7, 8])
    assert asked == [0, 1, 2, *[3] * log_reader._EMPTY_ANSWERS]


def test_a_topic_that_goes_while_it_is_read_is_refused(kafka, source, log, monkeypatch):
    monkeypatch.setattr(log_reader, "_FETCH_BYTES", 1)
    for n in range(6):
        log.write(0, *rows(1, first=n))
    with source.open() as reader:
        runs = reader.read(Slice(log.topic, 0, 0, 6))
        assert next(runs).offsets == [0]
        delete_topic(kafka, log.topic)
        with pytest.raises(TopicReplaced, match="it is gone"):
            list(runs)


@pytest.fixture
def small_quota(kafka):
    """40 kB a second for the client id of Playhead's own requests."""
    set_quota(kafka, 40_000.0)
    yield
    set_quota(kafka, None)


def set_quota(kafka, bytes_a_second):
    """By Kafka's AlterClientQuotas, which its Python client lacks."""
    entity = array([text("client-id") + text("playhead")])
    value = struct.pack(">d?", bytes_a_second or 0.0, bytes_a_second is None)
    body = array([entity + array([text("consumer_byte_rate") + value])]) + b"\0"
    with closing(Wire(kafka, kafka.bootstrap_servers, timeout_s=10)) as wire:
        code = wire.ask(
            49, 0, body, lambda fields: (fields.int32(), fields.length(), fields.int16())[2]
        )
    assert code == 0


def test_a_quota_makes_it_slower_and_hides_nothing(kafka, source, log, small_quota):
    """A broker answers without any record batch while a quota is used up."""
    for n in range(1, 8):
        log.commit(0, (n, b"k", bytes(60_000), ()))
    began = time.monotonic()
    assert read(source, whole(log)) == log.records
    with source.absences() as explainer:
        blanks = [(n, n + 1) for n in range(1, 14, 2)]
        assert explainer.explain((log.topic, 0), blanks) == Explained({MARKER: 7})
    assert time.monotonic() - began > 1, "the quota did nothing"

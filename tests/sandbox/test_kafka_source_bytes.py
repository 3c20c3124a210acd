"""What a record may carry on its way through the Kafka source: sizes, headers, nulls, times."""

import gzip
import random
import threading
import time
from collections import deque

import pytest
from confluent_kafka import Producer

from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.offsets import entries_at
from playhead.kafka.groups.partitions import gather
from playhead.kafka.groups.position import AtInstant
from playhead.kafka.read import consumer, record_decoder, unreadable
from playhead.kafka.read.absences import RecordsNotGiven
from playhead.kafka.read.consumer import NothingGiven, NotUnpacked, OffsetsFall
from playhead.kafka.read.planned_topics import PlannedTopics, TopicReplaced
from playhead.kafka.read.scan import Scan, Stretch
from playhead.kafka.read.source import KafkaSource, MisleadingTime
from playhead.kafka.read.unreadable import RecordTooLarge, UnreadableHeader
from playhead.live.pipeline_spec import PipelineSpec
from playhead.live.start_offsets import beginning
from playhead.record import Slice, TimestampType
from playhead.request import Request
from playhead.source import read_directly, rejecting
from tests.sandbox.kafka_log import SOON_COMPACTED, Log, gzipped, produce_raw
from tests.sandbox.test_kafka_source import read, whole

CREATE, APPEND = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME


@pytest.mark.parametrize("size", [1_000_000, 20_000_000])
def test_a_record_larger_than_a_fetch_comes_through(kafka, make_topic, size):
    log = Log(kafka, make_topic(max_message_bytes="30000000"))
    big = bytes(range(256)) * (size // 256)
    log.write(
        0, (1, b"a", b"small", ()), (2, b"b", big, ()), (3, b"c", big[1:], ()), (4, b"", b"", ())
    )
    assert read(KafkaSource(kafka, (log.topic,)), whole(log)) == log.records


def test_a_thousand_headers_keep_their_order_and_their_repeats(kafka, topic):
    log = Log(kafka, topic)
    headers = tuple((f"name-{n % 7}", None if n % 5 == 0 else b"%d" % n) for n in range(1_000))
    log.write(0, (1, b"k", b"v", headers), (2, b"k", b"v", ()), (3, None, None, (("é", b""),)))
    assert read(KafkaSource(kafka, (topic,)), whole(log)) == log.records


def test_the_client_gives_none_of_more_than_a_hundred_thousand_headers(kafka, topic):
    """A known limit. If the client gives them one day, docs/limits.md need not name it."""
    log = Log(kafka, topic)
    log.write(0, *[(1, b"k", b"v", (("a", b""),) * count) for count in (100_000, 100_001)])
    found = read(KafkaSource(kafka, (topic,)), whole(log))
    assert [len(each.headers) for each in found] == [100_000, 0]


def test_empty_headers_in_a_packed_batch_fill_no_run(kafka, topic):
    """They have no bytes, and each takes memory: 500 records of 100,000 are some kilobytes in the log."""
    headers = ((b"", None),) * 5_000
    for _ in range(3):
        produce_raw(kafka, topic, 0, [(1, b"k", b"v", headers)] * 100, pack=members)
    with KafkaSource(kafka, (topic,)).open() as reader:
        lengths = [len(run) for run in reader.read(Slice(topic, 0, 0, 300))]
    assert sum(lengths) == 300
    assert max(lengths) <= 100


def test_the_client_cuts_the_name_of_a_header_at_a_nul(kafka, topic):
    """A known limit too: the Python binding reads the name as a text of C."""
    produce_raw(kafka, topic, 0, [(1, b"k", b"v", ((b"a\0b", b"1"), (b"a\0c", b"2")))])
    [found] = read(KafkaSource(kafka, (topic,)), Slice(topic, 0, 0, 1))
    assert found.headers == (("a", b"1"), ("a", b"2"))


def test_null_and_empty_are_told_apart(kafka, topic):
    log = Log(kafka, topic)
    odd = [(None, None), (b"", b""), (None, b""), (b"", None)]
    log.write(0, *[(1, key, value, (("h", key), ("h", value))) for key, value in odd])
    found = read(KafkaSource(kafka, (topic,)), whole(log))
    assert [(each.key, each.value) for each in found] == odd
    assert [tuple(held for _, held in each.headers) for each in found] == odd


def test_times_are_kept_as_they_are(kafka, topic):
    soon = int(time.time() * 1_000) + 3_000_000  # the broker takes an hour into the future
    times = [1_000, 1_000, 5, -1, 0, -(2**40), soon, 7]
    for each in times:
        produce_raw(kafka, topic, 0, [(each, b"k", b"v", ())])
    source = KafkaSource(kafka, (topic,))
    found = read(source, Slice(topic, 0, 0, len(times)))
    assert [(each.timestamp_ms, each.timestamp_type) for each in found] == [
        (t, CREATE) for t in times
    ]
    assert source.offsets_at(-5) == {(topic, 0): 0}
    assert source.offsets_at(1_001) == {(topic, 0): 6}
    assert source.offsets_at(soon + 1) == {(topic, 0): 8}


@pytest.mark.parametrize("said", [150, 1_000_000])
def test_a_record_that_claims_another_offset_hides_no_others_from_a_time(kafka, topic, said):
    """Brokers take it, and answer with what it claims."""
    log = Log(kafka, topic)
    log.write(0, *[(n, b"k", b"v", ()) for n in range(1, 51)])
    produce_raw(kafka, topic, 0, [(90, b"k", b"v", ()), (60, b"k", b"v", ())], places=[said, 1])
    for start in range(51, 301, 10):
        log.write(0, *[(n, b"k", b"v", ()) for n in range(start, start + 10)])
    place, source = (topic, 0), KafkaSource(kafka, (topic,))
    with Admin(kafka) as admin:
        assert entries_at(admin, [place], 80).get(place) == (200 if said == 150 else None)
    assert source.offsets_at(80) == {place: 0}
    with pytest.raises(MisleadingTime, match=f"{topic}:0 .* there are such records before it"):
        source.exact_offsets_at(80)
    asked = Request(source=f"kafka:{topic}", target="postgres:laps")
    when = "1970-01-01T00:00:00.080Z"
    spec = PipelineSpec(name="laps", request=asked, group=f"laps.{topic}", start=when)
    with pytest.raises(MisleadingTime):
        beginning(spec, source, None, (), now_ns=time.time_ns(), timezone="UTC")
    assert source.exact_offsets_at(50) == source.offsets_at(50) == {place: 49}
    assert source.offsets_at(91) == {place: 92}
    assert source.offsets_at(1_000) == {place: 302}
    with Admin(kafka) as admin, pytest.raises(OffsetsFall, match="offset 5[12] after"):
        gather(admin, kafka, AtInstant(80, "80"), [place])


def test_a_batch_that_lost_its_first_record_hides_no_others_from_a_time(kafka, make_topic):
    """Compaction leaves its offset, and the time of the record that is the first now."""
    log = Log(kafka, make_topic(**SOON_COMPACTED))
    log.write(0, *[(n + 1, b"old-%d" % n, b"v", ()) for n in range(5)])
    keys = (b"again", b"b", b"c")
    produce_raw(kafka, log.topic, 0, [(n, key, b"v", ()) for n, key in enumerate(keys, 10)])
    log.write(0, (20, b"again", b"v", ()))
    source, deadline = KafkaSource(kafka, (log.topic,)), time.monotonic() + 120
    while 5 in [each.offset for each in read(source, whole(log))]:
        assert time.monotonic() < deadline, "not compacted"
        time.sleep(0.3)
        log.write(0, (round(time.time() * 1_000), b"roll", b"another segment", ()))
    assert [source.offsets_at(t)[log.topic, 0] for t in (5, 6, 11, 12, 13)] == [4, 6, 6, 7, 8]


def test_a_trim_within_a_batch_hides_no_records_from_a_time(kafka, topic):
    log = Log(kafka, topic)
    produce_raw(kafka, topic, 0, [(n, b"k", b"v", ()) for n in (100, 1, 2, 50)])
    log.write(0, (60, b"k", b"v", ()))
    log.delete_before(0, 1)
    source = KafkaSource(kafka, (topic,))
    assert [source.offsets_at(t)[topic, 0] for t in (1, 2, 50, 60)] == [1, 2, 3, 4]


def hidden_by_another_offset(kafka, topic):
    produce_raw(kafka, topic, 0, [(1, b"k", b"v", ()), (1, b"k", b"v", ())], places=[0, 1_000_000])


def hidden_in_a_second_member(kafka, topic):
    """The client unpacks the first one only; Kafka's own consumers read all."""
    rows = [(1, b"k", b"v%d" % n, ()) for n in range(20)]
    produce_raw(kafka, topic, 0, rows, pack=lambda each: members(each[:10], each[10:]))


def members(*parts):
    return b"".join(gzip.compress(b"".join(each)) for each in parts)


@pytest.mark.parametrize("hide", [hidden_by_another_offset, hidden_in_a_second_member])
@pytest.mark.parametrize("after", [0, 5])
def test_a_scan_names_records_that_the_client_does_not_give(kafka, topic, hide, after):
    log = Log(kafka, topic)
    log.write(0, *[(1, b"k", b"v", ())] * 3)
    hide(kafka, topic)
    if after:
        log.write(0, *[(1, b"k", b"v", ())] * after)
    scan = Scan(kafka, [Stretch(topic, 0, 0, log.bounds().stable_end)], 30.0)
    with pytest.raises((RecordsNotGiven, OffsetsFall), match=f"{topic}:0"):
        list(scan.run())


def cut_between_members(kafka, topic):
    """The client asks for it again and again, and says nothing."""
    rows = [(1, b"k", b"v", ())] * 4
    cut = lambda each: members([*each[:3], each[3][:5]], [each[3][5:]])  # noqa: E731
    produce_raw(kafka, topic, 0, rows, pack=cut)
    Log(kafka, topic).write(0, (1, b"k", b"v", ()))


def test_a_batch_that_the_client_cannot_take_apart_is_named_and_not_the_broker(kafka, topic):
    log = Log(kafka, topic)
    log.write(0, *[(1, b"k", b"v", ())] * 3)
    cut_between_members(kafka, topic)
    scan, shown = Scan(kafka, [Stretch(topic, 0, 0, 8)], 3.0), []
    with pytest.raises(NothingGiven, match=f"{topic}:0 from offset 6 on") as caught:
        shown.extend(offset for run in scan.run() for offset in run.offsets)
    assert shown == [*range(6)]
    assert f"--offsets {topic}:0:FROM-TO" in caught.value.hint


def test_such_a_batch_ends_also_a_scan_that_waits_for_records(kafka, topic):
    log = Log(kafka, topic)
    log.write(0, (1, b"k", b"v", ()))
    following = Scan(kafka, [Stretch(topic, 0, 0, None)], 2.0).run()
    assert [*next(run.offsets for run in following if run.offsets)] == [0]
    quiet_until = time.monotonic() + 5
    while time.monotonic() < quiet_until:
        assert not next(following).offsets
    cut_between_members(kafka, topic)
    with pytest.raises(NothingGiven, match=f"{topic}:0 from offset 4 on"):
        deque(following, maxlen=0)


def test_a_record_behind_one_that_claims_a_later_offset_is_not_left_out(kafka, topic):
    hidden_by_another_offset(kafka, topic)
    scan, shown = Scan(kafka, [Stretch(topic, 0, 0, None)], 30.0), []
    following = scan.run()
    while len(shown) < 2:
        shown += next(following).offsets
    assert shown == [0, 1_000_000]
    Log(kafka, topic).write(0, (1, b"k", b"v", ()))
    with pytest.raises((RecordsNotGiven, OffsetsFall), match=f"{topic}:0"):
        deque(following, maxlen=0)


@pytest.mark.parametrize("follows", [True, False])
def test_a_broker_that_is_away_does_not_end_the_look_for_what_was_not_given(
    kafka, linked_kafka, broker_link, topic, follows
):
    log = Log(kafka, topic)
    for n in range(3):
        log.commit(0, (n, b"k", b"v", ()))
    end = None if follows else log.bounds().stable_end
    scan, shown = Scan(linked_kafka, [Stretch(topic, 0, 0, end)], 2.0 if follows else 20.0), []
    running = scan.run()
    while len(shown) < 3:
        shown += next(running).offsets
    broker_link.cut()
    back = threading.Timer(5.0, broker_link.restore)
    back.start()
    if follows:
        while scan.trouble is None:
            assert not next(running).offsets
        back.join()
        log.write(0, (1, b"k", b"v", ()))
        while len(shown) < 4:
            shown += next(running).offsets
    else:
        deque(running, maxlen=0)
    back.join()
    assert shown == [0, 2, 4, 6][: len(shown)]


def test_a_scan_passes_what_has_a_reason_to_be_absent(kafka, topic):
    log = Log(kafka, topic)
    for n in range(3):
        log.commit(0, (n, b"k", b"v", ()))
        log.abort(0, (n, b"k", b"v", ()), (n, b"k", b"v", ()))
    end = log.bounds().stable_end
    scan = Scan(kafka, [Stretch(topic, 0, 0, end)], 30.0)
    found = [offset for run in scan.run() for offset in run.offsets]
    assert (found, scan.scanned) == ([each.offset for each in log.records], end)


def test_a_time_before_1970_leads_past_records_of_before_it(kafka, topic):
    for each in (-500, -400, -300, 5):
        produce_raw(kafka, topic, 0, [(each, b"k", b"v", ())])
    source = KafkaSource(kafka, (topic,))
    assert [source.offsets_at(t)[topic, 0] for t in (-501, -450, -300, -299)] == [0, 1, 2, 3]


def test_a_batch_may_hold_times_of_any_order(kafka, topic):
    times = [30, -4, 2**40, 7, 7]
    produce_raw(kafka, topic, 0, [(each, None, None, ()) for each in times])
    found = read(KafkaSource(kafka, (topic,)), Slice(topic, 0, 0, 5))
    assert [each.timestamp_ms for each in found] == times


def test_log_append_time_is_told(kafka, make_topic):
    topic = make_topic(message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1_000)
    Log(kafka, topic).write(0, *[(5, b"k", b"v", ())] * 3)
    found = read(KafkaSource(kafka, (topic,)), Slice(topic, 0, 0, 3))
    assert {each.timestamp_type for each in found} == {APPEND}
    assert all(before - 1 <= each.timestamp_ms <= time.time() * 1_000 + 1 for each in found)


def test_a_header_name_that_is_not_text_is_an_error_that_names_the_record(kafka, topic):
    produce_raw(kafka, topic, 0, [(1, b"k", b"v", ((b"fine", b"1"),))] * 3)
    produce_raw(kafka, topic, 0, [(1, b"k", b"v", ((b"\xff\xfe", b"1"),))])
    source = KafkaSource(kafka, (topic,))
    with pytest.raises(UnreadableHeader, match=f"{topic}:0 offset 3") as caught:
        read(source, Slice(topic, 0, 0, 4))
    assert caught.value.offset == 3
    assert len(read(source, Slice(topic, 0, 0, 3))) == 3


@pytest.mark.parametrize("bad", [{0}, {3, 4, 5}, {0, 2, 7}, set(range(8))])
def test_such_records_can_be_rejected_beside_the_others(kafka, topic, bad):
    names = [b"\xff" if at in bad else b"fine" for at in range(8)]
    produce_raw(kafka, topic, 0, [(9, b"k", b"%d" % at, ((names[at], b"1"),)) for at in range(8)])
    source = KafkaSource(kafka, (topic,))
    for slice_ in (Slice(topic, 0, 0, 8), Slice(topic, 0, 2, 6)):
        for opened in (rejecting(source), rejecting(source.read_directly())):
            with opened as reader:
                runs = list(reader.read(slice_))
            wanted = range(slice_.from_offset, slice_.to_offset)
            assert [(each.offset, each.value) for run in runs for each in run] == [
                (at, b"%d" % at) for at in wanted
            ]
            marked = {at for run in runs for at in run.undecoded}
            assert marked == bad & set(wanted)
    scan = Scan(kafka, [Stretch(topic, 0, 0, 8)], 30)
    runs = list(scan.run())
    assert [at for run in runs for at in run.offsets] == [*range(8)]
    assert {at for run in runs for at in run.undecoded} == bad
    assert scan.scanned == 8


def test_such_a_record_of_a_topic_that_was_made_again_is_not_taken(kafka, topic, monkeypatch):
    produce_raw(kafka, topic, 0, [(9, b"k", b"v", ((b"\xff", b"1"),))] * 2)

    def replaced(*_):
        raise TopicReplaced(topic, expected_id="a", found_id="b")

    poll = consumer.PartitionConsumer.poll_or_fail

    def polled(*given):
        monkeypatch.setattr(PlannedTopics, "confirm", replaced)
        return poll(*given)

    monkeypatch.setattr(consumer.PartitionConsumer, "poll_or_fail", polled)
    with rejecting(KafkaSource(kafka, (topic,))) as reader, pytest.raises(TopicReplaced):
        list(reader.read(Slice(topic, 0, 0, 2)))


@pytest.mark.parametrize("seed", range(4))
def test_such_records_hide_nothing_between_gaps_and_in_any_slices(kafka, topic, seed):
    """Aborted records, markers and large batches around them; slices that follow each other, or do not."""
    chance, log, held = random.Random(seed), Log(kafka, topic), {}
    for _ in range(12):
        count = chance.choice([1, 2, 40])
        kind = chance.choice(["raw", "raw", "commit", "abort"])
        if kind == "raw":
            names = [chance.choice([b"fine", b"\xff"]) for _ in range(count)]
            rows = [(9, b"k", b"v", ((name, b"1"),)) for name in names]
            first = produce_raw(kafka, topic, 0, rows, pack=chance.choice([None, gzipped]))
            held |= {first + n: name == b"\xff" for n, name in enumerate(names)}
        else:
            before = len(log.records)
            getattr(log, kind)(0, *[(9, b"k", b"v", (("fine", b"1"),))] * count)
            held |= {each.offset: False for each in log.records[before:]}
    end = log.bounds().stable_end
    source = KafkaSource(kafka, (topic,))
    for its in (source, source.read_directly()):
        with rejecting(its) as reader:
            at = 0
            for _ in range(25):
                at = chance.choice([at, at, chance.randrange(end)]) % end
                to = min(end, at + chance.choice([1, 2, 30]))
                runs = list(reader.read(Slice(topic, 0, at, to)))
                found = {n: n in run.undecoded for run in runs for n in run.offsets}
                assert found == {n: bad for n, bad in held.items() if at <= n < to}
                assert [n for run in runs for n in run.offsets] == sorted(found)
                at = to


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_compression_is_read(kafka, topic, codec):
    from confluent_kafka import Producer

    producer = Producer(
        kafka.for_librdkafka("producer") | {"compression.type": codec, "linger.ms": 100}
    )
    for n in range(3_000):
        producer.produce(topic, b"%d" % n * 20, b"k", timestamp=n + 1)
    assert producer.flush(30) == 0
    found = read(KafkaSource(kafka, (topic,)), Slice(topic, 0, 1_111, 2_999))
    assert [each.value for each in found] == [b"%d" % n * 20 for n in range(1_111, 2_999)]
    assert [each.offset for each in found] == list(range(1_111, 2_999))


def pack(kafka, topic, codec, *values):
    """Write each value as a batch of its own, packed by the client."""
    for value in values:
        settings = {"compression.type": codec, "message.max.bytes": 300_000_000, "linger.ms": 0}
        producer = Producer(kafka.for_librdkafka("producer") | settings | {"log_level": 0})
        producer.produce(topic, value)
        assert producer.flush(60) == 0


@pytest.fixture
def small_limit(monkeypatch):
    """Less memory than any machine has, but more than a fetch, as the client wants it."""
    for module in (consumer, unreadable, record_decoder):
        monkeypatch.setattr(module, "MOST_OF_A_RECORD", 55 << 20)
    monkeypatch.setitem(consumer._FIXED, "receive.message.max.bytes", 55 << 20)


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_a_record_that_unpacks_to_too_much_is_an_error_at_its_offset(
    kafka, make_topic, codec, small_limit
):
    topic = make_topic(max_message_bytes="2000000")
    pack(kafka, topic, codec, b"before", bytes(60 << 20), b"after")
    source = KafkaSource(kafka, (topic,))
    for offset, value in ((0, b"before"), (2, b"after")):
        assert [each.value for each in read(source, Slice(topic, 0, offset, offset + 1))] == [value]
    with pytest.raises(RecordTooLarge) as caught:
        read(source, Slice(topic, 0, 0, 3))
    assert "offset 1: cannot be read whole: key, value and headers have 62,914,560 " in str(
        caught.value
    )
    assert "--offsets" in (caught.value.hint or "")
    scan = Scan(kafka, [Stretch(topic, 0, 0, 3)], 30.0)
    with rejecting(source) as replay, rejecting(read_directly(source)) as verify:
        readings = [each.read(Slice(topic, 0, 0, 3)) for each in (replay, verify)]
        if codec == "zstd":  # The client unpacks nothing of it.
            with pytest.raises(NotUnpacked, match="_BAD_COMPRESSION"):
                [*scan.run()]
        else:
            readings.append(scan.run())
        for reading in readings:
            found = [*reading]
            assert [each for run in found for each in run.values] == [b"before", None, b"after"]
            assert {1: caught.value.reason} in [run.undecoded for run in found]


def test_a_scan_returns_what_is_before_a_batch_that_is_not_unpacked(kafka, topic, small_limit):
    """Also where the error arrives together with it; a span that ends there has no error."""
    before = [b"0", b"1", b"2"]
    pack(kafka, topic, "zstd", *before, bytes(60 << 20))
    found: list[bytes] = []
    scan = Scan(kafka, [Stretch(topic, 0, 0, 4)], 30.0)
    with pytest.raises(NotUnpacked):
        found.extend(value for run in scan.run() for value in run.values)
    assert (found, scan.scanned) == (before, 3)
    scan = Scan(kafka, [Stretch(topic, 0, 0, 3)], 30.0)
    assert [value for run in scan.run() for value in run.values] == before


def test_batches_that_unpack_to_too_much_together_end_the_wait(kafka, topic, monkeypatch):
    monkeypatch.setattr(consumer, "_MOST_UNPACKED", 100 << 20)
    pack(kafka, topic, "gzip", *[bytes(50 << 20)] * 12)
    begun = time.monotonic()
    with pytest.raises(
        consumer.UnpacksTooMuch, match="compressed record batches unpack to more than"
    ):
        read(KafkaSource(kafka, (topic,)), Slice(topic, 0, 0, 12))
    assert time.monotonic() - begun < 30

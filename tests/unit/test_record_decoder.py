"""The decoder of record batches: what it makes of another implementation's bytes, and of damaged ones."""

import random
import struct

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.errors import PlayheadError
from playhead.kafka.admin.answer_fields import BadAnswer
from playhead.kafka.read import record_decoder
from playhead.kafka.read.log_heads import heads_in
from playhead.kafka.read.record_decoder import NotDecodedHere, records_in
from playhead.kafka.read.unreadable import RecordTooLarge
from playhead.record import TimestampType
from playhead.records import Records
from tests.sandbox import kafka_log
from tests.their_kafka import MemoryRecordsBuilder

PLACE = ("laps", 0)
LAST_AT = 23
"""Where a record batch has its last offset, counted from its first."""
BYTES = st.none() | st.binary(max_size=300)
ROWS = st.lists(
    st.tuples(
        st.integers(0, 2**45),
        BYTES,
        BYTES,
        st.lists(st.tuples(st.text(max_size=90), BYTES), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=12,
)


def decoded(data):
    return [
        each if isinstance(each, Records) else each.marked()
        for head in heads_in(data, keeps_records=True)
        for each in records_in(PLACE, head.whole)
    ]


def in_bytes(rows):
    return [(*row[:3], tuple((name.encode(), held) for name, held in row[3])) for row in rows]


@given(ROWS, st.sampled_from([0, 1]))
def test_what_kafka_python_writes_is_decoded(rows, codec):
    builder = MemoryRecordsBuilder(2, codec, 1 << 20)
    for stamp, key, value, headers in rows:
        builder.append(stamp, key, value, list(headers))
    builder.close()
    [run] = decoded(bytes(builder.buffer()))
    assert run.offsets == [*range(len(rows))]
    columns = zip(run.timestamps_ms, run.keys, run.values, run.headers, strict=True)
    assert [*columns] == rows


@pytest.mark.parametrize("most", [1, 7, 20_000])
def test_runs_have_a_limit_of_records(monkeypatch, most):
    monkeypatch.setattr(record_decoder, "RUN", most)
    rows = [(1, b"k", b"%d" % n, ()) for n in range(50)]
    runs = decoded(kafka_log.batch(rows, range(50), None))
    assert max(map(len, runs)) == min(most, 50)
    assert [each for run in runs for each in run.values] == [row[2] for row in rows]


def test_runs_have_a_limit_of_headers_without_bytes():
    rows = [(1, None, None, ((b"", None),) * 5_000)] * 200
    runs = decoded(kafka_log.batch(rows, range(200), None))
    assert max(map(len, runs)) < 50


def test_times_that_leave_64_bits_begin_again_as_in_other_clients():
    data = bytearray(kafka_log.batch([(0, b"k", b"v", ()), (10, b"k", b"v", ())], range(2), None))
    data[27:35] = struct.pack(">q", (1 << 63) - 5)
    [run] = decoded(bytes(data))
    assert run.timestamps_ms == [(1 << 63) - 5, 5 - (1 << 63)]
    assert run.checksum() is not None


def test_the_time_of_the_append_is_that_of_all_records():
    rows = [(5, b"k", b"v", ()), (9, b"k", b"v", ()), (7, b"k", b"v", ())]
    data = bytearray(kafka_log.batch(rows, range(3), None))
    data[22] |= 0x08
    [run] = decoded(bytes(data))
    assert run.timestamps_ms == [9, 9, 9]
    assert set(run.timestamp_types) == {TimestampType.LOG_APPEND_TIME.value}


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_left_to_the_client(magic):
    data = bytearray(kafka_log.batch([(1, b"k", b"v", ())], [0], None))
    data[16] = magic
    with pytest.raises(NotDecodedHere):
        decoded(bytes(data))


def changed(data, *, count=None, drop=0, more=b""):
    """The same batch with another number of records, or fewer or more bytes behind its head."""
    body = bytearray(data[: len(data) - drop] + more)
    if count is not None:
        body[57:61] = struct.pack(">i", count)
    body[8:12] = struct.pack(">i", len(body) - 12)
    return bytes(body)


@pytest.mark.parametrize(
    "change",
    [{"count": 4}, {"count": 2}, {"drop": 1}, {"drop": 15}, {"more": b"\0"}, {"count": 1_000_000}],
)
def test_a_batch_that_does_not_hold_what_it_says_is_an_error(change):
    data = kafka_log.batch([(1, b"key", b"value", ((b"h", b"1"),))] * 3, range(3), None)
    assert len(decoded(data)[0]) == 3
    with pytest.raises(BadAnswer, match="the record batch of laps:0 at offset 0") as caught:
        decoded(changed(data, **change))
    assert "--offsets laps:0:FROM-TO" in caught.value.hint


@pytest.mark.parametrize("longer", [0, 1, 5])
def test_a_record_that_is_longer_than_what_it_holds_is_an_error(longer):
    def lengthened(records):
        """The length is one byte: twice the number of those that follow."""
        length, *body = records[1]
        return b"".join(
            (records[0], bytes((length + 2 * longer, *body)), bytes(longer), records[2])
        )

    lengthened.codec = 0
    data = kafka_log.batch([(1, b"key", b"value", ())] * 3, range(3), lengthened)
    if not longer:
        assert len(decoded(data)[0]) == 3
        return
    with pytest.raises(BadAnswer, match="the record after offset 0 has not the length it says"):
        decoded(data)


@pytest.mark.parametrize("change", [{"count": 4}, {"drop": 15}])
def test_a_batch_that_ends_early_is_said_to(change):
    data = kafka_log.batch([(1, b"key", b"value", ())] * 3, range(3), None)
    with pytest.raises(BadAnswer, match="at offset 0: it ends before its last record does"):
        decoded(changed(data, **change))


@pytest.mark.parametrize(
    "large",
    [
        (1, b"k", bytes(300), ()),
        (1, b"k", b"v", ((b"h", bytes(300)),)),
        (1, b"k", b"v", ((b"", None),) * 200),
    ],
)
def test_a_record_that_is_too_large_hides_none_behind_it(monkeypatch, large):
    """Packed, it is a thousandth; as an object, and in a checksum, some times more."""
    monkeypatch.setattr(record_decoder, "MOST_OF_A_RECORD", 300)
    monkeypatch.setattr(record_decoder, "_MOST_HEADERS", 10)
    fits = (1, b"k", bytes(299), ())
    data = kafka_log.batch([fits, fits, large, fits], range(4), kafka_log.gzipped)
    [head] = heads_in(data, keeps_records=True)
    found = records_in(PLACE, head.whole)
    assert next(found).offsets == [0, 1]
    failure = next(found)
    assert isinstance(failure, RecordTooLarge)
    assert str(failure).startswith("laps:0 offset 2: cannot be read whole: ")
    marked = failure.marked()
    assert (marked.keys, marked.values, marked.headers) == ([None], [None], [()])
    assert (marked.timestamps_ms, marked.undecoded) == ([1], {2: failure.reason})
    assert [each.offsets for each in found] == [[3]]
    [after] = records_in(PLACE, head.whole, 3)
    assert after.offsets == [3]


class Zstd:
    codec = 4

    def __call__(self, records):
        return pyarrow.Codec("zstd").compress(b"".join(records), asbytes=True)


@pytest.mark.parametrize(
    ("codec", "last"), [("zstd", 2), ("zstd", 3), ("zstd", (1 << 31) - 2), ("gzip", 2)]
)
def test_a_batch_that_unpacks_to_too_much_is_as_many_unreadable_records(monkeypatch, codec, last):
    """If compaction has left gaps, nothing tells which offsets have a record."""
    monkeypatch.setattr(record_decoder, "_MOST_UNPACKED", 1_000)
    rows = [(at, b"k", bytes(400), ()) for at in (1, 9, 5)]
    pack = kafka_log.gzipped if codec == "gzip" else Zstd()
    [head] = heads_in(kafka_log.batch(rows, range(3), pack), keeps_records=True)
    data = bytearray(head.whole)
    struct.pack_into(">i", data, LAST_AT, last)
    if (codec, last) != ("zstd", 2):
        with pytest.raises(BadAnswer, match="laps:0 at offset 0: .*more than 1,000 bytes"):
            next(records_in(PLACE, memoryview(data)))
        return
    found = [each.marked() for each in records_in(PLACE, head.whole, 1)]
    assert [each.offsets for each in found] == [[1], [2]]
    assert [each.timestamps_ms for each in found] == [[9]] * 2
    assert all(each.keys == each.values == [None] and each.headers == [()] for each in found)
    [reason] = {each.undecoded[each.offsets[0]] for each in found}
    assert reason == "cannot be read whole: its record batch unpacks to more than 1,000 bytes"


def test_a_record_with_an_unreadable_header_hides_none_behind_it():
    good, bad = (1, b"k", b"v", ((b"a", b"b"),)), (7, b"key", b"value", ((b"a\xff", b"b"),))
    [head] = heads_in(kafka_log.batch([good, bad, bad, good], range(4), None), keeps_records=True)
    before, *odd, after = records_in(PLACE, head.whole)
    assert (before.offsets, after.offsets) == ([0], [3])
    for at, each in enumerate(odd, 1):
        assert str(each).startswith(
            f"laps:0 offset {at}: cannot be read whole: a header's name is not UTF-8"
        )
        marked = each.marked()
        assert (marked.keys, marked.values, marked.headers) == ([b"key"], [b"value"], [()])
        assert (marked.timestamps_ms, marked.undecoded) == ([7], {at: each.reason})


def test_many_headers_are_kept_apart_without_being_decoded():
    """Millions of them without bytes are some kilobytes when they are packed, and gigabytes as objects."""
    rows = [(1, b"k", b"v", ((b"", None),) * count) for count in (100_000, 100_001, 100_002)]
    rows.append((1, b"k", b"v", (*(((b"", None),) * 100_000), (b"a", b"b"))))
    found = [each for run in decoded(kafka_log.batch(rows, range(4), None)) for each in run.headers]
    assert [len(each) for each in found] == [100_000, 100_001, 100_001, 100_001]
    assert len(set(found)) == 4


@pytest.mark.parametrize("seed", range(200))
def test_changed_bytes_are_records_or_an_error_of_ours(seed):
    drawn = random.Random(seed)
    rows = [(n, b"key", bytes(n), ((b"h", b"1"),)) for n in range(20)]
    data = bytearray(kafka_log.batch(rows, range(20), None))
    for _ in range(drawn.randint(1, 4)):
        data[drawn.randrange(61, len(data))] = drawn.choice((0, 1, 0x7F, 0x80, 0xFF))
    try:
        runs = decoded(bytes(data))
    except PlayheadError:
        return
    assert sum(map(len, runs)) == 20

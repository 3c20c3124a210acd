"""What is written down of requests and responses is what they said, in every version."""

import base64
import random
import resource
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from playhead import unpacking
from playhead.capture.decode import decoded, response_at
from playhead.capture.decode_records import Bounds, record_sets
from playhead.capture.frames import SIZE_BYTES
from playhead.capture.protocol import (
    Field,
    as_varint,
    name_of,
    read_header,
    shape_of,
)
from playhead.unpacking import Malformed, unpacked
from tests.kafka_bytes import every_version, frame_of, response_frame, set_of
from tests.their_kafka import MemoryRecordsBuilder, consumer, metadata, producer

EVERY = list(every_version())
STATM = Path("/proc/self/statm")
RENAMED = {
    "topicData": "topics", "responses": "topics", "partitionData": "partitions", "topic": "name",
    "partitionResponses": "partitions", "partitionIndex": "index", "partition": "index",
}  # fmt: skip


def shown(
    fields: tuple[Field, ...], values: dict[str, Any], names: dict[str, str]
) -> dict[str, Any]:
    """The form of captured traffic, said a second time."""
    by_name = {field.name: field for field in fields}
    pairs = ((names.get(n, n), _shown(by_name[n], value, names)) for n, value in values.items())
    return {name: value for name, value in pairs if value}


def _shown(field: Field, value: Any, names: dict[str, str]) -> Any:
    if value is None:
        return None
    if field.kind.startswith("[]"):
        each = field._replace(kind=field.kind[2:])
        return [_shown(each, one, names) for one in value]
    if field.kind == "struct":
        return shown(field.fields, value, names)
    if field.kind == "int64":
        return str(value) if value else 0
    if field.kind in ("bytes", "uuid"):
        return base64.b64encode(value).decode() if any(value) or field.kind == "bytes" else None
    return None if field.kind == "records" else value


@pytest.mark.parametrize("side", ["request", "response"])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_every_field_is_what_it_was(side, seed):
    rng = random.Random(seed)
    for api, version in rng.sample(EVERY, 8):
        frame, values = frame_of(api, version, side, rng)
        body = frame[SIZE_BYTES:]
        at = read_header(body).body_at if side == "request" else response_at(api, version, body)
        names = (
            RENAMED
            if name_of(api) in ("Produce", "Fetch", "ShareFetch", "ShareAcknowledge")
            else {}
        )
        wanted = shown(shape_of(api, side, version).fields, values, names)
        assert decoded(api, version, side, body, at) == (wanted, []), (name_of(api), version)


@given(st.integers(0, 2**32), st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=4))
@settings(max_examples=60, deadline=None)
def test_hostile_bytes_are_malformed_or_are_read(seed, flips):
    rng = random.Random(seed)
    api, version = rng.choice(EVERY)
    frame = bytearray(frame_of(api, version, "response", rng)[0][SIZE_BYTES:])
    for place, byte in flips:
        frame[4 + place % max(len(frame) - 4, 1) : 5 + place % max(len(frame) - 4, 1)] = bytes(
            [byte]
        )
    try:
        decoded(api, version, "response", bytes(frame), response_at(api, version, bytes(frame)))
    except Malformed:
        return


THEIRS = [
    (3, metadata.MetadataResponse),
    (10, metadata.FindCoordinatorResponse),
    (0, producer.ProduceResponse),
    (1, consumer.FetchResponse),
]


@pytest.mark.parametrize(
    ("api", "theirs"), THEIRS, ids=lambda each: getattr(each, "__name__", each)
)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=4, deadline=None)
def test_another_library_reads_the_same_bytes(api, theirs, seed):
    rng = random.Random(seed)
    for version in (v for a, v in EVERY if a == api and v <= theirs.max_version):
        # A tagged field that says what is meant without it they leave out when they write it again.
        frame, values = frame_of(api, version, "response", rng, tagged=0)
        found = theirs[version].decode(frame[SIZE_BYTES:], header=True)
        if api == 3:
            assert [(b.host, b.port) for b in found.brokers] == [
                (b["host"], b["port"]) for b in values["brokers"]
            ]
        assert found.encode(header=True) == frame[SIZE_BYTES:], (version, values)


RECORDS = st.lists(
    st.tuples(
        st.integers(0, 2**41),
        st.none() | st.binary(max_size=12) | st.text(max_size=8).map(str.encode),
        st.none() | st.binary(max_size=200) | st.text(max_size=80).map(str.encode),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3),
    ),
    min_size=1,
    max_size=20,
)


def their_set(records: list[Any]) -> bytes:
    builder = MemoryRecordsBuilder(2, 0, 1 << 20)
    for timestamp, key, value, headers in records:
        assert builder.append(timestamp, key, value, headers) is not None
    builder.close()
    return bytes(builder.buffer())


def repacked(data: bytes, codec: int) -> bytes:
    """A set that is not packed, packed; the check sum is nobody's business here."""
    head, plain = data[:61], data[61:]
    if codec == 5:
        codec, packed = 2, xerial(plain)
    else:
        name = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}[codec]
        packed = pyarrow.compress(plain, codec=name, asbytes=True)
    length = struct.pack(">i", 49 + len(packed))
    attributes = struct.pack(">h", codec)
    return head[:8] + length + head[12:21] + attributes + head[23:] + packed


def xerial(plain: bytes) -> bytes:
    """As Java's snappy writes it, in blocks."""
    found = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    for at in range(0, len(plain), 100):
        block = pyarrow.compress(plain[at : at + 100], codec="snappy", asbytes=True)
        found += struct.pack(">i", len(block)) + block
    return found


def bytes_of(record: dict[str, Any], name: str) -> bytes | None:
    if name in record:
        return base64.b64decode(record[name])
    text = record.get(f"{name}String")
    return None if text is None else text.encode()


def records_of(found: dict[str, Any]) -> list[Any]:
    """What a reader makes of a set."""
    base = int(found["baseTimestamp"])
    return [
        (
            base + int(each.get("timestampDelta", 0)),
            bytes_of(each, "key"),
            bytes_of(each, "value"),
            [(h.get("keyString", ""), bytes_of(h, "value")) for h in each.get("headers", ())],
        )
        for each in found["records"]
    ]


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4, 5])
@given(records=RECORDS)
@example(records=[(0, b"", b"", []), (0, None, None, [])])
@settings(max_examples=15, deadline=None)
def test_records_are_what_they_were_in_every_codec(codec, records):
    data = their_set(records)
    if codec:
        data = repacked(data, codec)
    (found,), reasons, left = record_sets(data, Bounds())
    assert (reasons, left) == ([], 0)
    assert records_of(found) == records
    assert [each.get("offsetDelta", 0) for each in found["records"]] == list(range(len(records)))
    assert found["attributes"][0] == [
        "ATTRIBUTE_NO_COMPRESSION", "ATTRIBUTE_GZIP", "ATTRIBUTE_SNAPPY", "ATTRIBUTE_LZ4",
        "ATTRIBUTE_ZSTD", "ATTRIBUTE_SNAPPY",
    ][codec]  # fmt: skip


@given(st.lists(RECORDS, min_size=1, max_size=4), st.integers(1, 60))
@settings(max_examples=15, deadline=None)
def test_a_set_that_was_cut_is_left_out_as_clients_do(several, cut):
    sets = [their_set(records) for records in several]
    whole, reasons, left = record_sets(b"".join(sets), Bounds())
    assert [records_of(each) for each in whole] == several
    assert (reasons, left) == ([], 0)
    found, reasons, left = record_sets(b"".join(sets)[: -min(cut, len(sets[-1]) - 1)], Bounds())
    assert (found, reasons) == (whole[:-1], [])
    assert left == len(sets[-1]) - min(cut, len(sets[-1]) - 1)


@given(RECORDS, st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_what_cannot_be_read_is_there_as_it_is(records, flips):
    data = bytearray(their_set(records))
    for place, byte in flips:
        data[12 + place % (len(data) - 12)] = byte
    sets, reasons, left = record_sets(bytes(data), Bounds())
    assert (len(sets), left) == (1, 0)
    assert bool(reasons) == ("undecoded" in sets[0])
    if reasons:
        assert base64.b64decode(sets[0]["undecoded"]["base64"]) == bytes(data)


@pytest.mark.parametrize("data", [b"", b"\x80"])
def test_a_set_without_the_records_that_it_counts_is_told_of_in_words(data: bytes) -> None:
    head = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 1)
    whole = struct.pack(">qiibI", 0, len(head) + len(data) + 9, 0, 2, 0) + head + data
    assert record_sets(whole, Bounds())[1] == ["its records end too early"]


def test_a_marker_of_a_transaction_is_no_record():
    body = struct.pack(">bbbb", 0, 0, 0, 8) + struct.pack(">hh", 0, 1) + b"\x0c" + bytes(6) + b"\0"
    records = bytes([len(body) * 2]) + body
    head = struct.pack(">qiibIhiqqqhii", 7, 49 + len(records), 0, 2, 0, 0x30, 0, 5, 5, 9, 0, -1, 1)
    (found,), reasons, _ = record_sets(head + records, Bounds())
    assert reasons == []
    assert found["attributes"] == [
        "ATTRIBUTE_NO_COMPRESSION",
        "ATTRIBUTE_TRANSACTIONAL",
        "ATTRIBUTE_CONTROL",
    ]
    assert found["records"] == [{"controlType": "COMMIT"}]
    assert found["baseOffset"] == "7"


def test_the_brokers_time_is_every_records_time():
    data = bytearray(their_set([(5, None, b"a", []), (9, None, b"b", [])]))
    data[22] |= 0x08
    (found,), _, _ = record_sets(bytes(data), Bounds())
    assert [each["timestamp"] for each in found["records"]] == ["9", "9"]


@pytest.mark.skipif(not STATM.exists(), reason="needs /proc to see the size of the process")
@pytest.mark.parametrize("codec", [3, 4])
def test_damaged_records_leave_nothing_in_memory(codec):
    def damaged(times: int) -> int:
        for _ in range(times):
            with pytest.raises(Malformed):
                unpacked(codec, b"damaged", 1 << 20)
        return int(STATM.read_text().split()[0]) * resource.getpagesize()

    before = damaged(20)
    assert damaged(500) - before < 100 << 20


def test_a_bomb_is_not_unpacked():
    bomb = pyarrow.compress(bytes(300 << 20), codec="zstd", asbytes=True)
    with pytest.raises(Malformed, match="more than 1,048,576 bytes"):
        unpacked(4, bomb, 1 << 20)


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
@pytest.mark.parametrize("cut", [1, 8, 30])
def test_packed_records_that_are_cut_off_are_not_decoded(codec, cut):
    """The check sum of gzip is at its end; what it does not cover may be anything."""
    number, packed = unpacking.NAMES.index(codec.upper()), pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(packed, codec) as stream:
        stream.write(bytes(range(256)))
    data = packed.getvalue().to_pybytes()
    assert unpacked(number, data, 1 << 20) == bytes(range(256))
    with pytest.raises(Malformed):
        unpacked(number, data[:-cut], 1 << 20)


def test_a_value_takes_in_no_bytes_of_the_next_record():
    """Brokers and clients refuse a record that does not have the length that it says."""
    data = bytearray(set_of(b"first", b"\0second"))
    data[data.index(b"first") - 1] += 16  # eight bytes more, which begin the next record
    (found,), reasons, _ = record_sets(bytes(data), Bounds())
    assert reasons == ["a record does not have its declared length"]
    assert "undecoded" in found


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_many_bombs_together_unpack_to_no_more_than_one(codec):
    """Each is within the bounds; six of them were a gigabyte and a half, and their records ten times that."""
    one = repacked(their_set([(0, None, bytes(3 << 20), [])]), codec)
    tracemalloc.start()
    try:
        sets, reasons, left = record_sets(one * 12, Bounds(unpacked_bytes=10 << 20))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (len(sets), left) == (12, 0)
    assert len(reasons) == 9
    assert all("decompresses to more than" in each for each in reasons)
    assert most < 60 << 20


@pytest.mark.parametrize("tail", [b"", b"no zstd"])
def test_a_thousand_bombs_are_not_opened_one_after_the_other(monkeypatch, tail):
    """Each that is refused, for its size or for its broken end, was unpacked up to the bound before."""
    opened = []

    def counted(data: bytes, most: int) -> bytes:
        opened.append(most)
        return unpacking._zstd(data, most)

    monkeypatch.setitem(unpacking._BY_CODEC, 4, counted)
    plain = bytes((3 if tail else 5) << 20)
    body = pyarrow.compress(plain, codec="zstd", asbytes=True) + tail
    head = struct.pack(">qiibIhiqqqhii", 0, 49 + len(body), 0, 2, 0, 4, 0, 0, 0, -1, -1, -1, 1)
    sets, reasons, _ = record_sets((head + body) * 1_000, Bounds(unpacked_bytes=4 << 20))
    assert len(sets) == len(reasons) == 1_000
    assert sum(opened) <= 8 << 20
    assert "decompresses to more than 0 bytes" in reasons[-1]


def test_blocks_without_bytes_count_too():
    """Each costs microseconds: those of one request of 100 MB kept the recorder for minutes."""
    head = unpacking._XERIAL + struct.pack(">ii", 1, 1)
    with pytest.raises(unpacking.UnpacksTooFar):
        unpacked(2, head + struct.pack(">iB", 1, 0) * 10_000, 1 << 20)


def test_records_are_counted_before_they_are_made():
    one = their_set([(0, None, b"", [])] * 1_000)
    sets, reasons, _ = record_sets(one * 5, Bounds(entries=3_500))
    assert [len(each.get("records", ())) for each in sets] == [1_000, 1_000, 1_000, 0, 0]
    assert all("1,000 entries; the limit that is left is 49" in each for each in reasons)
    claims = struct.pack(">qiibIhiqqqhii", 0, 49, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 2**31 - 1)
    _, (reason,), _ = record_sets(claims, Bounds())
    assert "2,147,483,647 entries" in reason


def test_headers_are_counted_before_they_are_made():
    """Two bytes of a header become some hundred; packed, millions of them are a few kilobytes."""
    many = their_set([(0, b"k", b"v", [("", None)] * 2_000)])
    sets, (reason,), _ = record_sets(many * 2, Bounds(entries=3_000))
    assert [len(each.get("records", ())) for each in sets] == [1, 0]
    assert "2,000 entries; the limit that is left is 996" in reason
    assert sets[1]["undecoded"]["reason"] == reason


def test_a_set_of_millions_of_headers_is_not_decoded():
    body = b"\0\0\0\1\1" + as_varint(12_000_000) + b"\1\1" * 6_000_000
    plain = as_varint(2 * len(body)) + body
    head = struct.pack(">qiibIhiqqqhii", 0, 0, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1)
    bomb = repacked(head[:8] + struct.pack(">i", 49 + len(plain)) + head[12:] + plain, 1)
    assert len(bomb) < 20_000
    tracemalloc.start()
    try:
        _, (reason,), _ = record_sets(bomb, Bounds())
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "6,000,000 entries" in reason
    assert most < 60 << 20


def test_a_list_of_millions_of_small_things_is_refused():
    """Two bytes of a request become a hundred of memory."""
    body = (
        b"\x00\x0f\x00\x08\x00\x00\x00\x01\x00\x01x\x00"
        + as_varint(8_000_001)
        + b"\x01\x00" * 8_000_000
    )
    with pytest.raises(Malformed, match="8,000,000 entries"):
        decoded(15, 5, "request", body, 12)


def test_several_sets_of_a_partition_stand_beside_each_other():
    sets = [their_set([(5, b"k", b"a", [])]), their_set([(6, b"k", b"b", [])])]
    partition = {
        "partitionIndex": 3, "errorCode": 0, "highWatermark": 2, "lastStableOffset": 2,
        "logStartOffset": 0, "abortedTransactions": None, "preferredReadReplica": -1,
        "records": b"".join(sets) + sets[0][:20],
    }  # fmt: skip
    values = {
        "throttleTimeMs": 0, "errorCode": 0, "sessionId": 0,
        "responses": [{"topic": "orders", "partitions": [partition]}],
    }  # fmt: skip
    body = response_frame(1, 11, values)[SIZE_BYTES:]
    found, reasons = decoded(1, 11, "response", body, response_at(1, 11, body))
    assert reasons == []
    first, second = found["topics"][0]["partitions"]
    assert (first["index"], first["highWatermark"], first["cutBytes"]) == (3, "2", 20)
    assert set(second) == {"index", "records"}
    assert [p["records"]["records"][0]["valueString"] for p in (first, second)] == ["a", "b"]


def test_many_small_sets_are_no_more_than_other_entries():
    small = struct.pack(">qi", 1, 5) + bytes(5)
    bounds = Bounds(entries=100)
    found, reasons, _ = record_sets(small * 100, bounds)
    assert (len(found), len(reasons), bounds.entries) == (100, 100, 0)
    with pytest.raises(Malformed, match="the limit that is left"):
        record_sets(small * 101, Bounds(entries=100))

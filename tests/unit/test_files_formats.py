"""Each format restores records byte for byte, whatever is in them."""

import csv
import io
import itertools
import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playhead.account import Account, ErrorRule, RecordRefused
from playhead.files.codec import Group, regrouped, sayable, shown_times
from playhead.files.formats.csv_format import CsvCodec
from playhead.files.formats.jsonl import JsonCodec
from playhead.files.formats.parquet import ParquetCodec
from playhead.record import Slice
from playhead.records import Records
from playhead.testing import sample_records

CODECS = [ParquetCodec(), JsonCodec(), CsvCodec()]
INT64 = st.integers(-(2**63), 2**63 - 1)
TRICKY = st.sampled_from(
    [
        b"",
        b'"',
        b",",
        b"\r",
        b"\n",
        b"\r\n",
        b"\x00",
        b"\xff",
        b"null",
        b'{"base64":"AA=="}',
        b"\xef\xbb\xbf",
    ]
)
BYTES = st.none() | st.binary(max_size=40) | TRICKY | st.text(max_size=20).map(str.encode)
NAMES = st.text(max_size=10) | st.sampled_from(['"', ",", "\r\n", "\x00", "a", "a"])
HEADERS = st.lists(st.tuples(NAMES, BYTES), max_size=4).map(tuple)
ROWS = st.tuples(INT64, st.sampled_from([-1, 0, 1]), BYTES, BYTES, HEADERS)


def records_of(rows, topic="t", partition=0) -> Records:
    times, types, keys, values, headers = (list(each) for each in zip(*rows, strict=True))
    offsets = list(range(7, 7 + 2 * len(rows), 2))
    return Records(topic, partition, offsets, times, types, keys, values, headers)


def whole(codec, data: bytes, records: Records) -> Records:
    slice_ = Slice(records.topic, records.partition, 0, 1_000_000)
    runs = list(codec.decode(data, slice_))
    return Records.of(record for run in runs for record in run)


def file_of(codec, *groups: Records) -> bytes:
    return b"".join(codec.encode(Group(each) for each in groups))


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
@settings(max_examples=150, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=6), st.text(min_size=1, max_size=10), st.integers(0, 5))
def test_reading_gives_what_was_written(codec, rows, topic, partition):
    records = records_of(rows, topic, partition)
    assert whole(codec, file_of(codec, records), records) == records
    halves = records.cut(0, len(rows) // 2), records.cut(len(rows) // 2, len(rows))
    apart = file_of(codec, *(half for half in halves if half))
    assert whole(codec, apart, records) == records


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_the_same_records_give_the_same_bytes(codec):
    records = Records.of(each for each in sample_records() if each.partition == 0)
    assert file_of(codec, records) == file_of(codec, records)


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_a_value_of_some_megabytes(codec):
    rows = [(1, 0, b"k" * 200_000, bytes(range(256)) * 8_000, ()), (2, 0, None, b"v", ())]
    records = records_of(rows)
    assert whole(codec, file_of(codec, records), records) == records


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_many_records_with_and_without_headers(codec):
    rows = [(n, 0, b"%d" % n, None, (("h", b"%d" % n),) * (n % 3)) for n in range(2_500)]
    records = records_of(rows)
    assert whole(codec, file_of(codec, records), records) == records


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_nothing_gives_no_file(codec):
    assert codec.encode(iter(())) == []


# --- groups -----------------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=40),
    st.data(),
    st.integers(1, 10),
    st.integers(1, 60),
)
def test_groups_do_not_depend_on_how_the_records_came(sizes, data, most_records, most_bytes):
    records = records_of([(n, 0, None, b"x" * size, ()) for n, size in enumerate(sizes)])
    cuts = sorted(data.draw(st.sets(st.integers(0, len(sizes)))) | {0, len(sizes)})
    runs = [records.cut(a, b) for a, b in itertools.pairwise(cuts)]
    bounds = {"most_records": most_records, "most_bytes": most_bytes}
    groups = list(regrouped(runs, **bounds))
    assert groups == list(regrouped([records], **bounds))
    assert [record for group in groups for record in group] == list(records)
    for group, after in itertools.pairwise(groups):
        used = sum(len(value) for value in group.values)
        full = len(group) == most_records
        assert full or used + len(after.values[0]) > most_bytes, "a group ends only when it is full"
    for group in groups:
        used = sum(len(value) for value in group.values)
        assert len(group) <= most_records
        assert used <= most_bytes or len(group) == 1


def test_a_header_name_that_is_no_unicode_is_refused():
    bad = replace(sample_records()[0], headers=(("\ud800", b""),))
    records = Records.of([bad, replace(sample_records()[1])])
    account = Account(Slice("contract", 0, 0, 10), ErrorRule("skip"))
    assert sayable(account, records) == records.cut(1, 2)
    assert account.refused_offsets == {0}
    with pytest.raises(RecordRefused, match="offset 0: the header name .* is not Unicode"):
        sayable(Account(Slice("contract", 0, 0, 10)), records)


# --- what other tools see ---------------------------------------------------------------------

ROW = [(1_600_000_000_123, 1, b"k", b'a "b",\r\n', (("h", None), ("h", b"\xff")))]


def test_parquet_for_other_tools():
    table = pq.read_table(pa.BufferReader(file_of(ParquetCodec(), records_of(ROW, "laps", 3))))
    # Topic and partition are in the names of the folders; a folder with both opens nowhere.
    assert table.column_names == [
        *("offset", "timestamp_ms", "timestamp", "timestamp_type", "key", "value", "headers")
    ]
    (row,) = table.to_pylist()
    assert str(row["timestamp"]) == "2020-09-13 12:26:40.123000+00:00"
    assert row["offset"] == 7
    assert row["headers"] == [{"name": "h", "value": None}, {"name": "h", "value": b"\xff"}]


def test_json_lines_for_other_tools():
    text = file_of(JsonCodec(), records_of(ROW, "laps", 3)).decode()
    (line,) = text.splitlines()
    assert json.loads(line) == {
        "topic": "laps",
        "partition": 3,
        "offset": 7,
        "timestamp_ms": 1_600_000_000_123,
        "timestamp": "2020-09-13T12:26:40.123Z",
        "timestamp_type": 1,
        "key": "k",
        "value": 'a "b",\r\n',
        "headers": [["h", None], ["h", {"base64": "/w=="}]],
    }


def test_csv_for_other_tools():
    text = file_of(CsvCodec(), records_of([*ROW, (-1, 0, None, b"", ())], "laps", 3)).decode()
    first, second = csv.DictReader(io.StringIO(text, newline=""))
    assert text.endswith("\r\n")
    assert first["value"] == 'a "b",\r\n'
    assert (first["value_form"], first["timestamp"]) == ("text", "2020-09-13T12:26:40.123Z")
    assert json.loads(first["headers"]) == [["h", None], ["h", {"base64": "/w=="}]]
    assert (second["key"], second["key_form"]) == ("", "null")
    assert (second["value"], second["value_form"]) == ("", "text")
    assert second["timestamp"] == ""


@given(st.integers(-(2**63), 2**63 - 1) | st.integers(-100_000, 100_000))
def test_times_are_shown_alike_in_all_formats(timestamp_ms):
    (shown,) = shown_times([timestamp_ms])
    table = pq.read_table(
        pa.BufferReader(file_of(ParquetCodec(), records_of([(timestamp_ms, 0, None, None, ())])))
    )
    (in_parquet,) = table.column("timestamp").cast(pa.int64()).to_pylist()
    assert in_parquet == (None if shown is None else timestamp_ms)
    if shown is not None:
        (moment,) = table.column("timestamp").to_pylist()
        assert shown == moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

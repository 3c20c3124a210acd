"""A record refuses what a log cannot hold; slices obey the algebra of half-open intervals."""

import pickle
from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.record import Record, Slice, TimestampType

RECORD = Record("laps", 0, 0, -1, TimestampType.CREATE_TIME, None, b"", (("h", b"1"), ("h", None)))

slices = st.builds(
    lambda topic, partition, start, length: Slice(topic, partition, start, start + length),
    st.sampled_from(["a", "b"]),
    st.integers(0, 1),
    st.integers(0, 12),
    st.integers(1, 6),
)


def places(slice_: Slice) -> set[tuple[str, int, int]]:
    return {
        (slice_.topic, slice_.partition, offset)
        for offset in range(slice_.from_offset, slice_.to_offset)
    }


def test_null_is_not_empty():
    assert replace(RECORD, key=b"") != RECORD
    assert replace(RECORD, value=None) != RECORD


def test_headers_keep_order_and_repeats():
    assert replace(RECORD, headers=RECORD.headers[::-1]) != RECORD
    assert replace(RECORD, headers=RECORD.headers[:1]) != RECORD


def test_a_record_is_frozen_and_survives_pickling():
    with pytest.raises(FrozenInstanceError):
        RECORD.offset = 1  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(RECORD)) == RECORD  # noqa: S301


def test_timestamp_types_have_kafkas_ids():
    assert [TimestampType(n).name for n in (-1, 0, 1)] == ["NONE", "CREATE_TIME", "LOG_APPEND_TIME"]


@pytest.mark.parametrize(
    ("field", "found", "error", "text"),
    [
        ("topic", b"laps", TypeError, "Record.topic: found bytes, needed a str"),
        ("topic", "", ValueError, "Record.topic: found an empty str, needed a name"),
        ("partition", -1, ValueError, "Record.partition: found -1, needed 0 or more"),
        ("partition", None, TypeError, "Record.partition: found NoneType, needed an int"),
        ("partition", True, TypeError, "Record.partition: found bool, needed an int"),
        ("offset", -1, ValueError, "Record.offset: found -1, needed 0 or more"),
        ("offset", 1.0, TypeError, "Record.offset: found float, needed an int"),
        ("timestamp_ms", None, TypeError, "Record.timestamp_ms: found NoneType, needed an int"),
        ("timestamp_type", 0, TypeError, "Record.timestamp_type: found int, needed a Timest"),
        ("key", "k", TypeError, "Record.key: found str, needed bytes or None"),
        ("value", bytearray(), TypeError, "Record.value: found bytearray, needed bytes or None"),
        ("headers", [], TypeError, "Record.headers: found list, needed a tuple of"),
        ("headers", (("h", b"1", 2),), TypeError, "Record.headers[0]: found tuple, needed a pair"),
        ("headers", ((b"h", b""),), TypeError, "Record.headers[0] name: found bytes, needed a str"),
        ("headers", (("h", "1"),), TypeError, "Record.headers[0] value: found str, needed bytes"),
    ],
)
def test_a_record_refuses_and_says_field_found_and_needed(field, found, error, text):
    with pytest.raises(error) as raised:
        replace(RECORD, **{field: found})
    assert str(raised.value).startswith(text)


def test_a_payload_does_not_get_into_an_error():
    with pytest.raises(TypeError) as raised:
        replace(RECORD, value="the pit code is 4711")
    assert "4711" not in str(raised.value)


@pytest.mark.parametrize("timestamp_ms", [-(2**63), -2, -1, 0, 2**63 - 1])
def test_a_timestamp_is_kept_raw(timestamp_ms):
    assert replace(RECORD, timestamp_ms=timestamp_ms).timestamp_ms == timestamp_ms


@pytest.mark.parametrize(("start", "end"), [(0, 0), (5, 5), (5, 4)])
def test_a_slice_is_neither_empty_nor_reversed(start, end):
    with pytest.raises(
        ValueError, match=f"Slice.to_offset: found {end}, needed more than .*{start}"
    ):
        Slice("laps", 0, start, end)


def test_a_slice_refuses_what_is_no_offset():
    with pytest.raises(TypeError, match=r"Slice\.to_offset: found str, needed an int"):
        Slice("laps", 0, 0, "5")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"Slice\.from_offset: found -1, needed 0 or more"):
        Slice("laps", 0, -1, 5)
    with pytest.raises(ValueError, match="at most"):
        Slice("laps", 0, 0, 1 << 63)


def test_a_slice_is_written_as_the_command_line_takes_it():
    assert str(Slice("laps", 0, 0, 17)) == "laps:0:0-17"


@given(slices)
def test_a_slice_holds_exactly_its_offsets(slice_):
    assert len(slice_) == len(places(slice_)) > 0
    assert [offset for offset in range(20) if offset in slice_] == sorted(
        offset for _, _, offset in places(slice_)
    )


@given(slices, st.sampled_from(["a", "b"]), st.integers(0, 1), st.integers(0, 20))
def test_a_slice_holds_records_of_its_own_partition_only(slice_, topic, partition, offset):
    record = replace(RECORD, topic=topic, partition=partition, offset=offset)
    assert (record in slice_) == ((topic, partition, offset) in places(slice_))


@given(slices, slices)
def test_slices_overlap_when_they_share_an_offset(one, other):
    assert one.overlaps(other) == other.overlaps(one) == bool(places(one) & places(other))


@given(st.lists(slices))
def test_slices_sort_by_place(some):
    assert [min(places(each)) for each in sorted(some)] == sorted(
        min(places(each)) for each in some
    )

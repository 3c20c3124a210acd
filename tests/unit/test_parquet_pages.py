"""A Parquet file whose pages have more than its footer says is not unfolded."""

import random
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from playhead.files.formats.parquet import ParquetCodec
from playhead.files.formats.parquet_pages import _Header, pages_of
from playhead.record import Slice
from tests.unit.test_files_damage import bytes_of, table_with

_SIZE = 5_000_000


def zigzag(number: int, length: int = 0) -> bytes:
    """A number of Thrift's compact protocol, in this many bytes if it is given."""
    number, found = number << 1, bytearray()
    while number or len(found) < length or not found:
        found.append(number & 127 | 128)
        number >>= 7
    found[-1] &= 127
    return bytes(found)


def with_a_smaller_footer(data: bytes) -> bytes:
    """The file, with a footer that says the value's column unfolds to a thousand bytes."""
    group = parquet.read_metadata(pa.BufferReader(data)).row_group(0)
    [column] = [c for c in map(group.column, range(7)) if c.path_in_schema == "value"]
    at = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    said = zigzag(column.total_uncompressed_size)
    assert data[at:].count(said) >= 1
    return data[:at] + data[at:].replace(said, zigzag(1_000, len(said)))


@pytest.fixture
def liar() -> bytes:
    table = table_with(
        value=pa.array([bytes(_SIZE)]), timestamp=pa.array([0], pa.timestamp("ms", "UTC"))
    )
    data = bytes_of(table, compression="zstd", use_dictionary=False, store_schema=False)
    return with_a_smaller_footer(data)


def test_pages_that_unfold_to_more_than_the_footer_says_are_refused(liar: bytes) -> None:
    group = parquet.read_metadata(pa.BufferReader(liar)).row_group(0)
    sizes = [group.column(each).total_uncompressed_size for each in range(group.num_columns)]
    assert 1_000 in sizes  # the footer can be read, and lies
    with pytest.raises(ValueError, match="the pages of its column value have 5,000,0"):
        list(ParquetCodec().decode(liar, Slice("t", 0, 0, 1)))


@pytest.mark.parametrize("kind", [b"\x04", b"\x06"])
def test_a_second_size_that_the_reader_ignores_does_not_hide_the_first(kind: bytes) -> None:
    last = table_with(value=pa.array([bytes(_SIZE)]))
    last = last.select([*(name for name in last.column_names if name != "value"), "value"])
    data = bytes_of(last, compression="zstd", use_dictionary=False, store_schema=False)
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    group = parquet.read_metadata(pa.BufferReader(data)).row_group(0)
    column, second = group.column(group.num_columns - 1), kind + zigzag(2) + zigzag(900)
    header = _Header(data, column.data_page_offset, footer)
    header.struct()
    told, longer = (zigzag(column.total_compressed_size + more) for more in (0, len(second)))
    said = data[: header.at - 1] + second + data[header.at - 1 : footer]
    said += data[footer:].replace(told, longer)
    with pytest.raises(ValueError, match="the field 2 twice"):
        list(ParquetCodec().decode(with_a_smaller_footer(said), Slice("t", 0, 0, 1)))


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("use_dictionary", [True, False])
def test_pages_have_what_an_honest_footer_says(version: Any, use_dictionary: bool) -> None:
    table = table_with(value=pa.array([b"x" * 100_000]))
    data = bytes_of(
        pa.concat_tables([table] * 40),
        compression="zstd",
        use_dictionary=use_dictionary,
        data_page_version=version,
        data_page_size=1,
        write_batch_size=1,
    )
    group = parquet.read_metadata(pa.BufferReader(data)).row_group(0)
    for column in map(group.column, range(group.num_columns)):
        start = column.dictionary_page_offset or column.data_page_offset
        pages = pages_of(data, start, start + column.total_compressed_size)
        assert 0 < pages.unfolded <= column.total_uncompressed_size
        assert pages.values == column.num_values
        repeats = use_dictionary and column.physical_type == "BYTE_ARRAY"
        assert ("RLE_DICTIONARY" in pages.encodings) >= repeats


# size 2, packed 0, and a header of data with three million values
@pytest.mark.parametrize("number", [2, 5_000_000])
def test_values_of_a_page_are_counted(number: int) -> None:
    header = b"\x15\x00\x15\x04\x15\x00\x2c\x15" + zigzag(number) + b"\x00\x00"
    assert pages_of(header, 0, len(header)) == (2, number, frozenset())


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (b"", None),
        (b"\x00", "has no size"),
        (b"\x25\x03\x15\x00\x00", "has no size"),  # a negative one
        (b"\x25\x04\x15\x0a\x00", "longer than its column"),
        (b"\x19\xf0", "a field of the type 9"),
        (b"\x1c" * 100, "nested too deeply"),
        (b"\x25" + b"\xff" * 20, "too long"),
        # Two sizes, the second one of a type that the reader of Parquet ignores; and a field that wraps to 2.
        (b"\x25\xe0\xa5\x62\x06\x04\x02\x15\x00\x00", "the field 2 twice"),
        (b"\x25\x02\x15\x00\x05\x84\x80\x08\x02\x00", "no such field"),
        # Of the header of data: another type, two numbers of values, and fewer than none.
        (b"\x25\x00\x15\x00\x2c\x15\x7e\x00\x05\x0a\x02\x00", "the field 5 twice"),
        (b"\x25\x00\x15\x00\x2c\x15\x7e\x06\x02\x02\x00\x00", "the field 1 twice"),
        (b"\x25\x00\x15\x00\x2c\x15\x7f\x00\x00", "fewer values than none"),
        (b"\x18\xff\xff\xff\xff\x7f", "cut off"),
    ],
)
def test_what_is_no_page_is_refused(header: bytes, says: str | None) -> None:
    if says is None:
        assert pages_of(header, 0, 0) == (0, 0, frozenset())
        return
    with pytest.raises(ValueError, match=says):
        pages_of(header, 0, len(header))


def test_no_bytes_get_more_than_an_error() -> None:
    seeded = random.Random(5)
    for _ in range(2_000):
        data = seeded.randbytes(60)
        with suppress(ValueError):
            pages_of(data, 0, len(data))

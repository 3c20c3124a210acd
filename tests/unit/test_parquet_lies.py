"""A footer of a stranger's that has the library unfold what it was not judged by."""

import pyarrow as pa
import pytest

from playhead.files.formats.parquet import ParquetCodec
from playhead.record import Slice
from tests.unit.test_files_damage import MEGABYTES, bytes_of, many

# Type, and encodings, of the column of bytes that has a dictionary.
_TOLD = b"\x15\x0c\x19\x35\x00\x06\x10"


def footer_of(data: bytes) -> tuple[bytes, bytes]:
    at = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return data[:at], data[at:]


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """Four thousand times the same megabyte, which stands there once."""
    return bytes_of(many(key=MEGABYTES), use_dictionary=["key"], store_schema=False)


def test_a_dictionary_that_the_footer_hides_is_judged_by_its_pages(bomb: bytes) -> None:
    body, footer = footer_of(bomb)
    assert footer.count(_TOLD) == 1
    for says in (b"\x15\x0c\x19\x35\x00\x06\x00", b"\x15\x04\x19\x35\x00\x06\x10"):
        with pytest.raises(ValueError, match="unfolds to 4,000,000,000 bytes"):
            list(ParquetCodec().decode(body + footer.replace(_TOLD, says), Slice("t", 0, 0, 9_999)))


def test_a_name_with_dots_does_not_take_the_place_of_a_nested_one() -> None:
    pairs = pa.StructArray.from_arrays([pa.array(["n"] * 4_000), MEGABYTES], ["name", "value"])
    headers = pa.ListArray.from_arrays(pa.array(range(4_001), pa.int32()), pairs)
    named = "headers.list.element.value"
    table = many(headers=headers).append_column(named, pa.array([b""] * 4_000))
    data = bytes_of(table, use_dictionary=[named], store_schema=False)
    with pytest.raises(ValueError, match="two columns of one name"):
        list(ParquetCodec().decode(data, Slice("t", 0, 0, 9_999)))


def test_no_file_is_read_by_the_rules_for_those_of_another_program() -> None:
    """Of an old one's, the library reads a hundred bytes behind each column: a page of its own."""
    body, footer = footer_of(bytes_of(many(), store_schema=False))
    ours, theirs = b"parquet-cpp-arrow version ", b"parquet-mr version 1.2.8 ("
    assert len(ours) == len(theirs)
    assert footer.count(ours) == 1
    with pytest.raises(ValueError, match="another program has written it"):
        list(ParquetCodec().decode(body + footer.replace(ours, theirs), Slice("t", 0, 0, 9_999)))

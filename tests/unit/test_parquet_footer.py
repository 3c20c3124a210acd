"""Footers of Parquet files that would end the process of the library, or fill its memory."""

import random
import struct
from collections.abc import Sequence
from contextlib import suppress

import pyarrow as pa
import pytest

from playhead.files.formats import parquet_footer
from playhead.files.formats.parquet import ParquetCodec
from playhead.record import Slice
from tests.unit.test_files_damage import bytes_of, table_with
from tests.unit.test_parquet_pages import zigzag

_PLACE = b"\x26" + zigzag(4)  # where the column is
_ABOUT = b"\x1c\x15\x04\x19\x15\x00\x19\x18\x06offset\x15\x00\x16\x02\x16\x14\x16\x14\x26\x08\x00"
_EMPTY = _PLACE + _ABOUT + b"\x00"
_ENCRYPTED = _PLACE + _ABOUT + b"\x5c\x2c\x19\x18\x06offset\x00\x00\x00"
# Sizes of levels that the schema does not have: the library ends the process when it is asked for the column.
_WITH_LEVELS = _PLACE + _ABOUT[:-1] + b"\x7c\x29\x26\x02\x02\x00\x00\x00"
_ENCRYPTED_WHOLE = _PLACE + _ABOUT + b"\x68\x01x\x00"


def number(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def listed(items: Sequence[bytes]) -> bytes:
    return b"\xfc" + number(len(items)) + b"".join(items)


def group(columns: Sequence[bytes]) -> bytes:
    return b"\x19" + listed(columns) + b"\x16\x00\x16\x00\x00"


def file(groups: Sequence[bytes], leaves: int = 1) -> bytes:
    schema = [
        b"\x48\x01r\x15" + zigzag(leaves) + b"\x00",
        *[b"\x15\x04\x25\x00\x18\x06" + b"%06d\x00" % leaf for leaf in range(leaves)],
    ]
    made_by = b"\x28\x1aparquet-cpp-arrow version 26"
    footer = b"\x15\x04\x19" + listed(schema) + b"\x16\x02\x19" + listed(groups) + made_by + b"\x00"
    return b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"


@pytest.mark.parametrize(
    ("poison", "says"),
    [
        (file([group([_EMPTY] * 2)]), "other columns than its schema"),
        (file([group([])]), "other columns than its schema"),
        (file([group([_ENCRYPTED])]), "encrypted columns"),
        (file([group([_ENCRYPTED_WHOLE])]), "encrypted columns"),
        (file([group([_EMPTY] * 1_000)] * 110, leaves=1_000), "more than 100,000 columns"),
        (file([], leaves=100_001), "more than 100,000 columns"),
        (file([b"\x19" + listed([_EMPTY]) + b"\x09\x02" + listed([_EMPTY] * 2) + b"\x00"]), "twice"),
        # A number of 65,537, which the reader takes for 1.
        (file([b"\x09\x82\x80\x08" + listed([_EMPTY] * 2) + b"\x00"]), "no such field"),
        (b"PAR1" + b"\x19\xfc\xff\xff\xff\xff\x0f" + struct.pack("<I", 7) + b"PAR1", "cut off"),
        (b"PAR1" + b"\x59\xf1\xff\xff\xff\xff\x0f" + struct.pack("<I", 7) + b"PAR1", "cut off"),
        (b"PAR1\x00\x00\x00\x00" + struct.pack("<I", 1 << 31) + b"PAR1", "its footer has 2,147,"),
        (b"PAR1", "no footer"),
    ],
)  # fmt: skip
def test_a_footer_of_poison_is_refused(poison: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        list(ParquetCodec().decode(poison, Slice("t", 0, 0, 1)))


def test_a_footer_that_is_nested_deeply_is_refused() -> None:
    deep = b"\x9c" + b"\x1c" * 100
    with pytest.raises(ValueError, match="nested too deeply"):
        parquet_footer.read(b"PAR1" + deep + struct.pack("<I", len(deep)) + b"PAR1")


def test_levels_of_another_schema_end_in_an_error() -> None:
    with pytest.raises((ValueError, KeyError)):
        list(ParquetCodec().decode(file([group([_WITH_LEVELS])]), Slice("t", 0, 0, 1)))


def test_a_column_has_the_name_by_which_the_library_reads_it() -> None:
    """The path beside its sizes is not read, and would hide them."""
    data = bytes_of(table_with(value=pa.array([b"x" * 5_000])), store_schema=False)
    assert data.count(b"\x19\x18\x05value") == 1
    hidden = data.replace(b"\x19\x18\x05value", b"\x19\x18\x05other")
    paths = [each.path for each in parquet_footer.read(hidden).columns]
    assert paths == [each.path for each in parquet_footer.read(data).columns]
    assert "value" in paths


@pytest.mark.parametrize("stores_schema", [True, False])
def test_footers_of_ours_are_taken(stores_schema: bool) -> None:
    parquet_footer.read(bytes_of(table_with(), store_schema=stores_schema))


def test_damage_gets_no_more_than_an_error() -> None:
    seeded, good = random.Random(6), bytes_of(table_with())
    start = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    for _ in range(2_000):
        bad = bytearray(good)
        for _ in range(3):
            bad[seeded.randrange(start, len(bad) - 8)] = seeded.randrange(256)
        with suppress(ValueError):
            parquet_footer.read(bytes(bad))

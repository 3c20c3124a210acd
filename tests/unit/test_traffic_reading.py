"""A partition of a capture is read in blocks, and its parts are made on use: both give what they gave one by one."""

import os
import random
from array import array
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from playhead.traffic import reader
from playhead.traffic.catalog import CatalogRow
from playhead.traffic.partition_offsets import CapturedPartition
from playhead.traffic.reader import Files
from playhead.traffic.snapshot import Snapshot
from playhead.traffic.unchanged import Unchanged, fingerprint


def row(start: int, length: int, *, file: int = 0) -> CatalogRow:
    return CatalogRow(file, start, length, -1, 0, 0, 0, 1, 0, 0, 0, -1, 0)


def offsets(base: int, first: int, last: int) -> CatalogRow:
    return CatalogRow(0, base, 9, -1, base, first, last, 1, 0, base, 0, -1, 0)


@pytest.fixture
def two_files(tmp_path: Path) -> tuple[Path, ...]:
    chance = random.Random(5)
    files = (tmp_path / "a", tmp_path / "b")
    for file in files:
        file.write_bytes(chance.randbytes(40_000))
    return files


def unchanged(files: tuple[Path, ...]) -> Unchanged:
    snapshot = Snapshot("x", files)
    return Unchanged(snapshot, snapshot.stamp(), fingerprint(snapshot))


@pytest.mark.parametrize("seed", range(20))
def test_bytes_of_rows_are_the_bytes_at_their_places(
    two_files: tuple[Path, ...], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_READ_AHEAD", 1_000)
    chance, at = random.Random(seed), 0
    whole = [file.read_bytes() for file in two_files]
    with ExitStack() as stack:
        files = Files(unchanged(two_files), stack)
        for _ in range(400):
            file = chance.random() < 0.1
            at = chance.choice([at, at + 3, at + 900, at + 2_500, at - 40, 0, 39_990, 41_000])
            at = max(0, at) % 42_000
            length = chance.choice([0, 1, 30, 999, 1_000, 1_001, 5_000])
            assert files.read(row(at, length, file=file)) == whole[file][at : at + length]
            at += length


@pytest.mark.parametrize(
    ("step", "ahead", "lengths"),
    [(100, 256 << 10, [10, (256 << 10) + 10]), (2_000, 1_000, [10] * 20)],
    ids=["close together at once", "far from each other alone"],
)
def test_rows_are_read(
    two_files: tuple[Path, ...],
    monkeypatch: pytest.MonkeyPatch,
    step: int,
    ahead: int,
    lengths: list[int],
) -> None:
    monkeypatch.setattr(reader, "_READ_AHEAD", ahead)
    same = unchanged(two_files)
    asked = lengths_asked(monkeypatch)
    with ExitStack() as stack:
        files = Files(same, stack)
        for start in range(0, 40_000, step):
            files.read(row(start, 10))
    assert asked == lengths


def test_a_large_row_is_read_alone_and_the_block_stays(
    two_files: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_READ_AHEAD", 1_000)
    same = unchanged(two_files)
    asked = lengths_asked(monkeypatch)
    with ExitStack() as stack:
        files = Files(same, stack)
        for start, length in ((0, 10), (10, 10), (20, 1_001), (900, 10)):
            files.read(row(start, length))
    assert asked == [10, 1_010, 1_001]


@pytest.mark.parametrize("seed", range(60))
def test_record_sets_that_are_apart_have_the_same_parts(seed: int) -> None:
    chance = random.Random(seed)
    rows, base = [], chance.randrange(5)
    for _ in range(chance.randrange(1, 30)):
        first = chance.randrange(3)
        last = first + chance.randrange(4)
        rows.append(offsets(base, first, last))
        base += last + chance.choice([0, 1, 1, 1, 1, 5, 5, 5])
    whole, found = CapturedPartition.of(rows), CapturedPartition.apart(laid_out(rows))
    ranges = [(each.base + each.first, each.base + each.last) for each in rows]
    assert (found is not None) == all(end < start for (_, end), (start, _) in pairwise(ranges))
    if found is None:
        return
    assert [*found.pieces] == whole.pieces == [*found.pieces[:]]
    assert (found.bounds, found.twice, found.size_bytes) == (whole.bounds, 0, whole.size_bytes)
    for _ in range(20):
        ends = (chance.randrange(base + 3), chance.randrange(base + 3))
        assert [*found.between(*ends)] == [*whole.between(*ends)]
        instant = chance.randrange(base + 3)
        for by_pair in (False, True):
            after = found.from_instant(instant, by_pair=by_pair)
            assert [*after] == [*whole.from_instant(instant, by_pair=by_pair)]


@pytest.mark.parametrize(
    "rows",
    [
        [offsets(0, 0, 3), offsets(3, 0, 3)],
        [offsets(9, 0, 0), offsets(0, 0, 0)],
        [offsets(-1, 0, 0)],
        [],
    ],
    ids=["overlap", "not in order", "no offset", "nothing"],
)
def test_other_record_sets_are_not_apart(rows: list[CatalogRow]) -> None:
    assert CapturedPartition.apart(laid_out(rows)) is None


def lengths_asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    asked, pread = list[int](), os.pread

    def noted(fd: int, length: int, at: int) -> bytes:
        asked.append(length)
        return pread(fd, length, at)

    monkeypatch.setattr(os, "pread", noted)
    return asked


def laid_out(rows: list[CatalogRow]) -> "array[int]":
    return array("q", [value for each in rows for value in each])

"""Records of captures that are numbered are read in pieces of a limited size, whatever else is in their file."""

from pathlib import Path
from typing import Any

import pytest

from playhead.querylog.cutting import RowCutter, cutter_of
from playhead.querylog.located import place_in
from playhead.record import Slice
from playhead.traffic.formats import extract_csv, server_log
from playhead.traffic.index import TrafficIndex
from playhead.traffic.reader import Files
from playhead.traffic.source import Kind, TrafficSource

ROW = '2026-01-01 00:00:00.000 UTC,"u","{db}",1,"",66.1,{line},"",2026-01-01 00:00:00 UTC,1/0,0,'
ROW += 'LOG,00000,"{text}",,,,,,,,,"","client backend",,0\n'


@pytest.fixture
def lengths(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes were read in one piece."""
    seen: list[int] = []
    plain = Files.read

    def read(files: Files, row: Any) -> bytes:
        seen.append(len(found := plain(files, row)))
        return found

    monkeypatch.setattr(Files, "read", read)
    return seen


def records(kind: Kind, file: Path, topic: str) -> list[tuple[bytes | None, int | None]]:
    """The values of a topic, with their places."""
    source = TrafficSource(kind, str(file))
    bounds = source.bounds()[topic, 0]
    with source.open() as reader:
        runs = reader.read(Slice(topic, 0, bounds.earliest, bounds.stable_end))
        return [(each.value, place_in(each.headers)) for run in runs for each in run]


def test_a_database_of_few_rows_is_read_without_those_of_another(
    tmp_path: Path, lengths: list[int]
) -> None:
    file = tmp_path / "log.csv"
    quiet = [ROW.format(db="quiet", line=line, text=f"q{line}") for line in range(3)]
    loud = "".join(ROW.format(db="loud", line=line, text="x" * 1_000) for line in range(3_000))
    file.write_text(quiet[0] + loud + quiet[1] + loud + quiet[2])
    found = records("csvlog", file, "pg_raw_quiet")
    assert [value for value, _ in found] == [each.encode().rstrip() for each in quiet]
    content = file.read_bytes()
    assert [place for _, place in found] == [content.index(each.encode()) for each in quiet]
    assert max(lengths) < 1_000


def test_a_row_that_is_too_long_is_not_read_again(
    tmp_path: Path, lengths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*said: Any) -> RowCutter:
        cutter = cutter_of(*said)
        cutter.longest = 10_000
        return cutter

    monkeypatch.setattr(server_log, "cutter_of", short)
    file = tmp_path / "log.csv"
    first, last = (ROW.format(db="d", line=line, text="a") for line in (1, 3))
    long = ROW.format(db="d", line=2, text="x" * (3 << 20))
    file.write_text(first + long + last)
    said = b"(a row of %d bytes, which is too long)" % len(long)
    assert records("csvlog", file, "pg_raw_unmatched") == [(said, len(first))]
    found = records("csvlog", file, "pg_raw_d")
    assert [value for value, _ in found] == [first.encode().rstrip(), last.encode().rstrip()]
    assert max(lengths) < 10_000


def test_responses_between_two_requests_are_not_read_with_them(
    tmp_path: Path, lengths: list[int]
) -> None:
    end = "\n🐵🙈🙉\n"
    file = tmp_path / "requests.gor"
    answers = f"2 ab 1700000000000000000 5\nHTTP/1.1 200 OK\r\n\r\n{'x' * 100_000}{end}" * 30
    asked = [
        f"1 ab 170000000000000000{n} 5\nPOST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nb{n}{end}"
        for n in range(3)
    ]
    file.write_text(answers + asked[0] + answers + asked[1] + asked[2])
    found = records("gor", file, "requests")
    assert [value for value, _ in found] == [b"b0", b"b1", b"b2"]
    assert max(lengths) < 1_000


def test_every_record_is_in_the_index_once(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    names = ["a", "b", "a", "a", "c", "b"] * 700
    file.write_text("".join(ROW.format(db=n, line=i, text="t") for i, n in enumerate(names)))
    index: TrafficIndex = TrafficSource("csvlog", str(file))._index()
    rows = index.catalog.rows_of(("pg_raw_a", 0))
    assert (
        sum(row.records for row in rows)
        == names.count("a")
        == len(records("csvlog", file, "pg_raw_a"))
    )


def test_a_row_without_a_time_has_that_of_the_row_before_it(tmp_path: Path) -> None:
    """Also where it is the first that is read of its topic, and a later one is earlier."""
    file = tmp_path / "log.csv"
    late = ROW.format(db="d", line=1, text="a").replace("00:00:00.000", "00:00:09.500", 1)
    file.write_text(f"{late}no row\n{ROW.format(db='d', line=2, text='b')}no row either\n")
    source, topic = TrafficSource("csvlog", str(file)), "pg_raw_unmatched"
    with source.open() as reader:
        read = [each for run in reader.read(Slice(topic, 0, 0, 2)) for each in run]
    assert [each.value for each in read] == [b"no row", b"no row either"]
    [row] = source._index().catalog.rows_of((topic, 0))
    assert [each.timestamp_ms - row.least_ms for each in read] == [9_500, 0]


@pytest.mark.parametrize(
    ("row", "said"),
    [(",,,,,,,,,,,,,\n", "more than 10 commas"), ('"' + "x\n" * 600 + 'x"\n', "more than 0 MB")],
    ids=["cells", "lines"],
)
def test_a_row_that_fills_the_memory_is_left_out_of_an_extract(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: str, said: str
) -> None:
    monkeypatch.setattr(extract_csv, "_MOST_COMMAS", 10)
    monkeypatch.setattr(extract_csv, "LONGEST", 1_000)
    file = tmp_path / "extract.csv"
    file.write_text(f"key,value\na,1\n{row}b,2\n")
    source = TrafficSource("extract", str(file))
    found = [value for value, _ in records("extract", file, "extract")]
    assert (found[0], found[-1]) == (b"1", b"2")
    troubles = source._index().catalog.troubles
    assert any(said in reason for reason in troubles)

"""A capture that is written while it is read is refused, and never told of as the one that was planned."""

import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from playhead.record import Slice
from playhead.records import Records
from playhead.traffic import pair_path, unchanged
from playhead.traffic.extract import Extract
from playhead.traffic.snapshot import Snapshot, find_snapshot, plain
from playhead.traffic.source import OtherCapture, TrafficSource
from playhead.traffic.unchanged import CaptureChanged, Unchanged, fingerprint

_TOPIC = "c"
_REQUESTS = 40
# Each is read alone, so that the last one is not yet read with the first.
_PADDING = b"x" * 400_000


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    file = tmp_path / f"{_TOPIC}.gor"
    file.write_bytes(b"".join(map(_request, range(_REQUESTS))))
    return file


def _request(number: int) -> bytes:
    body = b'{"id":%d,"amount":100,"more":"%s"}' % (number, _PADDING)
    head = b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(body)
    return b"1 %024x %d 0\n" % (number, number * 10**9) + head + body + "\n🐵🙈🙉\n".encode()


@contextmanager
def _begun(source: TrafficSource) -> Iterator[Iterator[Records]]:
    """The rest of the records, of which the first are read."""
    with source.open() as reader:
        records = iter(reader.read(Slice(_TOPIC, 0, 0, _REQUESTS)))
        assert next(records)
        yield records


def _edit_in_place(file: Path) -> None:
    """Other digits in the last request; no position changes."""
    at = file.read_bytes().rindex(b"100")
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(b"999")


def _truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def _append(file: Path) -> None:
    with file.open("ab") as opened:
        opened.write(_request(_REQUESTS))


@pytest.mark.parametrize("change", [_edit_in_place, _truncate, _append])
def test_a_capture_that_is_written_while_it_is_read_is_refused(
    capture: Path, change: Callable[[Path], None]
) -> None:
    with _begun(TrafficSource("gor", str(capture))) as records:
        change(capture)
        with pytest.raises(CaptureChanged, match="changed while it was read"):
            _ = [*records]


def test_new_times_and_names_of_the_same_bytes_are_no_change(capture: Path) -> None:
    with _begun(TrafficSource("gor", str(capture))) as records:
        os.utime(capture)
        capture.with_suffix(".second").hardlink_to(capture)
        assert sum(map(len, records)) > 0


def test_new_modes_of_thousands_of_files_take_one_look_at_their_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tuple(tmp_path / f"{number}.json" for number in range(20))
    for file in files:
        file.write_text("{}")
    snapshot = Snapshot("s", files)
    known = Unchanged(snapshot, snapshot.stamp(), fingerprint(snapshot))
    for file in files:
        os.utime(file, ns=(0, 0))
    looks: list[object] = []
    real = unchanged.fingerprint
    monkeypatch.setattr(unchanged, "fingerprint", lambda *of: looks.append(of) or real(*of))
    for index, file in enumerate(files):
        with plain(file) as opened:
            known.expect(index, opened.fileno())
    assert len(looks) == 1
    files[3].write_text("[]")
    with plain(files[3]) as opened, pytest.raises(CaptureChanged):
        known.expect(3, opened.fileno())


def test_a_file_that_replaces_the_capture_is_not_read_by_the_index_of_the_first(
    capture: Path,
) -> None:
    with _begun(TrafficSource("gor", str(capture))) as records:
        other = capture.with_suffix(".new")
        other.write_bytes(capture.read_bytes().replace(b"100", b"999"))
        other.replace(capture)
        assert all(b'"amount":100' in value for run in records for value in run.values if value)


def test_an_edit_that_keeps_size_and_time_makes_another_capture(capture: Path) -> None:
    source = TrafficSource("gor", str(capture))
    planned = replace(source, expect_identity=source.facts().identity)
    before = capture.stat()
    _edit_in_place(capture)
    os.utime(capture, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(OtherCapture):
        planned.bounds()


@pytest.mark.parametrize("packs", [False, True])
def test_a_snapshot_that_is_cut_between_two_lines_while_it_is_extracted_is_refused(
    tmp_path: Path, packs: bool
) -> None:
    raw = tmp_path / ("raw.jsonl.gz" if packs else "raw.jsonl")
    line = b'{"uuid":"%032x","http":{"req":{"uri":"/x","body":"%s"}}}\n'
    # Of bytes that gzip cannot pack, so that the file is not read at once.
    whole = b"".join(line % (each, os.urandom(2_000).hex().encode()) for each in range(1_000))
    raw.write_bytes(gzip.compress(whole) if packs else whole)
    rows = Extract([pair_path.Path.parse("http.req.uri")]).run(find_snapshot(str(raw)))
    next(rows)
    if packs:
        os.utime(raw)
    else:
        os.truncate(raw, whole.index(b"\n", len(whole) // 2) + 1)
    with pytest.raises(CaptureChanged, match="changed while it was read"):
        _ = [*rows]

"""A snapshot's files: whole lines always, numbers by rename, and nothing is written over."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playhead.capture.recorder import as_line, in_parts
from playhead.capture.snapshot_writer import (
    CURRENT,
    Rotation,
    Snapshot,
    SnapshotNotWritten,
    SnapshotThere,
    claim,
)


def lines_of(folder: Path) -> list[bytes]:
    """Numbered files first, as their names sort."""
    return [
        line
        for file in sorted(folder.glob("raw*.jsonl"))
        for line in file.read_bytes().splitlines()
    ]


@given(
    sizes=st.lists(st.integers(1, 50), max_size=30),
    most=st.none() | st.integers(1, 120),
    flushes=st.sets(st.integers(0, 30)),
)
@settings(max_examples=30, deadline=None)
def test_every_line_is_there_once_and_in_order(tmp_path_factory, sizes, most, flushes):
    folder = tmp_path_factory.mktemp("snapshot")
    snapshot, lines = Snapshot(folder, Rotation(bytes=most)), []
    for number, size in enumerate(sizes):
        lines.append(b"%03d" % number + b"x" * size)
        snapshot.write(lines[-1] + b"\n")
        if number in flushes:
            snapshot.tick()
    snapshot.close()
    assert lines_of(folder) == lines
    assert snapshot.written_bytes == sum(len(line) + 1 for line in lines)
    for file in folder.iterdir():
        content = file.read_bytes()
        assert content.endswith(b"\n")
        assert most is None or len(content) <= most or content.count(b"\n") == 1


TEXTS = st.text('a\0é✓😀\ud800"\\', max_size=30)


@given(
    document=st.recursive(
        st.none() | st.booleans() | st.integers() | TEXTS | TEXTS.map(lambda text: text * 9_000),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
        max_leaves=12,
    )
)
@settings(max_examples=60, deadline=None)
def test_a_line_in_parts_is_the_line_as_a_whole(document):
    assert b"".join(in_parts(document)) == as_line(document)


@given(sizes=st.lists(st.integers(1, 50), max_size=20), most=st.none() | st.integers(1, 120))
@settings(max_examples=30, deadline=None)
def test_lines_in_parts_are_there_once_and_in_order(tmp_path_factory, sizes, most):
    folder = tmp_path_factory.mktemp("snapshot")
    snapshot, lines = Snapshot(folder, Rotation(bytes=most)), []
    for number, size in enumerate(sizes):
        lines.append(b"%03d" % number + b"x" * size)
        line = lines[-1]
        if number % 3:
            snapshot.write_in_parts(lambda line=line: [line[:2], line[2:], b"\n"])
        else:
            snapshot.write(line + b"\n")
    snapshot.close()
    assert lines_of(folder) == lines
    assert snapshot.written_lines == len(lines)
    for file in folder.iterdir():
        content = file.read_bytes()
        assert most is None or len(content) <= most or content.count(b"\n") == 1


def test_a_line_in_parts_that_breaks_off_is_not_there(tmp_path):
    def parts() -> Iterator[bytes]:
        yield b"half of a line"
        raise OSError(28, "No space left on device")

    snapshot = Snapshot(tmp_path, Rotation())
    snapshot.write(b"whole\n")
    with pytest.raises(SnapshotNotWritten):
        snapshot.write_in_parts(parts)
    assert (tmp_path / CURRENT).read_bytes() == b"whole\n"


def test_a_file_that_is_old_enough_gets_its_number(tmp_path):
    now = [0.0]
    snapshot = Snapshot(tmp_path, Rotation(seconds=60), lambda: now[0])
    snapshot.write(b"a\n")
    snapshot.tick()
    now[0] = 61
    snapshot.tick()
    snapshot.tick()
    snapshot.write(b"b\n")
    snapshot.close()
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {
        "raw-000001.jsonl": b"a\n", CURRENT: b"b\n",
    }  # fmt: skip


def test_a_folder_with_captured_traffic_is_refused(tmp_path):
    claim(tmp_path / "new" / "folder")
    claim(tmp_path / "new" / "folder")
    (tmp_path / "raw-000001.jsonl").touch()
    with pytest.raises(SnapshotThere):
        claim(tmp_path)
    with pytest.raises(SnapshotNotWritten):
        claim(tmp_path / "raw-000001.jsonl")


def test_a_disk_that_is_full_leaves_whole_lines(tmp_path):
    program = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from playhead.capture.snapshot_writer import *\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "snapshot = Snapshot(Path(sys.argv[1]), Rotation())\n"
        "try:\n"
        "    for _ in range(20):\n"
        "        snapshot.write(b'x' * 29 + b'\\n')\n"
        "        snapshot.flush()\n"
        "except SnapshotNotWritten as exc:\n"
        "    print(exc.reason)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "too large" in done.stdout
    assert lines_of(tmp_path) == [b"x" * 29] * 3

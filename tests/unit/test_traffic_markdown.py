"""Recordings in Markdown, one pair a file: the pair is the JSON line of the section INTERNAL."""

import gzip
import json
from pathlib import Path

import pytest

from playhead.traffic.formats.rrpair import pairs
from playhead.traffic.json_documents import Document, Unread
from playhead.traffic.snapshot import find_snapshot
from playhead.traffic.source import TrafficSource
from tests.capturing import SNAPSHOT, everything, fetch, markdown
from tests.unit.test_traffic_source import record

RECORDED = SNAPSHOT.parent / "recorded"
PAIR = fetch(("t", 0, [record(0), record(1)]))


def found(folder: Path) -> list[Document | str]:
    return [pair for _, pair in pairs(find_snapshot(str(folder)))]


def source(path: Path) -> TrafficSource:
    return TrafficSource("rrpair", str(path))


def offsets(path: Path) -> list[int]:
    return [each.offset for each in everything(source(path))]


def test_a_recording_has_the_records_of_the_same_pairs_as_lines() -> None:
    assert everything(source(RECORDED)) == everything(source(SNAPSHOT))


def test_the_pair_is_read_again_from_its_place_in_the_file(tmp_path: Path) -> None:
    for name, text in {
        "one.md": markdown(PAIR).encode(),
        "bom.md": b"\xef\xbb\xbf" + markdown(PAIR).encode(),
        "packed.md.gz": gzip.compress(markdown(PAIR).encode()),
        "crlf.md": markdown(PAIR).replace("\n", "\r\n").encode(),
        "internal-only.md": markdown(PAIR).encode()[markdown(PAIR).index("### INTERNAL") :],
    }.items():
        (tmp_path / name).write_bytes(text)
        assert offsets(tmp_path / name) == [0, 1], name


def test_a_body_that_looks_like_a_pair_is_none(tmp_path: Path) -> None:
    other = markdown(fetch(("other", 0, [record(7)])))
    body = '{\n  "a": 1\n}\n{"l7protocol": "kafka"}\n' + other
    (tmp_path / "a.md").write_text(markdown(PAIR, body=body))
    read = source(tmp_path)
    assert [(each.topic, each.offset) for each in everything(read)] == [("t", 0), ("t", 1)]
    assert "not the last section of its file" in str(read.facts().notes)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("### REQUEST ###\n```\nGET /\n```\n", "no section INTERNAL"),
        ("### INTERNAL - DO NOT MODIFY ###\n```\n```\n", "no section INTERNAL"),
        ("### INTERNAL - DO NOT MODIFY ###\n```\njson: {broken\n```\n", "not valid JSON"),
        ('### INTERNAL - DO NOT MODIFY ###\n```\njson: {"kafka": {', "the last line is cut off"),
    ],
)
def test_a_recording_without_a_pair_is_named(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "a.md").write_text(text)
    (unread,) = found(tmp_path)
    assert reason in str(unread)
    (tmp_path / "b.md").write_text(markdown(PAIR))
    assert offsets(tmp_path) == [0, 1]
    assert reason in str(source(tmp_path).facts().notes)


def test_notes_beside_recordings_are_no_recordings(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# How this was made\n")
    (tmp_path / "a.md").write_text(markdown(PAIR))
    (tmp_path / "b.json").write_text(json.dumps(fetch(("t", 0, [record(2)])), indent=1))
    snapshot = find_snapshot(str(tmp_path))
    assert [file.name for file in snapshot.files] == ["a.md", "b.json"]
    assert snapshot.unread == 1
    assert offsets(tmp_path) == [0, 1, 2]


def test_lines_are_counted_to_the_end_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(markdown(PAIR))
    (document,) = found(tmp_path)
    assert not isinstance(document, str | Unread)
    assert document.lines == markdown(PAIR).count("\n")
